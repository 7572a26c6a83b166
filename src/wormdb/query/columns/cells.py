"""One column as a filter looks at it: typed cells, what a null among them means, and which rows are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, isfinite, isnan, nan, nextafter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.engine.blocks.portion import ELSEWHERE_CODE
from wormdb.format.columns import decode_column
from wormdb.format.kinds import MISSING, Decimal128
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from wormdb.bql.tree import Comparison
    from wormdb.engine.blocks.portion import Coded, Portion

__all__ = [
    "DECIMAL_MAX",
    "Cells",
    "Outcome",
    "as_double",
    "as_unscaled",
    "by_distinct",
    "cells_of",
    "complement",
    "decoded",
    "double_bound",
    "element_kind",
    "element_lists",
    "exact",
    "integer_bound",
    "is_nan",
    "mask_of_rows",
    "rows_of_mask",
    "whole",
]

Outcome: TypeAlias = "bool | pa.Array | pa.ChunkedArray"
"""A mask, or a bool that stands for the same in every row."""

_NULL_CODE: Final = 1
_MISSING_CODE: Final = 2
_INTEGER_CODE: Final = 4


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column, or the elements of its arrays."""

    array: pa.Array | pa.ChunkedArray
    kind: str
    codes: pa.Array | pa.ChunkedArray | None = None
    """The companion of the column, if it has one."""
    null: Any = MISSING
    """What a null is where there is no companion: MISSING in a column, None among the elements of an array."""
    coded: Callable[[], Coded | None] = lambda: None
    """The cells as numbers, if they are texts and that is known."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.array)

    def elsewhere(self) -> pa.Array | pa.ChunkedArray | None:
        """A mask of the rows whose values are not in the column; None if there are none."""
        return self._coded(ELSEWHERE_CODE)

    def integers(self) -> pa.Array | pa.ChunkedArray | None:
        """A mask of the cells of a double column that stand for integers; None if there are none."""
        return self._coded(_INTEGER_CODE) if self.kind == "double" else None

    def completed(self, outcome: Outcome, is_true: Callable[[Any], bool]) -> Outcome:
        """An outcome for values as one for all rows but those elsewhere: null and missing are given to `is_true`.

        In a mask, null cells are null or false.
        """
        import pyarrow.compute as pc

        if not self.array.null_count:
            return outcome
        if self.codes is None:
            passed = is_true(self.null)
            if isinstance(outcome, bool):
                return outcome if outcome is passed else self.array.is_null() if passed else self.array.is_valid()
            filled = pc.fill_null(outcome, False)
            return pc.or_(filled, self.array.is_null()) if passed else filled
        if outcome is True:
            outcome = self.array.is_valid()
        elif outcome is not False:
            outcome = pc.fill_null(outcome, False)
        for code, value in ((_NULL_CODE, None), (_MISSING_CODE, MISSING)):
            if is_true(value):
                mask = pc.equal(self.codes, code)
                outcome = mask if outcome is False else pc.or_(outcome, mask)
        return outcome

    def _coded(self, code: int) -> pa.Array | pa.ChunkedArray | None:
        import pyarrow.compute as pc

        if self.codes is None:
            return None
        mask = pc.equal(self.codes, code)
        return mask if pc.any(mask).as_py() else None


def cells_of(portion: Portion, name: str) -> Cells:
    """The cells of a column of a portion."""
    cells = Cells(portion.table.column(name), portion.types[name], portion.kinds(name))
    if portion.codes is None or cells.kind != "string":
        return cells
    return replace(cells, coded=partial(portion.codes.find, name))


def element_kind(kind: str) -> str | None:
    """The type of the elements of a column of arrays; None of another column."""
    return kind[5:-1] if kind.startswith("list<") else None


def element_lists(cells: Cells) -> tuple[Cells, Callable[[Outcome], Outcome]]:
    """The elements of all arrays, and how an outcome for them becomes one for the arrays: whether it is true of any.

    The outcome for elements has no nulls; that for what is no array is false.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = whole(cells.array)
    elements = Cells(arrays.flatten(), element_kind(cells.kind) or "", null=None)
    lengths = pc.fill_null(pc.list_value_length(arrays), 0).cast(pa.int64())

    def any_of(outcome: Outcome) -> Outcome:
        if outcome is False:
            return False
        if outcome is True:
            return pc.greater(lengths, 0)
        counts = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(outcome.cast(pa.int64()))])
        ends = pc.cumulative_sum(lengths)
        return pc.greater(counts.take(ends), counts.take(pc.subtract(ends, lengths)))

    return elements, any_of


