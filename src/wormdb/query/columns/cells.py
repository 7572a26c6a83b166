"""The cells of one column: what a null among them means, which rows are elsewhere, and what Arrow says of them.

Conditions are those of `wormdb.bql.match`, asked of all cells at once. What Arrow cannot say exactly is asked of
Python, once for each different value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from math import ceil, floor, inf, isfinite, isnan, nan, nextafter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from wormdb.bql.regex import rewrite_regex
from wormdb.bql.tree import Compare, Contains, EndsWith, Exists, In, Mod, RegexMatch, StartsWith, Type
from wormdb.engine.blocks.portion import ELSEWHERE_CODE, CodedColumn, Portion
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.bson_types import check_type
from wormdb.format.columns import decode_column
from wormdb.format.kinds import MISSING, Decimal128, Kind, ObjectId, Regex, kind_of
from wormdb.format.wrappers import milliseconds
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    import pyarrow as pa

    from wormdb.bql.tree import Comparison, Filter

    _OfText = StartsWith | EndsWith | Contains | RegexMatch

__all__ = [
    "DECIMAL_MAX",
    "Cells",
    "Outcome",
    "as_double",
    "as_unscaled",
    "ask_cells",
    "ask_distinct",
    "cells_of",
    "decode_cells",
    "double_bound",
    "element_kind",
    "element_lists",
    "integer_bound",
    "is_nan",
    "join_chunks",
    "mask_of_rows",
    "negate",
    "rows_of_mask",
    "to_fraction",
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
    """The companion column, if there is one."""
    null: Any = MISSING
    """What a null is where there is no companion: MISSING in a column, None among the elements of an array."""
    coded: Callable[[], CodedColumn | None] = lambda: None
    """The cells as numbers, if they are texts and that is known."""

    @property
    def rows(self) -> int:
        """The number of cells."""
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
            filled = pc.fill_null(outcome, scalar_of(False))
            return pc.or_(filled, self.array.is_null()) if passed else filled
        if outcome is True:
            outcome = self.array.is_valid()
        elif outcome is not False:
            outcome = pc.fill_null(outcome, scalar_of(False))
        for code, value in ((_NULL_CODE, None), (_MISSING_CODE, MISSING)):
            if is_true(value):
                mask = pc.equal(self.codes, scalar_of(code))
                outcome = mask if outcome is False else pc.or_(outcome, mask)
        return outcome

    def _coded(self, code: int) -> pa.Array | pa.ChunkedArray | None:
        import pyarrow.compute as pc

        if self.codes is None:
            return None
        mask = pc.equal(self.codes, scalar_of(code))
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

    The outcome for elements has no nulls; that for a cell without an array is false.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = join_chunks(cells.array)
    elements = Cells(arrays.flatten(), element_kind(cells.kind) or "", null=None)
    lengths = pc.fill_null(pc.list_value_length(arrays).cast(pa.int64()), scalar_of(0))

    def any_of(outcome: Outcome) -> Outcome:
        if outcome is False:
            return False
        if outcome is True:
            return pc.greater(lengths, scalar_of(0))
        counts = pa.concat_arrays([array_of([0], pa.int64()), pc.cumulative_sum(outcome.cast(pa.int64()))])
        ends = pc.cumulative_sum(lengths)
        return pc.greater(counts.take(ends), counts.take(pc.subtract(ends, lengths)))

    return elements, any_of


def decode_cells(array: pa.Array | pa.ChunkedArray, kind: str) -> list[Any]:
    """The exact values of cells of a type; MISSING for null. No requests; raises CorruptionError."""
    import pyarrow as pa

    chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return decode_column(chunked, None, kind, name="a column")


def ask_distinct(test: Callable[[Any], bool], array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    """A mask of the cells whose values pass a test, which is asked once for each different cell; null stays null."""
    import pyarrow as pa

    encoded = join_chunks(array).dictionary_encode()
    passed = array_of([test(value) for value in decode_cells(encoded.dictionary, kind)], pa.bool_())
    return passed.take(encoded.indices)


def join_chunks(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Cells in one piece; copied only if they are in several."""
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def negate(outcome: Outcome) -> Outcome:
    """What is true where `outcome` is false."""
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
        return array_of([], pa.uint64())
    return pc.indices_nonzero(mask if among is True else pc.and_(mask, among))


# --- Comparisons of number columns that are exact across integers, doubles and decimals.
#
# Arrow compares within one type. So a number of another type becomes a bound of the column's own type that divides its
# values in the same way: of integers, `x > 2.5` is `x > 2`; of doubles, `x > 2**53 + 1` is `x > 2.0**53`.

DECIMAL_MAX: Final = 10**38 - 1
"""The greatest unscaled value of a column of decimals."""


def to_fraction(number: float | Decimal128) -> Fraction | float:
    """A number as a fraction; infinities and NaN as they are."""
    from fractions import Fraction

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
    value = to_fraction(number)
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
    value = to_fraction(number)
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
    value = to_fraction(number)
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
    return double not in (inf, -inf) and to_fraction(double) == value


