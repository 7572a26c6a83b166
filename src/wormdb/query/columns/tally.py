"""Aggregations over columns: the same results as `wormdb.bql.aggregation.AggregationState` over the documents.

Arrow groups the rows and adds up what it can add up exactly, all functions in one pass. What it cannot is done in
Python for each different pair of a group and a value. Rows with a cell that is elsewhere are taken in as documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from math import frexp, inf, isnan, ldexp, nan
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.accumulators import ACCUMULATORS
from wormdb.bql.aggregation import Aggregation, AggregationState, aggregation_fields
from wormdb.engine.blocks.portion import Portion, join_portions
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.json import decode_document
from wormdb.format.kinds import MISSING, Decimal128
from wormdb.query.columns.cells import (
    DECIMAL_MAX,
    cells_of,
    decode_cells,
    element_kind,
    element_lists,
    join_chunks,
    rows_of_mask,
)
from wormdb.query.columns.grouping import GroupFunctions, GroupResults, NumberedCells, group_rows
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from wormdb.bql.numbers import Number
    from wormdb.query.columns.cells import Cells

__all__ = ["ColumnTally", "SumPieces", "add_pairs", "ask_function", "magnitude", "split_sums"]


# --- Exact sums of number columns: cut into pieces that Arrow can add without rounding, put together afterwards.
#
# Integers that could overflow together are cut in halves. Of doubles the upper bits are split off, as many as leave
# room for all rows in one double, then the next, until nothing is left: each piece is a multiple of one unit, so
# every sum of them is exact in whatever order. `wormdb.bql.numbers` rounds once, at the end.

_HALF_BITS: Final = 32
_DOUBLE_BITS: Final = 53
_SPARE_BITS: Final = 3  # a value must be small against the number around which it is rounded
_LEAST_POWER: Final = -1074
_AS_DOUBLE: Final = Struct("<d")
_AS_INTEGER: Final = Struct("<q")
_MOST_POWER: Final = 960  # beyond it the rounding constant would be infinite


@dataclass(frozen=True, slots=True)
class SumPieces:
    """A column as columns whose sums are exact."""

    kind: type[Number]
    columns: Sequence[pa.Array | pa.ChunkedArray]
    power: int
    """The power of 2 or 10 of the numbers that `join` gives, as `ExactSum.add_many` takes it."""
    join: Callable[[Sequence[Sequence[Any]]], Sequence[int]]
    """Makes the whole sum of each group from the sums of each column."""


def split_sums(cells: Cells) -> SumPieces | None:
    """A column of finite numbers in pieces; None if they are too large for that.

    Doubles that stand for integers are left to the caller.
    """
    import pyarrow.compute as pc

    if cells.kind == "double":
        return _doubles(join_chunks(cells.array))
    low, high = (value.as_py() for value in pc.min_max(cells.array).values())
    bound = max(abs(_unscaled(low)), abs(_unscaled(high))) * cells.rows
    if cells.kind == "decimal":
        return None if bound > DECIMAL_MAX else _decimals(cells.array)
    return _integers(cells.array) if bound <= INT_MAX else _long_integers(cells.array)


def _unscaled(value: int | Decimal | None) -> int:
    """The integer behind a cell of integers or decimals; 0 for null."""
    if not isinstance(value, Decimal):
        return value or 0
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _integers(array: Any) -> SumPieces:
    return SumPieces(int, [array], 0, lambda sums: sums[0])


def _long_integers(array: Any) -> SumPieces:
    import pyarrow as pa
    import pyarrow.compute as pc

    high = pc.shift_right(array, scalar_of(_HALF_BITS, pa.int64()))
    low = pc.bit_wise_and(array, scalar_of(2**_HALF_BITS - 1, pa.int64()))

    def join(sums: Sequence[Sequence[Any]]) -> list[int]:
        return [((above or 0) << _HALF_BITS) + (below or 0) for above, below in zip(*sums, strict=True)]

    return SumPieces(int, [high, low], 0, join)


def _decimals(array: Any) -> SumPieces:
    return SumPieces(Decimal128, [array], -array.type.scale, lambda sums: [_unscaled(total) for total in sums[0]])


def magnitude(array: pa.Array) -> float:
    """The greatest absolute value of doubles, 0.0 of none; infinite if one is not finite."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Bits without the sign are ordered as absolute values are; and Arrow finds the greatest integer much faster.
    bits = pc.bit_wise_and(array.view(pa.int64()), scalar_of(INT_MAX, pa.int64()))
    most: int = pc.max(bits).as_py() or 0
    value: float = _AS_DOUBLE.unpack(_AS_INTEGER.pack(most))[0]
    return inf if isnan(value) else value


