"""What takes part in a column scan: blocks of runs, fetched a little ahead, and the tail of the log; how they merge.

Arrow merges rows of several runs in order of key, column by column, the newest of each key. Ids of one plain type
compare as their keys do, so Arrow sorts the column itself; all others are compared by their encoded keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from wormdb.engine.blocks.memory import give_back_memory
from wormdb.engine.blocks.portion import (
    DOCUMENT,
    VERSION_TYPES,
    Portion,
    elsewhere_rows,
    encode_documents,
    join_portions,
    texts_of,
    version_cells,
)
from wormdb.engine.blocks.shelf import Label, Shelf, State
from wormdb.engine.columns.fetch import fetch_columns, fetch_groups, is_heavy, is_kept
from wormdb.format import json
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.columns import KIND_PREFIX, ColumnSpec, arrow_type, decode_column, encode_column
from wormdb.format.key import encode_key, encode_keys
from wormdb.settings import BLOCK_BYTES_TARGET, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from wormdb.engine.columns.fetch import BlockRows, ColumnRequest, GroupRead
    from wormdb.engine.state.view import StoredVersion
    from wormdb.engine.tree.entries import Range
    from wormdb.format.blocklist import BlockEntry

    _PartRead = Callable[[], Callable[[], "ColumnPart"]]
    """Reads the bytes of a part of a block, and gives what unpacks them."""


__all__ = [
    "BlockPlan",
    "ColumnPart",
    "KeyColumn",
    "RowSource",
    "RunSource",
    "Tail",
    "encode_rows",
    "marked",
    "merge_parts",
    "portion_of_rows",
]

# --- rows of several runs as one ---

PLAIN_TYPES: Final = frozenset({"string", "int64", "objectid"})
"""Ids of these types: Arrow orders them as their keys are ordered, and equal ones have equal keys."""

FEW_SHARE: Final = 64
"""Fewer rows than this share of the others are put among them one by one instead of sorting all."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The keys of some rows, ascending."""

    cells: pa.ChunkedArray
    type: str | None
    """Of the ids that stand for their keys; None: these are encoded keys."""

    @classmethod
    def of(cls, portion: Portion) -> KeyColumn:
        """Of the rows of a portion that has `_id`."""
        if portion.types["_id"] in PLAIN_TYPES and portion.kinds("_id") is None:
            return cls(portion.table.column("_id"), portion.types["_id"])
        return cls.encoded(encode_keys(portion.values("_id")))

    @classmethod
    def encoded(cls, keys: Sequence[bytes]) -> KeyColumn:
        """Of keys themselves."""
        import pyarrow as pa

        return cls(pa.chunked_array([array_of(keys, pa.binary())]), None)

    @classmethod
    def plain(cls, cells: Sequence[Any], kind: str) -> KeyColumn:
        """Of ids of one of PLAIN_TYPES, as their columns hold them."""
        import pyarrow as pa

        return cls(pa.chunked_array([array_of(cells, arrow_type(kind))]), kind)

    def __len__(self) -> int:
        return len(self.cells)

    def at(self, row: int) -> bytes:
        """One of them, encoded."""
        if self.type is None:
            key: bytes = self.cells[row].as_py()
            return key
        return encode_key(self._ids(row, row + 1)[0])

    def as_encoded(self) -> KeyColumn:
        """The same, encoded."""
        return self if self.type is None else KeyColumn.encoded(encode_keys(self._ids(0, len(self))))

    def slice(self, start: int, stop: int) -> KeyColumn:
        """Rows from `start` up to but not including `stop`."""
        return KeyColumn(self.cells.slice(start, stop - start), self.type)

    def first_at(self, key: bytes) -> int:
        """The first row whose key is `key` or greater."""
        return bisect_left(range(len(self)), key, key=self.at)

    def first_above(self, key: bytes) -> int:
        """The first row whose key is greater than `key`."""
        return bisect_right(range(len(self)), key, key=self.at)

    def _ids(self, start: int, stop: int) -> list[Any]:
        assert self.type is not None
        return decode_column(self.cells.slice(start, stop - start), None, self.type, name="_id")


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """Rows of one run, or of the tail, in a range of keys."""

    portion: Portion | None
    """None where the rows only hide older ones."""
    keys: KeyColumn | None
    """None if no other part has keys in their range."""
    deleted: pa.ChunkedArray | None
    ranks: int | pa.Array
    """The greater hides the lesser: of all rows, or of each."""

    def slice(self, start: int, stop: int) -> ColumnPart:
        """Rows from `start` up to but not including `stop`."""
        count = stop - start
        return ColumnPart(
            None if self.portion is None else self.portion.slice(start, stop),
            None if self.keys is None else self.keys.slice(start, stop),
            None if self.deleted is None else self.deleted.slice(start, count),
            self.ranks if isinstance(self.ranks, int) else self.ranks.slice(start, count),
        )


