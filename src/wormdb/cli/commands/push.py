"""worm push: a folder of files to a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import (
    BUCKET,
    CONFLICTS,
    DELETE,
    DRY_RUN,
    FOLDER,
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

EXAMPLES = (
    "worm push --url s3://team/work",
    "worm push data/aws-ec2/i-abc123",
    "worm push model:aws-ec2/i-abc123 --dry-run",
)


@click.command("push", cls=Verb, examples=EXAMPLES)
@SCOPES
@FOLDER
@BUCKET
@CONFLICTS
@DELETE
@DRY_RUN
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
    """Bring what changed in a folder of files to a bucket.

    Only what changed here since the last time goes, and only if it did not change there; then no request is made for
    the rest. SCOPE is a path below the folder, or model:TYPE/ID. Several clients may push at once. A file that changed
    on both sides is left alone, and the command exits with 3: pull, then push again.
    """
    with open_folder(folder, url, conflicts) as sync:
        report = sync.push_changed(
            scope_of(scopes), delete=flags["delete"], dry_run=flags["dry_run"], scan=flags["scan"]
        )
    context.exit(print_synced(report, as_json=flags["as_json"]))
