"""Under every plan a text search finds what the pure function does, with its scores and in its order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.execute.questions import REQUESTS
from tests.query.execute.worlds import WORLDS
from wormdb.bql.match import compile_filter
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.query.execute.answer import count_plan, run_plan
from wormdb.query.plan import Empty
from wormdb.query.planner.cache import PlanCache
from wormdb.query.planner.planner import candidates, make_plan
from wormdb.query.request import BY_ID

if TYPE_CHECKING:
    from tests.query.execute.world import World

FIELDS = parse_fields(["t^2", "a", "a.b"])
SEARCHES = st.sampled_from(["a OR b", "a", "a* OR 1*", "b -a", "x OR é OR z*", "t:a OR a.b:b", '"a b" OR c'])


@settings(max_examples=settings().max_examples // 5)
@given(world=WORLDS, data=st.data())
def test_every_plan_gives_what_is_searched(world: World, data: st.DataObject) -> None:
    source, cache = world.source(), PlanCache()
    for _ in range(3):
        query = SearchQuery(data.draw(SEARCHES), FIELDS)
        request = replace(data.draw(REQUESTS(world.documents)), sort=BY_ID, after=None, search=query, strategy=None)
        request = replace(request, is_count=False)
        matches = compile_filter(request.filter)
        ranked = rank_documents(query.over(FIELDS), world.documents.values())
        stop = None if request.limit is None else request.offset + request.limit
        expected = [(score, each["_id"]) for score, each in ranked if matches(each)][request.offset : stop]
        # Other words are searched by a plan that is kept.
        make_plan(replace(request, search=SearchQuery(data.draw(SEARCHES), FIELDS)), source.facts, cache)
        kept = make_plan(request, source.facts, cache)
        for plan in (kept, *candidates(request, source.facts)):
            hits = list(run_plan(plan.root, replace(request, projection=None), source))
            assert [(hit.score, hit.document["_id"]) for hit in hits] == expected
            assert [hit.score for hit in run_plan(plan.root, request, source)] == [score for score, _ in expected]
            if not isinstance(plan.root, Empty):
                assert count_plan(plan.root, replace(request, is_count=True), source) == len(expected)
