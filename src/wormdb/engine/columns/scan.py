"""Scans that read only the columns they need, and leave out blocks that cannot have what is looked for.

    for portion in scan_columns(view, ["name", "address.city"], bounds={"age": Range(low, high)}):
        portion.values("name"); portion.table

Runs, attached blocks and the tail are merged range by range. A block whose range no other one shares is
handed on as it was read, without even its ids. Blocks are fetched a little ahead through the pool.

A block that `bounds` exclude is not read, but it goes on hiding older rows of its ids: where an older block that
is read shares its range, its ids are read, and nothing else of it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from wormdb.engine.blocks.cache import State
from wormdb.engine.blocks.portion import DOCUMENT, VERSION
from wormdb.engine.blocks.runs import AttachedBase, RunBase
from wormdb.engine.column_loose import LooseScan, Piece
from wormdb.engine.columns.fetch import Wanted, may_be_kept
from wormdb.engine.columns.merge import merge_parts
from wormdb.engine.columns.sources import Plan, RunSource, Tail, encode_rows
from wormdb.engine.state.view import EmptyBase
from wormdb.engine.tree.entries import Range
from wormdb.format.blocklist import BlockEntry
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.blocks.listing import Run
    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.columns.sources import Source
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import Base, Held, View
    from wormdb.format.blocklist import BlockPageRef, ColumnStats

__all__ = ["is_excluded", "portions_of", "scan_columns"]

P = TypeVar("P", "BlockEntry", "BlockEntry | BlockPageRef")

_NULL_KEY: Final = encode_key(None)
_MISSING_KEY: Final = encode_key(MISSING)


def scan_columns(  # noqa: PLR0913 - what is scanned, and how it comes
    view: View,
    names: Sequence[str],
    *,
    low: bytes = b"",
    high: bytes | None = None,
    bounds: Mapping[str, Range] | None = None,
    in_order: bool = True,
    rows: int | None = None,
) -> Iterator[Portion]:
    """Columns of every live document of a view with a key from `low` up to but not including `high`, in order of id.

    With `in_order` False in any order, as is cheapest; each document still comes once.

    `names` are dotted paths, `_id`, DOCUMENT for the whole document, and VERSION; one at least. With `bounds`, ranges
    of encoded keys by path, blocks that can have no value in one of them are left out; rows of other blocks come
    whether they are in the ranges or not. `rows` says about how many will be taken: no more is fetched ahead.

    For each block in the range as `fetch_columns` says, and 1 GET for each page of a long run's list that is not
    kept. Raises InvalidRequestError for what is no path; and CorruptionError, SnapshotTooOldError while it runs.
    """
    wanted = _wanted(view, names)
    bases = [attached.base for attached in view.overlay.attached(view.number)] + [view.base]
    upgrades = view.definition.upgrades
    if not all(isinstance(base, RunBase | AttachedBase | EmptyBase) for base in bases):
        return encode_rows((held for _, held in view.scan(low, high)), wanted)
    of_root = _runs_of(bases[-1:], upgrades)
    runs = _runs_of(bases[:-1], upgrades) + of_root
    tail = Tail(view.tail(low, high), wanted.keyed())
    scan = _Scan(runs, tail, wanted, Range(low, high), bounds or {}, rows)
    if not in_order and not low and high is None and runs and may_be_kept(runs[0][0], wanted):
        loose = scan.loose(_state_of(view), len(runs) - len(of_root)).begin()
        if loose is not None:
            return loose
    return scan.portions()


def _runs_of(bases: Sequence[Base], upgrades: Upgrades) -> list[tuple[Shelf, Run]]:
    return [
        (base.runs.shelf.showing(upgrades), run)
        for base in bases
        if isinstance(base, RunBase | AttachedBase)
        for run in base.runs.runs
    ]


def _state_of(view: View) -> State:
    return State(view.overlay.serial, view.number, 0 if view.place is None else view.place.root.revision)


def portions_of(view: View, rows: Iterable[Held], names: Sequence[str]) -> Iterator[Portion]:
    """The same columns of rows that come from elsewhere, in their order: of the live ones. No requests of its own."""
    return encode_rows(rows, _wanted(view, names))


def _wanted(view: View, names: Sequence[str]) -> Wanted:
    assert names, "a scan has columns"
    declared = {spec.path: spec for spec in view.definition.columns}
    paths = [name for name in dict.fromkeys(names) if name not in ("_id", DOCUMENT, VERSION)]
    return Wanted(
        {path: declared.get(path) or ColumnSpec(path) for path in paths},
        with_ids="_id" in names,
        with_documents=DOCUMENT in names,
        with_versions=VERSION in names,
    )


def is_excluded(shelf: Shelf, entry: BlockEntry, bounds: Mapping[str, Range]) -> bool:
    """Whether no document of a block can have a value in each of the ranges, by its path. No requests.

    A range that has the key of null also stands for missing fields. An array may have elements in several ranges, and
    so be met by conditions of which no single value meets all: arrays are never left out.
    """
    stats = {column.path: column for column in shelf.stats(entry)} if bounds else {}
    return any(path in stats and not _may_have(stats[path], span) for path, span in bounds.items())


def _may_have(stats: ColumnStats, span: Range) -> bool:
    if stats.others:
        return True
    if _NULL_KEY in span and (stats.nulls or stats.missing):
        return True
    if _MISSING_KEY in span and stats.missing:
        return True
    if not stats.values:
        return False
    if stats.low is None:
        return True  # arrays, whose elements may be anything: not even a range without keys leaves them out
    return (
        not span.empty
        and (span.high is None or stats.low < span.high)
        and (stats.high is None or span.low <= stats.high)
    )


# --- the scan ---


@dataclass(frozen=True, slots=True)
class _Scan:
    runs: Sequence[tuple[Shelf, Run]]
    """Newest first."""
    tail: Tail
    wanted: Wanted
    span: Range
    bounds: Mapping[str, Range]
    rows: int | None

    def portions(self) -> Iterator[Portion]:
        """The rows of all sources, newest first where they share keys."""
        if self.span.empty:
            return
        sources: list[Source] = [
            RunSource(shelf, run.through, self._plans(age), self.wanted, self.span, self.rows)
            for age, (shelf, run) in enumerate(self.runs)
        ]
        sources.append(self.tail)
        while heads := [(source, *head) for source in sources if (head := source.head()) is not None]:
            bound = min(last for _, _, last in heads)
            near = [source for source, first, _ in heads if first <= bound]
            for source in near:
                source.begin()
            parts = [part for source in near if (part := source.take(bound)) is not None]
            # A block that shares its range with nobody has no keys; rows of the tail before it are not in its range.
            alone = [part for part in parts if part.keys is None]
            for several in ([part for part in parts if part.keys is not None], alone):
                portion = merge_parts(several) if several else None
                if portion is not None and portion.rows:
                    yield portion if self.wanted.with_ids or "_id" not in portion.types else portion.without("_id")

    def loose(self, state: State, attached: int) -> LooseScan:
        """The same rows in any order, for as long as all that is needed is kept; so many runs were attached by jobs."""
        pieces: list[Piece] = []
        above: list[Piece] = []
        for age, (shelf, run) in enumerate(self.runs):
            for entry in run.blocks(shelf):
                newer = [(self.runs[place][0], other) for place in range(age) for other in self._near(place, entry)]
                piece = Piece(shelf, entry, run.through, newer)
                if not is_excluded(shelf, entry, self.bounds):
                    pieces.append(piece)
                if age < attached:
                    above.append(piece)
        shelf = self.runs[0][0]
        return LooseScan(pieces, self.tail.rows, above, self.wanted, state, shelf)

    def _plans(self, age: int) -> Iterator[Plan]:
        shelf, run = self.runs[age]
        for entry in run.blocks(shelf, self.span.low, self.span.high):
            plan = self._plan(age, entry)
            if plan is not None:
                yield plan

    def _plan(self, age: int, entry: BlockEntry) -> Plan | None:
        """How a block is read; None if it is left out."""
        if self._is_excluded(age, entry):
            return Plan(entry, is_shared=True, is_hiding=True) if self._must_hide(age, entry) else None
        is_shared = (
            self.tail.has_any(entry.key_first, entry.key_last)
            or any(True for place in range(age) for _ in self._near(place, entry))
            or any(
                not self._is_excluded(place, other) or self._must_hide(place, other)
                for place in range(age + 1, len(self.runs))
                for other in self._near(place, entry)
            )
        )
        return Plan(entry, is_shared=is_shared, is_hiding=False)

    def _must_hide(self, age: int, entry: BlockEntry) -> bool:
        """Whether anything that is read may be older and have ids of this block."""
        # A row of the tail may be older than blocks that a job attached, and hidden by them.
        return self.tail.has_any(entry.key_first, entry.key_last) or any(
            not self._is_excluded(place, other)
            for place in range(age + 1, len(self.runs))
            for other in self._near(place, entry)
        )

    def _is_excluded(self, place: int, entry: BlockEntry) -> bool:
        return is_excluded(self.runs[place][0], entry, self.bounds)

    def _near(self, place: int, entry: BlockEntry) -> Iterator[BlockEntry]:
        """The blocks of a run that share the range of a block of another one."""
        shelf, run = self.runs[place]
        for part in _between(run.parts, entry):
            if isinstance(part, BlockEntry):
                yield part
            else:
                yield from _between(shelf.listed([part])[part.name], entry)


def _between(parts: Sequence[P], entry: BlockEntry) -> Iterator[P]:
    """Those of parts in order of key that share the range of a block."""
    for place in range(bisect_left(parts, entry.key_first, key=lambda part: part.key_last), len(parts)):
        if parts[place].key_first > entry.key_last:
            return
        yield parts[place]
