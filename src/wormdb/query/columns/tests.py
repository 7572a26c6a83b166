"""Conditions on typed cells, by Arrow: what `wormdb.bql.checks` says of each value, of all cells at once.

Null cells are null or false in an outcome; the caller knows what they mean. What Arrow cannot say exactly is asked of
Python, once for each different value.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, assert_never

from wormdb.bql.regex import rewrite_regex
from wormdb.bql.tree import (
    Compare,
    Contains,
    EndsWith,
    Exists,
    In,
    Mod,
    RegexMatch,
    StartsWith,
    Type,
)
from wormdb.format.bson_types import check_type
from wormdb.format.kinds import Decimal128, Kind, ObjectId, Regex, kind_of
from wormdb.format.wrappers import milliseconds
from wormdb.query.columns.cells import (
    DECIMAL_MAX,
    Cells,
    as_double,
    as_unscaled,
    by_distinct,
    double_bound,
    integer_bound,
    is_nan,
)
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from wormdb.bql.tree import Comparison, Filter
    from wormdb.engine.blocks.portion import Coded
    from wormdb.query.columns.cells import Outcome

    _OfText = StartsWith | EndsWith | Contains | RegexMatch

__all__ = ["ask_cells"]

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
"""To compare numbers with so many others one by one is faster than to look them up."""
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
            return by_distinct(test, cells.array, cells.kind)


def _spread(outcome: Outcome, coded: Coded) -> Outcome:
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
        return by_distinct(test, cells.array, cells.kind)
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
    import pyarrow as pa

    cell = _cell(value, cells)
    return None if cell is None else pa.scalar(cell, cells.array.type)


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
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells.kind == "string" and any(type(value) is Regex for value in values):
        return by_distinct(test, cells.array, cells.kind)
    alike = [value for value in values if kind_of(value) is _BRACKETS[cells.kind]]
    wanted = [cell for value in alike if (cell := _listed(value, cells)) is not None]
    found: Outcome = False
    if wanted:
        if 0.0 in wanted and cells.kind == "double":
            wanted += [0.0, -0.0]  # equal, but not to a hash
        found = pc.is_in(cells.array, value_set=pa.array(wanted, cells.array.type))
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
    """Of whole numbers, whether they fit in 32 bits, if the names ask for that."""
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
        return by_distinct(test, cells.array, cells.kind)
    numbers = cells.array
    if cells.kind == "double":
        # Of doubles from -2**63 up to but not including 2**63 the whole part is an integer of 64 bits.
        fits = pc.and_(pc.greater_equal(numbers, float(INT_MIN)), pc.less(numbers, -float(INT_MIN)))
        numbers = pc.trunc(pc.if_else(fits, numbers, None)).cast(pa.int64())
    quotients = pc.divide(numbers, pa.scalar(divisor, pa.int64()))
    rest = pc.subtract(numbers, pc.multiply(quotients, pa.scalar(divisor, pa.int64())))
    return pc.fill_null(pc.equal(rest, pa.scalar(condition.remainder, pa.int64())), False)


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
    return by_distinct(test, cells.array, cells.kind)


def _is_stable(source: str) -> bool:
    """Whether a pattern means the same to every release of RE2: Arrow has one of its own, with its own Unicode."""
    return source.isascii() and not {r"\p", r"\P", r"\C", r"\X"} & {source[at : at + 2] for at in range(len(source))}
