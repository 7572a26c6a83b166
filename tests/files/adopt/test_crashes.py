"""An adoption that is cut off, hindered or raced: the bucket is as before, or all of it is adopted, once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.files.adopt.bucket import LAYOUTS, sample, schema, small
from tests.files.adopt.rig import check, check_history, database_on, world
from wormdb.errors import AlreadyExistsError, ConflictError, CorruptionError, WormError
from wormdb.storage.store import Always
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.files.adopt.adopt import Adoption
    from wormdb.storage.memory import MemoryStore
    from wormdb.storage.store import Store

ROOT = LAYOUTS["root"]
LOG = "org/customers/.worm.db/committed/"
RECORD = "org/customers/.worm.db/adopt"
HISTORY = "org/customers/.worm.db/history/"
PARTS = {"block_bytes": 500}
"""Each document is a part of its own."""


def keys(store: MemoryStore, prefix: str) -> list[str]:
    return [found.key for page in store.list(prefix) for found in page.objects]


# --- cut off ---


def _hindered() -> Iterator[tuple[int, Fault]]:
    """Faults at the requests that write, of an adoption that nothing hinders."""
    store = FaultStore(world(small(ROOT)))
    _adopt(store)
    for one in store.trace:
        if one.verb in ("put", "delete"):
            # To die before a write is to die after the one before it.
            yield one.number, Fault.CRASH_AFTER
        if one.verb == "put" and (one.key == RECORD or one.key.startswith(LOG)):
            yield one.number, Fault.ANSWER_LOST
            yield one.number, Fault.LANDS_LATE


def _adopt(store: Store, seed: int = 1) -> Adoption:
    return database_on(store, schema(ROOT, indexes={}), seed, forward="manual", **PARTS).adopt("Customer", job="j")


def test_a_fault_at_every_write() -> None:
    bucket = small(ROOT)
    resumed = runs = 0
    for number, fault in _hindered():
        inner = world(bucket)
        store = FaultStore(inner, {number: fault})
        with suppress(WormError, SimulatedCrash):
            _adopt(store)
        label = f"{fault} at request {number}"
        before = database_on(inner, None, 2)
        # Either there is no log at all, and the bucket is read as before, or everything is in it.
        if keys(inner, LOG):
            assert before["org/customers"].count() == 1, label
        assert before.verify(["org/customers"])[0].is_sound, label
        store.land()
        resumed += _adopt(inner, 3).resumed
        runs += 1
        after = database_on(inner, None, 4)
        check_history(after.model("Customer"), bucket, "a")
        assert [each.id for each in after.model("Customer").list_trashed()] == ["t"], label
        assert inner.probe(RECORD).found is None, label
    assert resumed > runs / 4


def test_a_run_goes_on_where_another_was_cut_off() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    trace = FaultStore(world(bucket))
    database_on(trace, schema(ROOT), **PARTS).adopt("Customer")
    parts = [one.number for one in trace.trace if one.key == RECORD and one.verb == "put"]
    assert len(parts) == 5
    store = FaultStore(inner, {parts[3]: Fault.CRASH_AFTER})
    with pytest.raises(SimulatedCrash):
        database_on(store, schema(ROOT), **PARTS).adopt("Customer")
    written = len(keys(inner, HISTORY))
    database = database_on(inner, schema(ROOT), 2, **PARTS)
    assert not database.adopt("Customer", dry_run=True).already
    done = database.adopt("Customer")
    assert (done.resumed, done.verified) == (True, True)
    check(database.model("Customer"), bucket)
    # Three documents were written before: only the blocks of one are added.
    assert len(keys(inner, HISTORY)) < written * 2
    assert inner.probe(RECORD).found is None


def test_files_that_changed_since_are_read_anew() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    store = FaultStore(inner)

    def crash(what: str, done: int, total: int) -> None:
        if what == "comparing":
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        database_on(store, schema(ROOT), **PARTS).adopt("Customer", told=crash)
    bucket.update("a", name="since")
    for key, text in bucket.files.items():
        inner.put(key, text.encode(), Always())
    database = database_on(inner, schema(ROOT), 2, **PARTS)
    assert not database.adopt("Customer").resumed
    check(database.model("Customer"), bucket)


# --- hindered ---


@pytest.mark.parametrize("phase", ["writing", "comparing"])
def test_a_file_that_changes_meanwhile_stops_it(phase: str) -> None:
    inner = world(sample(ROOT))

    def write(what: str, done: int, total: int) -> None:
        if what == phase:
            inner.put("org/customers/d/profile.json", b'{"id": "d", "name": "%d"}' % done, Always())

    with pytest.raises(ConflictError, match="changed while"):
        database_on(inner, schema(ROOT), **PARTS).adopt("Customer", told=write, on_mismatch="entity")
    assert keys(inner, LOG) == []


def test_blocks_that_are_not_as_they_were_written_are_not_adopted() -> None:
    inner = world(sample(ROOT))

    def damage(what: str, done: int, total: int) -> None:
        if what == "comparing" and done == 0:
            for key in keys(inner, HISTORY):
                if key.endswith(".parquet"):
                    body = inner.get(key).body
                    inner.put(key, body[:100] + bytes([body[100] ^ 1]) + body[101:], Always())

    with pytest.raises(CorruptionError):
        database_on(inner, schema(ROOT), cache_bytes=0, **PARTS).adopt("Customer", told=damage)
    assert keys(inner, LOG) == []


def test_blocks_of_an_earlier_run_that_are_gone_are_not_adopted() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)

    def crash(what: str, _done: int, _total: int) -> None:
        if what == "comparing":
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        database_on(inner, schema(ROOT), **PARTS).adopt("Customer", told=crash)
    gone = next(key for key in keys(inner, HISTORY) if key.endswith(".parquet"))
    inner.delete(gone)
    with pytest.raises(CorruptionError, match="run it again"):
        database_on(inner, schema(ROOT), 2, **PARTS).adopt("Customer", verify=False)
    assert keys(inner, LOG) == []
    database = database_on(inner, schema(ROOT), 3, **PARTS)
    assert not database.adopt("Customer").resumed
    check(database.model("Customer"), bucket)


# --- raced ---


def _between(phase: str, act: Callable[[], object]) -> Callable[[str, int, int], None]:
    waiting = [act]

    def tell(what: str, _done: int, _total: int) -> None:
        if what == phase and waiting:
            waiting.pop()()

    return tell


@pytest.mark.parametrize("phase", ["reading", "writing", "comparing"])
def test_of_two_that_adopt_at_once_one_wins(phase: str) -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    one, two = database_on(inner, schema(ROOT), 1, **PARTS), database_on(inner, schema(ROOT), 2, **PARTS)
    with pytest.raises((AlreadyExistsError, ConflictError)) as caught:
        one.adopt("Customer", job="one", told=_between(phase, lambda: two.adopt("Customer", job="two")))
    assert "adopts it at the same time" in caught.value.reason or "managed already" in caught.value.reason
    check(two.model("Customer"), bucket)
    assert one.adopt("Customer", job="two").already
    check(one.model("Customer"), bucket)
    assert two.verify()[0].is_sound


def test_of_two_that_do_the_same_job_both_are_told_that_it_is_done() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    one, two = database_on(inner, schema(ROOT), 1, **PARTS), database_on(inner, schema(ROOT), 2, **PARTS)
    first = one.adopt("Customer", job="j", told=_between("comparing", lambda: two.adopt("Customer", job="j")))
    assert first.number == 1
    one.model("Customer").forward()
    check(one.model("Customer"), bucket)
    assert two.verify()[0].is_sound


def test_a_writer_that_comes_first_wins() -> None:
    inner = world(sample(ROOT))
    one, two = database_on(inner, schema(ROOT)), database_on(inner, schema(ROOT, mode="readwrite"), 2)
    with pytest.raises(AlreadyExistsError, match="managed already"):
        one.adopt("Customer", told=_between("comparing", lambda: two.model("Customer").insert({"id": "z"})))
    assert [found.id for found in two.model("Customer")] == ["z"]


# --- made again ---


def test_the_root_is_made_again_from_the_log() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    database = database_on(inner, schema(ROOT), **PARTS)
    database.adopt("Customer")
    customers = database.model("Customer")
    # Merges take the adopted blocks in; the log goes on naming them.
    for name in ("x", "y"):
        customers.save({"id": name, "name": name})
        customers.forward()
    bucket.create("x", name="x")
    inner.delete("org/customers/.worm.db/block0")
    again = database_on(inner, None, 2)
    assert not again.verify(["Customer"])[0].findings
    again.model("Customer").forward()
    for name in ("a", "b", "c", "d"):
        assert again.model("Customer").get_history(name) == customers.get_history(name)
    assert [each.id for each in again.model("Customer").list_trashed()] == ["b"]
    assert again.verify()[0].is_sound


def test_damage_to_brought_history_is_found_and_what_is_left_is_kept() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    database = database_on(inner, schema(ROOT), **PARTS)
    database.adopt("Customer")
    database.model("Customer").forward()
    first, *_ = [key for key in keys(inner, HISTORY) if key.endswith(".parquet")]
    inner.delete(first)
    again = database_on(inner, None, 2)
    (found,) = again.verify()
    assert first in {finding.key for finding in found.findings}
    (done,) = again.repair(accept_loss=True)
    assert done.lost
    assert done.left == ()
    customers = again.model("Customer")
    # The newest version is told by the document; its past is lost, that of the others is not.
    assert [entry.seq for entry in customers.get_history("a")] == [3]
    assert [entry.op for entry in customers.get_history("d")] == ["create", "delete", "restore"]
    assert {found.id for found in customers} == {"a", "d"}
    assert again.verify()[0].is_sound


# --- meanwhile ---


def test_until_it_is_adopted_the_bucket_is_read_as_before() -> None:
    bucket = sample(ROOT)
    inner = world(bucket)
    seen: list[set[object]] = []

    def look() -> None:
        reader = database_on(inner, schema(ROOT), 2).model("Customer")
        seen.append({found.id for found in reader.find()})

    def crash(what: str, _done: int, _total: int) -> None:
        look()
        if what == "comparing":
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        database_on(inner, schema(ROOT), **PARTS).adopt("Customer", told=crash)
    look()
    assert len(seen) == 4
    assert seen == [{"a", "d"}] * 4


def test_what_an_adoption_costs() -> None:
    bucket = sample(ROOT)
    store = FaultStore(world(bucket))
    database_on(store, schema(ROOT), forward="manual").adopt("Customer")
    verbs = Counter(one.verb for one in store.trace)
    reads = Counter(one.key for one in store.trace if one.verb == "get")
    assert {key: reads[key] for key in bucket.files} == dict.fromkeys(bucket.files, 2)
    # Of each of the folders: the collection, and three at the root; before and after.
    assert verbs["list"] == 8
    puts = [one.key for one in store.trace if one.verb == "put"]
    written = [key for key in puts if "/.worm.db/" in key]
    # A block of documents and one of history with their sidecars, the record twice, and the entry.
    assert len(written) == 7
    assert [key for key in puts if key not in written] == [".worm.names/customers", ".worm.schema.json"]
