"""Versions of models: which are frozen, what older programs may do, what is shown of the past."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from tests.versions.rig import World, database_on, schema_of, shown
from wormdb.api import guard
from wormdb.api.calls import Author
from wormdb.bql.parse import parse_filter
from wormdb.engine.commit import head
from wormdb.engine.commit.operations import Pending
from wormdb.engine.commit.turns import GroupCommit, _Ticket
from wormdb.errors import ConflictError, InvalidRequestError, SchemaMismatchError, UniqueViolationError
from wormdb.format.event import SchemaChanged
from wormdb.query.execute.answer import run_plan
from wormdb.query.planner.planner import candidates
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource
from wormdb.schema.load import load_schema
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from wormdb.api.database import Database
    from wormdb.schema.model import Schema

SPLIT = {"$rename": {"a": "full"}, "$set": {"n.x": 1}, "$unset": {"b": ""}}


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    ensure_conditions(World(), SeededChance(0))


def filled(world: World, count: int = 6, **more: Any) -> Database:
    """A process with version 1, and documents in a block and in the tail."""
    database = database_on(world, schema_of(1, **more))
    database.apply_schema()
    things = database.model("Thing")
    for number in range(count):
        things.insert({"id": f"t{number}", "a": number, "b": "gone"})
        if number == count // 2:
            database.forward(["Thing"])
    return database


def applied(world: World, version: int = 2, mapping: dict[str, Any] | None = None) -> Database:
    """A process with a newer version, which it has applied."""
    database = database_on(world, schema_of(version), seed=version)
    database.apply_schema(mappings={"Thing": SPLIT if mapping is None else mapping})
    return database


def finish(database: Database) -> int:
    """Forward until nothing is left to do; how often that was."""
    for times in range(1, 50):
        database.forward(["Thing"])
        (status,) = database.status(["Thing"])
        if not status.older_blocks and all(index.state == "ready" for index in status.indexes):
            return times
    raise AssertionError("it does not end")


# --- versions ---


def test_a_version_that_was_applied_is_frozen() -> None:
    world = World()
    filled(world)
    changed = schema_of(1, fields={"a": {"type": "string"}}, indexes={})
    with pytest.raises(InvalidRequestError, match="Thing version 1 is frozen") as caught:
        database_on(world, changed).apply_schema()
    assert "raise it to 2" in str(caught.value)
    with pytest.raises(InvalidRequestError, match="frozen"):
        database_on(world, schema_of(1)).apply_schema(mappings={"Thing": SPLIT})


def test_what_leaves_documents_alone_needs_no_version() -> None:
    world = World()
    filled(world)
    database = database_on(world, schema_of(1, indexes={"byB": {"field": "b"}}, description="things"))
    database.apply_schema()
    finish(database)
    (status,) = database.status(["Thing"])
    assert (status.version, status.older_blocks) == (1, 0)
    assert database.model("Thing").count({"b": "gone"}) == 6


def test_the_database_counts_versions_that_nobody_names() -> None:
    world = World()
    first = load_schema(without_version(schema_of(1)))
    database_on(world, first).apply_schema()
    second = load_schema(without_version(schema_of(2)))
    plan = database_on(world, second).plan_schema()
    assert [(one.version_from, one.version_to) for one in plan.models] == [(1, 2)]
    database_on(world, second).apply_schema()
    database_on(world, second).apply_schema(mappings={"Thing": {"$set": {"s": 1}}})
    (status,) = database_on(world, second).status(["Thing"])
    assert status.version == 3


def without_version(schema: Schema) -> dict[str, Any]:
    written = schema.to_json()
    del written["models"]["Thing"]["version"]
    return written


def test_an_older_version_is_left_alone_when_it_is_applied_again() -> None:
    world = World()
    old = filled(world)
    newest = applied(world)
    assert old.apply_schema() == {}
    (status,) = newest.status(["Thing"])
    assert status.version == 2
    published = database_on(world, None).schema
    assert published is not None
    assert published.models["Thing"].version == 2
    with pytest.raises(InvalidRequestError, match="the database has version 2 already"):
        database_on(world, schema_of(1, fields={"z": {"type": "string"}}, indexes={})).apply_schema()


# --- what is refused before anything is written ---


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        ({"$currentDate": {"s": True}}, "time of day"),
        ({"$setOnInsert": {"s": 1}}, "whether a document is new"),
        ({"$set": {"_id": 1}}, "id of a document never changes"),
        ({"$set": {"a.$": 1}}, "no filter"),
        ({"$unknown": {"a": 1}}, "no operator"),
        ({"$inc": {"b": 1}}, "document"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(mapping: dict[str, Any], reason: str) -> None:
    world = World()
    filled(world)
    before = [found.key for page in world.list("things/") for found in page.objects]
    with pytest.raises(InvalidRequestError, match=reason):
        applied(world, mapping=mapping)
    assert [found.key for page in world.list("things/") for found in page.objects] == before


def test_documents_that_would_not_fit_are_named() -> None:
    world = World()
    filled(world)
    schema = schema_of(2, fields={"a": {"type": "string", "required": True}}, indexes={})
    with pytest.raises(InvalidRequestError, match="mapping to the new version") as caught:
        database_on(world, schema).apply_schema(mappings={"Thing": {"$unset": {"a": ""}}})
    assert [problem.path for problem in caught.value.problems] == [f'document "t{number}"' for number in range(6)]


def test_a_mapping_for_no_model_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no such model"):
        database_on(World(), schema_of(1)).apply_schema(mappings={"Think": {}})
    with pytest.raises(InvalidRequestError, match="one of them is enough"):
        database_on(World(), schema_of(1)).apply_schema(mappings={"Thing": {}}, migrate={"Thing": dict})


# --- lazily, and then written again ---


def test_everything_is_shown_at_once_and_blocks_are_written_again() -> None:
    world = World()
    filled(world)
    database = applied(world)
    things = database.model("Thing")
    expected = {f"t{number}": {"full": number, "n": {"x": 1}} for number in range(6)}
    assert {one["id"]: shown(one) for one in things.scan()} == expected
    database._ledger("things/")._advance.run()
    (status,) = database.status(["Thing"])
    assert status.older_blocks > 0
    assert things.count({"n.x": 1}) == 6
    finish(database)
    files = database.model("Thing").parquet_files()
    assert (files.version, files.older) == (2, 0)
    assert {one["id"]: shown(one) for one in database.model("Thing").scan()} == expected
    assert [one["id"] for one in things.find({"n.x": 1}, strategy="index_lookup")] == sorted(expected)


def test_a_warm_process_does_not_believe_what_it_decoded_before() -> None:
    world = World()
    things = filled(world).model("Thing")
    for _ in range(2):
        assert things.aggregate(sum="a", filter={"a": {"$gte": 0}}) == {"sum": 15}
        assert [one["a"] for one in things.find({"a": {"$lt": 2}})] == [0, 1]
        assert shown(things.find_by_id("t0") or {})["a"] == 0
    database = applied(world, mapping={"$inc": {"a": 10}})
    for _ in range(2):
        assert things.aggregate(sum="a", filter={"a": {"$gte": 0}}) == {"sum": 75}
        assert [one["a"] for one in things.find({"a": {"$lt": 12}})] == [10, 11]
        assert shown(things.find_by_id("t0") or {})["a"] == 10
        database.forward(["Thing"])


def test_rows_that_are_merged_are_mapped_once() -> None:
    world = World()
    filled(world)
    database = applied(world, mapping={"$inc": {"a": 10}})
    things, advance = database.model("Thing"), database._ledger("things/")._advance
    for number in range(8):
        things.insert({"id": f"u{number}", "a": 1})
        advance.run()
    assert things._ledger.view().place is not None
    assert database.status(["Thing"])[0].runs < 8
    assert database_on(world, schema_of(2)).model("Thing").aggregate(sum="a") == {"sum": 15 + 60 + 8}
    finish(database)
    assert database_on(world, schema_of(2)).model("Thing").aggregate(sum="a") == {"sum": 15 + 60 + 8}


@pytest.fixture
def old_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes do not read the root when an entry says that an index is ready, as those of before."""
    monkeypatch.setattr(head.Head, "_lacks_index", lambda _: False)


