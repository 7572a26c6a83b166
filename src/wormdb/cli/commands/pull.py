"""worm pull: a bucket of files to a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import (
    BUCKET,
    CONFLICTS,
    DELETE,
    DRY_RUN,
    FOLDER,
    LAZY,
    SCAN,
    SCOPES,
    open_folder,
    scope_of,
)
from wormdb.cli.input.place import AS_JSON
from wormdb.cli.show.synced import print_synced
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.sync import ConflictPolicy

__all__ = ["command"]

EXAMPLES = ("worm pull --url s3://team/work", "worm pull data/aws-ec2/i-abc123", "worm pull --lazy")


@click.command("pull", cls=Verb, examples=EXAMPLES)
@SCOPES
@FOLDER
@BUCKET
@CONFLICTS
@DELETE
@DRY_RUN
@LAZY
@SCAN
@AS_JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    scopes: tuple[str, ...],
    folder: Path,
    url: str | None,
    conflicts: ConflictPolicy,
    **flags: bool,
) -> None:
    """Bring what changed in a bucket of files to a folder.

    One request tells whether anything did; then only the parts of the index that changed are read, and only files that
    changed are fetched. A file that changed on both sides is fetched, and the local one gets another name beside it;
    the command exits with 3 then.
    """
    with open_folder(folder, url, conflicts, makes_folder=True) as sync:
        report = sync.pull_changed(
            scope_of(scopes), delete=flags["delete"], dry_run=flags["dry_run"], lazy=flags["lazy"], scan=flags["scan"]
        )
    context.exit(print_synced(report, as_json=flags["as_json"]))
