"""What a call of a process that knows nothing asks a store for: rounds, requests and bytes.

Rounds are counted and not timed: nothing runs at the same time here. What a pool is given is done at once, as if it
began in the round of the caller; who takes its result goes on from the later of both. So a request is of the round
behind the last one whose answer it may depend on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import wormdb
from wormdb.storage.pool import ThreadPool
from wormdb.storage.store import WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb import Database
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.store import ByteRange, ObjectInfo, Probe, Store, StoredObject

__all__ = ["ColdCall", "call_cold"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ColdCall:
    """What one call asked for."""

    asked: tuple[tuple[int, str], ...]
    """The round and the key of each request, in any order."""
    bytes: int

    @property
    def rounds(self) -> int:
        """The longest chain of requests of which each may depend on the one before."""
        return max((number for number, _ in self.asked), default=0)

    @property
    def requests(self) -> int:
        """How many there are."""
        return len(self.asked)

    @property
    def widest(self) -> int:
        """The most requests of one round: they are sent at once if there are as many threads."""
        return max(Counter(number for number, _ in self.asked).values(), default=0)

    def keys(self, number: int) -> list[str]:
        """What a round asks for, in order."""
        return sorted(key for each, key in self.asked if each == number)


@dataclass
class _Rounds:
    """What a pool does without threads, and of which round each request is."""

    now: int = 0
    asked: list[tuple[int, str]] = field(default_factory=list)
    bytes: int = 0

    def count(self, request: MeteredRequest) -> None:
        self.asked.append((self.now, request.key))
        self.bytes += request.bytes_down

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        begun = self.now
        ended: list[tuple[int, Any, Exception | None]] = []
        for item in items:
            self.now = begun
            try:
                result, error = function(item), None
            except Exception as raised:  # noqa: BLE001 - it is raised where the result is taken
                result, error = None, raised
            ended.append((self.now, result, error))
        self.now = begun
        return self._results(ended)

    def _results(self, ended: list[tuple[int, Any, Exception | None]]) -> Iterator[Any]:
        for number, result, error in ended:
            self.now = max(self.now, number)
            if error is not None:
                raise error
            yield result


class _RoundStore(WrappedStore):
    """Each call is a round: ranges of one object are asked for side by side."""

    def __init__(self, inner: Store, rounds: _Rounds) -> None:
        super().__init__(inner)
        self._rounds = rounds

    def get(self, key: str) -> StoredObject:
        self._rounds.now += 1
        return super().get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        self._rounds.now += 1
        return super().get_range(key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        self._rounds.now += 1
        return super().get_ranges(key, spans)

    def probe(self, key: str) -> Probe:
        self._rounds.now += 1
        return super().probe(key)

    def head(self, key: str) -> ObjectInfo:
        self._rounds.now += 1
        return super().head(key)


def call_cold(store: Store, call: Callable[[Database], object]) -> ColdCall:
    """Connect, call once, and count what is read."""
    rounds = _Rounds()
    with mock.patch.object(ThreadPool, "map", lambda _, function, items: rounds.map(function, items)):
        counted = _RoundStore(store, rounds)
        database = wormdb.connect(counted, settings=wormdb.Settings(forward="manual"), hook=rounds.count)
        call(database)
    return ColdCall(tuple(rounds.asked), rounds.bytes)
