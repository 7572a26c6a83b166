"""Exact sums of number columns: cut into pieces that Arrow can add without rounding, put together afterwards.

Integers that could overflow together are cut in halves. Of doubles the upper bits are split off, as many as leave room
for all rows in one double, then the next, until nothing is left: each piece is a multiple of one unit, so every sum of
them is exact in whatever order. `wormdb.bql.exact_sum` rounds once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import frexp, ldexp
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Decimal128
from wormdb.limits import INT_MAX
from wormdb.query.column_numbers import DECIMAL_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from wormdb.bql.update_numbers import Number
    from wormdb.query.column_cells import Cells

__all__ = ["Pieces", "cut"]

_HALF_BITS: Final = 32
_DOUBLE_BITS: Final = 53
_LEAST_POWER: Final = -1074
_MOST_POWER: Final = 960  # beyond it the rounding constant would be infinite


@dataclass(frozen=True, slots=True)
class Pieces:
    """A column as columns whose sums are exact."""

    kind: type[Number]
    columns: Sequence[pa.Array | pa.ChunkedArray]
    join: Callable[[Sequence[Any]], Mapping[int, int]]
    """Of the sums of the columns, the sum as `ExactSum.add_many` takes it."""


def cut(cells: Cells) -> Pieces | None:
    """A column of finite numbers in pieces; None if they are too large for that.

    Doubles that stand for integers are left to the caller.
    """
    import pyarrow.compute as pc

    low, high = (value.as_py() for value in pc.min_max(cells.array).values())
    if cells.kind == "double":
        return _doubles(cells.array, max(abs(low or 0.0), abs(high or 0.0)), cells.rows)
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


def _integers(array: Any) -> Pieces:
    return Pieces(int, [array], lambda sums: {0: sums[0]})


def _long_integers(array: Any) -> Pieces:
    import pyarrow as pa
    import pyarrow.compute as pc

    high = pc.shift_right(array, pa.scalar(_HALF_BITS, pa.int64()))
    low = pc.bit_wise_and(array, pa.scalar(2**_HALF_BITS - 1, pa.int64()))
    return Pieces(int, [high, low], lambda sums: {0: (sums[0] << _HALF_BITS) + sums[1]})


def _decimals(array: Any) -> Pieces:
    power = -array.type.scale
    return Pieces(Decimal128, [array], lambda sums: {power: _unscaled(sums[0])})


def _doubles(array: Any, most: float, rows: int) -> Pieces | None:
    import pyarrow.compute as pc

    if most >= 2.0**_MOST_POWER:
        return None
    bits = _DOUBLE_BITS - rows.bit_length()
    columns = []
    while most:
        power = max(frexp(most)[1] - bits, _LEAST_POWER)
        # Next to this number doubles are one unit apart, so adding and subtracting it rounds to units.
        around = ldexp(1.5, _DOUBLE_BITS - 1 + power)
        upper = pc.subtract(pc.add(array, around), around)
        columns.append(upper)
        array = pc.subtract(array, upper)
        most = max(abs(value.as_py()) for value in pc.min_max(array).values())
    return Pieces(float, columns or [array], _joined)


def _joined(sums: Sequence[float]) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for total in sums:
        number, unit = total.as_integer_ratio()
        power = 1 - unit.bit_length()
        found[power] = found.get(power, 0) + number
    return found
