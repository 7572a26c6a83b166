"""The same documents in a database in several states: what is asked of them must not depend on it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from bson import Decimal128, ObjectId

import wormdb
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.api.database import Database

Documents = list[dict[str, Any]]

STATES: Final = ("tail", "blocks", "index", "model", "half", "runs")
"""In the log; in blocks; with indexes; all fields declared; some declared; over several runs, with a tail."""

_TYPES: Final[tuple[tuple[str, tuple[type, ...]], ...]] = (
    ("boolean", (bool,)),
    ("integer", (int,)),
    ("number", (float,)),
    ("string", (str,)),
    ("datetime", (datetime,)),
    ("array", (list,)),
    ("object", (dict,)),
    ("decimal", (Decimal128,)),
    ("objectid", (ObjectId,)),
    ("binary", (bytes,)),
)
STAMPS: Final = ("createdAt", "updatedAt")
"""What a model adds."""


def open_state(
    state: str, sets: dict[str, Documents], paths: Mapping[str, Sequence[str]], *, typed: bool = True
) -> Database:
    """A database in memory with a collection for each set; `paths` are indexed where the state wants it.

    Declared fields have the type of their values, or not `typed`, where values of others will come.
    """
    settings = Settings(forward="manual", forward_interval_ms=0, staleness_ms=3_600_000)
    schema = _schema(sets, 1 if state == "model" else 2, typed=typed) if state in {"model", "half"} else None
    database = wormdb.connect("memory://", schema=schema, settings=settings)
    for name, documents in sets.items():
        _FILLERS.get(state, _fill)(collection_of(database, state, name), documents, paths.get(name, ()))
    return database


def collection_of(database: Database, state: str, name: str) -> Any:
    """The collection of a set."""
    return database.model(name.capitalize()) if state in {"model", "half"} else database[name]


def _fill(collection: Any, documents: Documents, _: Sequence[str]) -> None:
    collection.insert_many(documents)
    collection.forward()


def _fill_tail(collection: Any, documents: Documents, _: Sequence[str]) -> None:
    middle = len(documents) // 2
    collection.insert_many(documents[:middle])
    collection.insert_many(documents[middle:])


def _fill_index(collection: Any, documents: Documents, paths: Sequence[str]) -> None:
    collection.insert_many(documents[::2])
    collection.forward()
    for number, path in enumerate(paths):
        collection.create_index(path, sparse=number % 2 == 0)
    collection.insert_many(documents[1::2])
    collection.forward()


def _fill_runs(collection: Any, documents: Documents, _: Sequence[str]) -> None:
    """Some are wrong at first, some are deleted and come back, and the last are in the tail."""
    parts = [documents[start::4] for start in range(4)]
    collection.insert_many([{"_id": document["_id"], "a": [[0]], "i": 99, "t": ["vip"]} for document in parts[0]])
    collection.insert_many(parts[1])
    collection.forward()
    for document in parts[0]:
        collection.replace_one({"_id": document["_id"]}, document)
    collection.delete_many({"_id": {"$in": [document["_id"] for document in parts[1]]}})
    collection.insert_many(parts[2])
    collection.forward()
    collection.insert_many(parts[1])
    collection.forward()
    collection.insert_many(parts[3])


_FILLERS: Final = {"tail": _fill_tail, "index": _fill_index, "runs": _fill_runs}


def _schema(sets: dict[str, Documents], step: int, *, typed: bool) -> dict[str, Any]:
    """A model for each set, which declares every field, or every second."""
    models = {}
    for name, documents in sets.items():
        found = list(_fields(documents).items())[::step]
        fields = {field: declared if typed else {"type": "any"} for field, declared in found}
        models[name.capitalize()] = {"path": f"@{name}/(id:any)", "fields": fields}
    return {"schemaVersion": "1.0", "models": models}


def _fields(documents: Documents) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for document in documents:
        for name, value in document.items():
            values.setdefault(name, []).append(value)
    return {name: _declared(found) for name, found in values.items() if name != "_id"}


def _declared(values: list[Any]) -> dict[str, Any]:
    """The type that all values have, with what is known of their insides; any if there is none."""
    found = {type(value) for value in values if value is not None}
    kind = next((name for name, types in _TYPES if found and found <= set(types)), "any")
    if kind == "object":
        return {"type": kind, "properties": _fields([value for value in values if value])}
    if kind == "array":
        elements = [element for value in values if value for element in value]
        return {"type": kind, "items": _declared(elements)} if elements else {"type": kind}
    return {"type": kind}


def shown(row: Any) -> dict[str, Any]:
    """A row as the pure functions would show it."""
    return {"_id" if name == "id" else name: value for name, value in dict(row).items() if name not in STAMPS}
