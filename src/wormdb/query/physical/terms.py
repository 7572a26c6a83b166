"""A filter as a conjunction of terms, one for each condition on one path, and the keys that each of them asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.tree import (
    All,
    And,
    Compare,
    Contains,
    ElemMatch,
    Exists,
    In,
    MatchAll,
    Not,
    RegexMatch,
    StartsWith,
    conjunction,
)
from wormdb.engine.tree.definition import lookup_keys
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import MISSING, Kind, Regex, kind_of
from wormdb.format.path import Path, is_position
from wormdb.format.wrappers import regex_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.bql.tree import Comparison, Filter

__all__ = [
    "NOWHERE",
    "NULL_KEY",
    "Conjunction",
    "KeyRanges",
    "Term",
    "bounds_of",
    "equality_keys",
    "find_equal_keys",
    "find_keys",
    "find_ordered_keys",
    "intersect_keys",
    "intersect_ranges",
    "join_ranges",
    "make_points",
]


# --- Where the values stand that a condition asks for: ranges of the keys of single values.
#
# What an entry of an index says about a document, and what it does not, decides how far ranges can be trusted:
#
# - Every document that meets the condition has an entry in the ranges, unless a sparse index leaves it out. It does so
#   only with null, missing fields and empty arrays, so ranges that `takes_nothing` may not find them there.
# - The other way round holds only where it is said: `is_exact` for fields without arrays, `is_exact_in_arrays` for all.

NULL_KEY: Final = encode_key(None)
_NOTHING_KEYS: Final = (NULL_KEY, encode_key(MISSING))


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Ranges of keys, ascending and apart from each other; a key is in one or out, with whatever follows it."""

    ranges: tuple[Range, ...]
    are_points: bool = False
    """Whether each range is that of one key, which is its `low`."""
    is_exact: bool = False
    """Whether a document without arrays on the way meets the condition if its value is in the ranges."""
    is_exact_in_arrays: bool = False
    """The same for any document that has one value in the ranges."""
    is_for_plain: bool = False
    """Whether they are right only for a field without arrays."""
    is_for_elements: bool = False
    """Whether they are right only for a field whose texts are all elements of arrays."""

    @property
    def point(self) -> bytes | None:
        """The one key, if it is one."""
        return self.ranges[0].low if self.are_points and len(self.ranges) == 1 else None

    @property
    def takes_nothing(self) -> bool:
        """Whether null, a missing field or an empty array may be in them."""
        return any(key in span for span in self.ranges for key in _NOTHING_KEYS)


NOWHERE: Final = KeyRanges((), are_points=True, is_exact=True, is_exact_in_arrays=True)
"""The ranges of a condition that no value meets."""


def make_points(keys: Iterable[bytes], *, is_exact: bool = True, is_exact_in_arrays: bool = True) -> KeyRanges:
    """Ranges of single keys."""
    ranges = tuple([Range.prefix(key) for key in sorted(set(keys))])
    return KeyRanges(ranges, are_points=True, is_exact=is_exact, is_exact_in_arrays=is_exact_in_arrays)


def intersect_keys(all_keys: Iterable[KeyRanges]) -> KeyRanges:
    """The keys that meet all of several conditions on one value; `all_keys` has at least one item."""
    first, *others = all_keys
    for other in others:
        ranges = intersect_ranges(first.ranges, other.ranges)
        first = KeyRanges(
            ranges,
            are_points=first.are_points or other.are_points,
            is_exact=first.is_exact and other.is_exact,
            is_for_elements=first.is_for_elements or other.is_for_elements,
        )
    return first


def intersect_ranges(some: tuple[Range, ...], others: tuple[Range, ...]) -> tuple[Range, ...]:
    """What lies in a range of both."""
    found = []
    place = other = 0
    while place < len(some) and other < len(others):
        left, right = some[place], others[other]
        high = right.high if left.high is None else left.high if right.high is None else min(left.high, right.high)
        span = Range(max(left.low, right.low), high)
        if not span.empty:
            found.append(span)
        if high == left.high:
            place += 1
        else:
            other += 1
    return tuple(found)


