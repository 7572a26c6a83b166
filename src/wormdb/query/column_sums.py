"""Exact sums of number columns by group: as integers, which Arrow adds without rounding.

Integers that could overflow together are cut in halves. A double is an integer times a power of 2; doubles whose powers
lie close together are shifted to one, so that of each group only a few sums come out. `wormdb.bql.exact_sum` rounds
once, at the end.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Decimal128
from wormdb.limits import INT_MAX
from wormdb.query.column_numbers import DECIMAL_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from wormdb.bql.update_numbers import Number
    from wormdb.query.column_cells import Cells

    SumOf = tuple[int, type[Number], int, Mapping[int, int]]
    """A group, and what `ExactSum.add_many` takes."""

__all__ = ["SUM_ROWS_MAX", "sums_by_group"]

SUM_ROWS_MAX: Final = 2**20
"""So many rows can be added before a sum of shifted halves may overflow."""

_MANTISSA_BITS: Final = 52
_EXPONENT: Final = 0x7FF
_LOWEST_POWER: Final = -1075  # of the last bit of a double whose exponent bits are 0, if there were an implicit 1
_HALF_BITS: Final = 26
_SHIFT_BITS: Final = 4
_KEYS_OF_GROUP: Final = 256


def sums_by_group(cells: Cells, groups: pa.Array) -> Iterator[SumOf] | None:
    """The sums of a column of finite numbers, of SUM_ROWS_MAX rows at most, by the number of each row's group.

    None if Arrow cannot add these numbers exactly, because they are too large.
    """
    import pyarrow.compute as pc

    if cells.kind == "double":
        return _doubles(cells, groups)
    extremes = [abs(_unscaled(value.as_py())) for value in pc.min_max(cells.array).values()]
    bound = max(extremes) * cells.rows
    if cells.kind == "decimal":
        return None if bound > DECIMAL_MAX else _decimals(cells, groups)
    return _integers(cells.array, groups) if bound <= INT_MAX else _long_integers(cells.array, groups)


def _unscaled(value: int | Decimal | None) -> int:
    """The integer behind a cell of integers or decimals; 0 for null."""
    if not isinstance(value, Decimal):
        return value or 0
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _added(groups: pa.Array, columns: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """For each group its number, how many values it has, and the sum of each column; groups without values aside."""
    import pyarrow as pa

    first = next(iter(columns))
    table = pa.table({"group": groups, **columns})
    found = table.group_by("group").aggregate([(first, "count"), *((name, "sum") for name in columns)])
    names = ["group", f"{first}_count", *(f"{name}_sum" for name in columns)]
    return (row for row in zip(*(found.column(name).to_pylist() for name in names), strict=True) if row[1])


def _integers(array: Any, groups: pa.Array) -> Iterator[SumOf]:
    for group, count, total in _added(groups, {"x": array}):
        yield group, int, count, {0: total}


def _long_integers(array: Any, groups: pa.Array) -> Iterator[SumOf]:
    import pyarrow as pa
    import pyarrow.compute as pc

    high = pc.shift_right(array, pa.scalar(32, pa.int64()))
    low = pc.bit_wise_and(array, pa.scalar(2**32 - 1, pa.int64()))
    for group, count, above, below in _added(groups, {"high": high, "low": low}):
        yield group, int, count, {0: (above << 32) + below}


def _decimals(cells: Cells, groups: pa.Array) -> Iterator[SumOf]:
    power = -cells.array.type.scale
    for group, count, total in _added(groups, {"x": cells.array}):
        yield group, Decimal128, count, {power: _unscaled(total)}


def _doubles(cells: Cells, groups: pa.Array) -> Iterator[SumOf]:
    import pyarrow as pa
    import pyarrow.compute as pc

    def number(value: int) -> pa.Scalar:
        return pa.scalar(value, pa.int64())

    array = cells.array.combine_chunks() if isinstance(cells.array, pa.ChunkedArray) else cells.array
    bits = array.view(pa.int64())
    exponents = pc.bit_wise_and(pc.shift_right(bits, number(_MANTISSA_BITS)), number(_EXPONENT))
    implicit = pc.min_element_wise(exponents, number(1))
    mantissas = pc.bit_wise_or(
        pc.bit_wise_and(bits, number(2**_MANTISSA_BITS - 1)), pc.shift_left(implicit, number(_MANTISSA_BITS))
    )
    signed = pc.if_else(pc.less(bits, number(0)), pc.negate(mantissas), mantissas)
    powers = pc.max_element_wise(exponents, number(1))
    shifts = pc.bit_wise_and(powers, number(2**_SHIFT_BITS - 1))
    steps = pc.shift_right(powers, number(_SHIFT_BITS))
    keys = pc.add(pc.multiply(groups.cast(pa.int64()), number(_KEYS_OF_GROUP)), pc.shift_left(steps, number(1)))
    integers = cells.integers()
    if integers is not None:
        keys = pc.add(keys, integers.combine_chunks().cast(pa.int64()))
    # The upper half has the sign, the lower one is what is above it: an arithmetic shift rounds down.
    high = pc.shift_left(pc.shift_right(signed, number(_HALF_BITS)), shifts)
    low = pc.shift_left(pc.bit_wise_and(signed, number(2**_HALF_BITS - 1)), shifts)
    for key, count, above, below in _added(keys, {"high": high, "low": low}):
        group, place = divmod(key, _KEYS_OF_GROUP)
        power = _LOWEST_POWER + ((place >> 1) << _SHIFT_BITS)
        total = (above << _HALF_BITS) + below
        if place & 1:
            yield group, int, count, {0: total << power if power >= 0 else total >> -power}
        else:
            yield group, float, count, {power: total}
