"""Statistics of fields choose plans, and no answer: whatever they say, however wrong it is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.execute.questions import REQUESTS
from tests.query.execute.world import World, answer, same, shown
from tests.query.execute.worlds import MANIFEST, WORLDS
from wormdb.format.field_statistics import FieldStatistics, FrequentValue, digest_of
from wormdb.format.key import encode_key
from wormdb.query.execute.answer import run_plan
from wormdb.query.planner.planner import candidates, make_plan

_KEYS = st.sampled_from([0, 1, 1.5, "x", "", True]).map(encode_key)
_COUNTS = st.integers(0, 1_000_000)


@st.composite
def _fields(draw: st.DrawFn) -> FieldStatistics:
    ends = sorted(draw(st.lists(_KEYS, min_size=2, max_size=2)))
    bounds = sorted(draw(st.sets(_KEYS, max_size=4)))
    top = draw(st.lists(_KEYS, max_size=2, unique=True))
    return FieldStatistics(
        path=draw(st.sampled_from(MANIFEST)),
        number=1,
        rows=draw(st.integers(1, 1_000_000)),
        missing=draw(_COUNTS),
        nulls=draw(_COUNTS),
        values=draw(_COUNTS),
        distinct=draw(_COUNTS),
        low=ends[0],
        high=ends[1],
        top=tuple(FrequentValue(digest_of(key), "", draw(_COUNTS)) for key in top),
        bounds=tuple(bounds),
        ranks=tuple(sorted(draw(st.lists(_COUNTS, min_size=len(bounds), max_size=len(bounds))))),
    )


@settings(max_examples=settings().max_examples // 3)
@given(world=WORLDS, told=st.lists(_fields(), max_size=4), data=st.data())
def test_every_plan_gives_the_answer_whatever_statistics_say(
    world: World, told: list[FieldStatistics], data: st.DataObject
) -> None:
    source = world.source()
    facts = replace(source.facts, fields={each.path: each for each in told})
    for _ in range(3):
        request = data.draw(REQUESTS(world.documents))
        expected = answer(request, world.documents)
        for plan in (make_plan(request, facts), *candidates(request, facts)):
            assert same(shown(list(run_plan(plan.root, request, source))), expected), plan.root