def _doubles(array: pa.Array) -> SumPieces | None:
    import pyarrow.compute as pc

    most = magnitude(array)
    assert most < inf, "what is not finite is added elsewhere"
    if most >= 2.0**_MOST_POWER:
        return None
    bits = _DOUBLE_BITS - max(len(array).bit_length(), _SPARE_BITS)
    columns: list[pa.Array] = []
    powers: list[int] = []
    while most:
        power = max(frexp(most)[1] - bits, _LEAST_POWER)
        # Next to this number doubles are one unit apart, so adding and subtracting it rounds to units.
        around = scalar_of(ldexp(1.5, _DOUBLE_BITS - 1 + power), array.type)
        upper = pc.subtract(pc.add(array, around), around)
        columns.append(upper)
        powers.append(power)
        array = pc.subtract(array, upper)
        most = magnitude(array)
    if not columns:
        return SumPieces(float, [array], 0, lambda sums: [0] * len(sums[0]))
    return SumPieces(float, columns, powers[-1], lambda sums: _joined(sums, powers))


def _joined(sums: Sequence[Sequence[float | None]], powers: Sequence[int]) -> list[int]:
    """Sums of multiples of powers of 2, the greatest first, as multiples of the last."""
    parts = [
        [int(ldexp(total or 0.0, -power)) << (power - powers[-1]) for total in totals]
        for totals, power in zip(sums, powers, strict=True)
    ]
    return list(map(sum, zip(*parts, strict=True)))


# --- One function of an aggregation over the cells of one column: what Arrow is asked, and how its answer is read.

if TYPE_CHECKING:
    Reader = Callable[[GroupResults, Sequence[Any]], None]
    """Adds the results of all groups to their accumulators."""


_NUMBERS: Final = frozenset({"int64", "double", "decimal"})
_COMPARED: Final = frozenset({"int64", "double", "decimal", "string", "bool", "date", "objectid"})
"""Types of which Arrow finds the least and the greatest value as we mean it."""
_NULL_CODE: Final = 1


def ask_function(name: str, cells: Cells | None, batch: GroupFunctions) -> Reader | None:
    """Put a function of cells, none of them elsewhere, into a batch; None if it has to be done by `add_pairs`.

    A count has no cells.
    """
    if name == "count":
        return _ask_count(batch)
    assert cells is not None
    if name in {"min", "max"}:
        return _ask_extreme(name, cells, batch) if cells.kind in _COMPARED else None
    if name == "distinct" or cells.kind == "json":
        return None
    return _ask_sum(cells, batch) if cells.kind in _NUMBERS else _ignore  # only numbers count


def _ignore(found: GroupResults, targets: Sequence[Any]) -> None:
    """Add nothing."""


def _ask_count(batch: GroupFunctions) -> Reader:
    name = batch.ask(None, "count_all")

    def read(found: GroupResults, targets: Sequence[Any]) -> None:
        for target, count in zip(targets, found.values(name), strict=True):
            target.count = count

    return read


# --- sums ---


