"""What goes in through one door comes out of the other: RESP and Python see the same documents, indexes and models."""

from __future__ import annotations

import json as standard
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.codec_options import CodecOptions
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.server.conftest import running
from tests.server.wire import Wire
from wormdb.format import json
from wormdb.server.documents import show_rows
from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 60
FILTERS: list[dict[str, Any]] = [
    {},
    {"n": 7},
    {"n": {"$gt": 40}},
    {"n": {"$in": [1, 2, 99]}},
    {"tags": "a"},
    {"tags": {"$all": ["a", "b"]}},
    {"at.x": {"$lte": 3}},
    {"$or": [{"n": 5}, {"tags": {"$size": 0}}]},
    {"text": {"$regex": "^row 1"}},
    {"n": {"$not": {"$gte": 3}}},
    {"missing": None, "n": {"$lt": 4}},
    {"list": {"$elemMatch": {"k": 1, "v": {"$gt": 10}}}},
]
SORTS: list[str | None] = [None, "n", "-n", "at.x", "-text"]


def rows() -> list[dict[str, Any]]:
    return [
        {
            "_id": bson.ObjectId(f"50{number:022x}"),
            "n": number,
            "text": f"row {number}",
            "tags": ["a", "b", "c"][: number % 4],
            "at": {"x": number % 7},
            "list": [{"k": number % 2, "v": number}],
        }
        for number in range(ROWS)
    ]


@pytest.fixture(scope="module")
def doors() -> Any:
    """A database, and a connection to a server of it."""
    drop_memory("doors")
    store = MemoryStore("doors", clock=SystemClock())
    with wormdb.connect("memory://doors") as database, running(store) as server, Wire(server.address[1], 3) as wire:
        database["things"].insert_many(rows())
        database["things"].create_index("n")
        database["things"].forward()
        wire.ask("SESSION.ATTRIBUTE", "SET", "reply_type", "json")
        yield database, wire


@settings(max_examples=60)
@given(st.sampled_from(FILTERS), st.sampled_from(SORTS), st.integers(1, 70), st.booleans())
def test_batches_one_after_the_other_are_what_find_gives(
    doors: Any, tree: dict[str, Any], sort: str | None, limit: int, as_bson: bool
) -> None:
    database, wire = doors
    expected = show_rows(list(database["things"].find(tree, sort=sort, raw=True)), "json")
    words = ["BUCKET.QUERY", "things", bson.encode(tree) if as_bson else standard.dumps(tree), "LIMIT", limit]
    if sort is not None:
        words += ["SORTBY", sort.removeprefix("-"), "DESC" if sort.startswith("-") else "ASC"]
    found: list[str] = []
    reply = wire.ask(*words)
    number = int(reply.partition('cursor_id": :')[2].partition(",")[0])
    while not reply.endswith('"entries": []}'):
        found.append(reply.partition('"entries": [')[2].removesuffix("]}"))
        reply = wire.ask("BUCKET.ADVANCE", "QUERY", number)
    assert wire.ask("BUCKET.CLOSE", "QUERY", number) == "+OK"
    assert ", ".join(found) == ", ".join(f'"{row.decode()}"' for row in expected)


def test_what_resp_writes_python_sees_and_the_other_way_round(tmp_path: Path) -> None:
    place = str(tmp_path)
    with running(place) as server, Wire(server.address[1]) as wire:
        schemas = '{"n":{"bson_type":"int32","name":"byN","unique":true}}'
        assert wire.ask("BUCKET.CREATE", "things", "INDEXES", schemas) == "+OK"
        for row in rows():
            assert wire.ask("BUCKET.INSERT", "things", "DOCS", bson.encode(row)).startswith("[")
        assert wire.ask("NAMESPACE", "CREATE", "shop.eu") == "+OK"
        assert wire.ask("NAMESPACE", "USE", "shop.eu") == "+OK"
        assert wire.ask("BUCKET.CREATE", "orders") == "+OK"
        with wormdb.connect(place) as database:
            found = [json.decode(row, name="row") for row in database["things"].find(raw=True)]
            assert found == [{"id" if name == "_id" else name: value for name, value in row.items()} for row in rows()]
            assert [each.name for each in database["things"].indexes()] == ["_id", "byN"]
            assert database.collections() == ["shop/eu/orders/", "things/"]
            database["shop/eu/orders"].insert({"_id": rows()[3]["_id"], "total": 5})
            database["shop/us/orders"].insert({"id": "text", "total": 6})
            with pytest.raises(wormdb.UniqueViolationError):
                database["things"].insert({"n": 7})
        wire.ask("SESSION.ATTRIBUTE", "SET", "reply_type", "json")
        assert wire.ask("BUCKET.QUERY", "orders", "{}") == f'[:1, ["{{"_id":"{rows()[3]["_id"]}","total":5}}"]]'
        assert wire.ask("NAMESPACE", "LIST", "shop") == '["eu", "us"]'
        assert wire.ask("NAMESPACE", "USE", "shop.us") == "+OK"
        assert wire.ask("BUCKET.LIST") == '["orders"]'
        assert wire.ask("BUCKET.QUERY", "orders", '{"_id":"text"}') == '[:2, ["{"_id":"text","total":6}"]]'


def test_the_collection_of_a_model_goes_by_the_model(tmp_path: Path) -> None:
    place = str(tmp_path)
    model = {
        "path": "@people/(id:string)",
        "fields": {"name": {"type": "string", "required": True}, "level": {"type": "number", "default": 1}},
    }
    with wormdb.connect(place, schema={"models": {"Person": model}}, apply=True) as database:
        database.model("Person").insert({"id": "ada", "name": "Ada"})
    with running(place) as server, Wire(server.address[1]) as wire:
        for name in ("reply_type", "input_type"):
            wire.ask("SESSION.ATTRIBUTE", "SET", name, "json")
        assert wire.ask("BUCKET.INSERT", "people", "DOCS", '{"_id":"bob","name":"Bob"}') == '["bob"]'
        assert wire.ask("BUCKET.INSERT", "people", "DOCS", '{"_id":"cem"}').startswith("-ERR ")
        found = wire.ask("BUCKET.QUERY", "people", '{"_id":"bob"}', "PROJECTION", '{"name":1,"level":1}')
        assert found == '[:1, ["{"_id":"bob","name":"Bob","level":1}"]]'


def test_bson_replies_hold_the_values_that_were_stored(doors: Any) -> None:
    database, _ = doors
    (row,) = show_rows(list(database["things"].find({"n": 5}, raw=True)), "bson")
    assert bson.decode(row, CodecOptions(tz_aware=True)) == rows()[5]
