"""From ids to the rows of an answer: fetch, test, order, cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import MatchAll
from wormdb.query.plan import Fetch, IdLookup, IndexScan, Intersection, Order, Part, Residual, Union

if TYPE_CHECKING:
    from wormdb.bql.tree import Filter
    from wormdb.query.physical.question import Question
    from wormdb.query.plan import Node

__all__ = ["cut", "finish", "ordered", "tested"]


def finish(
    question: Question,
    ids: IndexScan | Union | Intersection | IdLookup,
    covered: frozenset[int],
    *,
    in_order: bool = False,
) -> Node:
    """The plan over ids that have at least all rows of the answer; `covered` filters hold for all of them."""
    left = question.conjunction.without(covered)
    if not question.sort.fields and not in_order:
        ids = Union((ids,)) if isinstance(ids, IndexScan) and not question.request.is_count else ids
        in_order = True
    certain = isinstance(left, MatchAll) and question.request.after is None and not _may_miss(ids)
    if certain and question.request.is_count:
        return cut(question, ids)
    if certain and in_order:
        return Fetch(cut(question, ids))  # only what is shown is fetched
    node: Node = tested(Fetch(ids), left)
    return cut(question, node if in_order else ordered(question, node))


def tested(node: Node, left: Filter) -> Node:
    """Only rows that match."""
    return node if isinstance(left, MatchAll) else Residual(node, left)


def ordered(question: Question, node: Node) -> Node:
    """Rows of any order in that of the request."""
    return Order(node, question.sort, question.stop)


def cut(question: Question, node: Node) -> Node:
    """The rows that the request wants of all."""
    request = question.request
    if request.limit is None and not request.offset:
        return node
    return Part(node, request.offset, request.limit)


def _may_miss(ids: IndexScan | Union | Intersection | IdLookup) -> bool:
    """Whether there may be ids among them that no document has."""
    if isinstance(ids, Union):
        return any(map(_may_miss, ids.children))
    if isinstance(ids, Intersection):
        return all(map(_may_miss, ids.children))
    return isinstance(ids, IdLookup)
