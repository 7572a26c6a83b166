"""What a query really took, node by node: rows, time, requests, bytes and dollars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wormdb.storage.meter import S3_STANDARD, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.query.execute.rows import RowBatch
    from wormdb.query.plan import Node
    from wormdb.system.clock import Clock

__all__ = ["Measurement", "Metered", "Watch"]

T = TypeVar("T")

Metered: TypeAlias = Usage
"""What a store has counted so far, as `wormdb.storage.meter.MeteredStore.mark` tells."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one node took, and all below it with it."""

    rows: int = 0
    """Rows that it gave."""
    milliseconds: float = 0.0
    requests: int = 0
    bytes: int = 0
    """Read from the store."""
    dollars: float = 0.0
    """By the list price of S3 Standard (`wormdb.storage.meter`), wherever the objects are."""

    def __add__(self, other: Measurement) -> Measurement:
        return Measurement(
            self.rows + other.rows,
            self.milliseconds + other.milliseconds,
            self.requests + other.requests,
            self.bytes + other.bytes,
            self.dollars + other.dollars,
        )


class Watch:
    """Measures the nodes of one plan while it is carried out.

    Requests are counted when they are made: what is read ahead for a node counts for it, also if it is never used.
    """

    def __init__(self, clock: Clock, meter: Callable[[], Metered] | None = None) -> None:
        """Without a meter there are no requests and bytes."""
        self._clock = clock
        self._meter = meter
        self._taken: dict[int, Measurement] = {}

    def over(self, node: Node, found: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """The same batches, with rows and time counted."""
        while True:
            batch, taken = self._measure(lambda: next(found, None))
            self._taken[id(node)] = self.taken(node) + (
                taken if batch is None else taken + Measurement(rows=len(batch))
            )
            if batch is None:
                return
            yield batch

    def count(self, node: Node, work: Callable[[], int]) -> int:
        """A number that a node finds without rows, measured."""
        number, taken = self._measure(work)
        self._taken[id(node)] = taken
        return number

    def whole(self, work: Callable[[], int]) -> Measurement:
        """What some work took; `work` returns the number of its rows."""
        rows, taken = self._measure(work)
        return taken + Measurement(rows=rows)

    def taken(self, node: Node) -> Measurement:
        """What a node of the plan has taken so far; nothing if it was not needed."""
        return self._taken.get(id(node), Measurement())

    def _measure(self, work: Callable[[], T]) -> tuple[T, Measurement]:
        begin, mark = self._clock.monotonic(), None if self._meter is None else self._meter()
        result = work()
        seconds = self._clock.monotonic() - begin
        if self._meter is None or mark is None:
            return result, Measurement(milliseconds=1000 * seconds)
        used = self._meter() - mark
        return result, Measurement(0, 1000 * seconds, used.requests, used.bytes_down, used.dollars_at(S3_STANDARD))