def _ask_sum(cells: Cells, batch: GroupFunctions) -> Reader | None:
    """Doubles that stand for integers are added apart: a sum without a double is an integer."""
    import pyarrow.compute as pc

    known: Reader | None = batch.readers.get(id(cells))
    if known is not None:
        return known
    special, cells_left = _ask_special(cells, (nan, inf, -inf), batch)
    integers = cells.integers()
    parts = [(cells_left, False)]
    if integers is not None:
        nothing = _nothing(cells)
        parts = [
            (replace(cells_left, array=pc.if_else(integers, nothing, cells_left.array)), False),
            (replace(cells_left, array=pc.if_else(integers, cells_left.array, nothing)), True),
        ]
    readers = [special]
    for part, is_integer in parts:
        read = _ask_pieces(part, batch, is_integer=is_integer)
        if read is None:
            return None
        readers.append(read)
    reader = _all_of(readers)
    batch.readers[id(cells)] = reader
    return reader


def _ask_pieces(cells: Cells, batch: GroupFunctions, *, is_integer: bool) -> Reader | None:
    pieces = split_sums(cells)
    if pieces is None:
        return None
    counted = batch.ask(pieces.columns[0], "count") if cells.array.null_count else batch.ask(None, "count_all")
    names = [batch.ask(column, "sum") for column in pieces.columns]

    def read(found: GroupResults, targets: Sequence[Any]) -> None:
        kind, power = pieces.kind, pieces.power
        numbers = pieces.join([found.values(name) for name in names])
        if is_integer:
            kind, power, numbers = int, 0, [_shifted(number, power) for number in numbers]
        for target, count, number in zip(targets, found.values(counted), numbers, strict=True):
            if count:
                target.numbers.add_many(kind, count, number, power)

    return read


def _shifted(number: int, power: int) -> int:
    """A multiple of a power of 2 that is an integer."""
    return number << power if power >= 0 else number >> -power


def _all_of(readers: Sequence[Reader]) -> Reader:
    def read(found: GroupResults, targets: Sequence[Any]) -> None:
        for each in readers:
            each(found, targets)

    return read


