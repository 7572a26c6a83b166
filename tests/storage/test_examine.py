"""The doctor's questions: a good store passes, and each kind of bad store is found out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.errors import NotFoundError, PermissionDeniedError
from wormdb.storage.examine import READ_CHECKS, WRITE_CHECKS, CheckStatus, Examination, examine
from wormdb.storage.memory import MemoryStore
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.storage.store import OCTETS, Probe, StoredObject, WrappedStore
from wormdb.system.clock import SeededChance, SystemClock
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.storage.store import ByteRange, Precondition, PutResult, Store


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    threads = ThreadPool(8)
    yield threads
    threads.close()


def ask(store: Store, pool: ThreadPool, *, writing: bool = True) -> Examination:
    return examine(store, pool=pool, clock=SystemClock(), chance=SeededChance(1), writing=writing)


def failed(result: Examination) -> list[str]:
    return [finding.check for finding in result.findings if finding.status is CheckStatus.FAIL]


def status_of(result: Examination, check: str) -> CheckStatus:
    return next(finding.status for finding in result.findings if finding.check == check)


def test_a_good_store_passes_and_is_left_empty(pool: ThreadPool) -> None:
    store = MemoryStore()
    result = ask(store, pool)
    assert {finding.status for finding in result.findings} == {CheckStatus.OK}
    assert [finding.check for finding in result.findings] == [name for name, _ in READ_CHECKS + WRITE_CHECKS]
    assert [entry.key for page in store.list() for entry in page.objects] == []


def test_s3_passes(s3_url: str, pool: ThreadPool) -> None:
    with open_store(s3_url) as store:
        result = ask(store, pool)
    assert failed(result) == [], [finding for finding in result.findings if finding.status is CheckStatus.FAIL]
    assert result.verdict == "wormdb can read and write here"


def test_a_store_that_ignores_preconditions_fails_every_check_of_them(pool: ThreadPool) -> None:
    result = ask(FaultStore(MemoryStore(), ignores_preconditions=True), pool)
    assert not result.passed
    # Swaps under contention may be lucky: a store in memory answers before another thread gets its turn.
    assert {"create if absent", "swap if unchanged", "create under contention"} <= set(failed(result))
    assert "wormdb will not write here" in result.verdict


class InterruptedStore(WrappedStore):
    """A user presses Ctrl-C while an object is read back."""

    def get(self, key: str) -> StoredObject:
        found = self._inner.get(key)
        if found.body == b"round 2":
            raise KeyboardInterrupt
        return found


def test_whoever_is_interrupted_cleans_up() -> None:
    inner = MemoryStore()
    pool = ThreadPool(2)
    with pytest.raises(KeyboardInterrupt):
        examine(InterruptedStore(inner), pool=pool, clock=SystemClock(), chance=SeededChance(1))
    assert [page.objects for page in inner.list() if page.objects] == []


def test_without_writing_nothing_is_written(pool: ThreadPool) -> None:
    store = MemoryStore()
    result = ask(store, pool, writing=False)
    assert result.passed
    assert "writing was not tried" in result.verdict
    assert [entry.key for page in store.list() for entry in page.objects] == []


class ReadOnly(WrappedStore):
    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        raise PermissionDeniedError(f"object {key}", key=key)


class NoDelete(WrappedStore):
    def delete(self, key: str) -> None:
        raise PermissionDeniedError(f"object {key}", key=key)

    def delete_many(self, keys: Sequence[str]) -> None:
        raise PermissionDeniedError("objects")


class Stale(WrappedStore):
    """Shows the first state of every object for ever."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._seen: dict[str, StoredObject] = {}

    def get(self, key: str) -> StoredObject:
        return self._seen.setdefault(key, self._inner.get(key))


class ShiftedRange(WrappedStore):
    def get_range(self, key: str, span: ByteRange) -> bytes:
        return self._inner.get(key).body[: span.length]


class Wrong(WrappedStore):
    """A store whose clock is an hour ahead, or has none."""

    def __init__(self, inner: Store, *, shows_time: bool) -> None:
        super().__init__(inner)
        self._shows_time = shows_time

    def probe(self, key: str) -> Probe:
        probe = self._inner.probe(key)
        assert probe.time is not None
        return Probe(probe.found, type(probe.time)(probe.time + 3_600_000) if self._shows_time else None)


class Undead(WrappedStore):
    """Deletes nothing, and says nothing."""

    def delete(self, key: str) -> None:
        pass

    def delete_many(self, keys: Sequence[str]) -> None:
        pass


class NoBucket(WrappedStore):
    def list(self, *_: object, **__: object) -> Iterator[object]:  # type: ignore[override] # only raises
        raise NotFoundError("bucket 'x'", reason="it does not exist")


def test_each_missing_right_is_named(pool: ThreadPool) -> None:
    assert "write" in failed(ask(ReadOnly(MemoryStore()), pool))
    result = ask(NoDelete(MemoryStore()), pool)
    assert result.passed
    assert status_of(result, "delete") is CheckStatus.WARN


def test_stale_reads_wrong_ranges_and_undead_objects_are_found(pool: ThreadPool) -> None:
    assert "read after write" in failed(ask(Stale(MemoryStore()), pool))
    assert failed(ask(ShiftedRange(MemoryStore()), pool)) == ["ranged read"]
    assert failed(ask(Undead(MemoryStore()), pool)) == ["delete"]


def test_a_clock_that_differs_or_is_missing_is_a_warning(pool: ThreadPool) -> None:
    for shows_time in (True, False):
        result = ask(Wrong(MemoryStore(), shows_time=shows_time), pool)
        assert result.passed
        assert status_of(result, "clock") is CheckStatus.WARN


def test_a_missing_bucket_stops_the_rest(pool: ThreadPool) -> None:
    result = ask(NoBucket(MemoryStore()), pool)
    assert failed(result) == ["list"]
    assert len(result.findings) == len(READ_CHECKS)
