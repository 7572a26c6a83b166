"""The rules in their order. Each is exact: the plan finds the same rows in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.query.optimizer.adjacent_spans import adjacent_spans
from wormdb.query.optimizer.redundant_scans import redundant_scans
from wormdb.query.optimizer.selective_first import selective_first

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from wormdb.query.plan import Node
    from wormdb.query.selectivity import Selectivity

__all__ = ["RULES", "Rule", "optimize"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A change of a whole plan; it returns the plan itself where there is nothing to do."""

    name: str
    apply: Callable[[Node, Selectivity], Node]
    needs_sample: bool = False
    """Whether it looks at the sample, which takes longer than making the plan."""


RULES: Final = (
    Rule("redundant_scans", redundant_scans),
    Rule("adjacent_spans", adjacent_spans),
    Rule("selective_first", selective_first, needs_sample=True),
)


def optimize(root: Node, selectivity: Selectivity, *, without: Collection[str] = (), with_sample: bool = True) -> Node:
    """A plan of the same rows in the same order that takes less. `without` names rules to leave out. No requests."""
    for rule in RULES:
        if rule.name not in without and (with_sample or not rule.needs_sample):
            root = rule.apply(root, selectivity)
    return root
