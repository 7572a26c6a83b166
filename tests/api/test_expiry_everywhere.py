"""Every way to read a collection, in a table: none of them shows a document from the moment on at which it is over."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pytest

import wormdb
from wormdb.errors import InvalidRequestError
from wormdb.query.request import Strategy
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database

    Look = Callable[[Database, Collection[Any]], Iterable[object]]

START = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 20
"""When the first half of the documents is over."""
OLD = [f"old{number}" for number in range(3)]
NEW = [f"new{number}" for number in range(3)]
SCHEMA = {
    "schemaVersion": "1.0",
    "models": {
        "Thing": {
            "path": "@things/(id:string)",
            "expireAt": "at",
            "fields": {
                "at": {"type": "datetime"},
                "n": {"type": "integer"},
                "kind": {"type": "string"},
                "owner": {"type": "string"},
                "text": {"type": "string"},
                "vector": {"type": "array", "items": {"type": "number"}},
            },
        },
        "Note": {
            "path": "@notes/(id:string)",
            "fields": {"thingId": {"type": "string"}},
            "refs": {
                "thing": {"model": "Thing", "field": "thingId"},
                "things": {"model": "Thing", "type": "hasMany", "foreignKey": "owner"},
            },
        },
    },
}


class Bucket:
    """One store with two processes, and a clock that tests move."""

    def __init__(self) -> None:
        self.clock = ManualClock(int(START.timestamp() * 1000))
        self.store = MemoryStore(clock=self.clock)
        self.made = 0

    def opened(self) -> Database:
        self.made += 1
        settings = Settings(forward="manual")
        return wormdb.connect(
            self.store, schema=SCHEMA, clock=self.clock, chance=SeededChance(self.made), settings=settings
        )


def fill(database: Database, *, forwards: bool) -> None:
    things = database.model("Thing")
    for number, (old, new) in enumerate(zip(OLD, NEW, strict=True)):
        for identity, seconds in ((old, SECONDS), (new, 1_000)):
            things.insert(
                {
                    "id": identity,
                    "at": START + timedelta(seconds=seconds),
                    "n": number,
                    "kind": "old" if identity in OLD else "new",
                    "owner": "note",
                    "text": f"red shoes {identity}",
                    "vector": [1.0, float(number)],
                }
            )
        if number == 1 and forwards:
            things.forward()
    things.create_index("n")
    things.create_text_index(["text"])
    things.create_vector_index("vector", dimensions=2)
    database.model("Note").insert({"id": "note", "thingId": OLD[0]})
    if forwards:
        things.build_indexes()


def ids(rows: Iterable[Any]) -> list[object]:
    return [row["id"] for row in rows]


def by_strategy(_: Database, things: Collection[Any]) -> set[object]:
    """Every plan that is possible: a document that one of them shows is shown."""
    shown: set[object] = set()
    for strategy in get_args(Strategy):
        for written in ({}, {"n": {"$gte": 0}}, {"kind": {"$in": ["old", "new"]}}):
            with contextlib.suppress(InvalidRequestError):
                shown |= {row["id"] for row in things.find(written, strategy=strategy, sort="n")}
    return shown


def kinds_of(told: dict[str, Any]) -> list[object]:
    return [
        identity for kind, one in told["groups"].items() for identity in (OLD if kind == "old" else NEW)[: one["count"]]
    ]


def paged(_: Database, things: Collection[Any]) -> list[object]:
    found, rows = things.find(limit=2), []
    while True:
        rows += ids(found)
        if found.next_page is None:
            return rows
        found = things.find(limit=2, page=found.next_page)


def in_transaction(database: Database, _: Collection[Any]) -> list[object]:
    with database.transaction() as transaction:
        return ids(transaction.model("Thing").find())


def in_snapshot(database: Database, _: Collection[Any]) -> list[object]:
    with database.snapshot(["things"]) as snapshot:
        return ids(snapshot["things"].find())


def populated(database: Database, _: Collection[Any]) -> list[object]:
    (note,) = database.model("Note").find_all(populate=["thing", "things"])
    return ids([*([note["thing"]] if note["thing"] else []), *note["things"]])


def counted(count: int) -> list[object]:
    """A number as the documents that it should be of."""
    everything: list[object] = [*NEW, *OLD]
    return everything[:count]


WAYS: dict[str, Look] = {
    "find": lambda _, things: ids(things.find()),
    "find by every plan": by_strategy,
    "find_all": lambda _, things: ids(things.find_all({"n": {"$lt": 9}})),
    "find_one": lambda _, things: [each for each in [*OLD, *NEW] if things.find_one({"id": each}) is not None],
    "find_one by id": lambda _, things: [each for each in [*OLD, *NEW] if things.find_one(each) is not None],
    "find_by_id": lambda _, things: [each for each in [*OLD, *NEW] if things.find_by_id(each) is not None],
    "find_by_id, stale": lambda _, things: [
        each for each in [*OLD, *NEW] if things.find_by_id(each, stale_ms=60_000) is not None
    ],
    "exists": lambda _, things: [each for each in [*OLD, *NEW] if things.exists(each)],
    "exists, stale": lambda _, things: [each for each in [*OLD, *NEW] if things.exists(each, stale_ms=60_000)],
    "scan": lambda _, things: ids(things.scan()),
    "iteration": lambda _, things: ids(things),
    "head": lambda _, things: ids(things.head(10)),
    "pages": paged,
    "query": lambda _, things: ids(things.query().gte("n", 0).sort("n").find()),
    "columns": lambda _, things: ids(things.find(select=["id", "n"], sort="n")),
    "find, stale": lambda _, things: ids(things.find(stale_ms=60_000)),
    "find, at least": lambda _, things: ids(things.find(at_least=1)),
    "find, as of a time": lambda database, things: ids(things.find(as_of=_now(database))),
    "find_by_id, as of a time": lambda database, things: [
        each for each in [*OLD, *NEW] if things.find_by_id(each, as_of=_now(database)) is not None
    ],
    "with_options": lambda _, things: ids(things.with_options(stale_ms=60_000).find()),
    "cursor": lambda _, things: ids(things.cursor(batch_size=2)),
    "cursor, stale": lambda _, things: ids(things.cursor(batch_size=2, stale_ms=60_000)),
    "resumed cursor": lambda _, things: ids(things.resume(things.cursor(batch_size=2).token)),
    "near": lambda _, things: ids(things.find(near={"vector": {"vector": [1, 0], "k": 10}})),
    "near, exact": lambda _, things: ids(things.find(near={"vector": {"vector": [1, 0], "k": 10, "exact": True}})),
    "search": lambda _, things: ids(things.find(search="red shoes")),
    "search with highlights": lambda _, things: ids(one for one, _ in things.find(search="shoes").highlights()),
    "$text": lambda _, things: ids(things.find({"$text": {"$search": "red"}})),
    "near and search": lambda _, things: ids(
        things.find(near={"vector": {"vector": [1, 0], "k": 10}}, search="red", limit=10)
    ),
    "populate": populated,
    "transaction": in_transaction,
    "snapshot": in_snapshot,
    "to_arrow": lambda _, things: things.to_arrow(["id"]).column("id").to_pylist(),
    "results as a table": lambda _, things: things.find({"n": {"$gte": 0}}).to_arrow().column("id").to_pylist(),
    "Arrow stream": lambda _, things: pa.table(things).column("id").to_pylist(),
    "pandas": lambda _, things: things.to_pandas(["id"])["id"].tolist(),
    "distinct": lambda _, things: things.distinct("id"),
    "distinct of a column": lambda _, things: [
        each for kind in things.distinct("kind") for each in (OLD if kind == "old" else NEW)
    ],
    "aggregate": lambda _, things: kinds_of(things.aggregate(group_by="kind", count=True)),
    "aggregate, stale": lambda _, things: kinds_of(things.aggregate(group_by="kind", count=True, stale_ms=60_000)),
    "count": lambda _, things: counted(things.count()),
    "count of a filter": lambda _, things: counted(things.count({"n": {"$gte": 0}})),
    "count, stale": lambda _, things: counted(things.count(stale_ms=60_000)),
    "count, as of a time": lambda database, things: counted(things.count(as_of=_now(database))),
    "count_documents": lambda _, things: counted(things.count_documents({})),
    "estimated_document_count": lambda _, things: counted(things.estimated_document_count()),
    "len": lambda _, things: counted(len(things)),
    "repr": lambda _, things: counted(int(re.findall(r"(\d+) document", repr(things))[0])),
    "repr of the database": lambda database, _: counted(
        int(re.findall(r"things</td><td>Thing</td><td>(\d+)", database._repr_html_())[0])
    ),
    "status": lambda database, _: counted(database.status(["things"])[0].count),
    "update_many": lambda _, things: counted(things.update_many({}, {"$set": {"n": 1}}).matched_count),
    "find_one_and_update": lambda _, things: [
        each for each in [*OLD, *NEW] if things.find_one_and_update({"id": each}, {"$set": {"n": 2}}) is not None
    ],
}


def _now(database: Database) -> datetime:
    return START + timedelta(milliseconds=database["things"]._access.clock.now_ms() - int(START.timestamp() * 1000))


@pytest.mark.parametrize("forwards", [False, True], ids=["in the log", "in blocks"])
def test_no_way_to_read_shows_what_is_over(forwards: bool) -> None:
    bucket = Bucket()
    writer, warm = bucket.opened(), bucket.opened()
    fill(writer, forwards=forwards)
    everything = sorted([*OLD, *NEW])
    shown = {way: sorted(set(map(str, look(warm, warm.model("Thing"))))) for way, look in WAYS.items()}
    assert {way: rows for way, rows in shown.items() if rows != everything} == {}
    bucket.clock.advance(SECONDS)
    for database in (warm, bucket.opened()):
        shown = {way: sorted(set(map(str, look(database, database.model("Thing"))))) for way, look in WAYS.items()}
        assert {way: rows for way, rows in shown.items() if rows != NEW} == {}
