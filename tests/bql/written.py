"""Strategies for filters as they are written, with documents that they often nearly match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bson import Decimal128, Int64, Regex
from hypothesis import strategies as st

from tests.bql.oracle import ALIASES, CODES
from wormdb.testing.strategies import numbers, scalars, strings, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

NAMES = st.sampled_from(["a", "b", "0", "1", "id"])
PATTERNS = st.sampled_from(["a", "^a", "b", "", "A|é", "[ab]+"])


@dataclass(frozen=True)
class Part:
    """Stands in a filter for some value of the document, so that strategies are made once and not per document."""

    number: int


def _small_values() -> SearchStrategy[Any]:
    """Values of few fields and few numbers, so that two of them are often related."""
    few: list[Any] = [None, True, 0, 1, 2, 1.0, 1.5, -3, "a", "ab", "b", "", [], {}]
    return st.recursive(
        st.sampled_from(few) | scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    )


SMALL_VALUES = _small_values()
SMALL_DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "0", "_id"]), SMALL_VALUES, min_size=1, max_size=3)
ANY_VALUES = SMALL_VALUES | values()
OPERANDS = st.one_of(st.integers(0, 20).map(Part), st.integers(0, 20).map(Part), ANY_VALUES)


def parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it."""
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        yield from parts(part)


def filled(written: Any, found: list[Any]) -> Any:
    """The filter with values in the places of its parts."""
    if isinstance(written, Part):
        return found[written.number % len(found)]
    if isinstance(written, dict):
        return {name: filled(value, found) for name, value in written.items()}
    return [filled(value, found) for value in written] if isinstance(written, list) else written


def _named(name: str, operand: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    return operand.map(lambda value: {name: value})


def _merged(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for item in found for name, value in item.items()}


def of_any_type(number: int) -> SearchStrategy[Any]:
    """A whole number as each type of numbers has it."""
    return st.sampled_from([number, float(number), Decimal128(str(number)), Int64(number)])


TYPES = st.sampled_from([*CODES, 16, 18]).flatmap(of_any_type) | st.sampled_from([*ALIASES])


def _leaves() -> list[SearchStrategy[dict[str, Any]]]:
    listed = st.lists(OPERANDS | PATTERNS.map(Regex), max_size=3)
    integers = st.integers(-5, 5)
    named = {
        "$eq": OPERANDS,
        "$ne": OPERANDS,
        "$gt": OPERANDS,
        "$gte": OPERANDS | numbers(),
        "$lt": OPERANDS,
        "$lte": OPERANDS | numbers(),
        "$in": listed,
        "$nin": listed,
        "$all": listed,
        "$exists": st.booleans() | ANY_VALUES,
        "$type": TYPES | st.lists(TYPES, min_size=1, max_size=3),
        "$size": st.integers(0, 3).flatmap(of_any_type),
        "$mod": st.tuples(integers.filter(bool), integers).map(list),
        "$regex": PATTERNS,
        "$contains": OPERANDS,
        "$startsWith": strings(),
        "$endsWith": strings(),
    }
    return [_named(name, operand) for name, operand in named.items()]


def _levels(
    operators: SearchStrategy[dict[str, Any]], filters: SearchStrategy[dict[str, Any]]
) -> tuple[SearchStrategy[dict[str, Any]], SearchStrategy[dict[str, Any]]]:
    """Operators and filters that may hold these."""
    matched = _named("$elemMatch", operators | filters)
    several = _named("$all", st.lists(matched, min_size=1, max_size=2))
    single = st.one_of(*LEAVES, CASED, matched, matched, several, _named("$not", operators))
    some = st.lists(single, min_size=1, max_size=2).map(_merged)
    fields = st.dictionaries(PATHS, st.one_of(OPERANDS, some, some, PATTERNS.map(Regex)), min_size=1, max_size=2)
    lists = st.lists(filters, min_size=1, max_size=3)
    logical = [_named(name, lists) for name in ("$and", "$or", "$nor")]
    return some, st.one_of(fields, fields, fields, *logical, _named("$not", filters))


PATHS = st.builds(lambda first, rest: ".".join([first, *rest]), NAMES, st.lists(NAMES, max_size=2))
LEAVES = _leaves()
CASED = PATTERNS.map(lambda pattern: {"$regex": pattern, "$options": "i"})
_OPERATORS_0 = st.lists(st.one_of(*LEAVES, CASED), min_size=1, max_size=2).map(_merged)
_FILTERS_0 = st.dictionaries(PATHS, OPERANDS | _OPERATORS_0, max_size=2)
_OPERATORS_1, _FILTERS_1 = _levels(_OPERATORS_0, _FILTERS_0)
_, FILTERS = _levels(_OPERATORS_1, _FILTERS_1)


def _question(document: dict[str, Any], written: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = [part for part in parts(document) if part is not document]
    return document, filled(written, found)


QUESTIONS = st.builds(_question, SMALL_DOCUMENTS, FILTERS)
"""A document and a filter that takes many of its values from there. Some filters are refused: a regular expression
as the operand of $gt."""
