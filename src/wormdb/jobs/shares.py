"""How a scan is shared among tasks: ranges of ids that begin where blocks do, or the ids that an index found.

Nothing is read twice: a task reads the blocks that lie in its range, and where a range ends within a block only the
row groups on its side. Blocks that filters exclude are no task's, unless they hide older rows of those that are.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.runs import AttachedBase, RunBase
from wormdb.engine.columns.scan import is_excluded
from wormdb.engine.state.view import View, id_key
from wormdb.engine.tree.entries import ALL_ENTRIES, Range
from wormdb.jobs.row_filter import NAN_KEY, RowBounds
from wormdb.settings import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.index.read import IndexReader
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.tree.definition import Index
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.sidecar import PageMap
    from wormdb.jobs.state import PinnedState

__all__ = ["TASK_IDS", "Share", "all_ranges", "shares"]

TASK_BYTES: Final = 32 * MIB
"""A task reads about this many bytes of stored blocks, …"""
TASK_BYTES_MIN: Final = MIB
"""… less if that keeps all cores busy, but not less than this."""
TASK_IDS: Final = 1_000
IDS_MAX: Final = 10_000
"""Documents up to this number, and a hundredth of all, are looked up one by one."""
COUNTED_MAX: Final = 32
"""Values up to this number are looked up in an index that may have many documents for each."""
_TAIL_ROW_BYTES: Final = KIB


@dataclass(frozen=True, slots=True)
class Share:
    """What one task reads: a range of keys of ids, or some keys."""

    span: Range = ALL_ENTRIES
    keys: tuple[bytes, ...] | None = None
    bounds: tuple[tuple[str, Range], ...] = ()
    """By which blocks are left out."""
    size: int = 0
    """Stored bytes in it, about …"""
    rows: int = 0
    """… and documents."""


def shares(state: PinnedState, narrowing: RowBounds, *, tasks: int | None) -> list[Share]:
    """The shares of all tasks, of which `tasks` are wanted; none if nothing can be found.

    1 GET for each page of a long list of blocks, and for the page map of a large block that is shared. A look-up in
    an index costs as `IndexReader.count` and `IndexReader.ranges`.
    """
    view = state.view()
    keys = None if view is None else _keys(state.ledger, view, narrowing)
    if keys is not None:
        parts = [tuple(keys[start : start + TASK_IDS]) for start in range(0, len(keys), TASK_IDS)]
        return [Share(keys=part, size=_TAIL_ROW_BYTES * len(part), rows=len(part)) for part in parts]
    span = narrowing.ranges.get("_id", ALL_ENTRIES)
    # The past lies in other blocks, but where ids are many now they were likely many then.
    found = _Blocks.of(view or state.newest(), span)
    bounds = {} if view is None else _bounds(found, narrowing)
    kept = found.without(bounds)
    spans = _Cut(kept, span, tasks).spans(is_past=view is None)
    return [Share(one, None, tuple(bounds.items()), *kept.amount(one)) for one in spans]


def all_ranges(state: PinnedState, *, tasks: int | None) -> list[Share]:
    """Ranges that together have every id, also of documents that are gone. Costs as `shares` without filters."""
    found = _Blocks.of(state.newest(), ALL_ENTRIES)
    spans = _Cut(found, ALL_ENTRIES, tasks).spans(is_past=True)
    return [Share(one, None, (), *found.amount(one)) for one in spans]


# --- documents by their keys ---


def _keys(ledger: Ledger, view: View, narrowing: RowBounds) -> list[bytes] | None:
    """The keys of all documents that can be wanted, if they are few enough to be looked up."""
    most = min(IDS_MAX, max(view.count // 100, TASK_IDS))
    given = narrowing.points.get("_id")
    if given is not None and len(given) <= most:
        return sorted(given)
    if view.overlay.attached(view.number):
        return None  # an index would have to read them whole
    found = [
        keys
        for index in view.definition.indexes.ready
        if (points := narrowing.points.get(index.fields[0])) is not None
        and (keys := _looked_up(ledger.index(view, index), index, points, most)) is not None
    ]
    return min(found, key=len) if found else None


def _looked_up(reader: IndexReader | None, index: Index, points: frozenset[bytes], most: int) -> list[bytes] | None:
    """The keys of the ids that an index has for some values; None if they may be too many."""
    is_single = index.unique and len(index.fields) == 1
    if reader is None or len(points) > (most if is_single else COUNTED_MAX):
        return None
    spans = [Range.prefix(key) for key in sorted(points)]
    if not is_single and sum(reader.count(span) for span in spans) > most:
        return None
    entries = [entry for found in reader.ranges(spans) for entry in found]
    return sorted({id_key(identity) for _, identity in entries})


# --- ranges ---


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of each run that lie in a range, and the keys of the tail."""

    runs: Sequence[tuple[Shelf, Sequence[BlockEntry]]]
    tail: Sequence[bytes]

    @classmethod
    def of(cls, view: View, span: Range) -> _Blocks:
        bases = [attached.base for attached in view.overlay.attached(view.number)] + [view.base]
        upgrades = view.definition.upgrades
        runs = [
            (base.runs.shelf.showing(upgrades), list(run.blocks(base.runs.shelf, span.low, span.high)))
            for base in bases
            if isinstance(base, RunBase | AttachedBase)
            for run in base.runs.runs
        ]
        return cls(runs, [key for key, _ in view.overlay.scan(view.number, span.low, span.high)])

    def entries(self) -> Iterator[BlockEntry]:
        return (entry for _, entries in self.runs for entry in entries)

    def amount(self, span: Range) -> tuple[int, int]:
        """About how many bytes and rows are in a range: of blocks that reach out of it as if it had a half."""
        size = rows = 0
        for entry in self.entries():
            if entry.key_last < span.low or not _is_below(entry.key_first, span.high):
                continue
            is_inside = entry.key_first >= span.low and _is_below(entry.key_last, span.high)
            size += entry.length if is_inside else entry.length // 2
            rows += entry.rows if is_inside else entry.rows // 2
        high = len(self.tail) if span.high is None else bisect_left(self.tail, span.high)
        tail = high - bisect_left(self.tail, span.low)
        return size + _TAIL_ROW_BYTES * tail, rows + tail

    def without(self, bounds: Mapping[str, Range]) -> _Blocks:
        """Those that bounds do not exclude."""
        kept = [
            (shelf, [entry for entry in entries if not is_excluded(shelf, entry, bounds)])
            for shelf, entries in self.runs
        ]
        return _Blocks(kept, self.tail)


