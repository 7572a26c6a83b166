"""worm sync migrate: parts of an index in one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import BUCKET, FOLDER, open_folder
from wormdb.cli.show.text import counted
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("migrate", cls=Verb, examples=("worm sync migrate --url s3://team/work", "worm sync migrate --no-shim"))
@FOLDER
@BUCKET
@click.option(
    "--shim/--no-shim",
    default=None,
    help="Whether the old index is kept for older clients.  [default: as it is; kept by the first migration]",
)
def command(folder: Path, url: str | None, *, shim: bool | None) -> None:
    """Make parts of an index in one object, as older clients have it, and of swamp's parts.

    A push does this by itself up to 5,000 files. It can be broken off and run again. What older clients pushed since
    is taken in.
    """
    with open_folder(folder, url) as sync:
        manifest = sync.migrate(shim=shim).manifest
    files = sum(note.count for note in manifest.partitions.values())
    parts = counted(len(manifest.partitions), "part", "parts")
    kept = "kept for older clients" if manifest.shim is not None else "not kept"
    click.echo(f"{parts}, {counted(files, 'file', 'files')}; the old index is {kept}")
