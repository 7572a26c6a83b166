"""Documents that end by themselves: no read sees them from that moment of the store's time on, and they end once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    SchemaError,
    SchemaMismatchError,
    UniqueViolationError,
)
from wormdb.query.request import Strategy
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

START = datetime(2026, 1, 1, tzinfo=UTC)
IDS = [f"d{number}" for number in range(6)]
STAGE_BYTES = 2_000
"""A batch of twice that comes as blocks, which the log attaches."""
FILTERS: tuple[dict[str, Any], ...] = ({}, {"n": {"$gte": 2}}, {"n": 3}, {"kind": "a"}, {"at": {"$exists": True}})


@dataclass
class World:
    """One bucket, several processes, one clock, and what there should be."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(int(START.timestamp() * 1000)))
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.databases = [self.opened() for _ in range(2)]

    def opened(self) -> Database:
        self.made += 1
        return wormdb.connect(
            self.store,
            clock=self.clock,
            chance=SeededChance(self.made),
            settings=Settings(forward="manual", stage_bytes=STAGE_BYTES),
        )

    @property
    def now(self) -> datetime:
        return START + timedelta(milliseconds=self.clock.now_ms() - int(START.timestamp() * 1000))

    def collection(self, process: int = 0) -> Collection[Document]:
        return self.databases[process]["things"]

    def alive(self) -> dict[str, dict[str, Any]]:
        return {key: one for key, one in self.documents.items() if not is_over(one.get("at"), self.now)}

    def close(self) -> None:
        for one in self.databases:
            one.close()


def is_over(value: object, now: datetime) -> bool:
    """The rule, written for the tests: a date is over when it has come; of several the first counts."""
    dates = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, datetime)]
    return any(one <= now for one in dates)


def seen_by(collection: Collection[Document]) -> None:
    """Warm what a process keeps: the next answers may come from it."""
    collection.count({"n": {"$gte": 2}})
    collection.find({}).to_list()


def matches(document: dict[str, Any], wanted: dict[str, Any]) -> bool:
    for name, condition in wanted.items():
        value = document.get(name)
        if condition == {"$exists": True}:
            if name not in document:
                return False
        elif isinstance(condition, dict):
            if value is None or value < condition["$gte"]:
                return False
        elif value != condition:
            return False
    return True


def check_answers(world: World, collection: Collection[Document]) -> None:
    """Whichever way it is asked: the documents that are not over, and no other."""
    alive = world.alive()
    for identity in IDS:
        found = collection.find_by_id(identity)
        assert (found is not None) == (identity in alive), identity
        assert collection.exists(identity) == (identity in alive)
    assert [one["id"] for one in collection.scan()] == sorted(alive)
    assert sorted(collection.to_arrow(["id"]).column("id").to_pylist()) == sorted(alive)
    assert collection.aggregate(count=True)["count"] == len(alive)
    assert sorted(collection.distinct("n")) == sorted({one["n"] for one in alive.values()})
    for wanted in FILTERS:
        expected = sorted(key for key, one in alive.items() if matches(one, wanted))
        assert sorted(one["id"] for one in collection.find(wanted)) == expected, wanted
        assert collection.count(wanted) == len(expected), wanted
        for strategy in get_args(Strategy):
            try:
                rows = [one["id"] for one in collection.find(wanted, strategy=strategy)]
            except InvalidRequestError:
                continue  # the plan is not possible for this filter
            assert sorted(rows) == expected, (wanted, strategy)


AT = st.one_of(
    st.none(),
    st.integers(-5, 15),
    st.lists(st.integers(0, 15), max_size=2),
    st.just("soon"),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.sampled_from(IDS), AT, st.integers(0, 4)),
        st.tuples(st.just("update"), st.sampled_from(IDS), AT, st.integers(0, 4)),
        st.tuples(st.just("many"), st.dictionaries(st.sampled_from(IDS), AT, min_size=3)),
        st.tuples(st.just("delete"), st.sampled_from(IDS)),
        st.tuples(st.just("pass"), st.integers(1, 15)),
        st.tuples(st.just("forward"), st.integers(0, 1)),
        st.tuples(st.just("index"), st.sampled_from(["n", "kind", "at"])),
        st.tuples(st.just("reopen")),
    ),
    max_size=14,
)


