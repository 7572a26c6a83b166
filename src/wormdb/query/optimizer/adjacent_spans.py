"""Ranges of one index that touch or overlap are read as one; so are the scans of one index in a union."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from wormdb.query.physical.terms import join_ranges
from wormdb.query.plan import IdLookup, IndexCount, IndexScan, Node, Union, rebuild

if TYPE_CHECKING:
    from wormdb.engine.tree.entries import Range
    from wormdb.query.selectivity import Selectivity

__all__ = ["adjacent_spans"]


def adjacent_spans(node: Node, _: Selectivity) -> Node:
    """A plan with the fewest ranges. No requests."""
    return rebuild(node, _joined)


def _joined(node: Node) -> Node:
    if isinstance(node, IndexScan | IndexCount):
        spans = join_ranges(node.spans) if len(node.spans) > 1 else node.spans
        return node if spans == node.spans else msgspec.structs.replace(node, spans=spans)
    return _united(node) if isinstance(node, Union) and len(node.children) > 1 else node


def _united(node: Union) -> Union:
    spans: dict[str, list[Range]] = {}
    keys: list[bytes] = []
    others = []
    for child in node.children:
        if isinstance(child, IndexScan):
            spans.setdefault(child.index, []).extend(child.spans)
        elif isinstance(child, IdLookup):
            keys += child.keys
        else:
            others.append(child)
    scans = [IndexScan(name, join_ranges(found)) for name, found in spans.items()]
    lookups = [IdLookup(tuple(sorted(set(keys))))] if keys else []
    children = (*lookups, *scans, *others)
    return node if len(children) == len(node.children) else Union(children)
