"""BUCKET.VECTOR: what RESP finds is what Python finds, at the newest state, and by a thread."""

from __future__ import annotations

import json as standard
import struct
from typing import TYPE_CHECKING, Any

import bson
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.engine.lists.vectors import as_rows, make_clusters
from tests.server.conftest import running
from tests.server.wire import Wire
from wormdb.server import vector_commands
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.server.host import ServerThread

ROWS = 80
DISTANCES = ("cosine", "euclidean", "dot_product")
FILTERS: list[dict[str, Any]] = [
    {},
    {"n": {"$lt": 30}},
    {"tag": "a"},
    {"n": 7},
    {"n": -1},
    {"$or": [{"tag": "b"}, {"n": {"$gte": 70}}]},
    {"tag": {"$ne": "a"}, "v": {"$exists": True}},
]
NUMBERS = st.floats(-4, 4, width=32).map(lambda number: number or 0.5)
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3)


def rows() -> list[dict[str, Any]]:
    """Some without a vector, some with equal ones."""
    found: list[dict[str, Any]] = []
    for number in range(ROWS):
        row = {"_id": bson.ObjectId(f"50{number:022x}"), "n": number, "tag": "abc"[number % 3]}
        vector = [number % 5 - 2.5, (number * 7 % 11) / 3.0, 1]
        found.append(row if number % 9 == 4 else {**row, "v": vector})
    return found


@pytest.fixture(scope="module")
def doors() -> Iterator[Any]:
    """A database with one bucket for each distance, and a client of a server of it."""
    drop_memory("vector-doors")
    store = MemoryStore("vector-doors", clock=SystemClock())
    with wormdb.connect("memory://vector-doors") as database, running(store) as server:
        made: Any = redis.Redis(port=server.address[1], protocol=3)
        with made as client:
            for distance in DISTANCES:
                schema = {"$vector": {"field": "v", "dimensions": 3, "distance": distance}}
                client.execute_command("BUCKET.CREATE", distance, "INDEXES", standard.dumps(schema))
                client.execute_command("BUCKET.INSERT", distance, "DOCS", *map(bson.encode, rows()[:60]))
                database[distance].forward()
                database[distance].insert_many(rows()[60:])
            yield database, client


@settings(max_examples=50)
@given(
    st.sampled_from(DISTANCES),
    VECTORS,
    st.sampled_from(FILTERS),
    st.tuples(st.sampled_from([None, 0, 1, 3, 200]), st.sampled_from([None, -100.0, 0.5, 0.9])),
    st.booleans(),
)
def test_resp_and_python_find_the_same_documents_with_the_same_scores(
    doors: Any,
    distance: str,
    vector: list[float],
    tree: dict[str, Any],
    bounds: tuple[int | None, float | None],
    is_packed: bool,
) -> None:
    database, client = doors
    top, threshold = bounds
    near = {"vector": vector, "k": top or 10, "min_score": 0.0 if threshold is None else threshold}
    expected = [(score, row["n"]) for row, score in database[distance].find(tree, near={"v": near}).scored()]
    written = struct.pack("<3f", *vector) if is_packed else standard.dumps(vector)
    words: list[Any] = ["BUCKET.VECTOR", distance, "v", written]
    words += ["FILTER", bson.encode(tree)] if tree else []
    words += [] if top is None else ["TOP", top]
    words += [] if threshold is None else ["THRESHOLD", threshold]
    reply = client.execute_command(*words)
    assert [(each[b"score"], bson.decode(each[b"entry"])["n"]) for each in reply] == expected
    by_number = {row["n"]: row for row in rows()}
    assert all(bson.decode(each[b"entry"]) == by_number[bson.decode(each[b"entry"])["n"]] for each in reply)


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_asks_for_the_nearest_with_packed_numbers(server: ServerThread, protocol: int) -> None:
    made: Any = redis.Redis(port=server.address[1], protocol=protocol)
    with made as client:
        schema = '{"$vector":{"field":"v","dimensions":2,"distance":"euclidean"}}'
        client.execute_command("BUCKET.CREATE", "b", "INDEXES", schema)
        client.execute_command("BUCKET.INSERT", "b", "DOCS", *(bson.encode({"v": [n, 0.5]}) for n in range(5)))
        asked = struct.pack("<2f", 3.0, 0.5)
        reply = client.execute_command("BUCKET.VECTOR", "b", "v", asked, "TOP", 2, "PROJECTION", '{"v":1,"_id":0}')
        pairs = [(each[b"score"], each[b"entry"]) if protocol == 3 else each for each in reply]
        assert [(float(score), bson.decode(entry)) for score, entry in pairs] == [
            (1.0, {"v": [3, 0.5]}),
            (0.5, {"v": [2, 0.5]}),
        ]
        with pytest.raises(redis.ResponseError, match="Vector component at index 1 overflows float range: nan"):
            client.execute_command("BUCKET.VECTOR", "b", "v", struct.pack("<2f", 3.0, float("nan")))


