"""The meter: exact counts, bytes, dollars and the hook."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from wormdb.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from wormdb.settings import RANGE_GAP_BYTES_MAX
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import (
    FREE,
    S3_EXPRESS,
    S3_STANDARD,
    MeteredRequest,
    MeteredStore,
    RequestKind,
    Usage,
    prices_of,
)
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import ByteRange, IfAbsent, IfMatch
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import Version
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash
from wormdb.testing.latency_store import Latency, LatencyProfile, LatencyStore


def same(actual: Usage, expected: Usage) -> None:
    assert replace(actual, dollars=0.0) == replace(expected, dollars=0.0)
    assert actual.dollars == pytest.approx(expected.dollars)


def test_every_verb_is_counted_as_it_is_billed() -> None:
    store = MeteredStore(MemoryStore(), prices=S3_STANDARD)
    mark = store.mark()
    store.put("a/1", b"12345")
    store.put("a/2", b"x" * 100_000)
    same(store.since(mark), Usage(puts=2, bytes_up=100_005, dollars=10e-6))
    mark = store.mark()
    store.get("a/1")
    store.probe("a/1")
    store.probe("missing")
    store.get_range("a/1", ByteRange(1, 2))
    store.get_range("a/1", ByteRange(1, 0))
    same(store.since(mark), Usage(gets=4, bytes_down=12, dollars=4 * 0.4e-6))
    mark = store.mark()
    store.head("a/1")
    same(store.since(mark), Usage(heads=1, dollars=0.4e-6))
    mark = store.mark()
    assert len(store.get_many(["a/1", "missing", "a/1"], SerialPool())) == 3
    assert store.since(mark).gets == 3
    assert store.since(mark).errors == {"NotFoundError": 1}
    mark = store.mark()
    store.delete("a/1")
    store.delete_many([])
    store.delete_many([f"k{number}" for number in range(1000)])
    store.delete_many([f"k{number}" for number in range(1001)])
    assert store.since(mark) == Usage(deletes=4)
    assert store.mark().requests == 2 + 4 + 1 + 3 + 4


def test_ranges_count_as_they_are_joined() -> None:
    """Two near ranges are one request with the gap between them, a far one is another."""
    store = MeteredStore(MemoryStore(), prices=S3_STANDARD)
    store.put("a", b"x" * 300_000)
    far = 100 + RANGE_GAP_BYTES_MAX + 1
    mark = store.mark()
    store.get_ranges("a", [ByteRange(50, 50), ByteRange(0, 10), ByteRange(far, 5), ByteRange(299_990, 100)])
    same(store.since(mark), Usage(gets=3, bytes_down=100 + 5 + 10, dollars=3 * 0.4e-6))
    mark = store.mark()
    store.get_ranges("a", [ByteRange(400_000, 5)])
    same(store.since(mark), Usage(gets=1, dollars=0.4e-6))
    mark = store.mark()
    with pytest.raises(NotFoundError):
        store.get_ranges("missing", [ByteRange(0, 1), ByteRange(200_000, 1)])
    assert store.since(mark).gets == 1


def test_a_listing_counts_by_page_as_they_are_taken() -> None:
    inner = MemoryStore()
    store = MeteredStore(FaultStore(inner, page_keys=2), prices=S3_STANDARD)
    mark = store.mark()
    assert len(list(store.list())) == 1
    assert store.since(mark).lists == 1
    for number in range(5):
        inner.put(f"k{number}", b"")
    mark = store.mark()
    pages = store.list()
    assert store.since(mark).lists == 0
    next(pages)
    assert store.since(mark).lists == 1
    assert len(list(pages)) == 2
    same(store.since(mark), Usage(lists=3, dollars=15e-6))


def test_failures_count_and_refusals_do_not() -> None:
    inner = FaultStore(MemoryStore(), {1: Fault.UNAVAILABLE_503, 2: Fault.ANSWER_LOST, 4: Fault.CRASH_BEFORE})
    store = MeteredStore(inner, prices=S3_STANDARD)
    with pytest.raises(InvalidRequestError):
        MeteredStore(MemoryStore()).get("../x")
    with pytest.raises(UnavailableError):
        store.get("a")
    with pytest.raises(UnavailableError):
        store.delete("a")
    with pytest.raises(ConflictError):
        store.put("a", b"1", IfMatch(Version("0")))
    with pytest.raises(SimulatedCrash):
        store.head("a")
    usage = store.mark()
    assert (usage.gets, usage.deletes, usage.puts, usage.heads) == (1, 1, 1, 1)
    assert usage.errors == {"UnavailableError": 2, "ConflictError": 1, "SimulatedCrash": 1}
    refused = MeteredStore(MemoryStore())
    with pytest.raises(InvalidRequestError):
        refused.put("a//b", b"1")
    assert refused.mark() == Usage()


def test_the_hook_hears_of_each_request() -> None:
    clock = ManualClock()
    profile = LatencyProfile(*(Latency(milliseconds) for milliseconds in (10, 20, 30, 40, 50)))
    slow = LatencyStore(MemoryStore(), clock=clock, chance=SeededChance(1), profile=profile)
    heard: list[MeteredRequest] = []
    store = MeteredStore(slow, hook=heard.append, clock=clock)
    store.put("a", b"12345")
    store.get("a")
    with pytest.raises(NotFoundError):
        store.head("b")
    store.get_ranges("a", [ByteRange(0, 1), ByteRange(2, 2), ByteRange(1_000_000, 1)])
    list(store.list("c/"))
    store.delete_many(["x", "y"])
    told = [(r.kind, r.key, r.bytes_up, r.bytes_down, round(r.seconds * 1000), r.error) for r in heard]
    assert told == [
        (RequestKind.PUT, "a", 5, 0, 40, ""),
        (RequestKind.GET, "a", 0, 5, 10, ""),
        (RequestKind.HEAD, "b", 0, 0, 20, "NotFoundError"),
        (RequestKind.GET, "a", 0, 4, 5, ""),
        (RequestKind.GET, "a", 0, 0, 5, ""),
        (RequestKind.LIST, "c/", 0, 0, 30, ""),
        (RequestKind.DELETE, "x", 0, 0, 50, ""),
    ]


def test_prices() -> None:
    million = 1_000_000
    assert S3_STANDARD.of_requests(RequestKind.PUT, million) == pytest.approx(5.00)
    assert S3_STANDARD.of_requests(RequestKind.LIST, million) == pytest.approx(5.00)
    assert S3_STANDARD.of_requests(RequestKind.GET, million) == pytest.approx(0.40)
    assert S3_STANDARD.of_requests(RequestKind.HEAD, million) == pytest.approx(0.40)
    assert S3_STANDARD.of_requests(RequestKind.DELETE, million) == 0
    assert S3_EXPRESS.of_requests(RequestKind.PUT, million) == pytest.approx(1.13)
    assert S3_EXPRESS.of_bytes(10**9, 10**9) == pytest.approx(0.0038)
    assert [prices_of(name) for name in ("file:///x", "memory://x", "s3://b/p", "gs://b")] == [
        FREE,
        FREE,
        S3_STANDARD,
        S3_STANDARD,
    ]


def test_threads_lose_no_count() -> None:
    store = MeteredStore(MemoryStore())

    def work(number: int) -> None:
        for _ in range(500):
            store.put(f"k{number}", b"12")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.mark() == Usage(puts=2000, bytes_up=4000)


def test_a_hook_that_raises_does_not_fail_the_request(caplog: pytest.LogCaptureFixture) -> None:
    def stumble(_: MeteredRequest) -> None:
        raise RuntimeError("the watcher stumbles")

    store = MeteredStore(MemoryStore(), hook=stumble)
    store.put("a", b"1", IfAbsent())
    assert store.get("a").body == b"1"
    assert "the hook for requests raised" in caplog.text
