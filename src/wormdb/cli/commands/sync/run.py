"""worm sync run: pull, then push."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import BUCKET, CONFLICTS, DRY_RUN, FOLDER, LAZY, SCAN, SCOPES, open_folder, scope_of
from wormdb.cli.input.place import AS_JSON
from wormdb.cli.show.synced import print_synced
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.sync import ConflictPolicy

__all__ = ["command"]


@click.command("run", cls=Verb, examples=("worm sync", "worm sync --url s3://team/work", "worm sync data/aws-ec2"))
@SCOPES
@FOLDER
@BUCKET
@CONFLICTS
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
    """Pull, then push: what worm sync does without a verb.

    Exits with 3 if a file changed on both sides; both contents are kept, unless --conflicts says otherwise.
    """
    with open_folder(folder, url, conflicts, makes_folder=True) as sync:
        report = sync.sync(scope_of(scopes), dry_run=flags["dry_run"], lazy=flags["lazy"], scan=flags["scan"])
    context.exit(print_synced(report, as_json=flags["as_json"]))
