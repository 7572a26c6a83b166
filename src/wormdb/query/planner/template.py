"""A plan with its values taken out: for requests of one shape it is bound to their values, and not made anew.

Only plans are kept so in which values do nothing but name keys: all conditions are equalities of single values, each
on a path of its own, and one range of one index is read. Then no value changes what is possible, and the plan for
other values of the same types is the same tree around another range:

    {"code": "c1", "state": "new"}      Residual(state) < Fetch < IndexScan(byCode: "c1")
    {"code": "c2", "state": "old"}      the same, around "c2"

What a value may change is asked at every binding: types that mean something else (null, arrays, NaN), and whether
documents may have arrays by now. A template that does not give back the very plan that it was made of is not kept.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from wormdb.bql.sorting import SortSpec
from wormdb.bql.tree import And, Compare, Filter, conjunction
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key, prefix_end
from wormdb.query.plan import Fetch, IndexScan, Node, Order, Part, Residual, Union
from wormdb.query.sources.source import Facts, Traits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.query.request import QueryRequest

__all__ = ["PlanTemplate", "make_template"]

_BINDABLE: Final = frozenset({str, int, float, bool})
"""Types of values that are one key each, of which no two documents differ by arrays, nulls or missing fields."""


class _TemplateStep(msgspec.Struct, frozen=True):
    """One node above the index."""

    kind: Literal["union", "fetch", "part", "residual", "order"]
    places: tuple[int, ...] = ()
    """Of a residual: which conditions it tests."""
    sort: SortSpec | None = None
    """Of an order."""
    is_cut: bool = False
    """Of an order: whether only its first rows are wanted."""


class PlanTemplate(msgspec.Struct, frozen=True):
    """The plan of a shape."""

    index: str
    slots: tuple[int, ...]
    """The conditions whose values, one after the other, are the beginning of the keys that are read."""
    reverse: bool
    steps: tuple[_TemplateStep, ...]
    """From the index up."""
    traits: Traits
    """What was true of all documents when it was made."""

    def bind(self, request: QueryRequest, facts: Facts) -> tuple[Node, Range] | None:
        """The plan for a request of the same shape, and its range; None if it has to be planned. No requests."""
        if facts.traits != self.traits or request.after is not None:
            return None
        tree = request.filter
        filters = tree.filters if type(tree) is And else (tree,)
        for each in filters:
            value = each.value if type(each) is Compare else None
            if type(value) not in _BINDABLE or (type(value) is float and isnan(value)):
                return None
        low = b""
        for slot in self.slots:
            low += encode_key(filters[slot].value)  # type: ignore[union-attr] # they are comparisons, as above
        span = Range(low, prefix_end(low))
        node: Node = IndexScan(self.index, (span,), self.reverse)
        for step in self.steps:
            match step.kind:
                case "fetch":
                    node = Fetch(node)
                case "part":
                    node = Part(node, request.offset, request.limit)
                case "union":
                    assert isinstance(node, IndexScan)
                    node = Union((node,))
                case "residual":
                    node = Residual(node, conjunction([filters[place] for place in step.places]))
                case _:
                    assert step.sort is not None
                    first = request.offset + (request.limit or 0) if step.is_cut else None
                    node = Order(node, step.sort, first)
        return node, span


def make_template(root: Node, request: QueryRequest, facts: Facts) -> PlanTemplate | None:
    """The template of a plan; None if its values do more than to name keys. No requests."""
    tree = request.filter
    filters = tree.filters if isinstance(tree, And) else (tree,)
    equal = [each for each in filters if type(each) is Compare and each.op == "eq"]
    paths = {each.path: place for place, each in enumerate(equal)}
    if len(equal) < len(filters) or len(paths) < len(filters) or request.after is not None:
        return None
    found = _steps(root, filters)
    if found is None:
        return None
    steps, scan = found
    known = facts.find_index(scan.index)
    if known is None or len(scan.spans) != 1:
        return None
    slots: list[int] = []
    for path in known.index.paths:
        if path not in paths:
            break
        slots.append(paths[path])
        template = PlanTemplate(scan.index, tuple(slots), scan.reverse, steps, facts.traits)
        bound = template.bind(request, facts)
        if bound is not None and bound[0] == root:
            return template
    return None


def _steps(root: Node, filters: Sequence[Filter]) -> tuple[tuple[_TemplateStep, ...], IndexScan] | None:
    steps: list[_TemplateStep] = []
    node = root
    while not isinstance(node, IndexScan):
        match node:
            case Fetch(child):
                steps.append(_TemplateStep("fetch"))
            case Part(child):
                steps.append(_TemplateStep("part"))
            case Union((child,)):
                steps.append(_TemplateStep("union"))
            case Order(child, sort, first):
                steps.append(_TemplateStep("order", sort=sort, is_cut=first is not None))
            case Residual(child, left):
                tested = left.filters if isinstance(left, And) else (left,)
                places = [next((place for place, own in enumerate(filters) if own is each), None) for each in tested]
                if None in places:
                    return None
                steps.append(_TemplateStep("residual", tuple(place for place in places if place is not None)))
            case _:
                return None
        node = child
    return tuple(reversed(steps)), node
