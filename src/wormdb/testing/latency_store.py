"""A store that takes its time: to see what a design costs on a far store, without one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from wormdb.settings import DELETE_MANY_KEYS
from wormdb.storage.store import OCTETS, Store, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.storage.store import (
        ByteRange,
        ListPage,
        ObjectInfo,
        Precondition,
        Probe,
        PutResult,
        StoredObject,
        UploadSource,
    )
    from wormdb.system.clock import Chance, Clock

__all__ = ["NO_LATENCY", "S3_LIKE", "Latency", "LatencyProfile", "LatencyStore"]

T = TypeVar("T")

DEVIATIONS_P99 = 2.326347874
"""Standard deviations between the median and the 99th percentile of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one request takes: always `median_ms`, or lognormal if `p99_ms` is given."""

    median_ms: float
    p99_ms: float | None = None

    def seconds(self, chance: Chance) -> float:
        """One draw."""
        if self.p99_ms is None or self.median_ms == 0:
            return self.median_ms / 1000
        deviation = math.log(self.p99_ms / self.median_ms) / DEVIATIONS_P99
        radius = math.sqrt(-2 * math.log(1 - chance.fraction()))
        normal = radius * math.cos(2 * math.pi * chance.fraction())
        return self.median_ms / 1000 * math.exp(deviation * normal)


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """Latency by kind of request."""

    get: Latency
    head: Latency
    list: Latency
    put: Latency
    delete: Latency


NO_LATENCY = LatencyProfile(*(Latency(0),) * 5)
S3_LIKE = LatencyProfile(
    get=Latency(25, 66), head=Latency(20, 50), list=Latency(50, 130), put=Latency(100, 195), delete=Latency(25, 66)
)
"""A regional object store as published benchmarks see it."""


class LatencyStore(WrappedStore):
    """Waits half of each request's time before it is executed and half after, as a network does."""

    def __init__(self, inner: Store, *, clock: Clock, chance: Chance, profile: LatencyProfile = S3_LIKE) -> None:
        """With a ManualClock nothing waits, but the clock tells what would have been."""
        super().__init__(inner)
        self._clock = clock
        self._chance = chance
        self._profile = profile

    def get(self, key: str) -> StoredObject:
        """The whole object, after a while."""
        return self._late(self._profile.get, lambda: self._inner.get(key))

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """A range, after a while."""
        return self._late(self._profile.get, lambda: self._inner.get_range(key, span))

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges, after one wait: they go side by side."""
        return self._late(self._profile.get, lambda: self._inner.get_ranges(key, spans))

    def probe(self, key: str) -> Probe:
        """The object or None, after a while."""
        return self._late(self._profile.get, lambda: self._inner.probe(key))

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version, after a while."""
        return self._late(self._profile.head, lambda: self._inner.head(key))

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder, one wait a page."""
        pages = self._inner.list(prefix, after=after, delimiter=delimiter)
        page = self._late(self._profile.list, lambda: next(pages, None))
        while page is not None:
            yield page
            page = next(pages, None)
            if page is not None:
                self._clock.sleep(self._profile.list.seconds(self._chance))

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write, after a while."""
        return self._late(
            self._profile.put, lambda: self._inner.put(key, body, precondition, content_type=content_type)
        )

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write, after a while."""
        self._late(self._profile.put, lambda: self._inner.upload(key, source, content_type=content_type))

    def delete(self, key: str) -> None:
        """Remove the object, after a while."""
        self._late(self._profile.delete, lambda: self._inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects, one wait for each 1,000."""
        for _ in range(DELETE_MANY_KEYS, len(keys), DELETE_MANY_KEYS):
            self._clock.sleep(self._profile.delete.seconds(self._chance))
        self._late(self._profile.delete, lambda: self._inner.delete_many(keys))

    def _late(self, latency: Latency, call: Callable[[], T]) -> T:
        half = latency.seconds(self._chance) / 2
        self._clock.sleep(half)
        try:
            return call()
        finally:
            self._clock.sleep(half)
