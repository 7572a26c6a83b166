"""worm schema: show, compare and change the definitions of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wormdb.api.database import connect
from wormdb.cli.commands.schema.apply import command as apply
from wormdb.cli.commands.schema.infer import command as infer
from wormdb.cli.input.place import PLACE, complete_folders, existing_place, only_place
from wormdb.cli.input.schema import schema_file
from wormdb.cli.show.text import print_json
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.errors import NotFoundError

if TYPE_CHECKING:
    from wormdb.schema.difference import SchemaDifference

__all__ = ["command"]

FILE = click.option(
    "--file",
    "--schema",
    "-f",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The schema to compare with.  [default: .worm/schema.json, or else schema.json]",
)

PLACE_ARGUMENT = click.argument("place", required=False, metavar="[URL]", shell_complete=complete_folders)
NAME_IT = "name the file: --file FILE"


@click.group("schema", cls=VerbGroup)
def command() -> None:
    """Show, compare and change the definitions of a database, or infer them from data."""


@command.command("show", cls=Verb, examples=("worm schema show s3://bucket/prefix > schema.json",))
@PLACE_ARGUMENT
@PLACE
def show(place: str | None, url: str | None) -> None:
    """Print the schema that the database has published."""
    with connect(existing_place(only_place(place, url))) as database:
        if database.schema is None:
            raise NotFoundError(
                f"schema of {database.url}", reason="none is published", fix="publish one with worm schema apply"
            )
        print_json(database.schema.to_json())


@command.command("diff", cls=Verb, examples=("worm schema diff s3://bucket/prefix --schema schema.json",))
@PLACE_ARGUMENT
@PLACE
@FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def diff(place: str | None, url: str | None, file: Path | None, *, as_json: bool) -> int:
    """Say how a schema differs from the database's; exits with 1 if it does."""
    with connect(only_place(place, url), schema=schema_file(file, fix=NAME_IT)) as database:
        changes = database.schema_changes()
    _print(changes, as_json=as_json)
    return 1 if changes else 0


command.add_command(apply)
command.add_command(infer)


def _print(changes: dict[str, tuple[SchemaDifference, ...]], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                name: [{"path": c.path, "kind": c.kind, "before": c.before, "after": c.after} for c in found]
                for name, found in changes.items()
            }
        )
        return
    if not changes:
        click.echo("no difference")
    for found in changes.values():
        for change in found:
            click.echo(str(change))
