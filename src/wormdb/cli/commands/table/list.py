"""worm table list: all models and collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import Database, connect
from wormdb.cli.input.place import AS_JSON, SCHEMA, URL, blocks_of, find_collection, find_model, open_database
from wormdb.cli.input.question import AS_OF, read_as_of
from wormdb.cli.show.indexes import indexes_of
from wormdb.cli.show.text import TextColumn, print_json, print_ruled, time_text
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError, SnapshotTooOldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


__all__ = ["command"]

COLUMNS = (
    TextColumn("Model", 13),
    TextColumn("Count", 8, is_right=True),
    TextColumn("Manifest", 10),
    TextColumn("Indexes", 20),
    TextColumn("Last Updated", 22),
)


@click.command(
    "list", cls=Verb, examples=("worm table list --url s3://bucket/shop", "WORM_URL=./shop worm table list --json")
)
@AS_OF
@URL
@SCHEMA
@AS_JSON
def command(url: str, *, schema: Path | None, as_of: str | None, as_json: bool) -> None:
    """List all models and collections, and how their manifest files and indexes are.

    The bucket is searched for collections: 1 LIST for each folder above them, then some GETs for each of them.
    A manifest file is fresh, stale (behind the log), missing, damaged (not what was written), or n/a: the model or the
    collection has none. worm table inspect says why, and worm table rebuild makes it fresh. With --as-of only documents
    are counted, those of then, which reads their history.
    """
    if as_of is not None:
        _list_past(url, as_of, as_json=as_json)
        return
    with open_database(url, {"schema": schema}) as database:
        found = [_described(database, name) for name in _names(database)]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no collections")
        return
    print_ruled(COLUMNS, [_row(each) for each in found])


def _list_past(url: str, as_of: str, *, as_json: bool) -> None:
    if as_of.isdecimal():
        raise InvalidRequestError(
            f"--as-of {as_of}", reason="every collection has a log of its own", fix="give a time, such as 2026-02-24"
        )
    with connect(url) as database:
        found = [_counted(database, name, as_of) for name in _names(database)]
    if as_json:
        print_json(found)
        return
    rows = [(each["model"], "--" if each["count"] is None else f"{each['count']:,}") for each in found]
    print_ruled(COLUMNS[:2], rows)


def _counted(database: Database, name: str, as_of: str) -> dict[str, Any]:
    """How many documents a collection had; None if its history does not reach back so far."""
    collection = find_collection(database, name)
    try:
        count = collection.count(as_of=read_as_of(as_of))
    except SnapshotTooOldError:
        count = None
    return {"model": name, "prefix": collection.prefix, "count": count}


def _names(database: Database) -> Iterator[str]:
    """Models with one collection in the schema's order, then all other collections."""
    models = {} if database.schema is None else database.schema.models
    fixed = [model for model in models.values() if not model.path.outer]
    for model in fixed:
        yield model.name
    known = {model.path.collection_prefix({}) for model in fixed}
    for prefix in database.collections():
        if prefix not in known:
            yield prefix.rstrip("/")


def _described(database: Database, name: str) -> dict[str, Any]:
    collection = find_collection(database, name)
    model = find_model(database, name)
    status, files = collection.get_manifest_status(), blocks_of(collection)
    updated = status.last_updated if files is None else files.last_change
    return {
        "model": name,
        "prefix": collection.prefix,
        "count": status.count,
        "manifest": "n/a" if status.state == "none" else status.state,
        "manifestReason": status.reason,
        "lagEntries": status.lag_entries,
        "indexes": [
            {"name": each.name, "fields": list(each.fields), "unique": each.unique, "state": each.state}
            for each in indexes_of(collection, model)
        ],
        "lastUpdated": None if updated is None else time_text(updated),
    }


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    return (
        found["model"],
        f"{found['count']:,}",
        found["manifest"],
        ", ".join("+".join(index["fields"]) for index in found["indexes"]) or "--",
        found["lastUpdated"] or "--",
    )
