"""worm init: begin a project."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import msgspec

from wormdb.cli.input.place import AS_JSON
from wormdb.cli.input.schema import DEFAULTS, folder_of
from wormdb.cli.show.text import print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import AlreadyExistsError, InvalidRequestError
from wormdb.schema.load import load_schema

__all__ = ["command"]

EXAMPLE: dict[str, Any] = {
    "description": "Who buys. Made by worm init as an example: change it, or replace it.",
    "path": "#org/@customers/(id:ulid)/[customer].json",
    "fields": {
        "name": {"type": "string", "required": True, "description": "Refused if it is missing or null"},
        "email": {"type": "string"},
        "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
        "since": {"type": "datetime", "description": "Written as ISO text, kept as a date"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
    },
    "indexes": {
        "byEmail": {"field": "email", "unique": True},
        "byStatus": {"field": "status"},
        "byTags": {"field": "tags", "type": "multiValue"},
    },
    "manifest": {"enabled": True},
    "softDelete": {"ttl": 30},
}


@click.command("init", cls=Verb, examples=("worm init", "worm init shop --model Invoice", "worm init --force"))
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--model", "name", metavar="NAME", help="Begin with an empty model of this name, not with an example.")
@click.option("--force", is_flag=True, help="Replace the schema that is there.")
@AS_JSON
def command(folder: Path, *, name: str | None, force: bool, as_json: bool) -> None:
    """Begin a project: write a schema with an example, and make the folder for data.

    In FOLDER, here if it is not given: .worm/schema.json, which worm finds from there, and .worm/data for a database on
    this disk. What is there is kept, unless --force is given; documents are never touched.
    """
    schema = folder / DEFAULTS[0]
    if not force:
        _check_absent(folder)
    model = EXAMPLE if name is None else {"path": f"@{folder_of(name)}/(id:ulid)/[data].json", "fields": {}}
    text = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {name or "Customer": model}}
    load_schema(text, name=f"model {name}")
    data = schema.parent / "data"
    try:
        data.mkdir(parents=True, exist_ok=True)
        schema.write_bytes(msgspec.json.format(msgspec.json.encode(text), indent=2) + b"\n")
    except OSError as error:
        raise InvalidRequestError(f"{schema} cannot be written", reason=error.strerror or str(error)) from error
    if as_json:
        print_json({"schema": str(schema), "data": str(data)})
        return
    click.echo(f"made {schema} and {data}/\nnext:")
    change = "" if folder == Path() else f"cd {shlex.quote(str(folder))}; "
    place = data.relative_to(folder)
    for step, why in {
        "worm lint": "after you changed the schema",
        f"worm schema apply {place}": "make the database, or change it",
        f"worm import FILE --model {name or 'Customer'} --url {place}": "fill it",
    }.items():
        click.echo(f"  {change + step:<60}  # {why}")


def _check_absent(folder: Path) -> None:
    for default in DEFAULTS:
        found = folder / default
        if found.exists():
            raise AlreadyExistsError(str(found), reason="there is a schema already", fix="--force replaces it")