def _bounds(blocks: _Blocks, narrowing: RowBounds) -> dict[str, Range]:
    """The ranges by which blocks may be left out: not those where a NaN would be missed."""
    unsafe = {
        stats.path
        for shelf, entries in blocks.runs
        for entry in entries
        for stats in shelf.stats(entry)
        if stats.path in narrowing.nan_paths and stats.values and (stats.low is None or stats.low <= NAN_KEY)
    }
    return {path: span for path, span in narrowing.ranges.items() if path != "_id" and path not in unsafe}


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts the range of some blocks into as many as there are tasks, where blocks of the largest run begin."""

    blocks: _Blocks
    span: Range
    tasks: int | None

    def spans(self, *, is_past: bool) -> list[Range]:
        """All of them, or unless it `is_past` those in which something is."""
        total = sum(entry.length for entry in self.blocks.entries()) + _TAIL_ROW_BYTES * len(self.blocks.tail)
        if not total:
            return [self.span] if is_past else []
        count = self._count(total)
        ends = [self.span.low, *self._cuts(count), self.span.high]
        ranges = [Range(low or b"", high) for low, high in pairwise(ends)]
        return [one for one in ranges if is_past or self._has_any(one)]

    def _count(self, total: int) -> int:
        if self.tasks is not None:
            return self.tasks
        busy = 2 * (os.cpu_count() or 1)
        return max(-(-total // TASK_BYTES), min(busy, -(-total // TASK_BYTES_MIN)), 1)

    def _cuts(self, count: int) -> list[bytes]:
        """The keys at which all ranges but the first begin: about as much is to be read between two of them."""
        if count == 1:
            return []
        pieces = self._pieces(count)
        weights = sorted([*pieces, *((key, _TAIL_ROW_BYTES) for key in self.blocks.tail)])
        candidates = sorted({key for key, _ in pieces} or set(self.blocks.tail))
        keys = [key for key, _ in weights]
        reached = [0, *accumulate(weight for _, weight in weights)]
        cuts: list[bytes] = []
        befores = [reached[bisect_left(keys, key)] for key in candidates]
        for key, (before, after) in zip(candidates, pairwise([*befores, reached[-1]]), strict=True):
            is_inside = key > self.span.low and _is_below(key, self.span.high)
            # The next candidate would be further off.
            is_near = (before + after) / 2 >= reached[-1] * (len(cuts) + 1) / count
            if is_inside and is_near and len(cuts) < count - 1:
                cuts.append(key)
        return cuts

    def _pieces(self, count: int) -> list[tuple[bytes, int]]:
        """Where how much of the largest run is to be read: block by block, or by row groups if blocks are few."""
        shelf, entries = max(
            self.blocks.runs, key=lambda run: sum(entry.length for entry in run[1]), default=(None, ())
        )
        wide = [entry for entry in entries if entry.length > TASK_BYTES_MIN] if len(entries) < 2 * count else []
        maps = shelf.learn(wide)[0] if shelf is not None and wide else {}
        pieces: list[tuple[bytes, int]] = []
        for entry in entries:
            page_map = maps.get(entry.name)
            groups = [(entry.key_first, entry.rows)] if page_map is None else _groups(page_map, entry.key_first)
            pieces += [(key, entry.length * rows // entry.rows) for key, rows in groups]
        return pieces

    def _has_any(self, span: Range) -> bool:
        if any(entry.key_last >= span.low and _is_below(entry.key_first, span.high) for entry in self.blocks.entries()):
            return True
        place = bisect_left(self.blocks.tail, span.low)
        return place < len(self.blocks.tail) and _is_below(self.blocks.tail[place], span.high)


def _groups(page_map: PageMap, first: bytes) -> list[tuple[bytes, int]]:
    """The least key that may be in each row group, and how many rows it has."""
    pages = page_map.keys[1:]
    if page_map.pages is not None:
        pages = tuple(page_map.keys[page] for page in accumulate(group.pages for group in page_map.groups[:-1]))
    return list(zip((first, *pages), (group.rows for group in page_map.groups), strict=True))


def _is_below(key: bytes, high: bytes | None) -> bool:
    return high is None or key < high
