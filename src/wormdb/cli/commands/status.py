"""worm status: how far each collection is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import Database, connect
from wormdb.api.schema import read_schema
from wormdb.cli.input.place import NAMES, PLACE, existing_status, place_of
from wormdb.cli.input.schema import DEFAULTS
from wormdb.cli.show.text import camel, counted, print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.status import CollectionStatus, IndexSummary
    from wormdb.files.status import FilesStatus

__all__ = ["command"]


@click.command(
    "status",
    cls=Verb,
    examples=(
        "worm status s3://bucket/prefix",
        "worm status Customer --json",
    ),
)
@NAMES
@PLACE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def command(url: str | None, names: tuple[str, ...], *, as_json: bool) -> None:
    """Show how far each collection is behind its log.

    With its documents, blocks and indexes, and how far readable files are, where they are kept. COLLECTION is a model's
    name or a folder; without any, the bucket is searched for collections. Says whether the schema of the project, which
    worm lint finds, is that of the database. Writes nothing.
    """
    place, names = place_of(url, names)
    with connect(place) as database:
        found = existing_status(database, names)
        files = {each.collection: each for each in database.files.status([each.prefix for each in found])}
        about = None if as_json else _about(database)
    rows = [StatusRow(each, files[each.prefix]) for each in found]
    if as_json:
        print_json([{**camel(row.status), "files": _files_json(row.files)} for row in rows])
    elif not rows:
        click.echo("no collections")
    else:
        click.echo(about)
        cells = [tuple(cell(row) for cell in COLUMNS.values()) for row in rows]
        print_table(tuple(COLUMNS), cells, styles=[_style(row.status) for row in rows])


@dataclass(frozen=True, slots=True)
class StatusRow:
    """What is known of one collection."""

    status: CollectionStatus
    files: FilesStatus


def _about(database: Database) -> str:
    """Where the database is, and what its schema is to that of the project."""
    published = database.schema
    models = "no schema" if published is None else counted(len(published.models), "model", "models")
    file = next((path for path in DEFAULTS if path.is_file()), None)
    if file is None:
        return f"{database.url}: {models}"
    try:
        is_same = read_schema(file) == published
    except InvalidRequestError:
        return f"{database.url}: {models}; {file} has mistakes: worm lint"
    return f"{database.url}: {models}; {file} {'is its schema' if is_same else 'differs: worm schema diff'}"


def _name(row: StatusRow) -> str:
    name = row.status.prefix.rstrip("/")
    return name if row.status.name in {name, ""} else f"{name} ({row.status.name})"


def _lag(row: StatusRow) -> str:
    status = row.status
    if not status.lag_entries:
        return "none"
    return f"{counted(status.lag_entries, 'entry', 'entries')}, {status.lag_bytes:,} bytes"


def _files(row: StatusRow) -> str:
    files = row.files
    if not files.enabled:
        return "off"
    behind = [f"{counted(files.lag_entries, 'entry', 'entries')} behind"] if files.lag_entries else []
    waiting = [f"{counted(files.pending, 'change', 'changes')} waiting"] if files.pending else []
    return ", ".join(["being filled"] * files.is_filling + behind + waiting) or "up to date"


def _files_json(files: FilesStatus) -> dict[str, Any]:
    names = ("enabled", "through", "lagEntries", "filling", "pending")
    return {name: value for name, value in files.to_dict().items() if name in names}


def _index(index: IndexSummary) -> str:
    return f"{index.name} {index.state}" + (" (outgrown: worm index build)" if index.task == "renew" else "")


COLUMNS: Mapping[str, Callable[[StatusRow], str]] = {
    "collection": _name,
    "documents": lambda row: f"{row.status.count:,}",
    "log": lambda row: f"{row.status.number:,}",
    "applied": lambda row: f"{row.status.applied:,}",
    "lag": _lag,
    "blocks": lambda row: f"{row.status.blocks:,}",
    "runs": lambda row: f"{row.status.runs:,}",
    "files": _files,
    "indexes": lambda row: ", ".join(map(_index, row.status.indexes)),
}
"""What the table shows, by the name of the column."""


def _style(status: CollectionStatus) -> str:
    return "yellow" if any(index.state == "failed" for index in status.indexes) else ""
