"""Files of many documents, and packed ones, that are adopted: the database has them, and the files stay as they are."""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.adopt.rig import database_on, new_clock
from wormdb.engine.log.paths import bytes_max
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, PermissionDeniedError, WormError
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import Always
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

FOLDER = "events/"
LOG = f"{FOLDER}.worm.db/committed/"
RECORD = f"{FOLDER}.worm.db/adopt"


def schema(extension: str = ".ndjson", kind: str = "path", mode: str = "readonly") -> dict[str, Any]:
    fields = {"n": {"type": "integer"}, "month": {"type": "integer"}}
    model = {"path": f"@events/(id:{kind}){extension}", "mode": mode, "fields": fields}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Event": model}}


def bucket(files: Mapping[str, bytes]) -> MemoryStore:
    store = MemoryStore(clock=new_clock(), bound=bytes_max)
    ensure_conditions(store, SeededChance(0))
    for key, body in files.items():
        store.put(key, body, Always())
    return store


@contextmanager
def opened(store: Store, *given: Any, **settings: Any) -> Iterator[Database]:
    """A process, which leaves the store open for the next one."""
    yield database_on(store, *given, **settings)


def lines(*documents: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in documents)


def shown(database: Database) -> dict[Any, dict[str, Any]]:
    return {one.id: dict(one) for one in database.model("Event")}


FILES = {
    "events/2024/month=05/a.ndjson": lines({"n": 1}, {"id": "own", "n": 2}),
    "events/b.ndjson": gzip.compress(lines({"_id": 7, "n": 4, "createdAt": "2024-01-01T00:00:00Z"})),
    "events/c.ndjson": b"",
}
IDS = st.one_of(st.none(), st.integers(0, 30), st.text("ab/#", min_size=1, max_size=3))
WRITTEN = st.dictionaries(
    st.sampled_from(["a", "b/c", "month=05/d", "x#1"]),
    st.tuples(st.lists(st.tuples(IDS, st.integers(0, 9)), max_size=6), st.booleans()),
    min_size=1,
    max_size=4,
)


@settings(max_examples=8)
@given(written=WRITTEN)
def test_the_database_has_what_the_files_had_and_writes_as_any_other(written: dict[str, Any]) -> None:
    seen: set[Any] = set()
    files = {}
    for name, (rows, is_packed) in written.items():
        kept = [(None if one in seen else one, n) for one, n in rows if one is None or one not in seen]
        kept = [
            (one, n) for place, (one, n) in enumerate(kept) if one is None or one not in [x for x, _ in kept[:place]]
        ]
        seen |= {one for one, _ in kept}
        body = lines(*({"n": n} if one is None else {"id": one, "n": n} for one, n in kept))
        files[f"events/{name}.ndjson"] = gzip.compress(body) if is_packed else body
    store = bucket(files)
    with opened(store, schema()) as before:
        expected = shown(before)
    if not expected:
        return
    with opened(store, schema(), 2) as database:
        done = database.adopt("Event")
        assert (done.counts.documents, done.counts.files, done.verified) == (len(expected), len(files), True)
    for seed, declared in ((3, schema(mode="readwrite")), (4, None)):
        with opened(store, declared, seed) as database:
            assert shown(database) == expected
            assert database.model("Event").source == "log"
    with opened(store, schema(mode="readwrite"), 5) as database:
        events = database.model("Event")
        first = next(iter(expected))
        events.update_one({"id": first}, {"$set": {"n": 99}})
        events.insert({"id": 1000, "n": 5})
        events.forward()
        assert [one.op for one in events.get_history(first)] == ["create", "update"]
        assert events.count() == len(expected) + 1
        assert not database.verify()[0].findings
    assert {key: store.get(key).body for key in files} == files, "they stay another program's"


@pytest.mark.parametrize("extension", [".json.gz", ".ndjson", ".jsonl.gz"])
@pytest.mark.parametrize("mode", ["readonly", "readwrite"])
def test_before_it_is_adopted_nothing_is_written(extension: str, mode: str) -> None:
    files = {f"events/a{extension}": gzip.compress(lines({"id": "a", "n": 1}))}
    store = bucket(files)
    with opened(store, schema(extension, "string", mode)) as database:
        events = database.model("Event")
        with pytest.raises(PermissionDeniedError, match="worm adopt"):
            events.insert({"id": "x"})
        with pytest.raises(PermissionDeniedError, match="worm adopt"), database.transaction() as transaction:
            transaction.model("Event").insert({"id": "x"})
        with pytest.raises(WormError, match="worm adopt"):
            events.create_index("n")
        assert shown(database) == {"a": {"id": "a", "n": 1}}
        assert events.source == "files"
        assert database.adopt("Event").mode == "readwrite"
    with opened(store, schema(extension, "string", "readwrite"), 2) as database:
        database.model("Event").insert({"id": "x"})
        assert sorted(shown(database)) == ["a", "x"]
        with pytest.raises(InvalidRequestError, match="only other programs write"):
            database.files.on("Event")


