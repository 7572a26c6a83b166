"""worm push: a folder of files and collections to a bucket."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.folder import DELETE, REBASE, carry_out, sync_options
from wormdb.cli.verbs import Verb
from wormdb.sync.sync import Sync

__all__ = ["command"]

EXAMPLES = (
    "worm push --url s3://team/work",
    "worm push data/aws-ec2/i-abc123",
    "worm push model:aws-ec2/i-abc123 --dry-run",
)


@click.command("push", cls=Verb, examples=EXAMPLES)
@sync_options(DELETE, REBASE)
def command(context: click.Context, /, **given: Any) -> None:
    """Bring what changed in a folder of files to a bucket.

    Only what changed here since the last time goes, and only if it did not change there; then no request is made for
    the rest. SCOPE is a path below the folder, or model:TYPE/ID. Several clients may push at once. A file that changed
    on both sides is left alone, and the command exits with 3: pull, then push again.

    A folder with .worm.db is a collection of a database: the entries of its log go. If the bucket's log went on by
    itself, the command says behind which number, and exits with 3; --rebase commits the own batches behind it.
    """
    carry_out(context, given, Sync.push_changed)
