"""A mapping comes while somebody writes by what was there before it: no document may miss it, or have it twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.rig import HookStore
from tests.versions.rig import World, database_on, schema_of, shown
from tests.versions.test_versions import applied, filled
from wormdb.api.calls import Author
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.load import BulkOutcome, attach, open_job
from wormdb.errors import ConflictError
from wormdb.schema.load import load_schema
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.schema.model import Schema


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    ensure_conditions(World(), SeededChance(0))


def unversioned(**more: Any) -> Schema:
    """A model that says nothing of its version: a mapping may leave it as it is."""
    fields = {name: {"type": "any"} for name in ("a", "b")}
    model: dict[str, Any] = {"path": "@things/(id:string)", "fields": fields, "indexes": {"byA": {"field": "a"}}}
    return load_schema({"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model | more}})


def counted() -> World:
    """Documents of such a model, in a block."""
    world = World()
    database = database_on(world, unversioned())
    database.apply_schema()
    things = database.model("Thing")
    for number in range(4):
        things.insert({"id": f"t{number}", "a": number})
    database.forward(["Thing"])
    return world


def numbers(world: World) -> dict[str, int]:
    """What a new process finds."""
    things = database_on(world, unversioned(), seed=99).model("Thing")
    return {one["id"]: one["a"] for one in things.scan()}


def grown(world: World, schema: Schema, by: int, *, seed: int) -> None:
    """A mapping that must come exactly once."""
    database_on(world, schema, seed=seed).apply_schema(mappings={"Thing": {"$inc": {"a": by}}})


@pytest.mark.parametrize("is_later", [False, True])
def test_a_large_batch_of_an_older_program_is_mapped(is_later: bool) -> None:
    """Whether the version comes before the batch, or after the batch was checked."""
    world = World()
    filled(world)
    store = HookStore(world)
    things = database_on(store, schema_of(1), seed=5, stage_bytes=2000).model("Thing")
    things.find_by_id("t1")

    def before(verb: str, key: str) -> None:
        if verb == "put" and key.endswith(".parquet"):
            store.before = lambda *_: None
            applied(world)

    if is_later:
        store.before = before
    else:
        applied(world)
    things.insert_many([{"id": f"n{number}", "a": number, "b": "x" * 500} for number in range(20)])
    found = {one["id"]: shown(one) for one in database_on(world, schema_of(2), seed=9).model("Thing").scan()}
    assert len(found) == 26
    assert all(one["n"] == {"x": 1} and "a" not in one for one in found.values())


def same(world: World) -> None:
    """The model stays."""
    grown(world, unversioned(), 100, seed=3)


def there_and_back(world: World) -> None:
    """The model becomes another, and the one of before again."""
    grown(world, unversioned(indexes={}), 50, seed=3)
    grown(world, unversioned(), 50, seed=4)


@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("come", [same, there_and_back])
def test_a_job_does_not_bring_documents_of_before_a_mapping(come: Callable[[World], None], is_forwarded: bool) -> None:
    world = counted()
    access = database_on(world, unversioned(), seed=2).model("Thing")._access
    spec = access.job_spec("load", "bulk", Author.of(None), on_conflict="replace", overwrite=False)
    target = open_job(access.ledger, spec)
    assert not isinstance(target, BulkOutcome)
    task = BulkTask(access.ledger, target, access.writer, 0)
    task.add(access.writer.inserts([{"id": "new", "a": 10}, {"id": "t1", "a": 10}]).operations)
    report = task.report()
    come(world)
    if is_forwarded:
        for _ in range(3):
            database_on(world, unversioned(), seed=8).forward(["Thing"])
    with pytest.raises(ConflictError, match="definition"):
        attach(access.ledger, target, [report], access.writer, spec)
    assert numbers(world) == {f"t{number}": 100 + number for number in range(4)}


def test_two_who_bring_the_same_mapping_at_once() -> None:
    world = counted()
    store = HookStore(world)
    database = database_on(store, unversioned(), seed=2)

    def before(verb: str, key: str) -> None:
        if verb == "put" and "/committed/" in key:
            store.before = lambda *_: None
            same(world)

    store.before = before
    with pytest.raises(ConflictError):
        database.apply_schema(mappings={"Thing": {"$inc": {"a": 100}}})
    assert numbers(world) == {f"t{number}": 100 + number for number in range(4)}


@pytest.mark.parametrize("seconds", [0, 120])
@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("place", range(4))
def test_what_others_write_while_a_function_migrates_is_not_lost(place: int, is_forwarded: bool, seconds: int) -> None:
    """At any document, brought forward or not, and whether this process has to look at the root again or not."""
    world = counted()
    others = database_on(world, unversioned(), seed=4).model("Thing")
    seen: list[str] = []

    def migrate(document: dict[str, Any]) -> dict[str, Any]:
        seen.append(document["id"])
        if len(seen) == place + 1:
            others.save({"id": "t0", "a": 50})
            others.insert({"id": "t9", "a": 60})
            others.delete("t3")
            if is_forwarded:
                others.forward()
            world.manual.advance(seconds)
        return {**document, "a": document["a"] + 100}

    database_on(world, unversioned(), seed=3).apply_schema(migrate={"Thing": migrate})
    assert numbers(world) == {"t0": 150, "t1": 101, "t2": 102, "t9": 160}
    database_on(world, unversioned(), seed=6).forward()
    assert numbers(world) == {"t0": 150, "t1": 101, "t2": 102, "t9": 160}