@pytest.mark.usefixtures("old_root")
def test_an_index_of_an_older_root_is_not_believed() -> None:
    world = World()
    old = filled(world)
    old.forward(["Thing"])
    things = old.model("Thing")
    assert [one["id"] for one in things.find({"a": 2}, strategy="index_lookup")] == ["t2"]
    finish(applied(world, mapping={"$inc": {"a": 10}}))
    view = things._ledger.view()
    assert view.is_ahead, "it stands on the root of before, and knows that the index is ready again"
    assert view.definition.indexes.ready
    source = EngineSource(view, things._ledger)
    for value, expected in ((2, []), (12, ["t2"])):
        request = QueryRequest(parse_filter({"a": value}))
        for plan in candidates(request, source.facts):
            assert [hit.document["_id"] for hit in run_plan(plan.root, request, source)] == expected


@pytest.mark.usefixtures("old_root")
def test_owners_in_an_older_root_are_not_believed() -> None:
    """A process that stands on the root of before a mapping knows that the unique index is ready again."""
    world = World()
    indexes = {"byA": {"field": "a", "unique": True}}
    old = filled(world, indexes=indexes)
    old.forward(["Thing"])
    things = old.model("Thing")
    assert things.count({"a": 2}) == 1
    newer = database_on(world, schema_of(2, indexes=indexes), seed=7)
    newer.apply_schema(mappings={"Thing": {"$inc": {"a": 10}}})
    finish(newer)
    things.count()
    assert things._ledger.view().is_ahead, "it stands on the root of before"
    with pytest.raises(UniqueViolationError):
        things.insert({"id": "taken", "a": 2})  # its program is the older one: as a mapped document it has 12
    things.insert({"id": "free", "a": -8})
    assert [one["id"] for one in newer.model("Thing").find({"a": 2})] == ["free"]
    assert [one["id"] for one in newer.model("Thing").find({"a": 12})] == ["t2"]


