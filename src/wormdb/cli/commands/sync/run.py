"""worm sync run: pull, then push."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.folder import LAZY, REBASE, carry_out, sync_options
from wormdb.cli.verbs import Verb
from wormdb.sync.sync import Sync

__all__ = ["command"]

EXAMPLES = (
    "worm sync",
    "worm sync --url s3://team/work",
    "worm sync data/aws-ec2",
)


@click.command("run", cls=Verb, examples=EXAMPLES)
@sync_options(LAZY, REBASE)
def command(context: click.Context, /, **given: Any) -> None:
    """Pull, then push: what worm sync does without a verb.

    Exits with 3 if a file changed on both sides; both contents are kept, unless --conflicts says otherwise.
    """
    carry_out(context, given, Sync.sync, makes_folder=True)