# --- Conditions on typed cells. In an outcome, null cells are null or false; the caller knows what they mean.


_BRACKETS: Final[dict[str, Kind]] = {
    "int64": Kind.NUMBER,
    "double": Kind.NUMBER,
    "decimal": Kind.NUMBER,
    "string": Kind.STRING,
    "bool": Kind.BOOLEAN,
    "date": Kind.DATE,
    "binary": Kind.BINARY,
    "objectid": Kind.OBJECTID,
}
_SAMPLES: Final[dict[str, Any]] = {
    "int64": 0,
    "double": 0.0,
    "decimal": Decimal128("0"),
    "string": "",
    "bool": False,
    "date": datetime(1970, 1, 1, tzinfo=UTC),
    "binary": b"",
    "objectid": ObjectId(bytes(12)),
}
"""A value of each type, for conditions that are about nothing but the type."""
_FUNCTIONS: Final[dict[Comparison, str]] = {
    "eq": "equal",
    "gt": "greater",
    "gte": "greater_equal",
    "lt": "less",
    "lte": "less_equal",
}
_COMPARED_MAX: Final = 6
"""Up to this many values, comparing with each is faster than a look-up."""
_INT32: Final = (-(2**31), 2**31 - 1)


def ask_cells(condition: Filter, cells: Cells, test: Callable[[Any], bool]) -> Outcome:
    """Whether the value of each cell passes `test`, which is that of the condition. No requests.

    A condition without a case here is asked of Python, once for each different value.
    """
    coded = None if isinstance(condition, Exists | Type) else cells.coded()
    if coded is not None:
        return _spread(ask_cells(condition, Cells(coded.texts, cells.kind), test), coded)
    match condition:
        case Exists():
            return True
        case Compare(_, op, value):
            return _compare(op, value, cells, test)
        case In(_, values):
            return _is_in(values, cells, test)
        case Type(_, names):
            return _has_type(names, cells)
        case Mod():
            return _leaves(condition, cells, test)
        case StartsWith() | EndsWith() | Contains() | RegexMatch():
            return _is_text(condition, cells, test) if cells.kind == "string" else False
        case _:
            return ask_distinct(test, cells.array, cells.kind)


