"""worm pull: a bucket of files and collections to a folder."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.folder import DELETE, LAZY, carry_out, sync_options
from wormdb.cli.verbs import Verb
from wormdb.sync.sync import Sync

__all__ = ["command"]

EXAMPLES = (
    "worm pull --url s3://team/work",
    "worm pull data/aws-ec2/i-abc123",
    "worm pull --lazy",
)


@click.command("pull", cls=Verb, examples=EXAMPLES)
@sync_options(DELETE, LAZY)
def command(context: click.Context, /, **given: Any) -> None:
    """Bring what changed in a bucket of files to a folder.

    One request tells whether anything did; then only the parts of the index that changed are read, and only files that
    changed are fetched. A file that changed on both sides is fetched, and the local one gets another name beside it;
    the command exits with 3 then. Collections of a database come by the entries of their logs.
    """
    carry_out(context, given, Sync.pull_changed, makes_folder=True)
