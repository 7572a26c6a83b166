"""Orders over columns: the first rows of a stream of portions, or all of them, by `wormdb.bql.sorting.sort_key`.

Rows whose fields are all in typed columns are ordered by Arrow. The keys of all others, which are arrays and values of
other types, are made exactly, and with them those of the rows that are left when Arrow has chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.bql.sorting import SortField, SortSpec, sort_key
from wormdb.engine.blocks.portion import Portion, join_portions
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.json import decode_document
from wormdb.format.key import encode_key, encode_keys
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED
from wormdb.query.columns.cells import Cells, cells_of, rows_of_mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


__all__ = ["TopRows", "order_keys", "sort_paths"]

KEPT_ROWS: Final = 65_536
"""Rows to collect, or four times as many as are wanted if that is more, before those that cannot be among the first
are dropped."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of rows to collect at most, if the rows are more than are wanted."""

_IDENTITY: Final = ("_id",)
_ORDERED: Final = frozenset({"int64", "double", "decimal", "string", "bool", "date", "binary", "objectid"})

_COMPARED: Final = frozenset({"int64", "double", "decimal", "string", "date"})

_Order = Literal["ascending", "descending"]


class TopRows:
    """The first rows of an order over portions that come one after the other, in memory for about as many.

    Without `first` all rows are kept, and memory is that of all portions.
    """

    def __init__(self, sort: SortSpec, first: int | None) -> None:
        """No rows yet."""
        self._fields = _with_identity(sort)
        self._first = first
        self._portions: list[Portion] = []
        self._rows = 0
        self._bytes = 0

    @property
    def paths(self) -> frozenset[str]:
        """The columns that portions must have; they may have more, which are kept."""
        return frozenset(map(_name, self._fields))

    def add(self, portion: Portion) -> None:
        """Take in rows, of ids that no other portion has. No requests."""
        if self._first == 0 or not portion.rows:
            return
        self._portions.append(portion)
        self._rows += portion.rows
        self._bytes += portion.table.get_total_buffer_size()
        if self._first is not None and self._is_enough(self._first):
            self._settle()

    def narrowed(self, portion: Portion, mask: pa.Array | pa.ChunkedArray) -> Portion:
        """The rows of a mask that may be among the first, before other columns are read. No requests.

        What is left out would never be given by `finish`, whatever else is added.
        """
        rows = None if self._first is None else _promising(portion, self._fields[0], self._first, mask)
        return portion.filter(mask) if rows is None else _taken(portion, rows)

    def _is_enough(self, first: int) -> bool:
        return self._rows > max(KEPT_ROWS, 4 * first) or (self._bytes > KEPT_BYTES and self._rows > 2 * first)

    def finish(self) -> Portion | None:
        """The rows in order; None if there are none. No requests."""
        if not self._portions:
            return None
        self._settle()
        (portion,) = self._portions
        return portion

    def _settle(self) -> None:
        joined = join_portions(self._portions)
        best = _taken(joined, _first_rows(joined, self._fields, self._first))
        self._portions, self._rows, self._bytes = [best], best.rows, best.table.get_total_buffer_size()


def sort_paths(sort: SortSpec) -> frozenset[str]:
    """The columns that an order needs, `_id` among them."""
    return frozenset(map(_name, _with_identity(sort)))


def order_keys(portion: Portion, sort: SortSpec) -> list[bytes]:
    """The keys of all rows, as `sort_key` makes them of the documents. No requests; for portions of few rows."""
    return _keys(portion, _with_identity(sort))


def _with_identity(sort: SortSpec) -> tuple[SortField, ...]:
    """The fields of an order up to the id, which no two rows share."""
    if sort.fields and sort.fields[-1].path == _IDENTITY:
        return sort.fields
    return (*sort.fields, SortField(_IDENTITY, sort.is_id_descending))


def _name(field: SortField) -> str:
    return ".".join(field.path)


def _taken(portion: Portion, rows: pa.Array) -> Portion:
    """Some rows; where they are few, without putting the pieces of whole columns together."""
    return Portion(portion.table.take(rows), portion.types)


# --- exact keys ---


def _keys(portion: Portion, fields: Sequence[SortField]) -> list[bytes]:
    columns = [portion.values(_name(field)) for field in fields]
    types = {kind for values in columns for kind in set(map(type, values))}
    if types.isdisjoint({list, type(TRAVERSED)}):
        parts = [_encoded(values, descending=field.descending) for values, field in zip(columns, fields, strict=True)]
        return parts[0] if len(parts) == 1 else [b"".join(row) for row in zip(*parts, strict=True)]
    # A value that is found directly makes the same key under any name; the last one is the id.
    names = [*map(str, range(len(fields) - 1)), "_id"]
    short = SortSpec(tuple(SortField((name,), field.descending) for name, field in zip(names, fields, strict=True)))
    of_values, of_document = sort_key(short), sort_key(SortSpec(tuple(fields)))
    keys = []
    for row, values in enumerate(zip(*columns, strict=True)):
        if TRAVERSED in values:
            (body,) = portion.documents([row])
            keys.append(of_document(decode_document(body, name="a document")))
        else:
            keys.append(of_values(dict(zip(names, values, strict=True))))
    return keys


