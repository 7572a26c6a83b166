"""worm sync: a folder and a bucket that stay equal."""

from __future__ import annotations

import click

from wormdb.cli.verbs import Verbs

__all__ = ["command"]

VERBS = {
    "compact": "Remove what the index of a bucket does not need any more.",
    "diff": "Show each file that is not the same on both sides.",
    "doctor": "Examine the index of a bucket, and repair it.",
    "migrate": "Make parts of an index in one object, as older clients have it.",
    "run": "Pull, then push: what worm sync does without a verb.",
    "status": "Show what changed on either side since the last time.",
}


class _Syncing(Verbs):
    """Without a verb it syncs: `worm sync data/` is `worm sync run data/`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_verb = bool(args) and (args[0] in VERBS or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if is_verb else ["run", *args])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SCOPE]... | COMMAND", *super().collect_usage_pieces(ctx)[2:]]


@click.command("sync", cls=_Syncing, modules="wormdb.cli.commands.sync.", verbs=VERBS)
def command() -> None:
    """Keep a folder of files and a bucket equal: pull, then push.

    The bucket has an index of its files, in parts, one for each model: clients with different files do not meet, and
    those with the same ones lose nothing. No lock is taken. Give --url the first time; the folder remembers it.
    """