def test_history_and_the_past_are_as_they_were_written() -> None:
    world = World()
    old = filled(world)
    number = old.model("Thing")._ledger.view().number
    database = applied(world)
    finish(database)
    things = database.model("Thing")
    (first,) = things.get_history("t0")
    assert shown(first.snapshot or {}) == {"a": 0, "b": "gone"}
    past = things.find_by_id("t0", as_of=number)
    assert past is not None
    assert shown(past) == {"a": 0, "b": "gone"}
    now = things.find_by_id("t0")
    assert now is not None
    now["s"] = 1
    things.save(now)
    back = things.rollback("t0", to_seq=1)
    assert shown(back) == {"full": 0, "n": {"x": 1}}


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_block_that_is_gone_is_made_again_from_history(is_rewritten: bool) -> None:
    world = World()
    filled(world)
    database = applied(world, mapping={"$inc": {"a": 10}})
    if is_rewritten:
        finish(database)
    else:
        database._ledger("things/")._advance.run()
    world.delete(database.model("Thing").parquet_files().files[0].key)
    (repaired,) = database_on(world, schema_of(2), seed=5).repair(["Thing"])
    assert (repaired.lost, repaired.left) == ((), ())
    again = database_on(world, schema_of(2), seed=6)
    assert [one["a"] for one in again.model("Thing").scan()] == [10, 11, 12, 13, 14, 15]
    (verified,) = again.verify(["Thing"])
    assert not verified.findings


