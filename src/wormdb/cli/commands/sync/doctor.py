"""worm sync doctor: examine the index of a bucket."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import BUCKET, FOLDER, open_folder
from wormdb.cli.input.place import AS_JSON
from wormdb.cli.show.text import camel, counted, print_json
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("doctor", cls=Verb, examples=("worm sync doctor", "worm sync doctor --repair"))
@FOLDER
@BUCKET
@click.option("--repair", is_flag=True, help="List parts that are not listed, drop paths that lead elsewhere.")
@AS_JSON
@click.pass_context
def command(context: click.Context, folder: Path, url: str | None, *, repair: bool, as_json: bool) -> None:
    """Examine the index of a bucket, and repair it. Exits with 1 if something is wrong and was not repaired."""
    with open_folder(folder, url) as sync:
        found = sync.check(repair=repair)
    if as_json:
        print_json(camel(asdict(found)))
    else:
        click.echo(f"{counted(found.parts, 'part', 'parts')}, {counted(found.files, 'file', 'files')}")
        done = " (repaired)" if repair else ""
        for part in found.unlisted:
            click.echo(f"part {part} is not in the manifest{done}")
        for path in found.bad_paths:
            click.echo(f"path {path!r} leads out of the folder{done}")
    context.exit(1 if (found.unlisted or found.bad_paths) and not repair else 0)