def marked(keys: KeyColumn, others: Sequence[KeyColumn]) -> pa.Array:
    """Which of some keys are among others, which need no order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Ids of two plain types are never equal.
    near = [one for one in others if keys.type is None or one.type in (None, keys.type)]
    if any(one.type != keys.type for one in near):
        keys, near = keys.as_encoded(), [one.as_encoded() for one in near]
    chunks = [chunk for one in near for chunk in one.cells.chunks]
    found = pc.is_in(keys.cells, value_set=pa.chunked_array(chunks, keys.cells.type).combine_chunks())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def merge_parts(parts: Sequence[ColumnPart]) -> Portion | None:
    """The live rows of parts of one range, in order of key, of each key that of the greatest rank; None if none."""
    import pyarrow.compute as pc

    if len(parts) == 1:
        (part,) = parts
        if part.portion is None or part.deleted is None:
            return part.portion
        return part.portion.filter(pc.invert(part.deleted))
    # Those that only hide come last, so that the numbers of all others are rows of the joined portion.
    parts = sorted(parts, key=lambda part: part.portion is None)
    portions = [part.portion for part in parts if part.portion is not None]
    if not portions:
        return None
    rows = _alive(_newest(parts), parts)
    return join_portions(portions).take(rows)


def _alive(rows: pa.Array, parts: Sequence[ColumnPart]) -> pa.Array:
    """Without the deleted and those that only hide."""
    import pyarrow as pa
    import pyarrow.compute as pc

    masks = []
    for part in parts:
        count = len(_keys(part))
        if part.portion is None:
            masks.append(pa.chunked_array([pa.repeat(scalar_of(False), count)]))
        elif part.deleted is None:
            masks.append(pa.chunked_array([pa.repeat(scalar_of(True), count)]))
        else:
            masks.append(pc.invert(part.deleted))
    mask = pa.chunked_array([chunk for one in masks for chunk in one.chunks], pa.bool_()).combine_chunks()
    return rows.filter(mask.take(rows))


def _newest(parts: Sequence[ColumnPart]) -> pa.Array:
    """The numbers of the newest rows in order of key; rows are counted through all parts."""
    import pyarrow as pa

    keys = [_keys(part) for part in parts]
    if len({one.type for one in keys}) > 1:
        keys = [one.as_encoded() for one in keys]
    cells = pa.chunked_array([chunk for one in keys for chunk in one.cells.chunks], keys[0].cells.type)
    ranks = pa.concat_arrays([_ranks(part) for part in parts])
    sizes = [len(one) for one in keys]
    large = max(range(len(parts)), key=sizes.__getitem__)
    if (sum(sizes) - sizes[large]) * FEW_SHARE > sizes[large]:
        return _sorted(array_of(range(len(cells)), pa.int64()), cells, ranks)
    start = sum(sizes[:large])
    few = array_of([*range(start), *range(start + sizes[large], len(cells))], pa.int64())
    return _put_among(_sorted(few, cells, ranks), start, keys[large], KeyColumn(cells, keys[0].type), ranks)


def _sorted(rows: pa.Array, cells: pa.ChunkedArray, ranks: pa.Array) -> pa.Array:
    """Some rows in order of key, of each key only that of the greatest rank."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.table({"key": cells.combine_chunks().take(rows), "rank": ranks.take(rows)})
    order = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("rank", "descending")])
    keys = table.column("key").combine_chunks().take(order)
    if len(keys) < 2:
        return rows.take(order)
    changes = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    return rows.take(order).filter(pa.concat_arrays([array_of([True], pa.bool_()), changes]))


