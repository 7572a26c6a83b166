"""What is asked of a world: filters that have to do with its documents, orders, parts and projections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bson import Regex
from hypothesis import strategies as st

from tests.bql.written import FILTERS, Part, filled, parts
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING
from wormdb.format.path import parse_path, resolve
from wormdb.query.request import QueryRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypothesis.strategies import SearchStrategy

__all__ = ["PATHS", "QUESTIONS", "REQUESTS", "Question"]

Values = dict[str, Any]

PATHS = ("a", "b", "n", "t", "a.b", "a.a", "b.a", "a.0", "t.0", "a.0.b", "a.b.0", "u", "_id")
_PATHS = st.sampled_from(("a", "b", "n", "t", "a", "b", "n", "t", *PATHS))
_OPERANDS = st.integers(0, 40).map(Part) | st.sampled_from([0, 1, 5, 10, "a", "x", None, [], [1, 10], 1.5, True])


def _one(name: str, operand: SearchStrategy[Any]) -> SearchStrategy[Values]:
    return operand.map(lambda value: {name: value})


def _weighted(*choices: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """One of some strategies, as often as said; `one_of` takes each of them, and what is in them, once."""
    several = [strategy for weight, strategy in choices for _ in range(weight)]
    return st.integers(0, len(several) - 1).flatmap(several.__getitem__)


_COMPARED = st.builds(
    lambda names, values: dict(zip(names, values, strict=False)),
    st.lists(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]), min_size=1, max_size=3, unique=True),
    st.lists(_OPERANDS, min_size=3, max_size=3),
)
"""One to three comparisons: a range, one that touches itself, or one that contradicts itself."""
_LISTED = st.lists(_OPERANDS, min_size=1, max_size=3)
_OPERATORS = _weighted(
    (4, _COMPARED),
    (2, _one("$all", _LISTED)),
    (1, _one("$in", _LISTED)),
    (1, _one("$nin", _LISTED)),
    (1, _one("$contains", _OPERANDS)),
    (1, _one("$size", st.integers(0, 3))),
    (1, _one("$exists", st.booleans())),
    (1, _one("$type", st.sampled_from(["array", "number", "string", "null", "object", "date", "decimal"]))),
    (1, _one("$startsWith", st.sampled_from(["", "a", "x"]))),
    (1, _one("$regex", st.sampled_from(["^a", "b", "^ab?"]))),
    (1, st.builds(lambda one, other: {**one, **other}, _COMPARED, _one("$in", _LISTED))),
)
_OF_ELEMENT = st.dictionaries(st.sampled_from(["a", "b", "0"]), _OPERANDS | _OPERATORS, min_size=1, max_size=2)
_ELEMENT = _weighted((2, _OPERATORS), (1, _OF_ELEMENT))
_CONDITIONS = _weighted(
    (2, _OPERANDS),
    (5, _OPERATORS),
    (1, _one("$elemMatch", _ELEMENT)),
    (1, _one("$not", _OPERATORS)),
    (1, _one("$all", st.lists(_one("$elemMatch", _ELEMENT), min_size=1, max_size=2))),
    (1, st.sampled_from([Regex("^a"), Regex("B", "i")])),
)


@st.composite
def _pointed(draw: st.DrawFn, documents: Mapping[bytes, Values]) -> Values:
    """Conditions on one or two paths, several on each; their values mostly are those that one document has there."""
    document = documents[draw(st.sampled_from(sorted(documents)))] if documents else {}
    paths = draw(st.lists(_PATHS, min_size=1, max_size=2))
    leaves = []
    for path in paths:
        found = [part for value in resolve(document, parse_path(path)) for part in parts(value) if part is not MISSING]
        for _ in range(draw(st.sampled_from([1, 2]))):
            condition = draw(_CONDITIONS)
            is_of_document = draw(st.integers(0, 5)) > 0
            leaves.append({path: filled(condition, found) if found and is_of_document else condition})
    match draw(st.integers(0, 9)):
        case 0:
            return {"$or": leaves}
        case 1:
            return {"$nor": leaves}
        case 2:
            return {"$and": [leaves[0], {"$or": leaves}]}
        case 3:
            return {**leaves[-1], "$nor": [leaves[0]]}
        case _:
            return leaves[0] if len(leaves) == 1 else {"$and": leaves}


@st.composite
def _met(draw: st.DrawFn, documents: Mapping[bytes, Values]) -> Values:
    """Conditions on one path that one document meets, by different elements if it has an array there.

    For a single value they may contradict each other, so this is what tells arrays from plain values.
    """
    places = [(path, found) for one in documents.values() for path in PATHS if (found := _values(one, path))]
    crowded = [place for place in places if len(place[1]) > 1]
    path, known = draw(st.sampled_from(crowded or places or [("n", [None])]))
    values = draw(st.permutations(known))[: draw(st.sampled_from([2, 3, 1]))]
    several = [_SATISFIED[draw(st.sampled_from(sorted(_SATISFIED)))](value) for value in values]
    match draw(st.integers(0, 4)):
        case 0:
            return {path: {"$all": values}}
        case 1:
            return {path: {name: value for each in several for name, value in each.items()}}
        case 2:
            return {"$nor": [{path: {"$not": each}} for each in several]}
        case _:
            return {"$and": [{path: each} for each in several]}


_SATISFIED: dict[str, Callable[[Any], Values]] = {
    "$eq": lambda value: {"$eq": value},
    "$gte": lambda value: {"$gte": value},
    "$lte": lambda value: {"$lte": value},
    "$contains": lambda value: {"$contains": value},
    "$in": lambda value: {"$in": [value, "no"]},
    "$elemMatch": lambda value: {"$elemMatch": {"$eq": value}},
    "between": lambda value: {"$gte": value, "$lte": value},
    "$type": lambda value: {"$exists": True, "$in": [value]},
}


def _values(document: Values, path: str) -> list[Any]:
    found = [value for value in resolve(document, parse_path(path)) if value is not MISSING]
    return [value for value in found if not isinstance(value, Regex)]


_PLAIN: list[Any] = [
    {},
    {"n": 1},
    {"n": {"$gte": 1}},
    {"n": {"$in": [0, 2, "x", None]}},
    {"t": 1},
    {"t": {"$gt": 0, "$lt": 2}},
    {"n": 1, "t": 2},
    {"n": {"$gt": 0}, "a": {"$exists": True}},
    {"a.b": {"$lte": 1}},
    {"$or": [{"n": 2}, {"t": "x"}]},
    {"_id": {"$in": [1, 2, 50]}},
    {"id": {"$gt": 3}, "n": {"$ne": 1}},
    {"n": {"$gt": 2, "$lt": 2}},
]
_SORTS = st.lists(
    st.builds(
        lambda sign, name: sign + name,
        st.sampled_from(["", "-"]),
        st.sampled_from(["a", "b", "n", "n", "t", "a.b", "a.0", "a.0.b", "a.b.0", "t.1", "id"]),
    ),
    unique_by=lambda name: name.removeprefix("-"),
    max_size=2,
)
_SHOWN: list[Any] = [
    ["a"],
    ["n", "b"],
    ["a.b", "n"],
    ["a.b", "a.a"],
    ["t", "b.a", "a.b"],
    ["id"],
    {"a": 0},
    {"b.a": 0, "_id": 0},
    {"n": 1, "_id": 0},
    {"t": {"$slice": 1}, "n": 1},
    {"t": {"$elemMatch": {"$gte": 1}}, "a": 1},
]


@dataclass(frozen=True)
class Question:
    """A question as a caller writes it."""

    filter: Values
    sort: tuple[str, ...] = ()
    limit: int | None = None
    offset: int = 0
    select: Any = None

    @property
    def request(self) -> QueryRequest:
        """The same as the planner has it."""
        return QueryRequest(
            filter=parse_filter(self.filter),
            sort=parse_sort(list(self.sort)),
            limit=self.limit,
            offset=self.offset,
            projection=None if self.select is None else parse_projection(self.select),
        )

    @property
    def options(self) -> Values:
        """What `find` takes beside the filter."""
        return {"sort": list(self.sort), "limit": self.limit, "offset": self.offset, "select": self.select}


@st.composite
def _questions(draw: st.DrawFn, documents: Mapping[bytes, Values]) -> Question:
    ways = ((4, _met(documents)), (3, _pointed(documents)), (1, FILTERS), (1, st.sampled_from(_PLAIN)))
    written = draw(_weighted(*ways))
    found = [part for one in documents.values() for part in parts(one) if part is not one] or [0]
    written = filled(written, found)
    try:
        parse_filter(written)
    except InvalidRequestError:  # an expression as the operand of $gt
        written = {}
    return Question(
        written,
        tuple(draw(_SORTS)),
        draw(st.none() | st.integers(1, 6)),
        draw(st.sampled_from([0, 0, 1, 3])),
        draw(st.none() | st.sampled_from(_SHOWN)),
    )


@st.composite
def _requests(draw: st.DrawFn, documents: Mapping[bytes, Values]) -> QueryRequest:
    request = draw(_questions(documents)).request
    if draw(st.integers(0, 9)) == 0:
        request = replace(request, limit=0)
    if draw(st.integers(0, 3)) == 0 and documents:
        last = documents[draw(st.sampled_from(sorted(documents)))]
        request = replace(request, after=sort_key(request.sort)(last))
    return request


QUESTIONS = _questions
"""Questions that have to do with some documents."""
REQUESTS = _requests
"""The same with more of what only the planner is given."""
