"""What a strategy costs over files, in requests: 1 for the manifest, 1 for an index, 1 for each document."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from wormdb.query.execute.execute import Executor
from wormdb.query.execute.explain import explain_plan
from wormdb.query.plan import Cost, Fetch, IdLookup, Order, Part, Residual

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.files.foreign.choose import Choice
    from wormdb.files.foreign.look import Look
    from wormdb.query.execute.explain import Explained, Step
    from wormdb.query.execute.measure import Taken
    from wormdb.query.plan import Node
    from wormdb.query.request import Request

__all__ = ["explained"]


def explained(
    choice: Choice,
    request: Request,
    look: Look,
    *,
    taken_of: Callable[[Node], Taken] | None = None,
    taken: Taken | None = None,
) -> Explained:
    """A choice for people, with its cost. For a full scan the files are listed, if they were not yet."""
    fetched = _fetched(choice, request)
    read = Cost(requests=choice.requests, rows=choice.source.facts.rows)
    if choice.plan.strategy == "full_scan":
        listing = look.listing()
        read = Cost(requests=listing.pages + len(listing.keys), rows=len(listing.keys))
    found = explain_plan(choice.plan, choice.source.facts, taken_of=taken_of, taken=taken)
    plan = _costed(found.plan, read, fetched)
    return replace(found, estimated_requests=ceil(plan.cost.requests), manifest_fields=choice.fields, plan=plan)


def _fetched(choice: Choice, request: Request) -> int:
    """How many documents are fetched: as many as the manifest or the index gives."""
    fetch = _find_fetch(choice.plan.root)
    if fetch is None:
        return 0
    leaf = fetch.child
    if isinstance(leaf, IdLookup):
        return len(leaf.keys)
    executor = Executor(request, choice.source, choice.source.look.site.clock)
    return sum(len(batch) for batch in executor.batches(leaf))


def _find_fetch(node: Node) -> Fetch | None:
    while isinstance(node, Residual | Order | Part):
        node = node.child
    return node if isinstance(node, Fetch) else None


def _costed(step: Step, read: Cost, fetched: int) -> Step:
    """The same steps with what they cost over files: leaves are read, and a fetch asks for each document."""
    children = tuple(_costed(child, read, fetched) for child in step.children)
    cost = read
    if step.name == "Empty":
        cost = Cost()
    elif children:
        cost = children[0].cost
    if step.name == "Fetch":
        cost = Cost(cost.requests + fetched, cost.bytes, max(cost.rows, fetched))
    return replace(step, cost=cost, children=children)
