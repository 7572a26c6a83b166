"""The rules in their order. Each is exact: the plan finds the same rows in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.query.optimizer.adjacent_spans import adjacent_spans
from wormdb.query.optimizer.redundant_scans import redundant_scans
from wormdb.query.optimizer.selective_first import selective_first
from wormdb.query.plan import Fetch, IndexCount, IndexScan, Intersection, Node, Order, Part, Residual, Union

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from wormdb.query.selectivity import Selectivity

__all__ = ["RULES", "PlanRule", "optimize"]


@dataclass(frozen=True, slots=True)
class PlanRule:
    """A change of a whole plan; it returns the plan itself where there is nothing to do."""

    name: str
    on: tuple[type[Node], ...]
    """It does nothing to a plan without any of these."""
    apply: Callable[[Node, Selectivity], Node]
    needs_sample: bool = False
    """Whether it looks at the sample, which takes longer than making the plan."""


RULES: Final = (
    PlanRule("redundant_scans", (Union, Intersection), redundant_scans),
    PlanRule("adjacent_spans", (Union, IndexScan, IndexCount), adjacent_spans),
    PlanRule("selective_first", (Residual, Intersection), selective_first, needs_sample=True),
)


def optimize(root: Node, selectivity: Selectivity, *, without: Collection[str] = (), with_sample: bool = True) -> Node:
    """A plan of the same rows in the same order that takes less. `without` names rules to leave out. No requests."""
    kinds = _kinds(root)
    for rule in RULES:
        if not kinds.isdisjoint(rule.on) and rule.name not in without and (with_sample or not rule.needs_sample):
            root = rule.apply(root, selectivity)
    return root


def _kinds(node: Node) -> set[type[Node]]:
    found: set[type[Node]] = {type(node)}
    while isinstance(node, Fetch | Residual | Order | Part):
        node = node.child
        found.add(type(node))
    if isinstance(node, Union | Intersection):
        found = found.union(*map(_kinds, node.children))
    return found
