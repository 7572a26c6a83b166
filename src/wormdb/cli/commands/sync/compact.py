"""worm sync compact: remove what an index does not need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import BUCKET, FOLDER, open_folder
from wormdb.cli.show.text import counted
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("compact", cls=Verb, examples=("worm sync compact",))
@FOLDER
@BUCKET
def command(folder: Path, url: str | None) -> None:
    """Remove what the index of a bucket does not need any more.

    Parts without files go an hour after they were emptied, in two runs; objects of deleted files that a client did not
    come to delete, too. Safe at any time, and by several clients at once.
    """
    with open_folder(folder, url) as sync:
        found = sync.compact()
    removed = counted(len(found.removed), "object of the index", "objects of the index")
    click.echo(f"{removed} and {counted(len(found.leftovers), 'deleted file', 'deleted files')} removed")
