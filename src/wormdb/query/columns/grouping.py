"""Rows of a portion in groups, and functions over all groups in one pass of Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.json import encode
from wormdb.format.kinds import MISSING
from wormdb.query.columns.cells import Cells, cells_of, decode_cells, element_kind, join_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Portion
    from wormdb.format.path import Path

__all__ = ["GroupFunctions", "GroupResults", "GroupedRows", "NumberedCells", "group_rows"]


@dataclass(frozen=True, slots=True)
class NumberedCells:
    """Cells by numbers: equal numbers are equal values, of one type and written alike."""

    numbers: pa.Array
    values: Sequence[Any]
    """The value of each number; MISSING where the cell is null."""

    @classmethod
    def of(cls, cells: Cells) -> NumberedCells:
        """Number the cells of a column. No requests."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind, array = _hashable(cells)
        encoded = join_chunks(array).dictionary_encode(null_encoding="encode")
        values = decode_cells(encoded.dictionary, kind)
        integers = cells.integers()
        if integers is None:
            return cls(encoded.indices, values)
        both = pc.add(
            pc.multiply(encoded.indices.cast(pa.int64()), scalar_of(2)),
            join_chunks(integers).cast(pa.int64()),
        )
        again = both.dictionary_encode()
        return cls(
            again.indices,
            [
                int(values[number >> 1]) if number & 1 else values[number >> 1]
                for number in again.dictionary.to_pylist()
            ],
        )

    def with_groups(self, groups: pa.Array) -> pa.Array:
        """One number for each pair of a group and a value: `divmod` by how many values there are tells them apart."""
        import pyarrow as pa
        import pyarrow.compute as pc

        scaled = pc.multiply(groups.cast(pa.int64()), scalar_of(len(self.values), pa.int64()))
        return pc.add(scaled, self.numbers.cast(pa.int64()))


def _hashable(cells: Cells) -> tuple[str, pa.Array | pa.ChunkedArray]:
    """A column as one that Arrow can group by, and its type: arrays as JSON."""
    import pyarrow as pa

    if element_kind(cells.kind) is None:
        return cells.kind, cells.array
    values = decode_cells(cells.array, cells.kind)
    return "json", array_of([None if value is MISSING else encode(value).decode() for value in values], pa.string())


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Columns that tell the group of each row, and what the group is whose columns have certain values."""

    count: int
    """The number of rows."""
    columns: Sequence[pa.Array | pa.ChunkedArray]
    kinds: Sequence[str]
    """The types of the columns; "integer" marks one that says whether the double before it stands for an integer."""
    keys: Sequence[tuple[Any, ...]] | None = None
    """If groups are numbered: of each number. Then there is one column, and it has the numbers."""

    @property
    def groups(self) -> pa.Array:
        """The numbers of the groups of all rows."""
        assert self.keys is not None
        return self.columns[0]

    def decode(self, columns: Sequence[pa.ChunkedArray], groups: int) -> list[tuple[Any, ...]]:
        """The keys of groups whose columns have these cells; several may be equal, such as those of 1 and 1.0."""
        if not columns:
            return [()] * groups
        parts: list[list[Any]] = []
        for kind, cells in zip(self.kinds, columns, strict=True):
            if kind == "integer":
                flags = cells.to_pylist()
                parts[-1] = [int(value) if flag else value for value, flag in zip(parts[-1], flags, strict=True)]
            else:
                parts.append([None if value is MISSING else value for value in decode_cells(cells, kind)])
        return list(zip(*parts, strict=True))


def group_rows(portion: Portion, paths: Sequence[Path], *, numbered: bool) -> GroupedRows:
    """The rows of a portion by fields, none of whose cells is elsewhere; with numbers for pairs with values."""
    columns = [cells_of(portion, ".".join(path)) for path in paths]
    if numbered:
        return _numbered(columns, portion.rows)
    arrays: list[Any] = []
    kinds: list[str] = []
    for cells in columns:
        kind, array = _hashable(cells)
        arrays.append(array)
        kinds.append(kind)
        if (integers := cells.integers()) is not None:
            arrays.append(integers)
            kinds.append("integer")
    return GroupedRows(portion.rows, arrays, kinds)


def _numbered(columns: Sequence[Cells], rows: int) -> GroupedRows:
    import pyarrow as pa

    groups = pa.repeat(scalar_of(0, pa.int32()), rows)
    keys: list[tuple[Any, ...]] = [()]
    for cells in columns:
        numbered = NumberedCells.of(cells)
        values = [None if value is MISSING else value for value in numbered.values]
        pairs = numbered.with_groups(groups).dictionary_encode()
        groups = pairs.indices
        split = [divmod(pair, len(values)) for pair in pairs.dictionary.to_pylist()]
        keys = [(*keys[group], values[number]) for group, number in split]
    return GroupedRows(rows, [groups], ["int64"], keys)


@dataclass(frozen=True, slots=True)
class GroupResults:
    """Results of all groups."""

    table: pa.Table

    def cells(self, name: str) -> pa.ChunkedArray:
        """The results as Arrow cells, one for each group."""
        return self.table.column(name)

    def values(self, name: str) -> list[Any]:
        """The results as Python values: for numbers."""
        values: list[Any] = self.table.column(name).to_pylist()
        return values


@dataclass(slots=True)
class GroupFunctions:
    """Functions of columns that are asked together."""

    readers: dict[int, Any] = field(default_factory=dict)
    """What reads the sum of cells that were asked for already, by their identity: sum and avg read the same."""
    _columns: dict[str, Any] = field(default_factory=dict)
    _asked: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def ask(self, array: pa.Array | pa.ChunkedArray | None, function: str) -> str:
        """The name that the result of one of Arrow's functions will have; None stands for the rows themselves."""
        if array is None:
            self._asked[function] = ([], function)
            return function
        name = f"c{len(self._columns)}"
        self._columns[name] = array
        self._asked[f"{name}_{function}"] = (name, function)
        return f"{name}_{function}"

    def run(self, rows: GroupedRows) -> tuple[Sequence[tuple[Any, ...]], GroupResults]:
        """The keys of all groups, and their results in the same order. No requests."""
        import pyarrow as pa

        places = [f"k{place}" for place in range(len(rows.columns))]
        table = pa.table([*rows.columns, *self._columns.values()], names=[*places, *self._columns])
        if not places and not self._columns:
            return [()], GroupResults(pa.table({"count_all": [rows.count]}))
        found = table.group_by(places).aggregate(list(self._asked.values()))
        if rows.keys is not None:
            return rows.keys, GroupResults(found.sort_by(places[0]))
        return rows.decode([found.column(place) for place in places], found.num_rows), GroupResults(found)
