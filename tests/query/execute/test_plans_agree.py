"""Every plan gives the answer that pure functions give, however little its nodes are given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.execute.questions import REQUESTS
from tests.query.execute.world import World, answer, same, shown
from tests.query.execute.worlds import WORLDS
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.query.execute.answer import count, count_plan, explain, run, run_plan
from wormdb.query.plan import Fetch, Order, Part, Residual, Scan
from wormdb.query.planner.cache import PlanCache
from wormdb.query.planner.planner import candidates

if TYPE_CHECKING:
    from wormdb.query.plan import Node


def poorer(node: Node, data: st.DataObject) -> Node:
    """A plan that finds the same rows, with less at hand: without fetches, or with fewer columns."""
    if isinstance(node, Fetch) and data.draw(st.booleans()):
        return poorer(node.child, data)
    if isinstance(node, Fetch | Residual | Order | Part):
        changed: Node = msgspec.structs.replace(node, child=poorer(node.child, data))
        return changed
    if isinstance(node, Scan):
        names = data.draw(st.lists(st.sampled_from(sorted({*node.names, DOCUMENT})), unique=True))
        return replace(node, names=("_id", *[name for name in names if name != "_id"]))
    return node


@given(world=WORLDS, data=st.data())
def test_every_plan_gives_the_answer(world: World, data: st.DataObject) -> None:
    source = world.source()
    for _ in range(3):
        request = data.draw(REQUESTS(world.documents))
        expected = answer(request, world.documents)
        texts = set()
        for plan in candidates(request, source.facts):
            for root in (plan.root, poorer(plan.root, data)):
                hits = list(run_plan(root, request, source))
                assert same(shown(hits), expected), root
                texts.add(repr([hit.document for hit in hits]))
                if request.projection is None:
                    held = [hit.held for hit in hits]
                    assert [one and (one.rev, one.seq, one.document) for one in held] == versions(world, hits)
        assert len(texts) == 1, "the order of fields is the same too"


def versions(world: World, hits: Any) -> list[Any]:
    found = world.ledger.view().get_many([hit.key for hit in hits])
    return [(found[hit.key].rev, found[hit.key].seq, found[hit.key].document) for hit in hits]


@settings(max_examples=settings().max_examples // 2)
@given(world=WORLDS, data=st.data())
def test_every_plan_counts_the_rows(world: World, data: st.DataObject) -> None:
    source = world.source()
    for _ in range(3):
        request = replace(data.draw(REQUESTS(world.documents)), is_count=True)
        expected = len(answer(replace(request, projection=None), world.documents))
        for plan in candidates(request, source.facts):
            assert count_plan(plan.root, request, source) == expected, plan.root
        assert count(request, source) == expected


@settings(max_examples=settings().max_examples // 4)
@given(world=WORLDS, data=st.data())
def test_a_limit_gives_the_first_rows_of_the_answer_without_one(world: World, data: st.DataObject) -> None:
    source, cache = world.source(), PlanCache()
    request = replace(data.draw(REQUESTS(world.documents)), limit=None, offset=0)
    whole = shown(list(run(request, source, cache=cache)))
    assert same(whole, answer(request, world.documents))
    for limit in range(len(whole) + 2):
        for offset in (0, 1):
            part = replace(request, limit=limit, offset=offset)
            assert same(shown(list(run(part, source, cache=cache))), whole[offset:][:limit])


@settings(max_examples=settings().max_examples // 4)
@given(world=WORLDS, data=st.data())
def test_pages_one_after_the_other_are_the_whole_answer(world: World, data: st.DataObject) -> None:
    source, cache = world.source(), PlanCache()
    request = replace(data.draw(REQUESTS(world.documents)), limit=None, offset=0, after=None)
    whole = shown(list(run(request, source, cache=cache)))
    page = replace(request, limit=data.draw(st.integers(1, 4)))
    found = []
    while hits := list(run(page, source, cache=cache)):
        found += shown(hits)
        page = replace(page, after=hits[-1].order)
    assert same(found, whole)


@settings(max_examples=settings().max_examples // 6)
@given(world=WORLDS, data=st.data())
def test_what_is_measured_is_what_is_answered(world: World, data: st.DataObject) -> None:
    source = world.source()
    request = data.draw(REQUESTS(world.documents))
    before = world.store.mark()
    explained = explain(request, source, analyze=True, meter=world.store.mark)
    used = world.store.since(before)
    assert (explained.rows, explained.requests, explained.bytes) == (
        len(answer(request, world.documents)),
        used.requests,
        used.bytes_down,
    )
    assert explained.plan.taken is not None
    assert explained.plan.taken.requests <= used.requests
    assert explain(request, source).taken is None