def test_a_unique_index_over_what_is_mapped_finds_duplicates_first() -> None:
    world = World()
    indexes = {"byA": {"field": "a", "unique": True}}
    filled(world, indexes=indexes)
    newer = schema_of(2, indexes=indexes)
    with pytest.raises(InvalidRequestError, match="a=1 is on 6 documents"):
        database_on(world, newer).apply_schema(mappings={"Thing": {"$set": {"a": 1}}})
    database = database_on(world, newer)
    database.apply_schema(mappings={"Thing": {"$inc": {"a": 10}}})
    finish(database)
    with pytest.raises(UniqueViolationError):
        database.model("Thing").insert({"id": "more", "a": 12})


# --- programs of both versions ---


def test_an_older_program_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    old = filled(world)
    loaded = old.model("Thing").find_by_id("t1")
    newest = applied(world)
    things, newer = old.model("Thing"), newest.model("Thing")
    guard.warn_older.cache_clear()  # a process says it once, and an earlier test may have been the one
    with caplog.at_level(logging.WARNING):
        things.insert({"id": "new", "a": "name", "b": "gone"})
    assert "the newest is 2" in caplog.text
    assert shown(newer.find_by_id("new") or {}) == {"full": "name", "n": {"x": 1}}
    assert loaded is not None
    loaded["a"] = "edited"
    things.save(loaded)
    assert shown(newer.find_by_id("t1") or {}) == {"full": "edited", "n": {"x": 1}}
    things.update_one({"id": "t2"}, {"$set": {"s": 1}})
    assert shown(newer.find_by_id("t2") or {}) == {"full": 2, "n": {"x": 1}, "s": 1}
    things.replace_one({"id": "t3"}, {"a": "whole"})
    assert shown(newer.find_by_id("t3") or {}) == {"full": "whole", "n": {"x": 1}}
    with things.batch() as batch:
        batch.insert({"id": "b1", "a": 1})
    assert shown(newer.find_by_id("b1") or {}) == {"full": 1, "n": {"x": 1}}
    things.import_records([{"id": "i1", "a": 1}])
    assert shown(newer.find_by_id("i1") or {}) == {"full": 1, "n": {"x": 1}}
    with pytest.raises(SchemaMismatchError):
        things._access.job_spec("load", "bulk", Author.of(None), on_conflict="error", overwrite=False)


def test_without_a_mapping_an_older_program_is_refused() -> None:
    world = World()
    old = filled(world)
    database_on(world, schema_of(2)).apply_schema()
    with pytest.raises(SchemaMismatchError):
        old.model("Thing").insert({"id": "more", "a": 1})


def test_a_mapping_shares_its_entry_with_nobody() -> None:
    """Else a batch of another thread would be refused that has nothing to do with it."""
    mapping = SchemaChanged(definition=b"{}", mapping=b"{}")
    group = GroupCommit(lambda batches, _: [], ManualClock(), lambda _: "")
    waiting = [Pending("a"), Pending("b"), Pending("map", events=(mapping,)), Pending("c"), Pending("d")]
    group._queue = [_Ticket(pending, 0.0) for pending in waiting]
    taken = [[ticket.pending.id for ticket in group._take(group._queue[0])] for _ in range(3)]
    assert taken == [["a", "b"], ["map"], ["c", "d"]]


def test_readable_files_show_the_newest_version() -> None:
    world = World()
    old = filled(world, path="@things/(id:string)/[data].json")
    old.files.sync("Thing")
    schema = schema_of(2, path="@things/(id:string)/[data].json")
    database = database_on(world, schema, seed=2)
    database.apply_schema(mappings={"Thing": SPLIT})
    database.forward(["Thing"])
    for number in range(6):
        body = json.loads(world.get(f"things/t{number}/data.json").body)
        assert (body["full"], body["n"], "a" in body) == (number, {"x": 1}, False)
    (verified,) = database.verify(["Thing"])
    assert not verified.findings