def _spread(outcome: Outcome, coded: CodedColumn) -> Outcome:
    """What was found of each text as an outcome for the rows that have it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(outcome, bool):
        return outcome
    passed = pc.indices_nonzero(outcome).cast(pa.uint8())
    if len(passed) > _COMPARED_MAX:
        return pc.is_in(coded.codes, value_set=passed)
    found: Outcome = False
    for code in passed:
        equal = pc.equal(coded.codes, code)
        found = equal if found is False else pc.or_(found, equal)
    return found


# --- comparison ---


def _compare(op: Comparison, value: Any, cells: Cells, test: Callable[[Any], bool]) -> Outcome:
    import pyarrow.compute as pc

    bracket = kind_of(value)
    if bracket is Kind.MINKEY or bracket is Kind.MAXKEY:
        return test(_SAMPLES[cells.kind])
    if bracket is not _BRACKETS[cells.kind]:
        return False
    if bracket is Kind.BINARY and op != "eq":  # the shorter is less, which Arrow does not know
        return ask_distinct(test, cells.array, cells.kind)
    if bracket is Kind.NUMBER:
        found = _number_bound(op, value, cells)
        if found is None:
            return pc.is_nan(cells.array)
        if isinstance(found, bool):
            return found
        op, value = found
    scalar = _scalar(value, cells)
    return False if scalar is None else pc.call_function(_FUNCTIONS[op], [cells.array, scalar])


def _number_bound(op: Comparison, value: Any, cells: Cells) -> tuple[Comparison, Any] | bool | None:
    """What to ask of the cells; a bool if it is the same for all, None if only NaN counts."""
    if is_nan(value):
        if op in {"gt", "lt"}:
            return False
        return None if cells.kind == "double" else False
    if cells.kind == "double":
        return double_bound(op, value)
    if cells.kind == "int64":
        return integer_bound(op, value)
    found = integer_bound(op, value, scale=_scale(cells), least=-DECIMAL_MAX, most=DECIMAL_MAX)
    return found if isinstance(found, bool) else (found[0], _decimal(found[1], cells))


def _scale(cells: Cells) -> int:
    scale: int = cells.array.type.scale
    return scale


def _decimal(unscaled: int, cells: Cells) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -_scale(cells)))


def _scalar(value: Any, cells: Cells) -> pa.Scalar | None:
    """A value of the bracket of a column as the cell that it would be; None if none can be."""
    cell = _cell(value, cells)
    return None if cell is None else scalar_of(cell, cells.array.type)


def _cell(value: Any, cells: Cells) -> Any:
    if cells.kind == "date":
        return milliseconds(value)
    if cells.kind == "objectid":
        return value.binary
    if cells.kind == "binary" and type(value) is not bytes:
        return None
    return value


# --- lists ---


def _is_in(values: Sequence[Any], cells: Cells, test: Callable[[Any], bool]) -> Outcome:
    import pyarrow.compute as pc

    if cells.kind == "string" and any(type(value) is Regex for value in values):
        return ask_distinct(test, cells.array, cells.kind)
    alike = [value for value in values if kind_of(value) is _BRACKETS[cells.kind]]
    wanted = [cell for value in alike if (cell := _listed(value, cells)) is not None]
    found: Outcome = False
    if wanted:
        if 0.0 in wanted and cells.kind == "double":
            wanted += [0.0, -0.0]  # equal, but not to a hash
        found = pc.is_in(cells.array, value_set=array_of(wanted, cells.array.type))
    if cells.kind == "double" and any(map(is_nan, alike)):
        found = pc.is_nan(cells.array) if found is False else pc.or_(found, pc.is_nan(cells.array))
    return found


def _listed(value: Any, cells: Cells) -> Any:
    """A value of the bracket of a column as the cell that equals it; None if none does."""
    if cells.kind == "double":
        return as_double(value)
    if cells.kind == "int64":
        return as_unscaled(value)
    if cells.kind == "decimal":
        unscaled = as_unscaled(value, scale=_scale(cells), least=-DECIMAL_MAX, most=DECIMAL_MAX)
        return None if unscaled is None else _decimal(unscaled, cells)
    return _cell(value, cells)


# --- types and numbers ---


def _has_type(names: Sequence[str], cells: Cells) -> Outcome:
    import pyarrow.compute as pc

    test = check_type(names)
    if cells.kind == "int64":
        return _is_integer_type(names, cells.array)
    found = test(_SAMPLES[cells.kind])
    integers = cells.integers()
    if integers is None:
        return found
    others = _is_integer_type(names, cells.array)
    if others is found:
        return found
    return pc.and_(pc.if_else(integers, others, found), cells.array.is_valid())


def _is_integer_type(names: Sequence[str], array: pa.Array | pa.ChunkedArray) -> Outcome:
    """Whether whole numbers fit in 32 bits, if the names ask for that."""
    import pyarrow.compute as pc

    short, long = "int" in names, "long" in names
    if short is long:
        return short
    low, high = _INT32
    fits = pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))
    return fits if short else pc.invert(fits)


def _leaves(condition: Mod, cells: Cells, test: Callable[[Any], bool]) -> Outcome:
    import pyarrow as pa
    import pyarrow.compute as pc

    if _BRACKETS[cells.kind] is not Kind.NUMBER:
        return False
    divisor = abs(condition.divisor)
    if cells.kind == "decimal" or divisor > INT_MAX or not INT_MIN <= condition.remainder <= INT_MAX:
        return ask_distinct(test, cells.array, cells.kind)
    numbers = cells.array
    if cells.kind == "double":
        # Of doubles from -2**63 up to but not including 2**63 the whole part is an integer of 64 bits.
        fits = pc.and_(pc.greater_equal(numbers, float(INT_MIN)), pc.less(numbers, -float(INT_MIN)))
        numbers = pc.trunc(pc.if_else(fits, numbers, scalar_of(None, numbers.type))).cast(pa.int64())
    quotients = pc.divide(numbers, scalar_of(divisor, pa.int64()))
    rest = pc.subtract(numbers, pc.multiply(quotients, scalar_of(divisor, pa.int64())))
    return pc.fill_null(pc.equal(rest, scalar_of(condition.remainder, pa.int64())), scalar_of(False))


# --- text ---


def _is_text(condition: _OfText, cells: Cells, test: Callable[[Any], bool]) -> Outcome:
    import pyarrow.compute as pc

    match condition:
        case StartsWith(_, prefix):
            return pc.starts_with(cells.array, prefix)
        case EndsWith(_, suffix):
            return pc.ends_with(cells.array, suffix)
        case Contains(_, value):
            return pc.match_substring(cells.array, value) if type(value) is str else False
        case RegexMatch():
            return _has_match(condition, cells, test)
        case _:
            assert_never(condition)


def _has_match(condition: RegexMatch, cells: Cells, test: Callable[[Any], bool]) -> Outcome:
    import pyarrow as pa
    import pyarrow.compute as pc

    source = rewrite_regex(condition.pattern, condition.options)
    if _is_stable(source):
        try:
            return pc.match_substring_regex(cells.array, source, ignore_case="i" in condition.options)
        except pa.ArrowInvalid:  # over the memory that Arrow gives a pattern
            pass
    return ask_distinct(test, cells.array, cells.kind)


def _is_stable(source: str) -> bool:
    """Whether a pattern means the same to every release of RE2: Arrow has one of its own, with its own Unicode."""
    return source.isascii() and not {r"\p", r"\P", r"\C", r"\X"} & {source[at : at + 2] for at in range(len(source))}
