"""Calls of pymongo's documentation, here and in mongomock: `pymongo_calls.txt` is the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mongomock
import pytest
from bson import ObjectId
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne

import wormdb

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "a": 1, "g": 1, "name": "n1", "tags": ["red"], "sub": {"x": 1}},
    {
        "_id": 2,
        "a": 2,
        "g": 0,
        "name": "n2",
        "tags": ["red", "blue"],
        "sub": {"x": 2},
        "items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    },
    {"_id": 3, "a": 3, "g": 1, "name": "n3", "tags": [], "sub": {"x": 2, "y": 1}},
    {"_id": 4, "a": 4, "g": 0, "name": "n4", "items": [{"k": "a", "v": 5}]},
    {"_id": 5, "a": 5, "g": 1, "name": "n5", "tags": ["blue", "red"]},
    {"_id": 6, "a": 6, "g": 2, "name": "m6", "sub": {"x": 9}},
]


@dataclass(frozen=True)
class Call:
    text: str
    refusal: str | None = None
    returns: str | None = None

    def __str__(self) -> str:
        return self.text


def table() -> list[Call]:
    found: list[Call] = []
    for line in (Path(__file__).parent / "pymongo_calls.txt").read_text().splitlines():
        if line.startswith("! "):
            found[-1] = Call(found[-1].text, refusal=line[2:])
        elif line.startswith("= "):
            found[-1] = Call(found[-1].text, returns=line[2:])
        elif line.strip() and not line.startswith(("#", "==")):
            found.append(Call(line))
    return found


def run(call: str, collection: Any, database: Any) -> Any:
    kinds = (DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, ObjectId, ReturnDocument)
    return plain(eval(call, {"c": collection, "db": database, "re": re, **{kind.__name__: kind for kind in kinds}}))


def plain(value: Any) -> Any:
    """What both sides return, in one form: `id` and `_id` are one field, results are their counts."""
    if isinstance(value, dict):
        return {("_id" if name == "id" else name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    for names in (("matched_count", "modified_count", "upserted_id"), ("deleted_count",), ("inserted_id",)):
        if all(hasattr(value, name) for name in names):
            return {name: plain(getattr(value, name)) for name in names}
    return value


def left(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((plain(dict(each)) for each in documents), key=lambda each: str(each["_id"]))


@pytest.mark.parametrize("call", table(), ids=str)
def test_a_call_does_what_it_does_in_pymongo(call: Call) -> None:
    their_database: Any = mongomock.MongoClient().db
    theirs = their_database.c
    theirs.insert_many([dict(each) for each in DOCUMENTS])
    with wormdb.connect("memory://") as database:
        ours = database["c"]
        ours.insert_many(DOCUMENTS)
        if call.refusal is not None:
            with pytest.raises(wormdb.WormError, match=re.escape(call.refusal)):
                run(call.text, ours, database)
            assert left(ours.find_all()) == left(DOCUMENTS), "nothing was written"
            return
        if call.returns is not None:
            assert run(call.text, ours, database) == run(call.returns, ours, database)
            return
        assert run(call.text, ours, database) == run(call.text, theirs, their_database)
        assert left(ours.find_all()) == left(list(theirs.find()))


def test_the_table_is_long_and_names_each_call_once() -> None:
    calls = [str(call) for call in table()]
    assert len(calls) == len(set(calls)) >= 150