# --- functions ---


def migrated(document: dict[str, Any]) -> dict[str, Any]:
    """What a user might write."""
    assert document["id"].startswith(("t", "r"))
    rest = {name: value for name, value in document.items() if name not in ("a", "b")}
    return {**rest, "s": f"was {document.get('a')}"}


def test_a_function_makes_every_document_anew() -> None:
    world = World()
    old = filled(world)
    database = database_on(world, schema_of(2))
    database.apply_schema(migrate={"Thing": migrated})
    expected = {f"t{number}": {"s": f"was {number}"} for number in range(6)}
    assert {one["id"]: shown(one) for one in database.model("Thing").scan()} == expected
    finish(database)
    assert {one["id"]: shown(one) for one in database.model("Thing").scan()} == expected
    assert database.model("Thing").count({"s": "was 3"}) == 1
    assert [entry.seq for entry in database.model("Thing").get_history("t0")] == [1, 2]
    with pytest.raises(SchemaMismatchError):
        old.model("Thing").insert({"id": "more", "a": 1})
    (verified,) = database.verify(["Thing"])
    assert not verified.findings


def test_a_function_that_fails_names_the_document_and_changes_nothing() -> None:
    world = World()
    filled(world)

    def fails(document: dict[str, Any]) -> dict[str, Any]:
        if document["a"] == 4:
            raise KeyError("colour")
        return migrated(document)

    with pytest.raises(InvalidRequestError, match=r"document 't4' cannot be migrated.*KeyError"):
        database_on(world, schema_of(2)).apply_schema(migrate={"Thing": fails})
    again = database_on(world, schema_of(1))
    assert shown(again.model("Thing").find_by_id("t4") or {}) == {"a": 4, "b": "gone"}
    database_on(world, schema_of(2), seed=3).apply_schema(migrate={"Thing": migrated})


@pytest.mark.parametrize(
    "function", [lambda document: {**document, "id": "other"}, lambda document: None, lambda document: {"a": object()}]
)
def test_what_a_function_may_not_do(function: Any) -> None:
    world = World()
    filled(world)
    with pytest.raises(InvalidRequestError, match="cannot be migrated"):
        database_on(world, schema_of(2)).apply_schema(migrate={"Thing": function})


def test_what_rivals_write_meanwhile_is_migrated_too() -> None:
    world = World()
    old = filled(world)
    things = old.model("Thing")
    done: list[str] = []

    def beside(document: dict[str, Any]) -> dict[str, Any]:
        if not done:
            done.append("once")
            things.insert({"id": "r1", "a": "rival"})
            things.update_one({"id": "t2"}, {"$set": {"a": "changed"}})
            things.delete("t5")
            old.forward(["Thing"])
        return migrated(document)

    database = database_on(world, schema_of(2))
    database.apply_schema(migrate={"Thing": beside})
    found = {one["id"]: shown(one)["s"] for one in database.model("Thing").scan()}
    assert found == {"t0": "was 0", "t1": "was 1", "t2": "was changed", "t3": "was 3", "t4": "was 4", "r1": "was rival"}
    (verified,) = database.verify(["Thing"])
    assert not verified.findings


def test_two_who_apply_at_once() -> None:
    world = World()
    filled(world)
    database = database_on(world, schema_of(2))

    def rival(document: dict[str, Any]) -> dict[str, Any]:
        if not database_on(world, schema_of(2), seed=9).schema_changes():
            return migrated(document)
        database_on(world, schema_of(2), seed=9).apply_schema(mappings={"Thing": SPLIT})
        return migrated(document)

    with pytest.raises(ConflictError):
        database.apply_schema(migrate={"Thing": rival})
    assert shown(database.model("Thing").find_by_id("t0") or {}) == {"full": 0, "n": {"x": 1}}
