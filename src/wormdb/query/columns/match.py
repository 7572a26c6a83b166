"""Filters as masks over columns: exactly what `wormdb.bql.match` says of the whole documents.

Typed columns are asked by Arrow. Rows that a column does not tell (another type, a path through arrays), JSON, and
arrays as a whole are asked of generated Python: only these rows, and of them only those that still matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.bql.tree import (
    NOTHING,
    All,
    And,
    Compare,
    ElemMatch,
    Everything,
    Not,
    Nothing,
    Or,
    RegexMatch,
    conjunction,
)
from wormdb.format.kinds import Regex
from wormdb.format.wrappers import regex_options
from wormdb.query.column_conditions import Leaf, RowCells, both
from wormdb.query.columns.cells import complement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from wormdb.bql.tree import Filter
    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.column_conditions import Asked, Node
    from wormdb.query.columns.cells import Outcome

__all__ = ["ColumnFilter", "compile_columns"]


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A filter that is asked of portions; made by `compile_columns`."""

    paths: frozenset[str]
    """The columns that a portion must have: dotted paths."""
    _node: Node

    def mask(self, portion: Portion) -> pa.Array | pa.ChunkedArray:
        """Which rows match: booleans without nulls. No requests; raises CorruptionError for damaged cells."""
        import pyarrow as pa

        outcome = self._node.ask(RowCells(portion), among=True) if portion.rows else False
        return pa.repeat(pa.scalar(outcome), portion.rows) if isinstance(outcome, bool) else outcome


def compile_columns(tree: Filter) -> ColumnFilter:
    """A filter over columns. No requests; raises MissingExtraError for a regular expression without google-re2."""
    paths: set[str] = set()
    node = _compiled(tree, paths)
    return ColumnFilter(frozenset(paths), node)


# --- logic ---


@dataclass(frozen=True, slots=True)
class _Constant:
    outcome: bool

    def ask(self, rows: Asked, *, among: Outcome) -> Outcome:  # noqa: ARG002 - a node's signature
        return self.outcome

    def weight(self, rows: Asked) -> int:  # noqa: ARG002 - see above
        return 0


@dataclass(frozen=True, slots=True)
class _Negation:
    node: Node

    def ask(self, rows: Asked, *, among: Outcome) -> Outcome:
        return complement(self.node.ask(rows, among=among))

    def weight(self, rows: Asked) -> int:
        return self.node.weight(rows)


@dataclass(frozen=True, slots=True)
class _Conjunction:
    nodes: Sequence[Node]

    def ask(self, rows: Asked, *, among: Outcome) -> Outcome:
        found: Outcome = True
        for node in sorted(self.nodes, key=lambda node: node.weight(rows)):
            found = both(found, node.ask(rows, among=both(among, found)))
            if found is False:
                break
        return found

    def weight(self, rows: Asked) -> int:
        return max(node.weight(rows) for node in self.nodes)


def _compiled(tree: Filter, paths: set[str]) -> Node:
    match tree:
        case Everything() | Nothing():
            return _Constant(isinstance(tree, Everything))
        case And(filters):
            return _Conjunction([_compiled(child, paths) for child in filters])
        case Or(filters):  # what not all fail to match: so there is one place that knows which rows still matter
            return _Negation(_Conjunction([_Negation(_compiled(child, paths)) for child in filters]))
        case Not(child):
            return _Negation(_compiled(child, paths))
        case All(path, values):
            items = [_item(path, value) for value in values]
            return _compiled(conjunction(items) if items else NOTHING, paths)
        case _:
            paths.add(".".join(tree.path))
            inner = _compiled(tree.filter, set()) if isinstance(tree, ElemMatch) and tree.kind == "value" else None
            return Leaf.of(tree, inner)


def _item(path: tuple[str, ...], value: Any) -> Filter:
    """What one value of $all asks."""
    if type(value) is Regex:
        return RegexMatch(path, value.pattern, regex_options(value))
    return Compare(path, "eq", value)