def test_an_index_that_is_not_ready_is_told_by_its_prefix(tmp_path: Any) -> None:
    place, by_hand = str(tmp_path), Settings(forward="manual")
    with (
        wormdb.connect(place, settings=by_hand) as database,
        running(place) as server,
        Wire(server.address[1]) as wire,
    ):
        things = database["shop/things"]
        things.insert_many([{"n": 1, "v": [1, 0], "w": [1, 2, 3]}])
        things.create_vector_index("v", dimensions=2, name="byV", wait=False)
        assert wire.ask("NAMESPACE", "USE", "shop") == "+OK"
        asked = ["BUCKET.VECTOR", "things", "v", "[1,0]", "PROJECTION", '{"n":1,"_id":0}']
        wire.ask("SESSION.ATTRIBUTE", "SET", "reply_type", "json")
        assert wire.ask(*asked) == "-VECTORINDEXNOTREADY Vector index 'shop/things/byV' is not ready yet"
        assert wire.ask("BUCKET.INDEX", "TASKS", "things", "byV").startswith('["build-byV", ["kind", "BUILD"')
        things.build_indexes()
        assert wire.ask(*asked) == '[["1", "{"n":1}"]]'
        with pytest.raises(wormdb.InvalidRequestError):
            things.create_vector_index("w", dimensions=2, name="byW")
        told = wire.ask("BUCKET.VECTOR", "things", "w", "[1,0]")
        assert told.startswith("-VECTORINDEXNOTREADY Vector index 'shop/things/byW' is not ready: ")
        assert "it must have 2 numbers, not 3" in told


def test_a_search_sees_what_others_committed_before_it_also_inside_a_transaction(tmp_path: Any) -> None:
    place = str(tmp_path)
    with wormdb.connect(place) as database, running(place) as server, Wire(server.address[1]) as wire:
        things = database["things"]
        things.create_vector_index("v", dimensions=2)
        wire.ask("SESSION.ATTRIBUTE", "SET", "reply_type", "json")
        asked = ["BUCKET.VECTOR", "things", "v", "[1,0]", "PROJECTION", '{"n":1,"_id":0}', "TOP", "1"]
        for number in range(1, 7):
            if number == 4:
                assert wire.ask("BEGIN") == "+OK"
            things.delete_many({})
            things.insert({"n": number, "v": [1, number]})
            assert f'{{"n":{number}}}' in wire.ask(*asked)
        assert wire.ask("ROLLBACK") == "+OK"


def test_a_reply_is_bounded(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_commands, "BATCH_BYTES_MAX", 1 << 20)
    with Wire(server.address[1]) as wire:
        wire.ask("BUCKET.CREATE", "b", "INDEXES", '{"$vector":{"field":"v","dimensions":1,"distance":"cosine"}}')
        row = {"v": [1.0], "text": "x" * 400_000}
        for _ in range(3):
            assert wire.ask("BUCKET.INSERT", "b", "DOCS", bson.encode(row)).startswith("[")
        told = "-ERR The documents are more than 1 MiB: ask for fewer by TOP, or for a part of each by PROJECTION"
        assert wire.ask("BUCKET.VECTOR", "b", "v", "[1]") == told
        assert wire.ask("BUCKET.VECTOR", "b", "v", "[1]", "TOP", 2).count('["1", ') == 2
        assert wire.ask("BUCKET.VECTOR", "b", "v", "[1]", "PROJECTION", '{"v":1}').count('["1", ') == 3


def test_an_index_tells_what_it_finds_and_that_it_is_to_be_made_anew() -> None:
    drop_memory("vector-life")
    store = MemoryStore("vector-life", clock=SystemClock())
    vectors = make_clusters(1_200, 8, seed=5)
    rows = [{"id": bson.ObjectId(f"{place:024x}"), "v": row["v"]} for place, row in enumerate(as_rows(vectors))]
    with (
        wormdb.connect("memory://vector-life", settings=Settings(forward="manual")) as database,
        running(store) as server,
    ):
        made: Any = redis.Redis(port=server.address[1], protocol=3, decode_responses=True)
        with made as client:
            client.execute_command("BUCKET.CREATE", "things")
            things = database["things"]
            things.insert_many(rows[:600])
            things.create_vector_index("v", dimensions=8, name="byVector")
            about = ["BUCKET.INDEX", "DESCRIBE", "things", "byVector"]
            described = client.execute_command(*about)
            assert described["statistics"] == {"cardinality": 600, "recall": things.describe_index("byVector").recall}
            things.insert_many(rows[600:])
            things.forward()
            analyze = ["BUCKET.INDEX", "ANALYZE", "things", "byVector"]
            tasks = ["BUCKET.INDEX", "TASKS", "things", "byVector"]
            assert client.execute_command(*analyze) == "OK"
            waiting = {"kind": "RENEW", "status": "WAITING", "error": ""}
            assert client.execute_command(*tasks) == {"renew-byVector": waiting}
            things.refresh()
            things.build_index("byVector")
            assert client.execute_command(*analyze) == "OK"
            assert client.execute_command(*tasks) == {}
            assert client.execute_command(*about)["statistics"]["cardinality"] == 1_200
