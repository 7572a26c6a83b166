"""Filters as functions: whether a document matches, by MongoDB's rules.

This is what every plan has to agree with: whatever an index or a column says, the answer is the one that this function
gives for the whole document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from wormdb.bql.checks import (
    always,
    check_comparison,
    check_contains,
    check_membership,
    check_mod,
    check_regex,
    is_present,
    never,
)
from wormdb.bql.reach import any_value
from wormdb.bql.tree import (
    All,
    And,
    Compare,
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
from wormdb.format.kinds import Regex
from wormdb.format.wrappers import regex_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.format.kinds import Document

    Test = Callable[[Any], bool]

__all__ = ["compile_filter"]


def compile_filter(tree: Filter) -> Callable[[Document], bool]:
    """A function that tells whether a normalized document matches. No requests.

    Filters whose paths are empty (those of a `ElemMatch` of kind "value") are given values instead. Raises
    MissingExtraError for a regular expression without google-re2.
    """
    match tree:
        case MatchAll():
            return always
        case MatchNone():
            return never
        case And(filters):
            return _all_of([compile_filter(child) for child in filters])
        case Or(filters):
            return _any_of([compile_filter(child) for child in filters])
        case Not(child):
            return _not(compile_filter(child))
        case All(path, values):
            tests = [any_value(path, _check_item(value)) for value in values]
            return _all_of(tests) if tests else never
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
            return check_contains(value)
        case _:
            assert_never(tree)


def _check_each(tree: Compare | In | Exists | Type | Mod | RegexMatch | StartsWith | EndsWith) -> Test:
    """The test of a condition that each element of an array may pass."""
    match tree:
        case Compare(_, op, value):
            return check_comparison(op, value)
        case In(_, values):
            return check_membership(values)
        case Exists():
            return is_present
        case Type(_, names):
            return check_type(names)
        case Mod():
            return check_mod(tree)
        case RegexMatch(_, pattern, options):
            return check_regex(pattern, options)
        case StartsWith(_, prefix):
            return lambda value: type(value) is str and value.startswith(prefix)
        case EndsWith(_, suffix):
            return lambda value: type(value) is str and value.endswith(suffix)
        case _:
            assert_never(tree)


def _check_item(value: Any) -> Test:
    """The test that one value of $all makes."""
    return check_regex(value.pattern, regex_options(value)) if type(value) is Regex else check_comparison("eq", value)


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