def _ask_special(cells: Cells, values: Sequence[float], batch: GroupFunctions) -> tuple[Reader, Cells]:
    """What adds some values of a double column to each group that has them, and the column without these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells.kind != "double":
        return _ignore, cells
    array = left = join_chunks(cells.array)
    bits = array.view(pa.int64())
    some = {nan, inf, -inf} if magnitude(array) == inf else set()
    some |= {-0.0} if pc.min(bits).as_py() == INT_MIN else set()  # the bits of -0.0
    asked: list[tuple[float, str]] = []
    for value in values:
        if value not in some:
            continue
        # By bits, because 0.0 equals -0.0; there are many NaN, and it equals none.
        same = pc.is_nan(array) if isnan(value) else pc.equal(bits, _bits(value))
        asked.append((value, batch.ask(same, "any")))
        left = pc.if_else(same, _nothing(cells), left)

    def read(found: GroupResults, targets: Sequence[Any]) -> None:
        for value, name in asked:
            for target, has_any in zip(targets, found.values(name), strict=True):
                if has_any:
                    target.add(value)

    return read, replace(cells, array=left)


def _bits(value: float) -> pa.Scalar:
    import pyarrow as pa

    return array_of([value], pa.float64()).view(pa.int64())[0]


def _nothing(cells: Cells) -> pa.Scalar:

    return scalar_of(None, cells.array.type)


# --- extremes ---


def _ask_extreme(name: str, cells: Cells, batch: GroupFunctions) -> Reader:
    """NaN is a number below all others, and of equal numbers it matters which there are: -0.0 or 0.0, 1 or 1.0."""
    import pyarrow.compute as pc

    special, left = _ask_special(cells, (nan, -0.0), batch)
    integers = cells.integers()
    columns = [left.array]
    if integers is not None:
        nothing = _nothing(cells)
        columns = [pc.if_else(integers, nothing, left.array), pc.if_else(integers, left.array, nothing)]
    names = [batch.ask(column, name) for column in columns]

    def read(found: GroupResults, targets: Sequence[Any]) -> None:
        special(found, targets)
        for place, asked in enumerate(names):
            for target, value in zip(targets, decode_cells(found.cells(asked), cells.kind), strict=True):
                if value is not MISSING:
                    target.add(int(value) if place else value)

    return read


# --- pairs ---


def add_pairs(name: str, cells: Cells, groups: pa.Array, targets: Sequence[Any]) -> None:
    """Add each different value of each group, given the numbers of the groups; as often as it is there for sums."""
    import pyarrow.compute as pc

    if name == "distinct":
        _add_nulls(cells, groups, targets)
        if element_kind(cells.kind) is not None:
            groups = groups.take(pc.list_parent_indices(join_chunks(cells.array)))
            cells, _ = element_lists(cells)
    if not cells.rows:
        return
    numbered = NumberedCells.of(cells)
    values = [cells.null if value is MISSING else value for value in numbered.values]
    is_sum = name in {"sum", "avg"}
    if len(targets) == 1 and not is_sum:
        for value in values:
            targets[0].add(value)
        return
    for pair in pc.value_counts(numbered.with_groups(groups)).to_pylist():
        group, number = divmod(pair["values"], len(values))
        for _ in range(pair["counts"] if is_sum else 1):
            targets[group].add(values[number])


def _add_nulls(cells: Cells, groups: pa.Array, targets: Sequence[Any]) -> None:
    """A field that is null has a value, unlike one that is missing."""
    import pyarrow.compute as pc

    if cells.codes is not None:
        are_null = pc.equal(cells.codes, scalar_of(_NULL_CODE))
        for group in pc.unique(groups.filter(join_chunks(are_null))).to_pylist():
            targets[group].add(None)


KEPT_ROWS: Final = 262_144
"""Rows that are collected before they are added up together."""


class ColumnTally:
    """The state of one aggregation over some portions."""

    def __init__(self, aggregation: Aggregation) -> None:
        """No rows yet."""
        self.aggregation = aggregation
        self._tally = AggregationState(aggregation)
        self._portions: list[Portion] = []
        self._rows = 0

    @property
    def paths(self) -> frozenset[str]:
        """The columns that portions must have. None are needed to count all rows."""
        return frozenset(aggregation_fields(self.aggregation))

    def add(self, portion: Portion) -> None:
        """Take in rows. No requests; raises LimitExceededError over GROUPS_MAX."""
        self._portions.append(portion)
        self._rows += portion.rows
        if self._rows >= KEPT_ROWS:
            self._settle()

    def tally(self) -> AggregationState:
        """All that was taken in, to be merged or read; raises LimitExceededError over GROUPS_MAX."""
        self._settle()
        return self._tally

    def result(self) -> dict[str, Any]:
        """As `Tally.result`; raises LimitExceededError over GROUPS_MAX."""
        return self.tally().result()

    def _settle(self) -> None:
        alike: dict[tuple[str, ...], list[Portion]] = {}
        for portion in self._portions:
            types = tuple(f"{portion.types[path]} {portion.table.column(path).type}" for path in sorted(self.paths))
            alike.setdefault(types, []).append(portion)
        self._portions, self._rows = [], 0
        for portions in alike.values():
            self._take_in(join_portions(portions))

    def _take_in(self, portion: Portion) -> None:
        import pyarrow.compute as pc

        for path in self.paths:
            elsewhere = cells_of(portion, path).elsewhere()
            if elsewhere is not None:
                for body in portion.documents(rows_of_mask(elsewhere).to_pylist()):
                    self._tally.add(decode_document(body, name="a document"))
                portion = portion.filter(pc.invert(elsewhere))
        if portion.rows:
            self._add_up(portion)

    def _add_up(self, portion: Portion) -> None:
        """Take in rows of which columns tell everything."""
        functions = self.aggregation.functions
        columns = {path: cells_of(portion, path) for path in self.paths}
        batch = GroupFunctions()
        readers = [ask_function(function.name, columns.get(".".join(function.path)), batch) for function in functions]
        rows = group_rows(portion, self.aggregation.group_by or (), numbered=None in readers)
        keys, found = batch.run(rows)
        results = []
        for function, read in zip(functions, readers, strict=True):
            targets = [ACCUMULATORS[function.name]() for _ in keys]
            if read is not None:
                read(found, targets)
            else:
                add_pairs(function.name, columns[".".join(function.path)], rows.groups, targets)
            results.append(targets)
        self._tally.add_groups(keys, zip(*results, strict=True))