def _encoded(values: list[Any], *, descending: bool) -> list[bytes]:
    present = [None if value is MISSING else value for value in values]
    return [encode_key(value, descending=True) for value in present] if descending else encode_keys(present)


# --- the order of typed columns ---


@dataclass(slots=True)
class _Columns:
    """What Arrow sorts by."""

    arrays: list[pa.Array | pa.ChunkedArray]
    orders: list[_Order]
    unknown: pa.Array | pa.ChunkedArray | None = None
    """Rows whose place these columns do not determine."""

    def add(self, array: pa.Array | pa.ChunkedArray, field: SortField) -> None:
        """Add a column after the others."""
        self.arrays.append(array)
        self.orders.append("descending" if field.descending else "ascending")

    def doubt(self, mask: pa.Array | pa.ChunkedArray) -> None:
        """Note more rows whose place the columns do not determine."""
        import pyarrow.compute as pc

        self.unknown = mask if self.unknown is None else pc.or_(self.unknown, mask)

    def first(self, count: int | None, rows: pa.Array | None) -> pa.Array:
        """The first of all rows, or of some, in order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [str(place) for place in range(len(self.arrays))]
        table = pa.table(self.arrays, names=names)
        if rows is not None:
            table = table.take(rows)
        keys = list(zip(names, self.orders, strict=True))
        if count is None or count * 2 >= table.num_rows:
            found = pc.sort_indices(table, sort_keys=keys)
            found = found if count is None else found.slice(0, count)
        else:
            found = pc.select_k_unstable(table, count, sort_keys=keys)
        return found if rows is None else rows.take(found)


def _first_rows(portion: Portion, fields: Sequence[SortField], count: int | None) -> pa.Array:
    """The numbers of the first rows in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = _Columns([], [])
    for field in fields:
        _add_column(columns, cells_of(portion, _name(field)), field)
    if columns.unknown is None:
        return columns.first(count, None)
    unknown = rows_of_mask(columns.unknown)
    if count is None or len(unknown) + count >= portion.rows:
        return _by_keys(portion, fields, array_of(range(portion.rows), pa.uint64()), count)
    known = columns.first(count, rows_of_mask(pc.invert(columns.unknown)))
    return _by_keys(portion, fields, pa.concat_arrays([known, unknown]), count)


def _promising(portion: Portion, field: SortField, count: int, mask: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """The rows of a mask that are not behind `count` others by the first field alone; None if Arrow cannot tell."""
    import pyarrow.compute as pc

    if _name(field) not in portion.types:
        return None
    cells = cells_of(portion, _name(field))
    array = cells.array
    if not count or cells.kind not in _COMPARED or array.null_count or cells.elsewhere() is not None:
        return None
    found = array.filter(mask)
    if len(found) <= 4 * count or (cells.kind == "double" and pc.any(pc.is_nan(found)).as_py()):
        return None
    order: _Order = "descending" if field.descending else "ascending"
    best = pc.select_k_unstable(found, count, sort_keys=[("", order)])
    compared = pc.greater_equal if field.descending else pc.less_equal
    return rows_of_mask(pc.and_(mask, compared(array, found[best[-1].as_py()])))


def _by_keys(portion: Portion, fields: Sequence[SortField], rows: pa.Array, count: int | None) -> pa.Array:
    """Some rows in the order of their exact keys."""
    import pyarrow as pa

    keys = _keys(_taken(portion, rows), fields)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return rows.take(array_of(order[:count], pa.int64()))


def _add_column(columns: _Columns, cells: Cells, field: SortField) -> None:
    """Put a field into the order; null and missing are one value, below all that a column holds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if (elsewhere := cells.elsewhere()) is not None:
        columns.doubt(elsewhere)
    if cells.kind not in _ORDERED:
        columns.doubt(cells.array.is_valid())
        return
    ranks, array = _ranked(cells)
    if ranks is not None:
        columns.add(ranks, field)
    if cells.kind == "bool":
        array = array.cast(pa.uint8())
    elif cells.kind == "objectid":
        array = array.cast(pa.binary())
    elif cells.kind == "binary":
        columns.add(pc.binary_length(array), field)
    columns.add(array, field)


def _ranked(cells: Cells) -> tuple[pa.Array | pa.ChunkedArray | None, pa.Array | pa.ChunkedArray]:
    """The cells, and what stands before their order: nulls come first, then NaN. None if there is neither."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = cells.array
    ranks = array.is_valid().cast(pa.uint8()) if array.null_count else None
    if cells.kind == "double":
        odd = pc.is_nan(array)
        if pc.any(odd).as_py():
            rank = pc.if_else(pc.fill_null(odd, scalar_of(False)), scalar_of(1, pa.uint8()), scalar_of(2, pa.uint8()))
            ranks = rank if ranks is None else pc.multiply(rank, ranks)
            array = pc.if_else(odd, scalar_of(None, array.type), array)
    return ranks, array
