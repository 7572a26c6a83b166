"""What a transaction sees of documents that end by themselves, if it wrote them: what every other read sees."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.test_expiry import IDS, World, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.transaction import TransactionCollection

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("insert", "save", "save", "date", "undate", "delete", "again")),
        st.sampled_from(IDS[:3]),
        st.sampled_from((-5, 0, 50, None)),
    ),
    min_size=1,
    max_size=8,
)


def told(call: Callable[[], Any]) -> Any:
    """What a call gives, or the name of its error."""
    try:
        given = call()
    except wormdb.WormError as error:
        return type(error).__name__
    return getattr(given, "modified", given if isinstance(given, bool) else None)


def step(
    things: Collection[Document] | TransactionCollection[Document],
    now: datetime,
    kept: dict[str, Document],
    drawn: tuple[str, str, Any],
) -> Any:
    """Do one thing, and look at everything; what was told and seen."""
    kind, name, seconds = drawn
    at = {} if seconds is None else {"at": now + timedelta(seconds=seconds)}

    def keep(document: Document) -> None:
        kept[name] = document

    calls: dict[str, Callable[[], Any]] = {
        "insert": lambda: keep(things.insert({"_id": name, "n": 1, "kind": name, **at})),
        "save": lambda: keep(things.save({"_id": name, "n": 2, "kind": name, **at})),
        "date": lambda: things.update_one({"_id": name}, {"$set": at or {"n": 3}}),
        "undate": lambda: things.update_one({"_id": name}, {"$unset": {"at": 1}}),
        "delete": lambda: things.delete(name),
        "again": lambda: keep(things.save(kept[name])) if name in kept else None,
    }
    return (
        told(calls[kind]),
        [one["id"] for one in things.scan()],
        sorted(one["id"] for one in things.find({"n": {"$gte": 2}})),
        [things.find_by_id(each) is not None for each in IDS[:3]],
        things.count(),
        [things.count({"kind": each}) for each in IDS[:3]],
    )


@pytest.mark.parametrize("is_indexed", [False, True])
@settings(max_examples=60)
@given(drawn=STEPS)
def test_a_transaction_sees_of_its_own_writes_what_other_reads_see(
    is_indexed: bool, drawn: list[tuple[str, str, Any]]
) -> None:
    """The same calls, at one moment, with and without a transaction."""
    worlds = [World(), World()]
    for world in worlds:
        world.collection().expire("at")
        if is_indexed:
            world.collection().create_index("kind", unique=True)
            world.collection().build_index("kind")
        put(world, IDS[0], -1, kind=IDS[0])
        put(world, IDS[1], 100, kind=IDS[1])
    plain, other = worlds
    kept: dict[str, Document] = {}
    expected = [step(plain.collection(), plain.now, kept, one) for one in drawn]
    kept = {}
    with other.databases[0].transaction() as transaction:
        seen = [step(transaction["things"], other.now, kept, one) for one in drawn]
    assert seen == expected
    for process in range(2):
        rows = [[dict(one) for one in world.collection(process).scan()] for world in worlds]
        assert rows[0] == rows[1]
    for world in worlds:
        world.collection().forward()
        assert world.collection(1).count() == expected[-1][4]
        world.close()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("is_indexed", [False, True])
@settings(max_examples=30)
@given(drawn=STEPS)
def test_a_transaction_that_makes_a_collection_sees_of_it_what_other_reads_see(
    several: bool, is_indexed: bool, drawn: list[tuple[str, str, Any]]
) -> None:
    """The rule by which documents end comes with the first of them, in the same commit."""
    indexes = {"kind": {"fields": ["kind"], "unique": True}} if is_indexed else {}
    fields = {"at": {"type": "datetime"}, "kind": {"type": "string"}}
    note = {"path": "@notes/(id:string)", "expireAt": "at", "fields": fields, "indexes": indexes}
    schema = {"schemaVersion": "1.0", "models": {"Note": note}}
    worlds = [World(), World()]
    databases = [wormdb.connect(world.store, schema=schema, clock=world.clock) for world in worlds]
    kept: dict[str, Document] = {}
    expected = [step(databases[0].model("Note"), worlds[0].now, kept, one) for one in drawn]
    kept = {}
    with databases[1].transaction() as transaction:
        if several:
            transaction["other"].insert({"_id": "o"})
        seen = [step(transaction.model("Note"), worlds[1].now, kept, one) for one in drawn]
    assert seen == expected
    for database in databases:
        database.forward()
        with wormdb.connect(database.store, schema=schema, clock=worlds[0].clock) as fresh:
            assert [one["id"] for one in fresh.model("Note").scan()] == expected[-1][1]
            assert [finding for found in fresh.verify() for finding in found.findings] == []
        database.close()


def test_an_id_that_ended_is_free_in_the_transaction_that_makes_its_collection() -> None:
    world = World()
    model = {"path": "@notes/(id:string)", "expireAt": "at", "fields": {"at": {"type": "datetime"}}}
    schema = {"schemaVersion": "1.0", "models": {"Note": model}}
    with wormdb.connect(world.store, schema=schema, clock=world.clock) as database:
        with database.transaction() as transaction:
            notes = transaction.model("Note")
            notes.insert({"_id": "d0", "at": world.now - timedelta(seconds=1)})
            assert notes.count() == 0
            notes.insert({"_id": "d0", "text": "again"})
            assert notes.count() == 1
        assert [one.op for one in database.model("Note").watch()] == ["create", "expire", "create"]
        assert [one["text"] for one in database.model("Note").scan()] == ["again"]


@pytest.mark.parametrize("mode", ["readwrite", "append"])
def test_what_a_transaction_writes_too_late_ends_at_once(mode: str) -> None:
    """An end is not a change that the mode forbids."""
    world = World()
    model = {"path": "@notes/(id:string)", "expireAt": "at", "mode": mode, "fields": {"at": {"type": "datetime"}}}
    database = wormdb.connect(
        world.store, schema={"schemaVersion": "1.0", "models": {"Note": model}}, clock=world.clock
    )
    notes = database.model("Note")
    notes.insert({"_id": "first"})
    with database.transaction() as transaction:
        own = transaction.model("Note")
        own.insert({"_id": "d0", "at": world.now - timedelta(seconds=1)})
        assert (own.find_by_id("d0"), own.count()) == (None, 1)
        own.insert({"_id": "d0"})
        assert own.count() == 2
    assert [one.op for one in notes.watch()] == ["create", "create", "expire", "create"]
    assert sorted(one["id"] for one in notes.scan()) == ["d0", "first"]
    database.close()


@pytest.mark.parametrize("moves", [False, True])
def test_a_transaction_over_several_collections_keeps_one_moment_for_its_own_writes(moves: bool) -> None:
    """It is a later one if the transaction has to go on to a newer state, to read another collection."""
    world = World()
    world.collection().expire("at")
    other = world.databases[0]["other"]
    other.insert({"_id": "o"})
    with world.databases[0].transaction() as transaction:
        own = transaction["things"]
        own.insert({"_id": "d0", "at": world.now - timedelta(seconds=1)})
        own.insert({"_id": "d1", "at": world.now + timedelta(seconds=2)})
        assert [own.exists(name) for name in ("d0", "d1")] == [False, True]
        world.clock.advance(3)
        assert [own.exists(name) for name in ("d0", "d1")] == [False, True]
        if moves:
            world.collection(1).insert({"_id": "d2"})
            world.databases[1]["other"].insert({"_id": "p"})
        assert transaction["other"].exists("p") == moves
        assert [own.exists(name) for name in ("d0", "d1")] == [False, not moves]
        transaction["other"].insert({"_id": "q"})
    assert [one["id"] for one in world.collection(1).scan()] == (["d2"] if moves else [])
    world.collection().forward()
    ended = [one.id for one in world.collection(1).watch() if one.op == "expire"]
    assert sorted(ended) == ["d0", "d1"]
    world.close()
