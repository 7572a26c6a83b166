"""A plan that is bound to the values of a request gives what a plan made for it gives, whatever happened meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.query.execute.world import REFUSALS, World, answer, same, shown
from wormdb.bql.parse import parse_filter
from wormdb.bql.sorting import parse_sort
from wormdb.errors import InvalidRequestError
from wormdb.query.execute.answer import run_plan
from wormdb.query.planner.cache import PlanCache
from wormdb.query.planner.planner import make_plan, shape_key
from wormdb.query.request import QueryRequest

if TYPE_CHECKING:
    from collections.abc import Callable

Values = dict[str, Any]

SHAPES = (("n",), ("t",), ("a.b",), ("a.0",), ("n", "a"), ("a", "n"), ("b", "n"), ("n", "t", "a"), ("a.b", "a.a"))
"""Paths with one value each."""
INDEXES = ("byN", "byNA", "byNT", "byT", "byA", "byAB", "byA0", "byB", "byABA")
VALUES: list[Any] = [0, 1, 2, 1.0, 1.5, True, False, "", "x", "y\0", None, float("nan"), [], [1], [1, 2], {"b": 1}, {}]
_VALUES = st.sampled_from(VALUES) | st.sampled_from([0, 1, 2, "x", "y"])
_INNER = st.fixed_dictionaries({}, optional={"b": _VALUES, "a": _VALUES, "0": _VALUES})
_DOCUMENTS = st.fixed_dictionaries(
    {"n": _VALUES},
    optional={"a": _VALUES | _INNER | st.lists(_INNER, max_size=2), "b": _VALUES, "t": st.lists(_VALUES, max_size=2)},
)
_PLAIN = st.fixed_dictionaries({name: st.sampled_from([0, 1, "x"]) for name in ("n", "a", "b", "t")})


@st.composite
def _requests(draw: st.DrawFn) -> QueryRequest:
    written = {path: draw(_VALUES) for path in draw(st.sampled_from(SHAPES))}
    return QueryRequest(
        filter=parse_filter(written),
        sort=parse_sort(draw(st.sampled_from([None, None, "n", "-n", "a", "a.a", "-id"]))),
        limit=draw(st.sampled_from([None, None, 1, 2])),
        offset=draw(st.sampled_from([0, 0, 1])),
        strategy=draw(st.sampled_from([None, "index_lookup", "index_lookup"])),
    )


def _ask(world: World, request: QueryRequest, cache: PlanCache) -> None:
    source = world.source()
    expected = answer(request, world.documents)
    try:
        fresh = make_plan(request, source.facts)
    except InvalidRequestError:
        with pytest.raises(InvalidRequestError):
            make_plan(request, source.facts, cache)
        return
    kept = make_plan(request, source.facts, cache)
    for plan in (fresh, kept):
        assert same(shown(list(run_plan(plan.root, request, source))), expected), (plan.is_cached, plan.root)


def _change(world: World, draw: Callable[[Any], Any]) -> None:
    ids = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True))
    documents = _PLAIN if draw(st.booleans()) else _DOCUMENTS
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            world.save([{"_id": identity, **draw(documents)} for identity in ids], staged=draw(st.integers(0, 3)) == 0)
        case 3:
            world.remove(ids[0])
        case 4 | 5:
            world.forward()
        case 6:
            there = {one.name for one in world.things.indexes()}
            absent = [name for name in INDEXES if name not in there]
            if absent:
                world.create_index(draw(st.sampled_from(absent)))
                world.forward()
        case 7 | 8:
            there = {one.name for one in world.things.indexes()} & set(INDEXES)
            if there:
                world.things.drop_index(draw(st.sampled_from(sorted(there))))
        case _:
            world.upgrade(draw(st.sampled_from([{"$set": {"n": 1}}, {"$rename": {"a": "n"}}])), is_written=False)


@settings(max_examples=max(settings().max_examples // 3, 12))
@given(data=st.data())
def test_bound_plans_give_the_answer(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(INDEXES), max_size=4, unique=True))
    world = World(indexes=names, has_model=data.draw(st.booleans()))
    note(repr(world))
    cache = PlanCache()
    kind = _PLAIN if data.draw(st.booleans()) else _DOCUMENTS
    world.save([{"_id": identity, **data.draw(kind)} for identity in range(data.draw(st.integers(1, 9)))])
    world.forward()
    shapes = [data.draw(_requests()) for _ in range(3)]
    for _ in range(4):
        for request in (*shapes, data.draw(_requests())):
            _ask(world, request, cache)
            again = {".".join(each.path): data.draw(_VALUES) for each in _conditions(request)}
            _ask(world, _with(request, again), cache)
        try:
            _change(world, data.draw)
        except REFUSALS as error:
            note(f"refused: {error}")


def _conditions(request: QueryRequest) -> list[Any]:
    return list(getattr(request.filter, "filters", (request.filter,)))


def _with(request: QueryRequest, written: Values) -> QueryRequest:
    return replace(request, filter=parse_filter(written))


def _world() -> World:
    world = World(indexes=["byN", "byA0"], has_model=False)
    world.save([{"_id": row, "n": f"v{row}", "b": row % 3, "a": {"0": 5}, "t": "x"} for row in range(9)])
    world.forward()
    return world


def _request(**written: Any) -> QueryRequest:
    paths = {path.replace("__", "."): value for path, value in written.items()}
    return QueryRequest(filter=parse_filter(paths), strategy="index_lookup")


def test_a_shape_is_planned_once() -> None:
    world, cache = _world(), PlanCache()
    facts = world.source().facts
    first = make_plan(_request(n="v1", b=1), facts, cache)
    second = make_plan(_request(n="v2", b=2), facts, cache)
    assert (first.is_cached, second.is_cached) == (False, True)
    assert second.root == make_plan(_request(n="v2", b=2), facts).root
    assert first.root != second.root


@pytest.mark.parametrize("names", [("n",), ("n", "b"), ("b", "n"), ("b", "n", "t")])
def test_equalities_by_one_index_have_a_template(names: tuple[str, ...]) -> None:
    world, cache = _world(), PlanCache()
    facts = world.source().facts
    asked = [_request(**{name: {"n": f"v{row}", "b": row, "t": "x"}[name] for name in names}) for row in (1, 2)]
    make_plan(asked[0], facts, cache)
    choice = cache.find(shape_key(asked[0]), facts)
    assert choice is not None
    assert choice.template is not None
    bound = choice.template.bind(asked[1], facts)
    assert bound is not None
    assert bound[0] == make_plan(asked[1], facts).root
    _ask(world, asked[1], cache)


def test_an_index_of_two_fields_is_bound_to_both_values() -> None:
    world, cache = World(indexes=["byNA"], has_model=False), PlanCache()
    world.save([{"_id": identity, "n": identity % 2, "a": identity % 4} for identity in range(12)])
    world.forward()
    for row in range(5):
        _ask(world, _request(n=row % 2, a=row), cache)
        _ask(world, _request(n=row % 2), cache)


@pytest.mark.parametrize("value", [None, [], ["v1"], float("nan"), {"b": 1}])
def test_values_that_mean_something_else_are_planned(value: Any) -> None:
    world, cache = _world(), PlanCache()
    facts = world.source().facts
    make_plan(_request(n="v1"), facts, cache)
    asked = _request(n=value)
    assert make_plan(asked, facts, cache).root == make_plan(asked, facts).root
    _ask(world, asked, cache)


def test_a_template_does_not_outlive_its_index() -> None:
    world, cache = _world(), PlanCache()
    asked = QueryRequest(filter=parse_filter({"n": "v1"}))
    for strategy in ("index_lookup", None):
        _ask(world, QueryRequest(filter=asked.filter, strategy=strategy), cache)
    world.things.drop_index("byN")
    _ask(world, asked, cache)
    with pytest.raises(InvalidRequestError):
        make_plan(_request(n="v2"), world.source().facts, cache)


def test_arrays_that_came_since_are_met() -> None:
    """One element has the value that is asked for, and another the one that the document is sorted by."""
    world, cache = World(indexes=["byABA"], has_model=False), PlanCache()
    world.save([{"_id": row, "a": {"b": 1, "a": row}} for row in range(1, 6)])
    world.forward()
    request = replace(_request(a__b=1), sort=parse_sort("a.a"))
    for _ in range(3):  # what is kept by then stays the same
        _ask(world, request, cache)
    choice = cache.find(shape_key(request), world.source().facts)
    assert choice is not None
    assert choice.template is not None
    world.save([{"_id": 20, "a": [{"b": 1, "a": 9}, {"b": 2, "a": 0}]}])
    _ask(world, request, cache)
