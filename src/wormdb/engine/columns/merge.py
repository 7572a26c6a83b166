"""Rows of several runs in order of key, the newest of each key: done by Arrow, column by column.

Ids of one plain type compare as their keys do, so Arrow sorts the column itself; all others are compared by
their encoded keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.portion import join_portions
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.columns import arrow_type, decode_column
from wormdb.format.key import encode_key, encode_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Portion

__all__ = ["ColumnPart", "KeyColumn", "marked", "merge_parts"]

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
