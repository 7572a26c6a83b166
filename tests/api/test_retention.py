"""How much of history is kept: what readers are shown follows from the rule and the time alone, whatever is stored."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.forward.compact_rig import compact_list
from tests.engine.sweeps.commits import World, world_of
from wormdb.api.database import Database
from wormdb.engine.forward.compact import Aim
from wormdb.errors import InvalidRequestError, SchemaError, SnapshotTooOldError, WormError
from wormdb.jobs.costs import measure_usage
from wormdb.schema.load import load_schema
from wormdb.settings import LOG_RETENTION_MS_MIN, Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import Store

pytestmark = pytest.mark.usefixtures("remembered")

HOUR_MS = 3_600_000
LOG_MS = max(HOUR_MS, LOG_RETENTION_MS_MIN)
FAULTS = (Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503)
STRIDE = int(os.environ.get("WORMDB_STRIDE", "7"))


def schema_of(**history: Any) -> dict[str, Any]:
    model = {"path": "@notes/(id:string)", "fields": {"v": {"type": "integer"}}, "snapshots": {"enabled": True}}
    return {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {"Note": {**model, **({"history": history} if history else {})}},
    }


def opened(store: Store, seed: int = 1, **history: Any) -> Database:
    clock = world_of(store).manual
    made = Settings(forward="manual", block_bytes=400, forward_interval_ms=0, log_retention_ms=LOG_MS, stage_bytes=400)
    schema = load_schema(schema_of(**history))
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=made,
        schema=schema,
        actor=None,
        clock=clock,
        chance=SeededChance(seed),
    )


def collect(world: World, database: Database) -> None:
    """Let the log forget what is forwarded."""
    for _ in range(2):
        database.model("Note").forward()
        database.gc(["Note"])
        world.manual.advance(LOG_MS / 1000 + 1)
    database.gc(["Note"])


def merge(database: Database) -> None:
    compact_list(database.model("Note")._ledger, "history", Aim(100_000, everything=True))


def stored(database: Database, name: str) -> list[int]:
    """The versions that there are in the bucket."""
    notes = database.model("Note")
    history, key = notes._ledger.history(notes._ledger.view()), notes._access.writer.key_of(name)
    return sorted(row.seq for row in history._stored(key))


def seqs(notes: Collection[Document], name: str = "a") -> list[int]:
    return [each.seq for each in notes.get_history(name)]


# --- what is shown ---


def test_all_is_kept_unless_the_model_says_otherwise() -> None:
    world = World()
    database = opened(world)
    notes = database.model("Note")
    for value in range(5):
        notes.save({"id": "a", "v": value})
    collect(world, database)
    merge(database)
    world.manual.advance(10**8)
    assert seqs(notes) == [1, 2, 3, 4, 5] == stored(database, "a")


def test_no_more_versions_are_shown_than_are_kept_and_others_can_not_be_gone_back_to() -> None:
    notes = opened(World(), versions=2).model("Note")
    revs = [notes.save({"id": "a", "v": value}).rev for value in range(4)]
    assert seqs(notes) == [3, 4]
    assert notes.find_by_id("a", as_of=revs[2])["v"] == 2  # type: ignore[index]  # it is there
    for past in (lambda: notes.find_by_id("a", as_of=revs[1]), lambda: notes.count(as_of=revs[1])):
        with pytest.raises(SnapshotTooOldError, match="versions=2"):
            past()
    with pytest.raises(SnapshotTooOldError):
        notes.rollback("a", to_seq=2)
    with pytest.raises(SnapshotTooOldError):
        notes.diff("a", 1, 4)
    assert [each["v"] for each in notes.find({}, as_of=revs[3])] == [3]


def test_a_version_goes_when_the_one_after_it_is_older_than_keep() -> None:
    world = World()
    notes = opened(world, keep="2h").model("Note")
    notes.save({"id": "a", "v": 0})
    world.manual.advance(3 * 3600)
    changed = at(world)
    notes.save({"id": "a", "v": 1})
    assert seqs(notes) == [1, 2]  # it was the document until now
    assert notes.find_by_id("a", as_of=changed - timedelta(hours=1))["v"] == 0  # type: ignore[index]  # it is there
    world.manual.advance(2 * 3600)
    assert seqs(notes) == [2]
    with pytest.raises(SnapshotTooOldError, match="keep=2h"):
        notes.find_by_id("a", as_of=changed - timedelta(hours=1))
    assert notes.find_by_id("a")["v"] == 1  # type: ignore[index]  # it is there


def test_a_snapshot_is_a_version_and_goes_with_it() -> None:
    world = World()
    database = opened(world, versions=2)
    notes = database.model("Note")
    notes.save({"id": "a", "v": 0})
    notes.snapshot("a")
    notes.save({"id": "a", "v": 1})
    assert [each.seq for each in notes.list_snapshots("a")] == [1]
    notes.save({"id": "a", "v": 2})
    assert notes.list_snapshots("a") == []
    collect(world, database)
    merge(database)
    assert stored(database, "a") == [2, 3]
    assert findings(database) == ()


def test_a_cursor_goes_on_where_it_began() -> None:
    notes = opened(World(), versions=1).model("Note")
    for name in "abc":
        notes.save({"id": name, "v": 0})
    cursor = notes.cursor(sort="id", batch_size=1)
    assert [each["v"] for each in cursor.next_batch()] == [0]
    for name in "abc":
        notes.save({"id": name, "v": 1})
    assert [each["v"] for each in notes.resume(cursor.token)] == [0, 0]


def test_a_model_with_files_of_versions_is_refused() -> None:
    made = schema_of(keep="1d")
    made["models"]["Note"] |= {"path": "@notes/(id:string)/[note].json", "oplog": True}
    with pytest.raises(SchemaError, match="oplog keeps readable files"):
        load_schema(made)


# --- what is stored ---


def test_merges_drop_what_the_log_has_forgotten_and_is_not_shown() -> None:
    world = World()
    database = opened(world, versions=2)
    notes = database.model("Note")
    for value in range(5):
        notes.save({"id": "a", "v": value})
    notes.forward()
    merge(database)
    assert stored(database, "a") == [1, 2, 3, 4, 5]
    collect(world, database)
    merge(database)
    assert stored(database, "a") == [4, 5]
    assert findings(database) == ()


def test_what_was_dropped_stays_away_when_the_model_keeps_all_again() -> None:
    world = World()
    database = opened(world, keep="1h")
    notes = database.model("Note")
    for value in range(5):
        notes.save({"id": "a", "v": value})
    collect(world, database)
    merge(database)
    later = opened(world, seed=2)
    later.apply_schema()
    notes = later.model("Note")
    for value in range(5, 7):
        notes.save({"id": "a", "v": value})
    assert seqs(notes) == [5, 6, 7]
    with pytest.raises(SnapshotTooOldError, match="dropped"):
        notes.find_by_id("a", as_of=3)


def test_forwarding_drops_with_the_runs_that_it_merges() -> None:
    database = opened(prepared().copy(), seed=2, **RULE)
    assert stored(database, "a") == [1, 2, 3]
    assert stored(database, "b") == [1, 2, 2, 3, 4]  # a mark, and the tail
    database.model("Note").forward()
    assert {name: stored(database, name) for name in "abc"} == {"a": [2, 3], "b": [2, 2, 3, 4], "c": [2, 3]}
    assert findings(database) == ()


# --- without a model ---


def plain(world: World) -> Collection[Document]:
    return opened(world)["plain"]


def test_a_collection_without_a_model_keeps_what_was_said() -> None:
    world = World()
    things = plain(world)
    for value in range(5):
        things.save({"id": "a", "v": value})
    assert things.get_retention() == {}
    things.retain(versions=3)
    assert (things.get_retention(), seqs(things)) == ({"versions": 3}, [3, 4, 5])
    things.forward()
    fresh = plain(world)
    assert (fresh.get_retention(), seqs(fresh)) == ({"versions": 3}, [3, 4, 5])
    fresh.retain(keep=timedelta(days=2), versions=4)
    assert fresh.get_retention() == {"keep": "172800s", "versions": 4}
    with pytest.raises(SnapshotTooOldError, match="no more of history is kept than keep=172800s, versions=4"):
        fresh.find_by_id("a", as_of=1)
    fresh.retain()
    assert (things.get_retention(), seqs(things)) == ({}, [1, 2, 3, 4, 5]), "nothing has gone yet"
    world.manual.advance(10**7)
    things.retain(keep="1h")
    assert seqs(things) == [5]


def test_a_rule_that_was_said_is_a_put_and_lives_in_the_root() -> None:
    world = World()
    database = opened(world)
    things = database["plain"]
    things.save({"id": "a"})
    before = database.cost()
    number = things.retain(versions=1)
    used = database.cost()
    assert (number, used.puts - before.puts) == (2, 1)
    things.forward()
    root = database._site("plain/").register.read().root
    assert root is not None
    assert root.retained is not None
    database.drop("plain")
    things.save({"id": "a"})
    assert things.get_retention() == {}, "another collection"


@pytest.mark.parametrize("rule", [{"versions": 0}, {"versions": True}, {"keep": "soon"}, {"keep": "0d"}, {"keep": 5}])
def test_a_rule_that_means_nothing_is_refused(rule: dict[str, Any]) -> None:
    things = plain(World())
    with pytest.raises(InvalidRequestError):
        things.retain(**rule)
    assert things.count() == things._ledger.view().number == 0


def test_a_model_that_says_how_much_is_kept_has_the_word() -> None:
    notes = opened(World(), versions=2).model("Note")
    notes.save({"id": "a", "v": 1})
    with pytest.raises(InvalidRequestError, match="the model Note says how much of history is kept"):
        notes.retain(versions=5)
    assert notes.get_retention() == {"versions": 2}


def test_costs_tell_what_is_saved() -> None:
    world = World()
    database = opened(world)
    notes = database.model("Note")
    notes.retain(versions=2)
    for value in range(8):
        notes.save({"id": "a", "v": value})
        notes.forward()
    collect(world, database)
    merge(database)
    assert stored(database, "a") == [7, 8]
    saved = measure_usage(world, now_ms=world.manual.now_ms()).history
    assert (saved.collections, saved.versions) == (1, 6)
    assert saved.bytes > 0
    assert saved.dollars > 0


# --- faults ---


RULE: dict[str, Any] = {"versions": 2, "keep": "3w"}


@cache
def prepared() -> World:
    """Several runs of history, with much that may go, and a tail."""
    world = World()
    database = opened(world, seed=5, **RULE)
    notes = database.model("Note")
    for value in range(3):
        for name in "abc":
            notes.save({"id": name, "v": value})
        if value == 1:
            notes.snapshot("b")
        notes.forward()
    collect(world, database)
    notes.save({"id": "b", "v": 9})
    return world


def test_a_rule_that_is_said_is_in_force_or_not_after_a_fault_at_any_request() -> None:
    def say(store: Store) -> None:
        things = opened(store)["plain"]
        things.retain(versions=1)
        things.forward()

    def made() -> World:
        world = World()
        for value in range(3):
            plain(world).save({"id": "a", "v": value})
        return world

    def look(case: SweepCase[Any]) -> None:
        assert isinstance(case.inner, World)
        found = plain(case.inner)
        is_said = bool(found.get_retention())
        assert is_said or case.error is not None, case.label
        assert seqs(found) == ([3] if is_said else [1, 2, 3]), case.label
        say(case.inner)
        assert seqs(plain(case.inner)) == [3], case.label
        (checked,) = opened(case.inner).verify(["plain"])
        assert checked.findings == (), case.label

    assert sweep(made, say, look, faults=FAULTS, page_keys=1000) > 4 * len(FAULTS)


@pytest.mark.parametrize("work", ["merge", "forward"])
def test_after_a_fault_at_any_request_readers_are_shown_the_same(work: str) -> None:
    numbers: set[int] = set()

    def do(store: Store) -> None:
        database = opened(store, **RULE)
        if work == "forward":
            database.model("Note").forward()
        else:
            merge(database)

    def check(case: SweepCase[Any]) -> None:
        numbers.add(case.number)
        if case.number % STRIDE and case.fault is not Fault.CRASH_AFTER:
            return
        database = opened(case.inner, seed=6, **RULE)
        notes = database.model("Note")
        assert {name: seqs(notes, name) for name in "abc"} == {"a": [2, 3], "b": [3, 4], "c": [2, 3]}, case.label
        if case.number % STRIDE:
            return
        assert findings(database, unreferenced=False) == (), case.label
        with suppress(WormError):
            do(case.inner)
        collect(case.inner, database)  # type: ignore[arg-type]  # it is a World
        merge(database)
        found = {name: stored(database, name) for name in "abc"}
        assert found == {"a": [2, 3], "b": [3, 4], "c": [2, 3]}, case.label
        assert findings(database, unreferenced=False) == (), case.label

    runs = sweep(lambda: prepared().copy(), do, check, faults=FAULTS, page_keys=1000)
    assert runs > len(FAULTS) * 4
    assert max(numbers) > 5


# --- against a model ---


@dataclass
class _Past:
    """What happened to each document, and what is kept of it: written without the engine."""

    keep_ms: int | None
    versions: int | None
    changes: dict[str, list[tuple[int, int, int | None]]] = field(default_factory=dict)
    """Of each document (log number, time, value)."""

    def begin(self, name: str, now_ms: int) -> int:
        made = self.changes.get(name, [])
        first = 0
        if self.keep_ms is not None:
            first = max([0, *(i for i, (_, ms, _) in enumerate(made) if ms <= now_ms - self.keep_ms)])
        return first if self.versions is None else max(first, len(made) - self.versions)

    def at(self, name: str, now_ms: int, *, number: int | None = None, time: int | None = None) -> Any:
        """The value, None if there was none, or "gone"."""
        if time is not None and self.keep_ms is not None and time < now_ms - self.keep_ms:
            return "gone"
        made = self.changes.get(name, [])
        had = [i for i, (rev, ms, _) in enumerate(made) if (rev <= number if number is not None else ms <= (time or 0))]
        first = self.begin(name, now_ms)
        if not had:
            return "gone" if first else None
        return "gone" if had[-1] < first else made[had[-1]][2]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "save", "delete", "load", "forward", "collect", "merge", "wait"]),
        st.sampled_from("ab"),
    ),
    max_size=14,
)


@settings(max_examples=20)
@given(STEPS, st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 3]), st.booleans())
def test_every_read_of_the_past_follows_from_the_rule_and_the_time(
    steps: list[tuple[str, str]], hours: int | None, versions: int | None, is_said: bool
) -> None:
    world = World()
    rule: dict[str, Any] = {"keep": None if hours is None else f"{hours}h", "versions": versions}
    rule = {name: value for name, value in rule.items() if value is not None}
    database = opened(world, **({} if is_said else rule))
    notes = database.model("Note")
    if is_said:
        notes.retain(**rule)
    past = _Past(None if hours is None else hours * HOUR_MS, versions)
    begun = world.manual.now_ms()
    for turn, (kind, name) in enumerate(steps):
        world.manual.advance(60)
        if kind in {"save", "delete", "load"}:
            change(past, world, notes, (kind, name, turn))
        elif kind == "collect":
            collect(world, database)
        elif kind == "wait":
            world.manual.advance(3_600)
        else:
            notes.forward()
            if kind == "merge":
                merge(database)
        check(past, world, notes, begun)
    notes.forward()
    assert findings(database) == ()


def change(past: _Past, world: World, notes: Collection[Document], step: tuple[str, str, int]) -> None:
    kind, name, turn = step
    if kind == "save":
        note(past, world, notes.save({"id": name, "v": turn}).rev, {name: turn})
    elif kind == "delete" and notes.exists(name):
        notes.delete(name)
        note(past, world, notes._ledger.view().number, {name: None})
    elif kind == "load":
        with notes.batch() as batch:
            for each in "ab":
                batch.save({"id": each, "v": turn, "pad": "x" * 400})
        for each in "ab":
            document = notes.find_by_id(each)
            assert document is not None
            note(past, world, document.rev, {each: turn})


def note(past: _Past, world: World, number: int, values: dict[str, int | None]) -> None:
    for name, value in values.items():
        past.changes.setdefault(name, []).append((number, world.manual.now_ms(), value))


def check(past: _Past, world: World, notes: Collection[Document], begun: int) -> None:
    now, newest = world.manual.now_ms(), notes._ledger.view().number
    for name, made in past.changes.items():
        first = past.begin(name, now)
        assert seqs(notes, name) == list(range(first + 1, len(made) + 1))
        for number in {0, newest // 2, max(newest - 1, 0), newest}:
            expected = past.at(name, now, number=number) if number < newest else made[-1][2]
            assert seen(notes, name, number) == expected
    for ms in {now, now - HOUR_MS, (begun + now) // 2} if past.keep_ms is not None or past.versions else ():
        told = {name: past.at(name, now, time=ms) for name in past.changes}
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
        for name, expected in told.items():
            assert seen(notes, name, moment) == expected
        if told and "gone" not in told.values():
            assert {each.id: each["v"] for each in notes.scan(as_of=moment)} == {
                name: value for name, value in told.items() if value is not None
            }
        elif told:
            with pytest.raises(SnapshotTooOldError):
                list(notes.scan(as_of=moment))


def seen(notes: Collection[Document], name: str, as_of: Any) -> Any:
    try:
        found = notes.find_by_id(name, as_of=as_of)
    except SnapshotTooOldError:
        return "gone"
    return None if found is None else found["v"]


def findings(database: Database, *, unreferenced: bool = True) -> tuple[Any, ...]:
    (found,) = database.verify(["Note"], unreferenced=unreferenced)
    return tuple(found.findings)


def at(world: World) -> datetime:
    return datetime.fromtimestamp(world.manual.now_ms() / 1000, UTC)
