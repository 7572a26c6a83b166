"""Exact sums of number columns: cut into pieces that Arrow can add without rounding, put together afterwards.

Integers that could overflow together are cut in halves. Of doubles the upper bits are split off, as many as leave room
for all rows in one double, then the next, until nothing is left: each piece is a multiple of one unit, so every sum of
them is exact in whatever order. `wormdb.bql.exact_sum` rounds once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import frexp, inf, isnan, ldexp
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Decimal128
from wormdb.query.column_numbers import DECIMAL_MAX
from wormdb.query.columns.cells import whole
from wormdb.settings import INT_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from wormdb.bql.update_numbers import Number
    from wormdb.query.columns.cells import Cells

__all__ = ["Pieces", "cut", "magnitude"]

_HALF_BITS: Final = 32
_DOUBLE_BITS: Final = 53
_SPARE_BITS: Final = 3  # a value must be small against the number around which it is rounded
_LEAST_POWER: Final = -1074
_AS_DOUBLE: Final = Struct("<d")
_AS_INTEGER: Final = Struct("<q")
_MOST_POWER: Final = 960  # beyond it the rounding constant would be infinite


@dataclass(frozen=True, slots=True)
class Pieces:
    """A column as columns whose sums are exact."""

    kind: type[Number]
    columns: Sequence[pa.Array | pa.ChunkedArray]
    power: int
    """Of the numbers that `join` gives, as `ExactSum.add_many` takes them."""
    join: Callable[[Sequence[Sequence[Any]]], Sequence[int]]
    """Of the sums of each column, one a group, the whole sum of each group."""


def cut(cells: Cells) -> Pieces | None:
    """A column of finite numbers in pieces; None if they are too large for that.

    Doubles that stand for integers are left to the caller.
    """
    import pyarrow.compute as pc

    if cells.kind == "double":
        return _doubles(whole(cells.array))
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


def _integers(array: Any) -> Pieces:
    return Pieces(int, [array], 0, lambda sums: sums[0])


def _long_integers(array: Any) -> Pieces:
    import pyarrow as pa
    import pyarrow.compute as pc

    high = pc.shift_right(array, pa.scalar(_HALF_BITS, pa.int64()))
    low = pc.bit_wise_and(array, pa.scalar(2**_HALF_BITS - 1, pa.int64()))

    def join(sums: Sequence[Sequence[Any]]) -> list[int]:
        return [((above or 0) << _HALF_BITS) + (below or 0) for above, below in zip(*sums, strict=True)]

    return Pieces(int, [high, low], 0, join)


def _decimals(array: Any) -> Pieces:
    return Pieces(Decimal128, [array], -array.type.scale, lambda sums: [_unscaled(total) for total in sums[0]])


def magnitude(array: pa.Array) -> float:
    """The greatest absolute value of doubles, 0.0 of none; infinite if one is not finite."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Bits without the sign are ordered as absolute values are; and Arrow finds the greatest integer much faster.
    bits = pc.bit_wise_and(array.view(pa.int64()), pa.scalar(INT_MAX, pa.int64()))
    most: int = pc.max(bits).as_py() or 0
    value: float = _AS_DOUBLE.unpack(_AS_INTEGER.pack(most))[0]
    return inf if isnan(value) else value


def _doubles(array: pa.Array) -> Pieces | None:
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
        around = ldexp(1.5, _DOUBLE_BITS - 1 + power)
        upper = pc.subtract(pc.add(array, around), around)
        columns.append(upper)
        powers.append(power)
        array = pc.subtract(array, upper)
        most = magnitude(array)
    if not columns:
        return Pieces(float, [array], 0, lambda sums: [0] * len(sums[0]))
    return Pieces(float, columns, powers[-1], lambda sums: _joined(sums, powers))


def _joined(sums: Sequence[Sequence[float | None]], powers: Sequence[int]) -> list[int]:
    """Sums of multiples of powers of 2, the greatest first, as multiples of the last."""
    parts = [
        [int(ldexp(total or 0.0, -power)) << (power - powers[-1]) for total in totals]
        for totals, power in zip(sums, powers, strict=True)
    ]
    return list(map(sum, zip(*parts, strict=True)))