def join_ranges(spans: Iterable[Range]) -> tuple[Range, ...]:
    """The same keys in ranges that ascend and do not touch."""
    found: list[Range] = []
    for span in sorted((span for span in spans if not span.empty), key=lambda span: span.low):
        last = found[-1] if found else None
        if last is None or (last.high is not None and last.high < span.low):
            found.append(span)
        elif last.high is not None and (span.high is None or span.high > last.high):
            found[-1] = Range(last.low, span.high)
    return tuple(found)


def find_keys(condition: Filter) -> KeyRanges | None:
    """The keys of documents that meet a condition, by equality or by order; None if neither tells. No requests."""
    return find_equal_keys(condition) or find_ordered_keys(condition)


# --- Equality as single keys: $eq, $in, $contains, null, a missing field, whole arrays.


def find_equal_keys(condition: Filter) -> KeyRanges | None:
    """The keys of documents that meet a condition; None if it is not an equality. No requests."""
    match condition:
        case Compare(_, "eq", value):
            return equality_keys([value])
        case Compare(_, op, None):  # null is in no other relation than equality
            return NOWHERE if op in {"gt", "lt"} else equality_keys([None])
        case In(_, values):
            # An expression among the values matches texts, which stand anywhere.
            return None if any(type(value) is Regex for value in values) else equality_keys(values)
        case Contains(_, value) if type(value) is str:
            # Of a plain text it would be a part, and those stand anywhere.
            key = Range.prefix(encode_key(value))
            return KeyRanges((key,), are_points=True, is_exact=True, is_exact_in_arrays=True, is_for_elements=True)
        case Contains(_, value):
            return make_points(lookup_keys(value), is_exact=False, is_exact_in_arrays=False)
        case Not(Exists()):
            return make_points([NULL_KEY], is_exact=False, is_exact_in_arrays=False)
        case Not(Compare(_, "eq", None)):
            # An array without documents has no value at a path through it, and yet stands under null.
            null = Range.prefix(NULL_KEY)
            return KeyRanges((Range(b"", null.low), Range(null.high or b"")), is_exact=True, is_for_plain=True)
        case _:
            return None


def equality_keys(values: Sequence[Any]) -> KeyRanges:
    """The keys of documents of which some value equals one of these. No requests."""
    has_arrays = any(type(value) is list for value in values)
    if not has_arrays and len(values) == 1:
        key = encode_key(values[0])
        return KeyRanges((Range.prefix(key),), are_points=True, is_exact=True, is_exact_in_arrays=key != NULL_KEY)
    keys = [key for value in values for key in lookup_keys(value)]
    # Null is also the key of arrays through which a path finds nothing, and those equal nothing.
    return make_points(keys, is_exact=not has_arrays, is_exact_in_arrays=not has_arrays and NULL_KEY not in keys)


# --- Order as ranges of keys: $gt, $gte, $lt, $lte, $startsWith, and expressions that begin with a text.
#
# A comparison stays within the bracket of its value's type, and NaN, the least of the numbers, is in no relation but
# equality.

_NAN_KEY: Final = encode_key(nan)
_BRACKETS: Final = {kind: Range.prefix(bytes((kind,))) for kind in Kind}
_NUMBERS: Final = Range(prefix_end(_NAN_KEY) or b"", _BRACKETS[Kind.NUMBER].high)
# An array is entered by its elements, so its own place is not to be found; the two ends compare with every type.
_UNORDERED: Final = frozenset({Kind.ARRAY, Kind.NULL, Kind.MINKEY, Kind.MAXKEY})
_SPECIAL: Final = frozenset(r".^$*+?{}[]\|()")
_COUNTED: Final = frozenset("*?{")


