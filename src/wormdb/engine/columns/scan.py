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
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wormdb.engine.blocks.portion import (
    CODE_BYTES,
    DOCUMENT,
    VERSION,
    ColumnCodes,
    DecodedColumn,
    Portion,
    decoded_of,
    join_portions,
    portion_of,
)
from wormdb.engine.blocks.runs import AttachedBase, Run, RunBase
from wormdb.engine.blocks.shelf import Label, Shelf, State
from wormdb.engine.columns.fetch import ColumnRequest, fetch_columns, is_kept, may_be_kept
from wormdb.engine.columns.sources import (
    BlockPlan,
    KeyColumn,
    RunSource,
    Tail,
    encode_rows,
    marked,
    merge_parts,
    portion_of_rows,
)
from wormdb.engine.state.view import Base, EmptyBase, StoredVersion, View
from wormdb.engine.tree.entries import Range
from wormdb.format import json
from wormdb.format.blocklist import BlockEntry, BlockPageRef, ColumnStats
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, ObjectId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.engine.columns.sources import ColumnPart, RowSource
    from wormdb.engine.state.upgrade import Upgrades

__all__ = ["LooseScan", "ScanPiece", "is_excluded", "portions_of", "scan_columns"]


# --- Scans in no order, of columns that are kept decoded: nothing is merged, and nothing is read.
#
# Each block is handed on as it is, without the rows that something newer replaced or deleted; then the live rows of the
# tail. Which rows of a block are left, and the columns of the others, are found once for each state and kept with the
# blocks' own columns. Where a block has something kept no more, the scan in order has to read it.

JOINED_ROWS_MAX: Final = 262_144
"""Rows that come in one portion at most, if their columns are alike."""

_IDS: Final = ColumnRequest({}, with_ids=True)
_ALL_ALIVE = True


@dataclass(frozen=True, slots=True)
class ScanPiece:
    """A block that is read, and what may hide rows of it."""

    shelf: Shelf
    entry: BlockEntry
    rank: int
    hiders: Sequence[tuple[Shelf, BlockEntry]]
    """Blocks of newer runs that share its range."""


