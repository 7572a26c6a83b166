"""worm sync status: what changed on either side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import BUCKET, FOLDER, SCOPES, open_folder, scope_of
from wormdb.cli.input.place import AS_JSON
from wormdb.cli.show.synced import print_synced
from wormdb.cli.show.text import camel, print_json
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("status", cls=Verb, examples=("worm sync status", "worm sync status data/aws-ec2 --json"))
@SCOPES
@FOLDER
@BUCKET
@AS_JSON
def command(scopes: tuple[str, ...], folder: Path, url: str | None, *, as_json: bool) -> None:
    """Show what changed on either side since the last time: what pull and push would do. Writes nothing."""
    with open_folder(folder, url) as sync:
        place = sync.url
        report = sync.sync(scope_of(scopes), dry_run=True)
    if as_json:
        print_json({"url": place, **camel(asdict(report))})
        return
    click.echo(f"synced with {place}")
    print_synced(report, as_json=False)