def test_after_it_queries_read_no_file_of_another_program() -> None:
    store = bucket(FILES)
    database_on(store, schema()).adopt("Event")
    traced = FaultStore(store)
    with opened(traced, schema(mode="readwrite"), 2) as database:
        events = database.model("Event")
        assert [one["n"] for one in events.find("n>1", sort="n")] == [2, 4]
        assert events.aggregate(sum="n")["sum"] == 7
    assert {one.key for one in traced.trace}.isdisjoint(FILES)
    assert [one.verb for one in traced.trace].count("list") == 0


def test_files_that_change_later_are_told_and_left_alone() -> None:
    store = bucket(FILES)
    with opened(store, schema(), forward="manual") as database:
        database.adopt("Event")
        assert database.verify()[0].findings == ()
        store.put("events/b.ndjson", store.get("events/b.ndjson").body, Always())
        assert database.verify(unreferenced=True)[0].findings == (), "another version of the same bytes"
        store.put("events/b.ndjson", lines({"_id": 7, "n": 5}), Always())
        store.put("events/new.ndjson", lines({"n": 6}), Always())
        store.delete("events/c.ndjson")
        expected = [
            ("events/b.ndjson", "was changed"),
            ("events/c.ndjson", "is gone"),
            ("events/new.ndjson", "came after"),
        ]
        (found,) = database.verify()
        assert found.is_sound, "the database is as it should be"
        assert [(one.kind, one.key) for one in found.findings] == [("source", key) for key, _ in expected]
        assert all(what in one.what for one, (_, what) in zip(found.findings, expected, strict=True))
        assert [one.key for one in database.files.sync("Event").left] == [key for key, _ in expected]
        assert database.model("Event").find_by_id(7)["n"] == 4  # type: ignore[index] # it is there
        with pytest.raises(AlreadyExistsError, match="worm import takes in"):
            database.adopt("Event")
        assert database.repair()[0].lost == ()
        database.gc()
        assert len(database.verify()[0].findings) == 3


def test_what_cannot_be_read_is_told_before_anything_is_written() -> None:
    broken = {
        "events/x.ndjson": lines({"id": "a"}) + b"[1]\n" + lines({"id": 7}) + b'{"n": "\xe9"}',
        "events/y.ndjson": b"\x1f\x8brubbish",
    }
    store = bucket({**FILES, **broken})
    with opened(store, schema()) as database:
        with pytest.raises(InvalidRequestError) as caught:
            database.adopt("Event")
        told = {problem.path for problem in caught.value.problems}
        assert told == {"events/x.ndjson:2", "events/x.ndjson:3", "events/x.ndjson:4", "events/y.ndjson"}
        assert not [key for page in store.list(f"{FOLDER}.worm.db/") for key in page.objects]
        done = database.adopt("Event", on_broken="skip")
        assert (done.counts.documents, done.counts.skipped) == (4, 4)
        assert set(shown(database)) == {"2024/month=05/a#1", "own", 7, "a"}


def adopt(store: Store, seed: int = 1) -> bool:
    with opened(store, schema(), seed, forward="manual", block_bytes=500) as database:
        return database.adopt("Event", job="j").resumed


def hindered() -> Iterator[tuple[int, Fault]]:
    store = FaultStore(bucket(FILES))
    adopt(store)
    for one in store.trace:
        if one.verb in ("put", "delete"):
            yield one.number, Fault.CRASH_AFTER
            yield one.number, Fault.ANSWER_LOST
            yield one.number, Fault.LANDS_LATE


def test_a_fault_at_every_write() -> None:
    for number, fault in hindered():
        inner, label = bucket(FILES), f"{fault} at request {number}"
        store = FaultStore(inner, {number: fault})
        with suppress(WormError, SimulatedCrash):
            adopt(store)
        is_done = any(page.objects for page in inner.list(LOG))
        with opened(inner, schema(mode="readwrite" if is_done else "readonly"), 2) as before:
            assert len(shown(before)) == 3, label  # by the files, or by the log
            store.land()
        adopt(inner, 3)
        with opened(inner, None, 4) as after:
            assert len(shown(after)) == 3, label
            assert after.model("Event").find_by_id(7)["n"] == 4, label  # type: ignore[index] # it is there
            assert not after.verify(unreferenced=False)[0].findings, label
        assert inner.probe(RECORD).found is None, label


@pytest.mark.parametrize("phase", ["reading", "writing", "comparing"])
def test_a_file_that_changes_meanwhile_stops_it(phase: str) -> None:
    store = bucket(FILES)
    rival = [True]

    def write(what: str, _done: int, _total: int) -> None:
        if what == phase and rival.pop():
            store.put("events/b.ndjson", lines({"_id": 8}), Always())
            rival.append(False)

    with opened(store, schema()) as database, pytest.raises(ConflictError, match="changed while"):
        database.adopt("Event", told=write)
    assert not [key for page in store.list(LOG) for key in page.objects]