def take(world: World, step: tuple[Any, ...], process: int) -> None:
    collection = world.collection(process)
    match step:
        case ("save", identity, at, number):
            wanted = {"n": number, "kind": "ab"[number % 2], **dated(world, at)}
            collection.replace_one({"_id": identity}, wanted, upsert=True)
            world.documents[identity] = wanted
        case ("update", identity, at, number):
            is_there = identity in world.alive()
            change = {"n": number, **dated(world, at)}
            assert collection.update_one({"_id": identity}, {"$set": change}).matched_count == int(is_there)
            if is_there:
                world.documents[identity] = world.documents[identity] | change
        case ("many", rows):
            made = {key: {"n": 2, "kind": "a", **dated(world, at)} for key, at in rows.items()}
            save_staged(collection, made)
            world.documents |= made
        case ("delete", identity):
            assert collection.delete(identity) == (identity in world.alive())
            world.documents.pop(identity, None)
        case ("pass", seconds):
            world.clock.advance(seconds)
        case ("forward", process):
            world.collection(process).forward()
        case ("index", name):
            collection.create_index(name)
        case ("reopen",):
            world.databases[process] = world.opened()


def save_staged(collection: Collection[Document], documents: dict[str, dict[str, Any]]) -> None:
    """Save by a batch that is so large that it comes as blocks."""
    with collection.batch() as batch:
        for identity, values in documents.items():
            batch.save({"_id": identity, **values, "long": "x" * 2 * STAGE_BYTES})


def dated(world: World, at: Any) -> dict[str, Any]:
    return {} if at is None else {"at": date_of(world, at)}


def date_of(world: World, at: int | str | list[int]) -> Any:
    if isinstance(at, list):
        return [world.now + timedelta(seconds=one) for one in at]
    return at if isinstance(at, str) else world.now + timedelta(seconds=at)


@settings(max_examples=12)
@given(steps=STEPS, processes=st.lists(st.integers(0, 1), min_size=14, max_size=14))
def test_no_way_to_ask_shows_a_document_that_is_over(steps: list[tuple[Any, ...]], processes: list[int]) -> None:
    world = World()
    world.collection().expire("at")
    for step, process in zip(steps, processes, strict=False):
        seen_by(world.collection(1 - process))
        take(world, step, process)
        check_answers(world, world.collection(process))
        check_answers(world, world.collection(1 - process))
    world.collection().forward()
    ends = [one for one in world.collection(1).watch() if one.op == "expire"]
    assert len({(one.id, one.seq) for one in ends}) == len(ends)
    assert all(is_over((one.before or {}).get("at"), world.now) for one in ends)
    assert all(not one.findings for one in world.databases[0].verify())
    world.close()


@pytest.fixture
def world() -> World:
    made = World()
    made.collection().expire("at")
    return made


def put(world: World, identity: str, seconds: float, **more: Any) -> None:
    values = {"_id": identity, "at": world.now + timedelta(seconds=seconds), "n": 1, **more}
    world.collection().insert(values)
    world.documents[identity] = values


def test_a_document_ends_at_its_very_millisecond(world: World) -> None:
    put(world, "d0", 10)
    world.clock.advance(9.999)
    assert world.collection().count() == 1
    world.clock.advance(0.001)
    assert world.collection().count() == 0
    assert world.collection().find_by_id("d0") is None


def test_what_is_over_leaves_its_id_and_its_unique_values(world: World) -> None:
    things = world.collection()
    things.create_index("email", unique=True)
    put(world, "d0", 10, email="ada@example.org")
    with pytest.raises(UniqueViolationError):
        things.insert({"_id": "d1", "email": "ada@example.org"})
    world.clock.advance(10)
    things.insert({"_id": "d1", "email": "ada@example.org"})
    things.insert({"_id": "d0", "email": "other@example.org"})
    told = [(one.op, one.id, one.seq) for one in things.watch()]
    assert told == [("create", "d0", 1), ("expire", "d0", 2), ("create", "d1", 1), ("create", "d0", 3)]
    assert [one.op for one in things.get_history("d0")] == ["create", "expire", "create"]


def test_a_writer_that_read_it_in_time_comes_too_late(world: World) -> None:
    put(world, "d0", 10)
    held = world.collection(1).find_by_id("d0")
    assert held is not None
    world.clock.advance(10)
    held["n"] = 2
    with pytest.raises(ConflictError):
        world.collection(1).save(held)
    with pytest.raises(NotFoundError):
        world.collection().modify("d0", lambda one: one)
    assert world.collection().update_many({}, {"$set": {"n": 3}}).matched_count == 0
    assert world.collection().delete_many({}).deleted_count == 0


def test_two_that_remove_at_once_write_each_end_once(world: World) -> None:
    for number in range(6):
        put(world, f"d{number}", 5)
    first, second = (one["things"]._access.ledger for one in world.databases)
    second.view()
    world.clock.advance(5)
    assert first.expiry.remove() == 6
    assert second.expiry.remove() == 0
    world.collection(1).forward()
    assert [one.op for one in world.collection().watch()].count("expire") == 6