def find_ordered_keys(condition: Filter) -> KeyRanges | None:
    """The ranges in which documents have a value that meets a condition; None if it gives none. No requests."""
    match condition:
        case Compare(_, op, value) if op != "eq" and kind_of(value) not in _UNORDERED:
            return _compared(op, value)
        case StartsWith(_, prefix):
            return KeyRanges((_texts(prefix),), is_exact=True, is_exact_in_arrays=True)
        case RegexMatch(_, pattern, options) if not set(options) & {"i", "m", "x"}:
            return _expression(pattern)
        case _:
            return None


def _compared(op: Comparison, value: Any) -> KeyRanges:
    kind, key = kind_of(value), encode_key(value)
    if key == _NAN_KEY:
        equal = KeyRanges((Range.prefix(key),), are_points=True, is_exact=True, is_exact_in_arrays=True)
        return NOWHERE if op in {"gt", "lt"} else equal
    bracket = _NUMBERS if kind is Kind.NUMBER else _BRACKETS[kind]
    if op in {"gt", "gte"}:
        span = Range((key if op == "gte" else prefix_end(key)) or b"", bracket.high)
    else:
        span = Range(bracket.low, key if op == "lt" else prefix_end(key))
    return NOWHERE if span.empty else KeyRanges((span,), is_exact=True, is_exact_in_arrays=True)


def _texts(prefix: str) -> Range:
    """All texts that start with one: their keys start with its key without the end."""
    return Range.prefix(encode_key(prefix)[:-1])


def _expression(pattern: str) -> KeyRanges | None:
    """Texts that start as the pattern does, and the values that are this very expression, whatever their options."""
    text = _beginning(pattern)
    if not text:
        return None
    return KeyRanges((_texts(text), Range.prefix(encode_key(Regex(pattern))[:-1])))


def _beginning(pattern: str) -> str:
    """The text with which every match of a pattern begins; empty if that is not plain."""
    if not pattern.startswith("^") or "|" in pattern:
        return ""
    body = pattern[1:]
    end = next((place for place, letter in enumerate(body) if letter in _SPECIAL), len(body))
    return body[: end - 1] if end < len(body) and end and body[end] in _COUNTED else body[:end]


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """One condition on the values of one path; two terms are the same only if they are one object."""

    field: str
    keys: KeyRanges
    conjunct: int
    """The place of the filter that it comes from."""
    element: Path | None = None
    """The array of which one element must meet this term and all others of the same filter."""
    is_of_value: bool = False
    """Whether it is about the element itself: then all such terms of a filter are about one value."""
    is_by_position: bool = False
    """Whether a segment of the path may be a position in an array."""
    is_of_array: bool = False
    """Whether the condition is about an array as a whole."""

    def is_usable(self, *, has_arrays: bool, has_texts: bool = True) -> bool:
        """Whether every document that meets it has an entry in its keys, sparse indexes aside."""
        if self.keys.is_for_elements and has_texts:
            return False
        if not has_arrays:
            return True
        if self.keys.is_for_plain:
            return False
        # By position an array is one value, and a document in it misses the field of that name.
        return not self.is_by_position or not (self.is_of_array or self.keys.takes_nothing)

    def is_exact(self, *, has_arrays: bool) -> bool:
        """Whether each entry in its keys belongs to a document that meets it."""
        if self.element is not None:
            return False
        if not has_arrays:
            return self.keys.is_exact
        return self.keys.is_exact_in_arrays and not self.is_by_position


