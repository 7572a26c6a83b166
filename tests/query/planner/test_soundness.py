"""Every plan gives the answer of the pure functions: each way, with and without each rule, from the cache or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.model_executor import Model
from tests.query.planner.questions import Case, Maker
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import fields_needed
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.entries import Range
from wormdb.errors import InvalidRequestError
from wormdb.query.optimizer.rules import RULES
from wormdb.query.plan import IndexCount
from wormdb.query.planner.cache import PlanCache
from wormdb.query.planner.planner import candidates, make_plan
from wormdb.query.request import STRATEGIES, QueryRequest

if TYPE_CHECKING:
    from wormdb.query.plan import Node, QueryPlan

SEEDS = st.integers(0, 2**64)
REQUESTS_A_SEED = 3


def check(plan: QueryPlan, case: Case) -> None:
    request, model = case.request, case.model
    expected = model.expected(request)
    seen = (plan.root, request, case.facts, model.documents)
    if isinstance(plan.root, IndexCount):
        assert request.is_count
        assert model.count(plan.root) == len(expected), seen
        return
    rows = model.run(plan.root, request)
    if request.is_count:
        assert len(rows.keys) == len(expected), seen
        return
    assert rows.keys == expected, seen
    if rows.known is not None and expected:
        assert request.projection is not None, seen
        # Of a.x a column does not tell whether there is an `a` to show.
        assert {path.partition(".")[0] for path in fields_needed(request.projection) or {"?"}} <= rows.known, seen


@settings(max_examples=5 * settings().max_examples)
@given(SEEDS)
def test_every_plan_gives_the_answer(seed: int) -> None:
    maker = Maker(seed)
    for case in maker.others(maker.case(), REQUESTS_A_SEED):
        for without in ((), *((rule.name,) for rule in RULES)):
            for plan in candidates(case.request, case.facts, without=without):
                check(plan, case)


@given(SEEDS)
def test_every_strategy_gives_the_answer_or_says_why_not(seed: int) -> None:
    case = Maker(seed).case()
    for strategy in (None, *STRATEGIES):
        request = replace(case.request, strategy=strategy)
        if not candidates(request, case.facts):
            assert strategy not in {None, "full_scan"}
            with pytest.raises(InvalidRequestError, match=rf"^Strategy '{strategy}' not available: ") as error:
                make_plan(request, case.facts)
            assert error.value.fix
        else:
            plan = make_plan(request, case.facts)
            assert strategy in {None, plan.strategy}
            check(plan, case)


@given(SEEDS)
def test_the_cache_never_changes_an_answer(seed: int) -> None:
    """Requests of few shapes and many values share one cache, over facts that change beneath it."""
    maker, cache = Maker(seed), PlanCache(3)
    cases = [maker.case() for _ in range(2)]
    shapes = [{path: maker.dice.one(["$eq", "$gt", "$lte", "$in"]) for path in maker.paths} for _ in range(2)]
    sort = maker.sort()
    for _ in range(6):
        case = maker.dice.one(cases)
        written = {path: {name: _operand(maker, name)} for path, name in maker.dice.one(shapes).items()}
        request = QueryRequest(filter=parse_filter(written), sort=sort, limit=maker.dice.one([None, 2]))
        check(make_plan(request, case.facts, cache), replace(case, request=request))
    assert len(cache) <= 3


def _operand(maker: Maker, name: str) -> Any:
    return maker.dice.repeat(maker.operand, 1, 2) if name == "$in" else maker.operand()


def test_cases_lead_to_every_way_of_access() -> None:
    """Otherwise the tests above would say little."""
    found: Counter[str] = Counter()
    for seed in range(250):
        case = Maker(seed).case()
        found["answers"] += bool(case.model.expected(case.request))
        for plan in candidates(case.request, case.facts):
            found.update(_names(plan.root))
    assert found["answers"] >= 80
    for name in ("Scan", "IdLookup", "IndexScan", "Intersection", "Union", "IndexCount", "Fetch", "Order", "Residual"):
        assert found[name] >= 5, found


def _names(node: Node) -> list[str]:
    below = [*getattr(node, "children", ()), *([node.child] if hasattr(node, "child") else [])]
    return [type(node).__name__, *(name for child in below for name in _names(child))]


def test_the_model_has_the_entries_of_an_index() -> None:
    model = Model([{"_id": 1, "a": [1, 2]}, {"_id": 2}], [Index("i", ("a",)), Index("j", ("a",), sparse=False)])
    assert [len(entries) for entries in model.entries.values()] == [2, 3]
    assert list(model.arrays.values()) == [(True,), (True,)]
    assert model.count(IndexCount("j", (Range(),))) == 3
