"""Filters as functions: whether a document matches, by MongoDB's rules.

This is what every plan has to agree with: whatever an index or a column says, the answer is the one that this function
gives for the whole document.
"""

from __future__ import annotations

import operator
from datetime import datetime
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from wormdb.bql.regex import compile_regex
from wormdb.bql.tree import (
    All,
    And,
    Compare,
    Conforms,
    Contains,
    ElemMatch,
    EndsWith,
    Exists,
    Filter,
    In,
    MatchAll,
    MatchNone,
    Mod,
    Not,
    Or,
    RegexMatch,
    Size,
    StartsWith,
    Type,
)
from wormdb.format.bson_types import check_type
from wormdb.format.json import decode
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128, Document, Kind, MaxKey, MinKey, ObjectId, Regex, kind_of
from wormdb.format.order import compare
from wormdb.format.path import Path, is_position
from wormdb.format.wrappers import regex_options
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.bql.tree import Comparison

__all__ = [
    "any_value",
    "compile_filter",
]

Test: TypeAlias = "Callable[[Any], bool]"
"""Whether one normalized value, or MISSING, passes."""


def compile_filter(tree: Filter) -> Callable[[Document], bool]:
    """A function that tells whether a normalized document matches. No requests.

    Filters whose paths are empty (those of a `ElemMatch` of kind "value") are given values instead. Raises
    MissingExtraError for a regular expression without google-re2.
    """
    match tree:
        case MatchAll():
            return _always
        case MatchNone():
            return _never
        case And(filters):
            return _all_of([compile_filter(child) for child in filters])
        case Or(filters):
            return _any_of([compile_filter(child) for child in filters])
        case Not(child):
            return _not(compile_filter(child))
        case All(path, values):
            tests = [any_value(path, _check_item(value)) for value in values]
            return _all_of(tests) if tests else _never
        case Conforms(_, schema):
            from wormdb.bql.json_schema import compile_schema  # few filters have one

            return compile_schema(decode(schema.encode(), name="$jsonSchema"), _check_comparison)
        case ElemMatch() | Size() | Contains():
            return any_value(tree.path, _check_whole(tree), expand=False)
        case _:
            return any_value(tree.path, _check_each(tree))


def _check_whole(tree: ElemMatch | Size | Contains) -> Test:
    """The test of a condition that is about an array as a whole."""
    match tree:
        case ElemMatch(_, child, kind):
            return _check_elements(compile_filter(child), is_document=kind == "document")
        case Size(_, count):
            return lambda value: type(value) is list and len(value) == count
        case Contains(_, value):
            return _check_contains(value)
        case _:
            assert_never(tree)


def _check_each(tree: Compare | In | Exists | Type | Mod | RegexMatch | StartsWith | EndsWith) -> Test:
    """The test of a condition that each element of an array may pass."""
    match tree:
        case Compare(_, op, value):
            return _check_comparison(op, value)
        case In(_, values):
            return _check_membership(values)
        case Exists():
            return _is_present
        case Type(_, names):
            return check_type(names)
        case Mod():
            return _check_mod(tree)
        case RegexMatch(_, pattern, options):
            return _check_regex(pattern, options)
        case StartsWith(_, prefix):
            return lambda value: type(value) is str and value.startswith(prefix)
        case EndsWith(_, suffix):
            return lambda value: type(value) is str and value.endswith(suffix)
        case _:
            assert_never(tree)


def _check_item(value: Any) -> Test:
    """The test that one value of $all makes."""
    return _check_regex(value.pattern, regex_options(value)) if type(value) is Regex else _check_comparison("eq", value)


def _check_elements(matches: Test, *, is_document: bool) -> Test:
    def by_value(value: Any) -> bool:
        return type(value) is list and any(map(matches, value))

    def by_document(value: Any) -> bool:
        if type(value) is not list:
            return False
        for element in value:
            if type(element) is dict:
                if matches(element):
                    return True
            elif type(element) is list and matches({str(place): item for place, item in enumerate(element)}):
                return True
        return False

    return by_document if is_document else by_value


def _not(matches: Test) -> Test:
    return lambda document: not matches(document)


def _all_of(tests: Sequence[Test]) -> Test:
    """By halves, so that no loop is set up per document and a long list makes no deep nest."""
    if len(tests) == 1:
        return tests[0]
    first, second = (_all_of(half) for half in _halves(tests))
    return lambda document: first(document) and second(document)