def test_transactions_and_snapshots_keep_the_moment_of_their_first_read(world: World) -> None:
    put(world, "d0", 2)
    with world.databases[0].snapshot(["things"]) as snapshot, world.databases[0].transaction() as transaction:
        assert transaction["things"].count() == snapshot["things"].count() == 1
        world.clock.advance(3)
        assert transaction["things"].count() == snapshot["things"].count() == 1
        assert world.collection().count() == 0
    with world.databases[0].transaction() as transaction:
        assert transaction["things"].find_by_id("d0") is None
        transaction["things"].insert({"_id": "d0", "n": 9})
    assert [one.op for one in world.collection().watch()] == ["create", "expire", "create"]


def test_a_transaction_cannot_change_what_is_over_when_it_commits(world: World) -> None:
    put(world, "d0", 2)
    transaction = world.databases[0].transaction().__enter__()
    held = transaction["things"].find_by_id("d0")
    assert held is not None
    held["n"] = 2
    transaction["things"].save(held)
    world.clock.advance(3)
    with pytest.raises(ConflictError):
        transaction.commit()
    assert world.collection().count() == 0


@pytest.mark.parametrize("forwards", [False, True])
def test_the_past_shows_what_was_seen_then(world: World, forwards: bool) -> None:
    put(world, "d0", 10)
    put(world, "d1", 100)
    early = world.now + timedelta(seconds=5)
    late = world.now + timedelta(seconds=15)
    world.clock.advance(20)
    if forwards:
        world.collection().forward()
    things = world.collection()
    assert [one["id"] for one in things.scan(as_of=early)] == ["d0", "d1"]
    assert [one["id"] for one in things.scan(as_of=late)] == ["d1"]
    assert [one["id"] for one in things.find({}, as_of=late)] == ["d1"]
    assert things.find_by_id("d0", as_of=late) is None
    assert things.find_by_id("d0", as_of=early) is not None
    assert things.count(as_of=3) == 2, "a number is what the log tells"


def test_a_cursor_that_is_resumed_shows_no_more_than_when_it_was_opened(world: World) -> None:
    put(world, "d0", 10)
    for number in range(1, 5):
        put(world, f"d{number}", 100)
    world.clock.advance(10)
    cursor = world.collection().cursor({}, batch_size=2)
    shown = [one["id"] for one in cursor.next_batch()]
    rest = [one["id"] for one in world.collection(1).resume(cursor.token)]
    assert [*shown, *rest] == ["d1", "d2", "d3", "d4"]


def test_without_expiry_documents_stay_again(world: World) -> None:
    put(world, "d0", 10)
    world.clock.advance(10)
    assert world.collection().count() == 0
    world.collection().expire(None)
    assert world.collection().count() == 1
    world.collection().forward()
    assert world.collection(1).count() == 1


def test_a_model_says_when_its_documents_end() -> None:
    world = World()
    model = {"path": "@notes/(id:string)", "ttl": "7d", "fields": {"text": {"type": "string"}}}
    schema = {"schemaVersion": "1.0", "models": {"Note": model}}
    database = wormdb.connect(world.store, schema=schema, clock=world.clock)
    notes = database.model("Note")
    notes.insert({"id": "n1", "text": "one"})
    notes.insert({"id": "n2", "text": "two"})
    world.clock.advance(6 * 86_400)
    notes.modify("n2", lambda one: one | {"text": "again"})
    world.clock.advance(86_400)
    assert [one["id"] for one in notes.find({})] == ["n2"]
    with pytest.raises(InvalidRequestError, match="says when its documents end"):
        database["notes"].expire("createdAt")
    notes.forward()
    assert [one.op for one in notes.watch()][-1] == "expire"
    schema = {"schemaVersion": "1.0", "models": {"Note": {name: model[name] for name in ("path", "fields")}}}
    changed = wormdb.connect(world.store, schema=schema, apply=True, clock=world.clock)
    world.clock.advance(100 * 86_400)
    assert changed.model("Note").count() == 1
    world.close()


def test_a_model_may_name_the_date(world: World) -> None:
    model = {"path": "@sessions/(id:string)", "expireAt": "until", "fields": {"until": {"type": "datetime"}}}
    with wormdb.connect(
        world.store, schema={"schemaVersion": "1.0", "models": {"Session": model}}, clock=world.clock
    ) as database:
        sessions = database.model("Session")
        sessions.insert({"id": "s", "until": world.now + timedelta(minutes=1)})
        sessions.insert({"id": "t", "until": None})
        world.clock.advance(60)
        assert [one["id"] for one in sessions.find({})] == ["t"]


def test_an_expiry_that_cannot_be_is_refused(world: World) -> None:
    things = world.collection()
    wrong: list[Any] = [("at", "soon"), (None, "7d"), (7, None), ("a..b", None)]
    for given_as in wrong:
        with pytest.raises(InvalidRequestError):
            things.expire(*given_as)


