"""Which keys a unique index certainly does not have, so that a new key needs no look into the tree.

A filter is a set of hashes cut to b bits, kept in runs: new keys make a small run, and a run joins the one before it
when that is not twice as large. As all hashes have the same length, no key is needed for it. So with n keys,
added k at a time, there are at most 2 + log2(n / k) runs, and a key is written again at most 1 + log1.5(n / k) times.

b is chosen for four times the keys there are, 4,096 at least. An absent key is taken for present with probability
keys / 2^b: about 1 in 1,024 to 2,048 after a build, and never above 1 in 256, because a filter with more
keys is full and must be built again. Keys that were deleted stay in it until then. It takes 1.5 to 2 bytes a key.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, Final

from wormdb.engine.tree.nodes import NewNode, NodeMaker, StoreNodes
from wormdb.format.arrays import settle_arrow
from wormdb.format.frame import corrupt
from wormdb.format.membership import HASH_BITS, FilterRun, decode_filter_run, encode_filter_run, key_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.format.root import ObjectRef

__all__ = [
    "FilterChange",
    "KeyFilter",
    "build_filter_of",
    "extend_filter_of",
    "load_filter",
]

SLOTS_PER_KEY_MIN: Final = 256
GROWTH: Final = 4
KEYS_MIN: Final = 1024
MANY: Final = 10_000
"""Marks of at least this many keys are sorted as a column."""
RUN_MARKS_MAX: Final = 1 << 24
"""Marks in one run, so that it stays below SIDECAR_BYTES_MAX."""


@dataclass(frozen=True, slots=True)
class _FilterRun:
    ref: ObjectRef
    marks: Sequence[int]

    def has(self, mark: int) -> bool:
        place = bisect_left(self.marks, mark)
        return place < len(self.marks) and self.marks[place] == mark


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """An approximate set of keys, in memory: 8 bytes a key. No key that was put in is ever denied."""

    bits: int
    runs: tuple[_FilterRun, ...]

    @property
    def ref(self) -> ObjectRef:
        """The newest run, which names the others: what the root keeps."""
        return self.runs[-1].ref

    @property
    def refs(self) -> tuple[ObjectRef, ...]:
        """All runs, oldest first."""
        return tuple(run.ref for run in self.runs)

    @property
    def is_full(self) -> bool:
        """Whether it must be built again, from the keys in the tree, before it is extended."""
        return not self.has_room(0)

    def has_room(self, keys: int) -> bool:
        """Whether it is good enough with this many keys more; otherwise build it again."""
        return (len(self) + keys) * SLOTS_PER_KEY_MIN <= 1 << self.bits

    def might_contain(self, key: bytes) -> bool:
        """False only if `key` was certainly not put in. No requests."""
        return self._has(key_hash(key) >> (HASH_BITS - self.bits))

    def __len__(self) -> int:
        return sum(len(run.marks) for run in self.runs)

    def _has(self, mark: int) -> bool:
        return any(run.has(mark) for run in self.runs)

    def new_marks(self, hashes: Iterable[int]) -> list[int]:
        """The marks of keys that the filter has not, ascending; the keys are given by `key_hash`."""
        marks = {number >> (HASH_BITS - self.bits) for number in hashes}
        return sorted(mark for mark in marks if not self._has(mark))


@dataclass(frozen=True, slots=True)
class FilterChange:
    """A filter after a change: what to write first, and what it no longer needs."""

    filter: KeyFilter
    written: tuple[NewNode, ...] = ()
    retired: tuple[ObjectRef, ...] = ()


def build_filter_of(hashes: Sequence[int], maker: NodeMaker) -> FilterChange:
    """A filter over keys, given by their hashes in any order, with room for four times as many. No requests."""
    bits = (max(len(hashes), KEYS_MIN) * GROWTH * SLOTS_PER_KEY_MIN - 1).bit_length()
    marks = _marks(hashes, bits)
    runs: tuple[_FilterRun, ...] = ()
    written: list[NewNode] = []
    for start in range(0, max(len(marks), 1), RUN_MARKS_MAX):
        run, new = _make(bits, array("Q", marks[start : start + RUN_MARKS_MAX]), runs, maker)
        runs, written = (*runs, run), [*written, new]
    return FilterChange(KeyFilter(bits, runs), tuple(written))


def _marks(hashes: Sequence[int], bits: int) -> Sequence[int]:
    """The marks of hashes, ascending, each once."""
    if len(hashes) < MANY:
        return sorted({number >> (HASH_BITS - bits) for number in hashes})
    import pyarrow as pa
    import pyarrow.compute as pc

    settle_arrow()
    # As numbers of Python they would take ten times the memory. Each step lets go of what the one before it made.
    packed = hashes if isinstance(hashes, array) else array("Q", hashes)
    numbers = pa.Array.from_buffers(pa.uint64(), len(packed), [None, pa.py_buffer(packed)])
    marks = pc.shift_right(numbers, pa.scalar(HASH_BITS - bits, pa.uint64()))
    del packed, numbers
    marks = marks.take(pc.sort_indices(marks))
    is_new = pc.not_equal(marks.slice(1), marks.slice(0, len(marks) - 1))
    found = array("Q", [marks[0].as_py()])
    marks = marks.slice(1).filter(is_new)
    found.frombytes(marks.buffers()[1].slice(0, 8 * len(marks)))
    return found


def extend_filter_of(known: KeyFilter, hashes: Iterable[int], maker: NodeMaker) -> FilterChange:
    """The filter with more keys, given by their hashes: one new run, or nothing if it has them all. No requests.

    The caller builds a filter that is full anew instead.
    """
    marks: Sequence[int] = known.new_marks(hashes)
    if not marks:
        return FilterChange(known)
    runs = list(known.runs)
    retired = []
    while runs and len(runs[-1].marks) < 2 * len(marks) and len(runs[-1].marks) + len(marks) <= RUN_MARKS_MAX:
        joined = runs.pop()
        retired.append(joined.ref)
        marks = list(merge(joined.marks, marks))
    run, new = _make(known.bits, array("Q", marks), runs, maker)
    return FilterChange(KeyFilter(known.bits, (*runs, run)), (new,), tuple(retired))


def load_filter(ref: ObjectRef, objects: StoreNodes, *, scope: str = "") -> KeyFilter:
    """The filter whose newest run is `ref`. 1 GET a run, in two round trips.

    Raises CorruptionError, UnsupportedFormatError, SnapshotTooOldError.
    """

    def load(refs: Sequence[ObjectRef]) -> list[FilterRun]:
        return [
            decode_filter_run(body, name=objects.key(run.name), identity=scope + run.name)
            for run, body in zip(refs, objects.bodies(refs), strict=True)
        ]

    (newest,) = load([ref])
    older = load(newest.older)
    for run, loaded in zip(newest.older, older, strict=True):
        if loaded.bits != newest.bits:
            corrupt(objects.key(run.name), f"its marks have {loaded.bits} bits and those of its filter {newest.bits}")
    runs = [_FilterRun(run, loaded.marks) for run, loaded in zip((*newest.older, ref), (*older, newest), strict=True)]
    return KeyFilter(newest.bits, tuple(runs))


def _make(bits: int, marks: Sequence[int], older: Sequence[_FilterRun], maker: NodeMaker) -> tuple[_FilterRun, NewNode]:
    name = maker.name()
    run = FilterRun(bits, marks, tuple(one.ref for one in older))
    new = NewNode(name, encode_filter_run(run, identity=maker.scope + name))
    return _FilterRun(new.ref, marks), new