def _put_among(few: pa.Array, start: int, many: KeyColumn, keys: KeyColumn, ranks: pa.Array) -> pa.Array:
    """The rows of `many`, which begin at row `start`, with a few others in their places."""
    import pyarrow as pa

    found: list[int] = []
    done = 0
    for row in few.to_pylist():
        key = keys.at(row)
        place = many.first_at(key)
        found += range(start + done, start + place)
        is_there = place < len(many) and many.at(place) == key
        newer = not is_there or ranks[row].as_py() > ranks[start + place].as_py()
        found.append(row if newer else start + place)
        done = place + is_there
    found += range(start + done, start + len(many))
    return array_of(found, pa.int64())


def _keys(part: ColumnPart) -> KeyColumn:
    assert part.keys is not None, "parts that share a range have keys"
    return part.keys


def _ranks(part: ColumnPart) -> pa.Array:
    import pyarrow as pa

    if isinstance(part.ranks, int):
        return pa.repeat(scalar_of(part.ranks, pa.int64()), len(_keys(part)))
    return part.ranks


# --- where rows come from ---


AHEAD_BLOCKS: Final = 4
"""Blocks of a run that are fetched before they are needed."""
AHEAD_BYTES: Final = BLOCK_BYTES_TARGET
"""Of which, as they are stored, no more than this together; but always one, and one only if documents are read."""
AHEAD_DOCUMENT_BYTES: Final = 16 * MIB
"""With documents not even one, if it and the block before it are larger together: unpacked they are many times that,
and decoding waits little for the store."""
_ROWS: Final = 1_024
KEY_BYTES: Final = 100
"""What a row of the tail takes besides its columns, about: its key, its number, whether it is deleted."""


class RowSource(Protocol):
    """Rows in order of key, a stretch of them at a time."""

    def head(self) -> tuple[bytes, bytes] | None:
        """The first key that may come and the last of this stretch; None at the end."""
        ...

    def begin(self) -> None:
        """Start to read what is needed for this stretch, and something ahead."""
        ...

    def take(self, bound: bytes) -> ColumnPart | None:
        """Rows of this stretch with keys up to and including `bound`."""
        ...


