"""Each rule: plans before and after it. That they find the same rows is checked in test_soundness."""

from __future__ import annotations

import pytest

from tests.query.planner.test_planner import SHOP
from wormdb.bql.parse import parse_filter
from wormdb.engine.tree.entries import Range
from wormdb.query.optimizer.rules import RULES, optimize
from wormdb.query.plan import (
    Fetch,
    IdLookup,
    IndexCount,
    IndexScan,
    Intersection,
    Node,
    Order,
    Part,
    Residual,
    Scan,
    Union,
)
from wormdb.query.request import BY_ID
from wormdb.query.selectivity import Selectivity

A, B, C = Range(b"a", b"b"), Range(b"b", b"c"), Range(b"c", b"d")
AB, ABC = Range(b"a", b"c"), Range(b"a", b"d")
ONE, BOTH, ALL = (IndexScan("byDate", (span,)) for span in (A, AB, ABC))
OTHER = IndexScan("byEmail", (A,))

CASES: list[tuple[str, Node, Node]] = [
    ("redundant_scans", Intersection((ONE, OTHER, ALL)), Intersection((ONE, OTHER))),
    ("redundant_scans", Intersection((ONE, ONE)), Intersection((ONE,))),
    ("redundant_scans", Union((ONE, OTHER, BOTH)), Union((OTHER, BOTH))),
    ("redundant_scans", Union((IdLookup((b"1",)), IdLookup((b"1", b"2")))), Union((IdLookup((b"1", b"2")),))),
    ("redundant_scans", Fetch(Union((Intersection((ONE, ALL)), OTHER))), Fetch(Union((Intersection((ONE,)), OTHER)))),
    ("adjacent_spans", IndexScan("i", (A, B), reverse=True), IndexScan("i", (AB,), reverse=True)),
    ("adjacent_spans", IndexScan("i", (A, C)), IndexScan("i", (A, C))),
    ("adjacent_spans", IndexCount("i", (A, B, C)), IndexCount("i", (ABC,))),
    (
        "adjacent_spans",
        Part(Order(Fetch(Union((ONE, OTHER, IndexScan("byDate", (C,))))), BY_ID), 1),
        Part(Order(Fetch(Union((IndexScan("byDate", (A, C)), OTHER))), BY_ID), 1),
    ),
    ("adjacent_spans", Union((IdLookup((b"2",)), IdLookup((b"1",)))), Union((IdLookup((b"1", b"2")),))),
    (
        "selective_first",
        Residual(Scan(("_id",)), parse_filter({"city": "x", "total": 5})),
        Residual(Scan(("_id",)), parse_filter({"total": 5, "city": "x"})),
    ),
    (
        "selective_first",
        Residual(Scan(("_id",)), parse_filter({"status": {"$regex": "^pa"}, "total": {"$lt": 50}})),
        Residual(Scan(("_id",)), parse_filter({"total": {"$lt": 50}, "status": {"$regex": "^pa"}})),
    ),
    (
        "selective_first",
        Intersection((IndexScan("byDate", (Range(),)), OTHER, IdLookup((b"1",)))),
        Intersection((OTHER, IdLookup((b"1",)), IndexScan("byDate", (Range(),)))),
    ),
]


@pytest.mark.parametrize(("name", "before", "after"), CASES)
def test_a_rule_makes_of_a_plan_another(name: str, before: Node, after: Node) -> None:
    others = [rule.name for rule in RULES if rule.name != name]
    assert optimize(before, Selectivity(SHOP), without=others) == after
    assert optimize(after, Selectivity(SHOP), without=others) is after
    assert optimize(before, Selectivity(SHOP), without=[rule.name for rule in RULES]) is before