def test_reads_pay_for_expiry_only_where_there_is_one(world: World) -> None:
    plain = world.databases[0]["plain"]
    plain.insert({"_id": "p"})
    put(world, "d0", 10)
    asked = {}
    for name, identity in (("plain", "p"), ("things", "d0")):
        collection = world.databases[0][name]
        collection.forward()
        collection.find_by_id(identity)
        collection.count()
        before = world.databases[0].cost().gets
        collection.find_by_id(identity)
        collection.count()
        asked[name] = world.databases[0].cost().gets - before
    assert asked == {"plain": 2, "things": 2}, "one probe of the log each"


def test_an_index_of_pymongo_says_it_too(world: World) -> None:
    other = world.databases[0]["other"]
    for _ in range(2):
        made = other.create_index("at", expireAfterSeconds=3600)
        assert (made.name, made.state) == ("at", "ready")
    assert other._access.ledger.view().number == 2, "an index and a rule, once"
    other.insert({"_id": "d0", "at": world.now})
    world.clock.advance(3599)
    assert other.count() == 1
    world.clock.advance(1)
    assert other.count() == 0
    wrong: list[tuple[Any, Any]] = [("at", -1), ("at", "1h"), ("at", True), (["at", "b"], 5), ("_id", 5)]
    for fields, seconds in wrong:
        with pytest.raises(InvalidRequestError):
            world.databases[0]["third"].create_index(fields, expireAfterSeconds=seconds)
    for fields, seconds in (("at", 60), ("until", 3600)):
        with pytest.raises(InvalidRequestError, match=r"one rule counts.*expire\("):
            other.create_index(fields, expireAfterSeconds=seconds)
    assert [one.name for one in other.indexes()] == ["_id", "at"]


@dataclass
class Session:
    user: str
    id: str = ""
    worm_config: ClassVar[dict[str, Any]] = {"ttl": "1h"}


class Token(msgspec.Struct):
    until: datetime
    id: str = ""
    worm_config: ClassVar[dict[str, Any]] = {"expire_at": "until"}


class Ticket(pydantic.BaseModel):
    created: datetime
    id: str = ""
    worm_config: ClassVar[dict[str, Any]] = {"ttl": "1h", "expire_at": "created"}


def test_a_class_says_when_its_documents_end() -> None:
    world = World()
    database = world.databases[0]
    made: list[Any] = [
        database.model(Session).insert(Session("ada")),
        database.model(Token).insert(Token(world.now + timedelta(hours=1))),
        database.model(Ticket).insert(Ticket(created=world.now)),
    ]
    collections: list[Any] = [database.model(Session), database.model(Token), database.model(Ticket)]
    assert [one.count() for one in collections] == [1, 1, 1]
    world.clock.advance(3600)
    assert [one.count() for one in collections] == [0, 0, 0]
    assert [one.find_by_id(document.id) for one, document in zip(collections, made, strict=True)] == [None] * 3
    others: list[Any] = [world.databases[1].model(one) for one in (Session, Token, Ticket)]
    assert [one.count() for one in others] == [0, 0, 0]
    with pytest.raises(InvalidRequestError, match="says when its documents end"):
        collections[0].create_index("user", expireAfterSeconds=5)


def test_a_class_may_change_its_mind() -> None:
    world = World()
    sessions = world.databases[0].model(Session)
    made = sessions.insert(Session("ada"))
    longer: Any = dataclass(type("Session", (Session,), {"worm_config": {"ttl": "2h"}}))
    world.clock.advance(3600)
    assert sessions.count() == 0
    assert [one.id for one in world.databases[1].model(longer).find()] == [made.id]
    assert sessions.count() == 1, "the newest definition counts for every process"
    wrong: Any = dataclass(type("Session", (Session,), {"worm_config": {"tll": "2h"}}))
    with pytest.raises(SchemaError, match="did you mean 'ttl'"):
        world.databases[1].model(wrong)
    schema = {"schemaVersion": "1.0", "models": {"Session": {"path": "@sessions/(id:uuid)", "ttl": "3h"}}}
    with (
        wormdb.connect("memory://", schema=schema) as declared,
        pytest.raises(SchemaMismatchError, match="say ttl and expireAt in the schema"),
    ):
        declared.model(Session)


def test_what_has_ended_and_is_still_stored_can_be_erased() -> None:
    world = World()
    things = world.collection()
    things.expire("at")
    things.insert({"id": "a", "at": world.now + timedelta(seconds=1), "secret": "xyz"})
    things.forward()
    world.clock.advance(10)
    assert things.find_by_id("a") is None
    assert things.erase("a").number
    assert things.count() == 0
    world.clock.advance(2 * 3600)
    world.databases[0].gc()
    world.clock.advance(2 * 3600)
    world.databases[0].gc()
    assert list(world.databases[0].find_traces("things", "a")) == []
    things.insert({"id": "a"})
    assert things.count() == 1