@dataclass(slots=True)
class Tail:
    """What came after the root: all in memory."""

    rows: Sequence[tuple[bytes, StoredVersion]]
    wanted: ColumnRequest
    keeper: tuple[Shelf, State] | None = None
    """Where columns of it are kept, and of which state it is all that there is; None if they are not kept."""
    done: int = 0

    def head(self) -> tuple[bytes, bytes] | None:
        """As `RowSource`."""
        return (self.rows[self.done][0], self.rows[-1][0]) if self.done < len(self.rows) else None

    def begin(self) -> None:
        """Nothing is to be read."""

    def take(self, bound: bytes) -> ColumnPart | None:
        """As `RowSource`."""
        stop = bisect_left(self.rows, bound + b"\0", key=lambda row: row[0])
        start, self.done = self.done, stop
        if start >= stop:
            return None
        if self.keeper is None:
            return self._encoded(start, stop)
        # The answer of the next query, in the same state, needs the same; it is most of what a short scan takes.
        shelf, state = self.keeper
        columns = "\0".join(f"{path}\0{spec.type}" for path, spec in self.wanted.specs.items())
        label = Label(shelf.folder, f"tail from {start} {self.wanted.with_versions}", columns)
        held: tuple[int, ColumnPart] | None = shelf.columns.find(label, state)
        if held is not None and held[0] == stop:
            return held[1]
        part = self._encoded(start, stop)
        size = 0 if part.portion is None else int(part.portion.table.nbytes)
        shelf.columns.keep(label, (stop, part), size + KEY_BYTES * (stop - start), state)
        return part

    def _encoded(self, start: int, stop: int) -> ColumnPart:
        import pyarrow as pa

        rows = self.rows[start:stop]
        return ColumnPart(
            portion_of_rows([held for _, held in rows], self.wanted),
            KeyColumn.encoded([key for key, _ in rows]),
            pa.chunked_array([array_of([held.document is None for _, held in rows], pa.bool_())]),
            array_of([held.rev for _, held in rows], pa.int64()),
        )

    def has_any(self, first: bytes, last: bytes) -> bool:
        """Whether keys lie between two."""
        place = bisect_left(self.rows, first, key=lambda row: row[0])
        return place < len(self.rows) and self.rows[place][0] <= last


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How a block is read."""

    entry: BlockEntry
    is_shared: bool
    """Whether other runs, or the tail, have keys in its range."""
    is_hiding: bool
    """Whether only its ids count."""


class RunSource:
    """The blocks of one run."""

    def __init__(
        self,
        shelf: Shelf,
        rank: int,
        plans: Iterator[BlockPlan],
        wanted: ColumnRequest,
        span: Range,
        rows: int | None = None,
    ) -> None:
        """`plans` in order of key; `rank` is the run's log number, and `span` what is wanted of it. No requests.

        With `rows`, no more blocks are fetched ahead at first than have this many; then twice as many, and so on.
        """
        self._shelf = shelf
        self._rank = rank
        self._plans = plans
        self._wanted = wanted
        self._span = span
        self._rows = rows
        self._ahead: deque[tuple[BlockPlan, Iterator[deque[_PartRead]]]] = deque()
        self._next = next(plans, None)
        self._rest: deque[_PartRead] | None = None
        """What reads the parts of the first block ahead that are left."""
        self._soon: Iterator[Callable[[], ColumnPart]] | None = None
        """The next of them, which is being read."""
        self._part: ColumnPart | None = None
        self._done = 0

    def head(self) -> tuple[bytes, bytes] | None:
        """As `RowSource`."""
        plan = self._ahead[0][0] if self._ahead else self._next
        if plan is None:
            return None
        first = plan.entry.key_first
        if self._done:
            assert self._part is not None
            assert self._part.keys is not None
            first = self._part.keys.at(self._done)
        return first, plan.entry.key_last

    def begin(self) -> None:
        """As `RowSource`."""
        size = sum(plan.entry.length for plan, _ in self._ahead)
        while self._next is not None and len(self._ahead) <= AHEAD_BLOCKS and not self._has_enough():
            size += self._next.entry.length
            has_documents = is_heavy(self._shelf, self._next.entry, self._wanted)
            most = 1 if has_documents and size > AHEAD_DOCUMENT_BYTES else 2
            if len(self._ahead) >= most and (has_documents or size > AHEAD_BYTES):
                return
            plan, self._next = self._next, next(self._plans, None)
            is_ready = is_kept(self._shelf, plan.entry, self._needed(plan))
            coming = map(self._fetch, [plan]) if is_ready else self._shelf.begin(self._fetch, plan)
            self._ahead.append((plan, coming))

    def _has_enough(self) -> bool:
        if self._rows is None or not self._ahead:
            return False
        return sum(plan.entry.rows for plan, _ in self._ahead) >= self._rows

    def take(self, bound: bytes) -> ColumnPart | None:
        """As `RowSource`."""
        plan, coming = self._ahead[0]
        if self._rest is None:
            self._rest = next(coming)
        if self._part is None:
            # Threads of the pool read bytes alone: each of them keeps memory for what was small and is freed.
            self._part = (self._rest.popleft()() if self._soon is None else next(self._soon))()
            is_more = self._rest and self._rows is None
            self._soon = self._shelf.begin(_call, self._rest.popleft()) if is_more else None
        part, start = self._part, self._done
        rows = _rows(part)
        stop = rows if bound >= plan.entry.key_last else _keys(part).first_above(bound)
        if stop < rows:
            self._done = stop
        else:
            self._part, self._done = None, 0
            if not self._rest and self._soon is None:
                self._rows = self._rows and 2 * self._rows
                self._ahead.popleft()
                self._rest = None
                if plan.entry.length > AHEAD_DOCUMENT_BYTES and self._wanted.with_documents:
                    give_back_memory()
        return part.slice(start, stop) if start < stop else None

    def _is_cut(self, entry: BlockEntry) -> bool:
        span = self._span
        return entry.key_first < span.low or (span.high is not None and entry.key_last >= span.high)

    def _needed(self, plan: BlockPlan) -> ColumnRequest:
        wanted = self._wanted.hiding() if plan.is_hiding else self._wanted
        return wanted.keyed() if plan.is_shared or self._is_cut(plan.entry) else wanted

    def _fetch(self, plan: BlockPlan) -> deque[_PartRead]:
        """The parts of a block: one, or one for each row group if its documents go to no other place."""
        needed = self._needed(plan)
        if not needed.with_documents or plan.is_shared or self._is_cut(plan.entry):
            part = self._whole(plan, needed)
            return deque([lambda: lambda: part])  # read already, in the thread that began with the block
        return deque(partial(self._read, group) for group in fetch_groups(self._shelf, plan.entry, needed))

    def _read(self, group: GroupRead) -> Callable[[], ColumnPart]:
        return partial(self._group, group())

    def _group(self, unpack: Callable[[], BlockRows]) -> ColumnPart:
        rows = unpack()
        return ColumnPart(rows.portion, None, rows.deleted, self._rank)

    def _whole(self, plan: BlockPlan, needed: ColumnRequest) -> ColumnPart:
        entry, span = plan.entry, self._span
        is_cut = self._is_cut(entry)
        fetched = fetch_columns(self._shelf, entry, needed, span.low, span.high)
        keys = KeyColumn.of(fetched.portion) if plan.is_shared or is_cut else None
        portion = fetched.portion
        part = ColumnPart(None if plan.is_hiding else portion, keys, fetched.deleted, self._rank)
        if is_cut and keys is not None:
            stop = len(keys) if span.high is None else keys.first_at(span.high)
            part = part.slice(keys.first_at(span.low), stop)
        return part


def _call(read: _PartRead) -> Callable[[], ColumnPart]:
    return read()


def _rows(part: ColumnPart) -> int:
    if part.portion is not None:
        return part.portion.rows
    return len(_keys(part))


def encode_rows(rows: Iterable[StoredVersion], wanted: ColumnRequest) -> Iterator[Portion]:
    """The live ones of rows that are in memory already, in their order. No requests but those of `rows`."""
    alive = (held for held in rows if held.document is not None)
    while several := list(islice(alive, _ROWS)):
        yield portion_of_rows(several, wanted)


# --- rows in memory ---


def portion_of_rows(rows: Sequence[StoredVersion], wanted: ColumnRequest) -> Portion:
    """Rows that are in memory as a block would have them, deleted ones too."""
    import pyarrow as pa

    documents = [held.document for held in rows]
    ids = [json.decode(held.id, name="document id") for held in rows]
    encoded = encode_documents(documents, list(wanted.specs.values()), ids, name="the tail of the log")
    if wanted.with_ids:
        encoded = {"_id": encode_column(ColumnSpec("_id"), ids), **encoded}
    columns: dict[str, pa.Array] = {}
    needed: set[int] = set()
    for path in (*(["_id"] if wanted.with_ids else []), *wanted.specs):
        columns[path] = encoded[path].cells
        if encoded[path].kinds is not None:
            columns[KIND_PREFIX + path] = encoded[path].kinds
            needed |= set(elsewhere_rows(encoded[path].kinds))
    if wanted.with_documents or needed:
        cells = [_cell(held) if wanted.with_documents or row in needed else None for row, held in enumerate(rows)]
        columns[DOCUMENT] = texts_of(cells)
    types = {path: encoded[path].type for path in columns if path in encoded}
    if wanted.with_versions:
        columns |= version_cells([held.rev for held in rows], [held.seq for held in rows])
        types |= VERSION_TYPES
    return Portion(pa.table(columns), types)


def _cell(held: StoredVersion) -> bytes:
    """The document, or of a deleted one as much of it as its id."""
    return held.document or json.encode_document({"_id": json.decode(held.id, name="document id")})
