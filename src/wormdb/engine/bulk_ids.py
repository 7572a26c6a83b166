"""Ids that a task of a bulk job makes: those of one task lie together, apart from those of the others."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from wormdb.schema.identity import new_ids
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from wormdb.schema.model import IdStrategy
    from wormdb.system.clock import Chance

__all__ = ["TaskChance", "job_clock"]

_ULID_LETTERS: Final = 16
_TASK_LETTERS: Final = 3
_COUNT_LETTERS: Final = 6
_PAIRS: Final = [bytes((high, low)) for high in range(32) for low in range(32)]
"""Two letters of five bits each."""
_LETTERS: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ" * 8
_LETTER_PAIRS: Final = [pair.translate(_LETTERS) for pair in _PAIRS]
_OBJECTID_BYTES: Final = 8
_OBJECTID_COUNT_BYTES: Final = 3


def job_clock(started_ms: int) -> ManualClock:
    """The one moment of a job: when all of its documents were made."""
    return ManualClock(started_ms)


class TaskChance:
    """Chance for the ids of one task: after the time come the task's number, some chance, and a counter.

    So the ids of a task ascend, and no two tasks have ids between each other's. Nobody else has them: he would have to
    open a job in the same moment, and draw the same numbers.
    """

    def __init__(self, chance: Chance, strategy: IdStrategy, task: int) -> None:
        """`task` is the number of the task in its job."""
        self._chance = chance
        self._strategy = strategy
        self._task = task
        self._count = 0
        self._prefix = b""

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._chance.fraction()

    def token(self, count: int) -> bytes:
        """`count` bytes, from which ids are made."""
        size = {"ulid": _ULID_LETTERS, "objectid": _OBJECTID_BYTES}.get(self._strategy)
        if size is None or count % size:
            return self._chance.token(count)
        return self._letters(count // size) if self._strategy == "ulid" else self._bytes(count // size)

    def ulids(self, count: int, now_ms: int) -> pa.Array:
        """Ids of the strategy ulid as a column: those that `new_ids` makes of `token`. No requests."""
        import pyarrow as pa

        start = self._start(count)
        (first,) = new_ids("ulid", 1, clock=ManualClock(now_ms), chance=_Fixed(self._prefix + bytes(_COUNT_LETTERS)))
        width, stem = len(first), first[:-_COUNT_LETTERS].encode()
        texts = b"".join(_counted(stem, start, start + count))
        ends = array("i", range(0, width * (count + 1), width))
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(texts)])

    def _start(self, rows: int) -> int:
        return self._next(rows, 32**_COUNT_LETTERS, _ULID_LETTERS - _COUNT_LETTERS, _TASK_LETTERS, 5)

    def _letters(self, rows: int) -> bytes:
        """Of each byte the last five bits count."""
        start = self._start(rows)
        prefix, pairs = self._prefix, _PAIRS
        return b"".join(
            [
                b"%b%b%b%b" % (prefix, pairs[number >> 20], pairs[number >> 10 & 1023], pairs[number & 1023])
                for number in range(start, start + rows)
            ]
        )

    def _bytes(self, rows: int) -> bytes:
        size = _OBJECTID_COUNT_BYTES
        start = self._next(rows, 256**size, _OBJECTID_BYTES - size, 1, 8)
        return b"".join([self._prefix + number.to_bytes(size, "big") for number in range(start, start + rows)])

    def _next(self, rows: int, limit: int, size: int, task_size: int, bits: int) -> int:
        """The first number of the next `rows`; at the end of the counter a new prefix is drawn."""
        if not self._prefix or self._count + rows > limit:
            mask = (1 << bits) - 1
            task = bytes(self._task >> bits * place & mask for place in reversed(range(task_size)))
            self._prefix = task + bytes(byte & mask for byte in self._chance.token(size - task_size))
            self._count = 0
        start = self._count
        self._count += rows
        return start


def _counted(stem: bytes, start: int, stop: int) -> Iterator[bytes]:
    """A stem before each of the numbers in a range, in letters; those that end in other letters only are one join."""
    letters = _LETTER_PAIRS
    for high in range(start >> 10, (stop + 1023) >> 10):
        near = stem + letters[high >> 10] + letters[high & 1023]
        yield near.join([b"", *letters[max(start - (high << 10), 0) : min(stop - (high << 10), 1024)]])


class _Fixed:
    """Chance that is none."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fraction(self) -> float:
        """Always the same."""
        return 0.0

    def token(self, count: int) -> bytes:
        """The bytes that were given."""
        assert count == len(self._data)
        return self._data
