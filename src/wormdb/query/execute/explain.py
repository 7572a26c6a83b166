"""How a query is answered, for people and for programs: the plan as a tree, its cost, and what else was possible.

print(explained)

index_lookup: index byStatus covers filter
about 2 requests, 36.4 KB, 40 rows, 0.9 ms of processor time
Fetch
└─ Part  limit 20
   └─ IndexScan  byStatus, 1 range, kept
rejected
  manifest_fetch  columns status, then documents  1.6 times the cost  (4 requests, 120 KB, 10,000 rows, 2.1 ms)
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.tree import MatchAll
from wormdb.query.plan import (
    ALL_IDS,
    Cost,
    Fetch,
    Fused,
    IdLookup,
    IndexCount,
    IndexScan,
    Intersection,
    NearestScan,
    Order,
    Part,
    Rank,
    Residual,
    Scan,
    TextScan,
    Union,
)
from wormdb.query.planner.cost import Estimate, estimate
from wormdb.query.selectivity import Selectivity
from wormdb.query.sources.source import NOTHING_KEPT, Facts
from wormdb.schema.words import NO_LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wormdb.query.execute.measure import Measurement
    from wormdb.query.plan import Node, QueryPlan, RejectedPlan
    from wormdb.query.request import PlanStrategy

__all__ = ["Explanation", "PlanStep", "expect", "explain_plan", "render"]

_SHARE_SHOWN: Final = 0.005
"""A share nearer than this to 0 or to 1 is shown as none or as all."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One node of a plan."""

    name: str
    detail: str
    cost: Cost
    """What is expected of it with all below it."""
    children: tuple[PlanStep, ...] = ()
    taken: Measurement | None = None
    """What it took with all below it; None if it did not run."""
    kept: float | None = None
    """Which share of what it reads this process keeps, from 0 to 1; None if it reads nothing itself."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = {"name": self.name, "detail": self.detail}
        found["estimate"] = _cost_dict(self.cost)
        if self.kept is not None:
            found["kept"] = round(self.kept, 2)
        if self.taken is not None:
            found |= _taken_dict(self.taken)
        if self.children:
            found["children"] = [child.to_dict() for child in self.children]
        return found


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is answered, or was: `taken` is there only after it ran."""

    strategy: PlanStrategy
    reason: str
    estimated_requests: int
    """Of a process that keeps nothing; `plan.cost` says how many are left for this one."""
    manifest_fields: tuple[str, ...]
    """The fields of the manifest, as the model configures them; none if it has no manifest."""
    plan: PlanStep
    rejected: tuple[RejectedPlan, ...] = ()
    cached: bool = False
    taken: Measurement | None = None

    @property
    def requests(self) -> int | None:
        """Requests that were made; None if it did not run."""
        return None if self.taken is None else self.taken.requests

    @property
    def bytes(self) -> int | None:
        """Bytes that were read; None if it did not run."""
        return None if self.taken is None else self.taken.bytes

    @property
    def rows(self) -> int | None:
        """Rows of the answer; None if it did not run."""
        return None if self.taken is None else self.taken.rows

    @property
    def milliseconds(self) -> float | None:
        """How long it took; None if it did not run."""
        return None if self.taken is None else self.taken.milliseconds

    @property
    def dollars(self) -> float | None:
        """What the requests cost; None if it did not run."""
        return None if self.taken is None else self.taken.dollars

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, in camelCase."""
        found: dict[str, Any] = {
            "strategy": self.strategy,
            "reason": self.reason,
            "estimatedRequests": self.estimated_requests,
            "manifestFields": list(self.manifest_fields),
            "plan": self.plan.to_dict(),
            "estimate": _cost_dict(self.plan.cost),
            "rejected": [_rejected_dict(each) for each in self.rejected],
            "cached": self.cached,
        }
        return found if self.taken is None else found | _taken_dict(self.taken)

    def __str__(self) -> str:
        return render(self)


def expect(plan: QueryPlan, facts: Facts) -> Mapping[int, Estimate]:
    """What each node of a plan is expected to take, by its `id`. No requests."""
    seen: dict[int, Estimate] = {}
    estimate(plan.root, facts, Selectivity(facts), seen=seen)
    return seen


def explain_plan(
    plan: QueryPlan,
    facts: Facts,
    *,
    expected: Mapping[int, Estimate] | None = None,
    taken_of: Callable[[Node], Measurement] | None = None,
    taken: Measurement | None = None,
) -> Explanation:
    """A plan for people; if it was carried out, with what each node took and the whole of it. No requests.

    `expected` is what `expect` said before it was carried out: afterwards more is kept.
    """
    seen = expect(plan, facts) if expected is None else expected

    def step(node: Node) -> PlanStep:
        return PlanStep(
            type(node).__name__,
            _detail(node),
            seen[id(node)].cost,
            tuple(step(child) for child in _children(node)),
            None if taken_of is None else taken_of(node),
            seen[id(node)].kept,
        )

    root = step(plan.root)
    cold = estimate(plan.root, replace(facts, kept=NOTHING_KEPT), Selectivity(facts)).cost
    return Explanation(
        plan.strategy,
        plan.reason,
        ceil(cold.requests),
        facts.manifest_fields,
        root,
        plan.rejected,
        plan.is_cached,
        taken,
    )


def render(explained: Explanation) -> str:
    """A readable tree for a terminal."""
    head = f"{explained.strategy}: {explained.reason}{' (plan from the cache)' if explained.cached else ''}"
    lines = [head, f"about {_cost_text(explained.plan.cost)} of processor time"]
    if explained.taken is not None:
        lines.append(f"took {_taken_text(explained.taken)}, ${explained.taken.dollars:.7f}")
    lines += _tree(explained.plan, "", "")
    if explained.rejected:
        lines.append("rejected")
        for each in explained.rejected:
            cost = "" if each.cost is None else f"  ({_cost_text(each.cost)})"
            what = "" if each.cost is None else f"  {each.what}"
            lines.append(f"  {each.strategy}{what}  {each.reason}{cost}")
    return "\n".join(lines)


# --- nodes ---


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Union | Intersection):
        return node.children
    if isinstance(node, Fused):
        return (node.nearest, node.searched)
    if isinstance(node, NearestScan):
        return () if node.child is None else (node.child,)
    return (node.child,) if isinstance(node, Fetch | Residual | Order | Rank | Part) else ()


def _detail(node: Node) -> str:
    match node:
        case Scan(names, span, bounds):
            parts = [", ".join(names), *(["a range of ids"] if span != ALL_IDS else [])]
            return "; ".join([*parts, *([f"blocks by {', '.join(sorted(bounds))}"] if bounds else [])])
        case IdLookup(keys):
            return _counted(len(keys), "id")
        case IndexScan(name, spans, reverse):
            return f"{name}, {_counted(len(spans), 'range')}{', backwards' if reverse else ''}"
        case IndexCount(name, spans):
            return f"{name}, {_counted(len(spans), 'range')}"
        case Residual(_, tree):
            return tree.text
        case Order(_, sort, first):
            return f"{sort if sort.fields else '_id'}{'' if first is None else f', first {first:,}'}"
        case Part(_, offset, limit):
            parts = [f"offset {offset:,}"] if offset else []
            return ", ".join([*parts, *([f"limit {limit:,}"] if limit is not None else [])])
        case _:
            return _ranked_detail(node)


def _ranked_detail(node: Node) -> str:
    match node:
        case Fused(_, _, weight):
            return f"by places in both, search counts {weight:g}"
        case TextScan(search, tree, index):
            fields = ", ".join(field.text for field in search.fields.fields)
            language = "" if search.fields.language == NO_LANGUAGE else f" in {search.fields.language}"
            condition = "" if isinstance(tree, MatchAll) else f"; {tree.text}"
            return f"{'' if index is None else f'{index}, '}{search.text!r} in {fields}{language}{condition}"
        case NearestScan() | Rank():
            return _nearest_detail(node)
        case _:
            return ""


def _nearest_detail(node: NearestScan | Rank) -> str:
    near = node.near
    if isinstance(node, NearestScan):
        lists = "all lists" if node.probes is None else _counted(node.probes, "list")
        return f"{node.index}, {near.distance}, {lists}{'' if node.child is None else ', only ids below'}"
    least = "" if near.min_score is None else f", score {near.min_score:g} or more"
    of = "" if node.enough is None else f" of {_counted(node.enough, 'candidate')}"
    return f"{near.field}, {near.distance}, first {near.k:,}{of}{least}"


# --- texts ---


def _tree(step: PlanStep, first: str, rest: str) -> Iterator[str]:
    text = f"{step.name}  {step.detail}".rstrip() + _kept_text(step.kept)
    if step.taken is not None:
        text += f"  [{_taken_text(step.taken)}]"
    yield first + text
    for place, child in enumerate(step.children):
        is_last = place == len(step.children) - 1
        yield from _tree(child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  "))


def _kept_text(kept: float | None) -> str:
    """The words for a node that reads; empty if everything comes from the store."""
    if kept is None or kept < _SHARE_SHOWN:
        return ""
    return ", kept" if kept > 1.0 - _SHARE_SHOWN else f", {kept:.0%} kept"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _size(number: float) -> str:
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _cost_text(cost: Cost) -> str:
    requests, rows = _counted(ceil(cost.requests), "request"), _counted(ceil(cost.rows), "row")
    return f"{requests}, {_size(cost.bytes)}, {rows}, {cost.processor_ms:.1f} ms"


def _taken_text(taken: Measurement) -> str:
    text = f"{_counted(taken.requests, 'request')}, {_size(taken.bytes)}, {_counted(taken.rows, 'row')}"
    return f"{text}, {taken.milliseconds:.1f} ms"


def _cost_dict(cost: Cost) -> dict[str, float]:
    names = {"rounds": "roundTrips", "processor_ms": "processorMs"}
    return {names.get(part.name, part.name): round(getattr(cost, part.name), 2) for part in fields(Cost)}


def _taken_dict(taken: Measurement) -> dict[str, float]:
    return {part.name: getattr(taken, part.name) for part in fields(taken)}


def _rejected_dict(rejected: RejectedPlan) -> dict[str, Any]:
    found: dict[str, Any] = {"strategy": rejected.strategy, "what": rejected.what, "reason": rejected.reason}
    return found if rejected.cost is None else found | {"estimate": _cost_dict(rejected.cost)}
