"""Under every plan the nearest documents are those of the pure function, with its scores and in its order."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.execute.questions import REQUESTS
from tests.query.execute.test_plans_agree import poorer
from tests.query.execute.worlds import WORLDS
from wormdb.bql.match import compile_filter
from wormdb.bql.nearest import DISTANCES, Near, make_scorer, nearest
from wormdb.query.execute.answer import count_plan, run_plan
from wormdb.query.execute.rank import ManyScorer, Ranking
from wormdb.query.execute.rows import DocumentBatch
from wormdb.query.plan import Empty
from wormdb.query.planner.cache import PlanCache
from wormdb.query.planner.planner import candidates, make_plan
from wormdb.query.request import BY_ID

if TYPE_CHECKING:
    from tests.query.execute.world import World

VECTORS = st.lists(st.integers(-2, 10), min_size=1, max_size=2).filter(any)
NEAR = st.builds(
    Near,
    st.sampled_from([("t",), ("a",), ("a", "b"), ("b",)]),
    VECTORS.map(lambda numbers: tuple(map(float, numbers))),
    st.integers(1, 6),
    st.sampled_from(DISTANCES),
    is_exact=st.just(True),
    min_score=st.none() | st.sampled_from([0.5, 0.9, 3.0]),
)


@settings(max_examples=settings().max_examples // 5)
@given(world=WORLDS, data=st.data())
def test_every_plan_gives_the_nearest(world: World, data: st.DataObject) -> None:
    source, cache = world.source(), PlanCache()
    for _ in range(3):
        near = data.draw(NEAR)
        request = replace(data.draw(REQUESTS(world.documents)), sort=BY_ID, after=None, near=near, is_count=False)
        matching = filter(compile_filter(request.filter), world.documents.values())
        stop = None if request.limit is None else request.offset + request.limit
        expected = [(score, each["_id"]) for score, each in nearest(near, matching)][request.offset : stop]
        # Another vector is asked for by a plan that is kept.
        make_plan(replace(request, near=replace(near, vector=data.draw(VECTORS_LIKE(near)))), source.facts, cache)
        kept = make_plan(request, source.facts, cache)
        for plan in (kept, *candidates(request, source.facts)):
            for root in (plan.root, poorer(plan.root, data)):
                assert told(list(run_plan(root, replace(request, projection=None), source))) == expected
                hits = list(run_plan(root, request, source))
                assert [hit.score for hit in hits] == [score for score, _ in expected]
            if not isinstance(plan.root, Empty):
                assert count_plan(plan.root, replace(request, is_count=True), source) == len(expected)


def VECTORS_LIKE(near: Near) -> st.SearchStrategy[tuple[float, ...]]:  # noqa: N802 - a strategy
    size = len(near.vector)
    return st.lists(st.integers(1, 9).map(float), min_size=size, max_size=size).map(tuple)


def told(hits: list[Any]) -> list[tuple[float, Any]]:
    return [(hit.score, hit.document["_id"]) for hit in hits]


NUMBERS = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 1.0, -1.0])
ROWS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=33, max_size=80)


@pytest.mark.parametrize("distance", DISTANCES)
@given(rows=ROWS, own=st.lists(NUMBERS, min_size=3, max_size=3).filter(any), k=st.integers(1, 9))
def test_no_row_that_is_left_out_roughly_is_among_the_best(
    distance: Any, rows: list[list[float]], own: list[float], k: int
) -> None:
    near = Near(("v",), tuple(own), k, distance)
    documents = [{"_id": number, "v": row} for number, row in enumerate(rows)]
    ranking, plain = Ranking(near), Ranking(near)
    plain._many = None
    for start in range(0, len(rows), 40):
        batch = DocumentBatch(
            [number.to_bytes(2, "big") for number in range(start, min(start + 40, len(rows)))],
            documents[start : start + 40],
            None,
        )
        ranking.add(batch)
        plain.add(batch)
    found, scores = ranking.finish()
    others, other_scores = plain.finish()
    assert list(found.keys) == list(others.keys)
    assert scores == other_scores
    assert list(scores.values()) == [score for score, _ in nearest(near, documents)]


@given(data=st.data(), distance=st.sampled_from(DISTANCES), length=st.integers(1, 40))
def test_many_vectors_at_once_have_the_scores_of_each_alone(data: st.DataObject, distance: Any, length: int) -> None:
    # Numbers of all sizes: sums that cancel, and such of which the least numbers decide how they are rounded.
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
    numbers |= st.floats(-1, 1, width=32) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**-12, 2.0**-26, -(2.0**-149)])
    vectors = st.lists(numbers, min_size=length, max_size=length)
    own = tuple(data.draw(vectors.filter(any)))
    others = [array("f", each) for each in data.draw(st.lists(vectors, max_size=6))]
    near = Near(("v",), own, 3, distance)
    assert ManyScorer(near).score(others) == list(map(make_scorer(near), others))


def test_the_least_numbers_decide_how_a_sum_is_rounded() -> None:
    own, other = (1.0,) * 8 + (2.0**-25,) * 3, array("f", [1.0] * 8 + [2.0**-26] * 3)
    near = Near(("v",), own, 3, "dot_product")
    assert ManyScorer(near).score([other]) == [make_scorer(near)(other)] == [(9.0 + 2.0**-49) / 2.0]