def decoded(array: pa.Array | pa.ChunkedArray, kind: str) -> list[Any]:
    """The exact values of cells of a type; MISSING for null. CorruptionError for what is no value. No requests."""
    import pyarrow as pa

    chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return decode_column(chunked, None, kind, name="a column")


def by_distinct(test: Callable[[Any], bool], array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    """A mask of the cells whose values pass a test, which is asked once for each different cell; null stays null."""
    import pyarrow as pa

    encoded = whole(array).dictionary_encode()
    passed = pa.array([test(value) for value in decoded(encoded.dictionary, kind)], pa.bool_())
    return passed.take(encoded.indices)


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Cells in one piece; copied only if they are in several."""
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def complement(outcome: Outcome) -> Outcome:
    """True where it is false."""
    import pyarrow.compute as pc

    return not outcome if isinstance(outcome, bool) else pc.invert(outcome)


def mask_of_rows(rows: Iterable[int], count: int) -> pa.Array:
    """A mask over `count` rows that is true in some."""
    import pyarrow as pa

    bits = bytearray((count + 7) // 8)
    for row in rows:
        bits[row >> 3] |= 1 << (row & 7)
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bytes(bits))])


def rows_of_mask(mask: pa.Array | pa.ChunkedArray, among: Outcome = True) -> pa.Array:
    """The numbers of the rows in which a mask is true, and `among` is too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if among is False:
        return pa.array([], pa.uint64())
    return pc.indices_nonzero(mask if among is True else pc.and_(mask, among))


# --- Comparisons of number columns that are exact across integers, doubles and decimals.
#
# Arrow compares within one type. So a number of another type becomes a bound of the column's own type that divides its
# values in the same way: of integers, `x > 2.5` is `x > 2`; of doubles, `x > 2**53 + 1` is `x > 2.0**53`.

DECIMAL_MAX: Final = 10**38 - 1
"""The greatest unscaled value of a column of decimals."""


def exact(number: float | Decimal128) -> Fraction | float:
    """A number as a fraction; infinities and NaN as they are."""
    if type(number) is Decimal128:
        decimal = number.to_decimal()
        if decimal.is_nan():
            return nan
        return Fraction(decimal) if decimal.is_finite() else float(decimal)
    assert isinstance(number, int | float)
    return Fraction(number) if isfinite(number) else number


def is_nan(value: Any) -> bool:
    """Whether a normalized value is NaN, of either type that has it."""
    if type(value) is float:
        return isnan(value)
    return type(value) is Decimal128 and bool(value.to_decimal().is_nan())


def integer_bound(
    op: Comparison, number: float | Decimal128, *, scale: int = 0, least: int = INT_MIN, most: int = INT_MAX
) -> tuple[Comparison, int] | bool:
    """What to ask of integers `n` from `least` to `most`, so that `n / 10**scale` is in that relation to a number.

    A bool if all or none of them are.
    """
    value = exact(number)
    if isinstance(value, float):
        return not isnan(value) and op in (("lt", "lte") if value > 0 else ("gt", "gte"))
    value *= 10**scale
    if op == "eq" and value.denominator != 1:
        return False
    bound = floor(value) if op in {"gt", "lte"} else ceil(value)
    if bound > most:
        return op in {"lt", "lte"}
    if bound < least:
        return op in {"gt", "gte"}
    return op, bound


def double_bound(op: Comparison, number: float | Decimal128) -> tuple[Comparison, float] | bool:
    """What to ask of doubles, so that they are in that relation to a number other than NaN; False: none is."""
    value = exact(number)
    if isinstance(value, float):
        return op, value
    double = _nearest(value)
    if _is_double(value, double):
        return op, double
    if op == "eq":
        return False
    below = nextafter(double, -inf) if double > value else double
    return ("gt", below) if op in {"gt", "gte"} else ("lt", nextafter(below, inf))


def as_unscaled(number: float | Decimal128, *, scale: int = 0, least: int = INT_MIN, most: int = INT_MAX) -> int | None:
    """The integer `n` between two for which `n / 10**scale` is the number; None if there is none."""
    found = integer_bound("eq", number, scale=scale, least=least, most=most)
    return None if isinstance(found, bool) else found[1]


def as_double(number: float | Decimal128) -> float | None:
    """The double that is the number; None if there is none, or it is NaN."""
    value = exact(number)
    if isinstance(value, float):
        return None if isnan(value) else value
    double = _nearest(value)
    return double if _is_double(value, double) else None


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _is_double(value: Fraction, double: float) -> bool:
    return double not in (inf, -inf) and Fraction(double) == value