@dataclass(frozen=True, slots=True)
class LooseScan:
    """One scan."""

    pieces: Sequence[ScanPiece]
    tail: Sequence[tuple[bytes, StoredVersion]]
    """In order of key, deleted ones too."""
    above: Sequence[ScanPiece]
    """Blocks that jobs attached: they may hide rows of the tail."""
    wanted: ColumnRequest
    state: State
    shelf: Shelf
    """Of the collection's blocks: it keeps the tail's columns too."""

    def begin(self) -> Iterator[Portion] | None:
        """Each live document once; None if not all that is needed is kept."""
        if sum(piece.entry.rows for piece in self.pieces) + len(self.tail) > JOINED_ROWS_MAX:
            return self._each() if self._is_ready() else None
        # What is done with a portion costs something for each one, however short it is.
        types = (f"{name}\0{self._type(name)}" for name in self.wanted.names)
        names = "\0".join([*types, *(piece.entry.name for piece in self.pieces)])
        label = Label(self.shelf.folder, "joined", names)
        joined: list[Portion] | None = self._find(label)
        if joined is None:
            if not self._is_ready():
                return None
            joined = _joined_alike(list(self._each()))
            self._keep(label, joined, sum(map(_memory, joined)))
        return iter(joined)

    def _is_ready(self) -> bool:
        return all(self._is_piece_ready(piece) for piece in self.pieces) and all(
            is_kept(piece.shelf, piece.entry, _IDS) for piece in self.above
        )

    def _each(self) -> Iterator[Portion]:
        for piece in self.pieces:
            portion = self._of_block(piece)
            if portion.rows:
                yield portion
        rows = self._live_tail()
        if rows:
            yield self._of_tail(rows)

    def _is_piece_ready(self, piece: ScanPiece) -> bool:
        wanted = self.wanted.keyed() if self._is_shared(piece) else self.wanted
        return is_kept(piece.shelf, piece.entry, wanted) and all(
            is_kept(shelf, entry, _IDS) for shelf, entry in piece.hiders
        )

    # --- blocks ---

    def _of_block(self, piece: ScanPiece) -> Portion:
        shelf, entry = piece.shelf, piece.entry
        if not entry.deleted and not self._is_shared(piece):
            return fetch_columns(shelf, entry, self.wanted).portion
        alive = self._alive(piece)
        if alive is _ALL_ALIVE:
            return fetch_columns(shelf, entry, self.wanted).portion
        return portion_of(self._filtered(piece, alive))

    def _filtered(self, piece: ScanPiece, alive: pa.Array) -> dict[str, DecodedColumn]:
        """The columns of the rows of a block that are left."""
        key = piece.shelf.block_key(piece.entry.name)
        found = {name: self._find(Label(key, "alive " + self._type(name), name)) for name in self.wanted.names}
        if all(column is not None for column in found.values()):
            return found
        for name, column in decoded_of(fetch_columns(piece.shelf, piece.entry, self.wanted).portion).items():
            if found[name] is None:
                found[name] = column.filter(alive)
                self._keep(Label(key, "alive " + self._type(name), name), found[name], found[name].bytes)
        return found

    def _type(self, name: str) -> str:
        spec = self.wanted.specs.get(name)
        return "" if spec is None else spec.type

    def _alive(self, piece: ScanPiece) -> Any:
        """Which rows of a block are neither deleted nor replaced."""
        import pyarrow.compute as pc

        label = Label(piece.shelf.block_key(piece.entry.name), "alive")
        alive = self._find(label)
        if alive is None:
            hidden = self._hidden(piece)
            alive = _ALL_ALIVE if hidden is None or not pc.any(hidden).as_py() else pc.invert(hidden)
            self._keep(label, alive, piece.entry.rows // 8)
        return alive

    def _hidden(self, piece: ScanPiece) -> pa.Array | None:
        import pyarrow.compute as pc

        fetched = fetch_columns(piece.shelf, piece.entry, _IDS)
        hidden = None if fetched.deleted is None else _joined(fetched.deleted)
        if not self._is_shared(piece):
            return hidden
        keys = KeyColumn.of(fetched.portion)
        newer = [row for row in self._near_tail(piece.entry) if row[1].rev > piece.rank]
        others = [_keys_like(newer, keys.type)] if newer else []
        others += [KeyColumn.of(fetch_columns(shelf, entry, _IDS).portion) for shelf, entry in piece.hiders]
        replaced = marked(keys, others)
        return replaced if hidden is None else pc.or_(hidden, replaced)

    def _is_shared(self, piece: ScanPiece) -> bool:
        return bool(piece.hiders) or bool(self._near_tail(piece.entry))

    def _near_tail(self, entry: BlockEntry) -> Sequence[tuple[bytes, StoredVersion]]:
        start = bisect_left(self.tail, entry.key_first, key=_key_of)
        return self.tail[start : bisect_left(self.tail, entry.key_last + b"\0", lo=start, key=_key_of)]

    # --- the tail ---

    def _live_tail(self) -> list[StoredVersion]:
        label = Label(self.shelf.folder, "tail")
        rows: list[StoredVersion] | None = self._find(label)
        if rows is None:
            hidden = self._hidden_tail() if self.above else set()
            rows = [held for key, held in self.tail if held.document is not None and key not in hidden]
            self._keep(label, rows, 8 * len(rows))
        return rows

    def _hidden_tail(self) -> set[bytes]:
        """The keys of rows that are older than those of attached blocks."""
        found: set[bytes] = set()
        for piece in self.above:
            older = {key for key, held in self._near_tail(piece.entry) if held.rev < piece.rank}
            if older:
                keys = KeyColumn.of(fetch_columns(piece.shelf, piece.entry, _IDS).portion).as_encoded()
                found |= older.intersection(keys.cells.to_pylist())
        return found

    def _of_tail(self, rows: Sequence[StoredVersion]) -> Portion:
        found = {
            name: self._find(Label(self.shelf.folder, "tail " + self._type(name), name)) for name in self.wanted.names
        }
        missing = self.wanted.without({name for name, column in found.items() if column is not None})
        if missing is not None:
            for name, column in decoded_of(portion_of_rows(rows, missing)).items():
                found[name] = column
                self._keep(Label(self.shelf.folder, "tail " + self._type(name), name), column, column.bytes)
        return portion_of(found)

    # --- what is kept ---

    def _find(self, label: Label) -> Any:
        return self.shelf.columns.find(label, self.state)

    def _keep(self, label: Label, thing: object, cost: int) -> None:
        self.shelf.columns.keep(label, thing, cost, self.state)


def _joined_alike(portions: Sequence[Portion]) -> list[Portion]:
    """The same rows in fewer portions: those whose columns have the same types are one."""
    alike: list[list[Portion]] = []
    for portion in portions:
        near = (some for some in alike if some[0].types == portion.types)
        some = next((some for some in near if some[0].table.schema.equals(portion.table.schema)), None)
        if some is None:
            alike.append([portion])
        else:
            some.append(portion)
    # Arrow is faster on one piece of a column than on several.
    tables = [join_portions(some).table.combine_chunks() for some in alike]
    return [Portion(table, some[0].types, ColumnCodes(table)) for table, some in zip(tables, alike, strict=True)]


def _memory(portion: Portion) -> int:
    """Of a portion with its codes."""
    texts = sum(kind == "string" for kind in portion.types.values())
    return int(portion.table.nbytes) + texts * portion.rows * CODE_BYTES


def _key_of(row: tuple[bytes, StoredVersion]) -> bytes:
    return row[0]


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _keys_like(rows: Sequence[tuple[bytes, StoredVersion]], kind: str | None) -> KeyColumn:
    """The keys of rows of the tail that ids of one type may equal; as ids of that type, if there are no others."""
    ids = [] if kind is None else [json.decode(held.id, name="document id") for _, held in rows]
    if kind == "string":
        return KeyColumn.plain([one for one in ids if type(one) is str], kind)
    if kind == "objectid":
        return KeyColumn.plain([one.binary for one in ids if type(one) is ObjectId], kind)
    if kind == "int64" and all(type(one) in (int, str, ObjectId) for one in ids):
        return KeyColumn.plain([one for one in ids if type(one) is int], kind)
    return KeyColumn.encoded([key for key, _ in rows])


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
    is_whole = not low and high is None and bool(runs)
    is_kept_whole = is_whole and not wanted.with_documents and may_be_kept(runs[0][0], wanted)
    tail = Tail(view.tail(low, high), wanted.keyed(), (runs[0][0], _state_of(view)) if is_kept_whole else None)
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


def portions_of(view: View, rows: Iterable[StoredVersion], names: Sequence[str]) -> Iterator[Portion]:
    """The same columns of rows that come from elsewhere, in their order: of the live ones. No requests of its own."""
    return encode_rows(rows, _wanted(view, names))


def _wanted(view: View, names: Sequence[str]) -> ColumnRequest:
    assert names, "a scan has columns"
    declared = {spec.path: spec for spec in view.definition.columns}
    paths = [name for name in dict.fromkeys(names) if name not in ("_id", DOCUMENT, VERSION)]
    return ColumnRequest(
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
    wanted: ColumnRequest
    span: Range
    bounds: Mapping[str, Range]
    rows: int | None

    def portions(self) -> Iterator[Portion]:
        """The rows of all sources, newest first where they share keys."""
        if self.span.empty:
            return
        sources: list[RowSource] = [
            RunSource(shelf, run.through, self._plans(age), self.wanted, self.span, self.rows)
            for age, (shelf, run) in enumerate(self.runs)
        ]
        sources.append(self.tail)
        while heads := [(source, *head) for source in sources if (head := source.head()) is not None]:
            bound = min(last for _, _, last in heads)
            near = [source for source, first, _ in heads if first <= bound]
            for source in near:
                source.begin()
            merged = self._merged([part for source in near if (part := source.take(bound)) is not None])
            while merged:
                yield merged.pop(0)  # not held while the next is read: documents may be long

    def _merged(self, parts: Sequence[ColumnPart]) -> list[Portion]:
        """The rows of parts that end at one key."""
        # A block that shares its range with no other has no keys; rows of the tail before it are not in its range.
        alone = [part for part in parts if part.keys is None]
        shared = [part for part in parts if part.keys is not None]
        found = [merge_parts(several) for several in (shared, alone) if several]
        return [
            portion if self.wanted.with_ids or "_id" not in portion.types else portion.without("_id")
            for portion in found
            if portion is not None and portion.rows
        ]

    def loose(self, state: State, attached: int) -> LooseScan:
        """The same rows in any order, for as long as all that is needed is kept; `attached` runs came with jobs."""
        pieces: list[ScanPiece] = []
        above: list[ScanPiece] = []
        for age, (shelf, run) in enumerate(self.runs):
            for entry in run.blocks(shelf):
                newer = [(self.runs[place][0], other) for place in range(age) for other in self._near(place, entry)]
                piece = ScanPiece(shelf, entry, run.through, newer)
                if not is_excluded(shelf, entry, self.bounds):
                    pieces.append(piece)
                if age < attached:
                    above.append(piece)
        shelf = self.runs[0][0]
        return LooseScan(pieces, self.tail.rows, above, self.wanted, state, shelf)

    def _plans(self, age: int) -> Iterator[BlockPlan]:
        shelf, run = self.runs[age]
        for entry in run.blocks(shelf, self.span.low, self.span.high):
            plan = self._plan(age, entry)
            if plan is not None:
                yield plan

    def _plan(self, age: int, entry: BlockEntry) -> BlockPlan | None:
        """How a block is read; None if it is left out."""
        if self._is_excluded(age, entry):
            return BlockPlan(entry, is_shared=True, is_hiding=True) if self._must_hide(age, entry) else None
        is_shared = (
            self.tail.has_any(entry.key_first, entry.key_last)
            or any(True for place in range(age) for _ in self._near(place, entry))
            or any(
                not self._is_excluded(place, other) or self._must_hide(place, other)
                for place in range(age + 1, len(self.runs))
                for other in self._near(place, entry)
            )
        )
        return BlockPlan(entry, is_shared=is_shared, is_hiding=False)

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