def _any_of(tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    first, second = (_any_of(half) for half in _halves(tests))
    return lambda document: first(document) or second(document)


def _halves(tests: Sequence[Test]) -> tuple[Sequence[Test], Sequence[Test]]:
    middle = (len(tests) + 1) // 2
    return tests[:middle], tests[middle:]


# --- Tests of one value: what each kind of condition asks of a value that stands at its path.
#
# A test is given normalized values and MISSING. Arrays are gone through before (`any_value`): to a test an array
# is one value.


_RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_ORDERED_BY_PYTHON: Final = (str, bool, datetime, ObjectId)


def _always(_: Any) -> bool:
    """True."""
    return True


def _never(_: Any) -> bool:
    """False."""
    return False


def _is_null(value: Any) -> bool:
    """Whether a value is null, or is not there."""
    return value is None or value is MISSING


def _is_present(value: Any) -> bool:
    """Whether a value is there."""
    return value is not MISSING


# --- comparison ---


def _check_comparison(op: Comparison, value: Any) -> Test:
    """Whether a value is in the relation `op` to `value`: only within the bracket of its type.

    null equals missing. MinKey and MaxKey compare with every value. NaN equals NaN, and has no other relation.
    """
    kind = kind_of(value)
    if kind is Kind.NULL:
        return _never if op in {"gt", "lt"} else _is_null
    if kind is Kind.NUMBER:
        return _check_number(op, value)
    if kind is Kind.MINKEY or kind is Kind.MAXKEY:
        return _check_end(op, kind)
    if type(value) in _ORDERED_BY_PYTHON:
        return _check_plain(op, value)
    return _check_compared(op, value)


def _check_plain(op: Comparison, value: Any) -> Test:
    kind, holds = type(value), _RELATIONS[op]
    if kind is str and op == "eq":  # text equals nothing but text: no need to look at the type
        return lambda other: bool(other == value)
    return lambda other: type(other) is kind and holds(other, value)


def _check_compared(op: Comparison, value: Any) -> Test:
    kind, holds = kind_of(value), _RELATIONS[op]
    return lambda other: kind_of(other) is kind and holds(compare(other, value), 0)


def _check_number(op: Comparison, value: float | Decimal128) -> Test:
    if _is_nan(value):
        return _never if op in {"gt", "lt"} else _is_nan
    if type(value) is Decimal128:
        return _check_compared_number(op, value)
    holds, exactly = _RELATIONS[op], _check_compared_number(op, value)

    def test(other: Any) -> bool:
        kind = type(other)
        if kind is int or kind is float:  # Python compares the two exactly, and NaN as we want it
            return holds(other, value)
        return kind is Decimal128 and exactly(other)

    return test


def _check_compared_number(op: Comparison, value: float | Decimal128) -> Test:
    compared = _check_compared(op, value)
    return lambda other: compared(other) and not _is_nan(other)


def _is_nan(value: Any) -> bool:
    if type(value) is float:
        return isnan(value)
    return type(value) is Decimal128 and bool(value.to_decimal().is_nan())


def _check_end(op: Comparison, kind: Kind) -> Test:
    """MinKey is below and MaxKey above everything else, missing fields too."""
    itself = MinKey if kind is Kind.MINKEY else MaxKey
    inward = "gt" if kind is Kind.MINKEY else "lt"
    if op == inward:
        return lambda other: type(other) is not itself
    if op == f"{inward}e":
        return _always
    return (lambda other: type(other) is itself) if op in {"eq", "gte", "lte"} else _never


# --- lists ---


def _check_membership(values: Sequence[Any]) -> Test:
    """Whether a value equals one of `values`, or matches a regular expression among them; null equals missing."""
    expressions = [_check_regex(value.pattern, regex_options(value)) for value in values if type(value) is Regex]
    texts = frozenset(value for value in values if type(value) is str)
    equals = _equals_any(values)
    missing = any(value is None for value in values)

    def test(value: Any) -> bool:
        if type(value) is str:
            return value in texts
        return missing if value is MISSING else equals(value)

    if not expressions:
        return test
    return lambda value: test(value) or any(matches(value) for matches in expressions)


def _equals_any(values: Sequence[Any]) -> Test:
    keys = frozenset(map(encode_key, values))
    kinds = frozenset(map(kind_of, values))
    numbers = frozenset(value for value in values if type(value) is int or type(value) is float)
    # Python finds an int or a float in a set by exact value, whichever of the two it is; only NaN it does not find.
    plain = not any(type(value) is Decimal128 or _is_nan(value) for value in values)

    def test(value: Any) -> bool:
        if plain and (type(value) is int or type(value) is float):
            return value in numbers
        return kind_of(value) in kinds and encode_key(value) in keys

    return test


def _check_contains(value: Any) -> Test:
    """Whether an array has an element equal to `value`, or a text has it as a part."""
    equals = _check_comparison("eq", value)

    def test(other: Any) -> bool:
        if type(other) is list:
            return any(map(equals, other))
        return type(other) is str and type(value) is str and value in other

    return test


# --- text, numbers, types ---


def _check_regex(pattern: str, options: str) -> Test:
    """Whether a text holds a match, or a value is this very expression, option u aside."""
    finds = compile_regex(pattern, options)
    letters = set(options) - {"u"}

    def test(value: Any) -> bool:
        if type(value) is str:
            return finds(value)
        return type(value) is Regex and value.pattern == pattern and set(regex_options(value)) - {"u"} == letters

    return test


def _check_mod(condition: Mod) -> Test:
    """Whether the whole part of a number leaves the remainder, which has the sign of the number."""
    divisor, remainder = abs(condition.divisor), condition.remainder

    def test(value: Any) -> bool:
        kind = type(value)
        if kind is not int:
            if kind is not float and kind is not Decimal128:
                return False
            number = value.to_decimal() if kind is Decimal128 else value
            if not isfinite(number) or not INT_MIN <= number <= INT_MAX:
                return False
            value = int(number)
        return bool((value % divisor if value >= 0 else -(-value % divisor)) == remainder)

    return test


# --- Whether some value of a path passes a test: the walk of `wormdb.format.path.resolve`, made ready once.
#
# Nothing is split or looked up per document, no list of values is made, and the walk ends at the first value that
# passes.


def any_value(path: Path, test: Test, *, expand: bool = True) -> Callable[[Document], bool]:
    """A function that tells whether a value of `path` passes `test`; without a path, `test` itself. No requests.

    Which values a path has, and what `expand` does, is told at `resolve`.
    """
    if not path:
        return test
    in_document, _ = _walks(path, test, expand=expand)
    return in_document


def _end(name: str, test: Test, *, expand: bool) -> Callable[[Document], bool]:
    """The last step: the elements of an array and then itself, or the value alone."""

    def each(document: Document) -> bool:
        value = document.get(name, MISSING)
        if type(value) is list:
            for element in value:
                if test(element):
                    return True
        return test(value)

    def whole(document: Document) -> bool:
        return test(document.get(name, MISSING))

    return each if expand else whole


def _walks(path: Path, test: Test, *, expand: bool) -> tuple[Callable[[Document], bool], Callable[[list[Any]], bool]]:
    """How the walk goes on when it stands at a document, and when at an array."""
    name, rest = path[0], path[1:]
    position = int(name) if is_position(name) else None
    if not rest:
        in_document = _end(name, test, expand=expand)
        return in_document, _in_array(in_document, position, test)
    later_document, later_array = _walks(rest, test, expand=expand)

    def further_document(document: Document) -> bool:
        value = document.get(name, MISSING)
        if type(value) is dict:
            return later_document(value)
        return later_array(value) if type(value) is list else test(MISSING)

    def further_element(element: Any) -> bool:
        if type(element) is dict:
            return later_document(element)
        return type(element) is list and later_array(element)

    return further_document, _in_array(further_document, position, further_element)


def _in_array(in_document: Callable[[Document], bool], position: int | None, at: Test) -> Callable[[list[Any]], bool]:
    """Every element that is a document, and the one at the position if the name is one."""

    def by_name(array: list[Any]) -> bool:
        return any(type(element) is dict and in_document(element) for element in array)

    if position is None:
        return by_name

    def by_name_or_position(array: list[Any]) -> bool:
        return (position < len(array) and at(array[position])) or by_name(array)

    return by_name_or_position