@dataclass(frozen=True, eq=False)
class Conjunction:
    """Filters that must all hold, and their terms."""

    filters: tuple[Filter, ...]
    terms: tuple[Term, ...]
    said: dict[int, tuple[Term, ...]]
    """By place of a filter, the terms that together say the same as the filter, where there are such terms."""

    @classmethod
    def of(cls, tree: Filter) -> Conjunction:
        """The conjunction that a filter is; of one filter if it is none. No requests."""
        filters = tuple(_flat(tree))
        terms: list[Term] = []
        said: dict[int, tuple[Term, ...]] = {}
        for place, each in enumerate(filters):
            found, is_whole = _terms(each, place)
            terms += found
            if is_whole and found:
                said[place] = tuple(found)
        return cls(filters, tuple(terms), said)

    @cached_property
    def by_field(self) -> dict[str, list[Term]]:
        """The terms by path."""
        found: dict[str, list[Term]] = {}
        for term in self.terms:
            found.setdefault(term.field, []).append(term)
        return found

    def covered(self, exact: Iterable[Term]) -> frozenset[int]:
        """The places of filters that hold for all documents for which these terms do."""
        known = set(exact)
        return frozenset(place for place, terms in self.said.items() if known.issuperset(terms))

    def without(self, covered: frozenset[int]) -> Filter:
        """What is left to test."""
        return conjunction(each for place, each in enumerate(self.filters) if place not in covered)


def _flat(tree: Filter) -> Iterator[Filter]:
    match tree:
        case MatchAll():
            return
        case And(filters):
            for child in filters:
                yield from _flat(child)
        case _:
            yield tree


def _terms(each: Filter, place: int) -> tuple[list[Term], bool]:
    """The terms of one filter, and whether all of them together say what it says."""
    match each:
        case All(path, values):
            parts: list[Filter] = [
                RegexMatch(path, value.pattern, regex_options(value))
                if type(value) is Regex
                else Compare(path, "eq", value)
                for value in values
            ]
            terms = [term for part in parts if (term := _term(part, place)) is not None]
            return terms, len(terms) == len(parts)
        case ElemMatch(path, child, kind):
            return list(_of_element(path, child, place, is_of_value=kind == "value")), False
        case _:
            term = _term(each, place)
            return ([] if term is None else [term]), True


def _term(condition: Filter, place: int) -> Term | None:
    path = _path(condition)
    keys = find_keys(condition) if path else None
    if keys is None or path is None:
        return None
    is_of_array = isinstance(condition, Contains | Not)
    return Term(".".join(path), keys, place, is_by_position=_has_position(path), is_of_array=is_of_array)


def _path(condition: Filter) -> Path | None:
    match condition:
        case Not(Exists() | Compare() as child):
            return child.path
        case _:
            path: Path | None = getattr(condition, "path", None)
            return path


def _of_element(array: Path, child: Filter, place: int, *, is_of_value: bool) -> Iterator[Term]:
    """The terms of conditions that one element of an array meets."""
    if _has_position(array):
        return
    for condition in _flat(child):
        if isinstance(condition, Contains | Not | All | ElemMatch):
            continue
        path = getattr(condition, "path", None)
        if path is None or bool(path) is is_of_value or _has_position(("", *path)):
            continue
        keys = find_keys(condition)
        # An array among the elements has none of the fields that a document may miss, and no entry says so.
        if keys is None or (keys.takes_nothing and not is_of_value):
            continue
        yield Term(".".join((*array, *path)), keys, place, element=array, is_of_value=is_of_value)


def _has_position(path: Path) -> bool:
    return any(map(is_position, path[1:]))


# --- Which values every row of an answer has, for leaving out blocks by the least and greatest values of their columns.


def bounds_of(conjunction: Conjunction) -> dict[str, Range]:
    """By path a range: each row of the answer has a value in it, or an array at the path or on the way. No requests.

    Of a path that leads to no array all conditions hold for one value, so what is left of all ranges is taken.
    """
    found: dict[str, Range] = {}
    for path, terms in conjunction.by_field.items():
        if path == "_id":
            continue  # a scan has a range of ids
        keys = [term.keys for term in terms if not term.keys.is_for_elements]
        if keys:
            ranges = intersect_keys(keys).ranges
            found[path] = Range(ranges[0].low, ranges[-1].high) if ranges else Range(b"", b"")
    return found
