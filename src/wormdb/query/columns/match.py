"""Filters as masks over columns: exactly what `wormdb.bql.match` says of the whole documents.

Typed columns are asked by Arrow. Rows that a column does not tell (another type, a path through arrays), JSON, and
arrays as a whole are asked of generated Python: only these rows, and of them only those that still matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from wormdb.bql.match import compile_filter
from wormdb.bql.tree import (
    NOTHING,
    All,
    And,
    Compare,
    Conforms,
    Contains,
    ElemMatch,
    In,
    MatchAll,
    MatchNone,
    Not,
    Or,
    RegexMatch,
    Size,
    conjunction,
)
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.json import decode_document
from wormdb.format.kinds import MISSING, Document, Regex
from wormdb.format.path import TRAVERSED
from wormdb.format.wrappers import regex_options
from wormdb.query.columns.cells import (
    Cells,
    ask_cells,
    ask_distinct,
    cells_of,
    decode_cells,
    element_kind,
    element_lists,
    mask_of_rows,
    negate,
    rows_of_mask,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from wormdb.bql.tree import Filter
    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.columns.cells import Outcome

__all__ = [
    "CellRows",
    "ColumnFilter",
    "ConditionNode",
    "ElementCells",
    "FilterNode",
    "RowCells",
    "compile_columns",
    "conjoin",
]


# --- One condition of a filter, asked of a column.
#
# Typed cells are asked by Arrow. Rows that a column does not tell (another type, a path through arrays), JSON, and
# arrays as a whole are asked of generated Python: only these rows, and of them only those that still matter.

# --- what is asked ---


class CellRows(Protocol):
    """Rows that have columns."""

    def cells(self, name: str) -> Cells:
        """A column."""
        ...


@dataclass(slots=True)
class RowCells:
    """A portion, with what was decoded of it for one filter."""

    portion: Portion
    _documents: dict[int, Document] = field(default_factory=dict)

    def cells(self, name: str) -> Cells:
        """A column of it."""
        return cells_of(self.portion, name)

    def document(self, row: int) -> Document:
        """The whole document of a row that has a cell elsewhere."""
        if row not in self._documents:
            (body,) = self.portion.documents([row])
            self._documents[row] = decode_document(body, name="a document")
        return self._documents[row]


@dataclass(frozen=True, slots=True)
class ElementCells:
    """The elements of arrays: each is a row, and its one column has no name."""

    elements: Cells

    def cells(self, name: str) -> Cells:
        """The elements."""
        assert not name, "conditions inside are about the element itself"
        return self.elements


class FilterNode(Protocol):
    """A part of a filter."""

    def ask(self, rows: CellRows, *, among: Outcome) -> Outcome:
        """Which rows match; anything may stand in rows that are not `among` those that matter."""
        ...

    def weight(self, rows: CellRows) -> int:
        """How many rows Python must test: 0 none, 1 perhaps some, 2 all."""
        ...


def conjoin(a: Outcome, b: Outcome) -> Outcome:
    """What is true where both are true."""
    import pyarrow.compute as pc

    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return pc.and_(a, b)


# --- conditions ---


@dataclass(frozen=True, slots=True)
class ConditionNode:
    """One condition on one path."""

    condition: Any
    name: str
    test: Callable[[Any], bool]
    """Tests one value; arrays count as a whole."""
    of_value: Callable[[Document], bool]
    """Tests {"v": the value of the path}; arrays count by their elements too."""
    of_document: Callable[[Document], bool]
    inner: FilterNode | None

    @classmethod
    def of(cls, condition: Any, inner: FilterNode | None = None) -> ConditionNode:
        """A condition with a path; `inner` is what `ElemMatch` of kind "value" asks of an element."""
        return cls(
            condition,
            ".".join(condition.path),
            _compiled_late(condition, ()),
            _compiled_late(condition, ("v",)),
            _compiled_late(condition, condition.path),
            inner,
        )

    def weight(self, rows: CellRows) -> int:
        """As `FilterNode`."""
        cells = rows.cells(self.name)
        if cells.kind == "json" or (element_kind(cells.kind) is not None and self._is_about_arrays()):
            return 2
        return int(cells.codes is not None)

    def ask(self, rows: CellRows, *, among: Outcome) -> Outcome:
        """As `FilterNode`."""
        import pyarrow.compute as pc

        cells = rows.cells(self.name)
        if cells.kind == "json":
            outcome = self._of_json(cells, among)
        elif element_kind(cells.kind) is not None:
            outcome = self._of_arrays(cells, among)
        else:
            outcome = self._of_scalars(cells)
        outcome = cells.completed(outcome, self.test)
        elsewhere = cells.elsewhere()
        if elsewhere is None:
            return outcome
        assert isinstance(rows, RowCells), "elements are all in their column"
        found = mask_of_rows(self._elsewhere(rows, rows_of_mask(elsewhere, among).to_pylist()), cells.rows)
        return found if outcome is False else pc.or_(outcome, found)

    def _of_scalars(self, cells: Cells) -> Outcome:
        if isinstance(self.condition, ElemMatch | Size):
            return False
        return ask_cells(self.condition, cells, self.test)

    def _of_json(self, cells: Cells, among: Outcome) -> Outcome:
        def passes(value: Any) -> bool:
            return self.of_value({"v": value})

        return _of_some(cells, among, lambda array: ask_distinct(passes, array, "json"))

    def _elsewhere(self, rows: RowCells, numbers: list[int]) -> list[int]:
        """Those of some rows that match, by values that are not in the column."""
        if not numbers:
            return []
        found = []
        for row, value in zip(numbers, rows.portion.elsewhere(self.name, numbers), strict=True):
            if value is TRAVERSED:
                passed = self.of_document(rows.document(row))
            else:
                passed = self.of_value({} if value is MISSING else {"v": value})
            if passed:
                found.append(row)
        return found

    # arrays

    def _is_about_arrays(self) -> bool:
        """Whether it compares with an array as a whole, for which Arrow has no order."""
        match self.condition:
            case Compare(_, _, value):
                return type(value) is list
            case In(_, values):
                return any(type(value) is list for value in values)
            case _:
                return False

    def _of_arrays(self, cells: Cells, among: Outcome) -> Outcome:
        """Whether some element of each array passes, or the array itself."""
        import pyarrow.compute as pc

        condition = self.condition
        if isinstance(condition, Size):
            return pc.equal(pc.list_value_length(cells.array), scalar_of(condition.count))
        elements, any_of = element_lists(cells)
        if isinstance(condition, ElemMatch):
            return any_of(self.inner.ask(ElementCells(elements), among=True)) if self.inner is not None else False
        if isinstance(condition, Contains):
            condition = Compare((), "eq", condition.value)
            return any_of(ConditionNode.of(condition).ask(ElementCells(elements), among=True))
        found = any_of(elements.completed(ask_cells(condition, elements, self.test), self.test))
        if not self._is_about_arrays():
            return self.test([]) or found
        left = conjoin(among, negate(found))
        whole = _of_some(cells, left, lambda array: self._of_whole(decode_cells(array, cells.kind)))
        return negate(conjoin(negate(found), negate(whole)))

    def _of_whole(self, values: list[Any]) -> pa.Array:
        import pyarrow as pa

        return array_of(list(map(self.test, values)), pa.bool_())


def _compiled_late(condition: Any, path: tuple[str, ...]) -> Callable[[Any], bool]:
    """A condition on documents or values, compiled when it is first asked: for most columns Arrow answers."""
    made: Callable[[Any], bool] | None = None

    def passes(value: Any) -> bool:
        nonlocal made
        made = made or compile_filter(replace(condition, path=path))
        return made(value)

    return passes


def _of_some(cells: Cells, among: Outcome, ask: Callable[[Any], pa.Array]) -> Outcome:
    """What Python says of those cells that hold a value and matter; false of all others."""
    rows = rows_of_mask(cells.array.is_valid(), among)
    if not len(rows):
        return False
    if len(rows) == cells.rows:
        return ask(cells.array)
    passed = ask(cells.array.take(rows))
    return mask_of_rows(rows.filter(passed).to_pylist(), cells.rows)


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A filter that is asked of portions; made by `compile_columns`."""

    paths: frozenset[str]
    """The columns that a portion must have: dotted paths."""
    _node: FilterNode

    def mask(self, portion: Portion) -> pa.Array | pa.ChunkedArray:
        """Which rows match: booleans without nulls. No requests; raises CorruptionError for damaged cells."""
        import pyarrow as pa

        outcome = self._node.ask(RowCells(portion), among=True) if portion.rows else False
        return pa.repeat(scalar_of(outcome), portion.rows) if isinstance(outcome, bool) else outcome


def compile_columns(tree: Filter) -> ColumnFilter:
    """A filter over columns. No requests."""
    paths: set[str] = set()
    node = _compiled(tree, paths)
    return ColumnFilter(frozenset(paths), node)


# --- logic ---


@dataclass(frozen=True, slots=True)
class _Constant:
    outcome: bool

    def ask(self, rows: CellRows, *, among: Outcome) -> Outcome:  # noqa: ARG002 - a node's signature
        return self.outcome

    def weight(self, rows: CellRows) -> int:  # noqa: ARG002 - see above
        return 0


@dataclass(frozen=True, slots=True)
class _Negation:
    node: FilterNode

    def ask(self, rows: CellRows, *, among: Outcome) -> Outcome:
        return negate(self.node.ask(rows, among=among))

    def weight(self, rows: CellRows) -> int:
        return self.node.weight(rows)


@dataclass(frozen=True, slots=True)
class _DocumentNode:
    """A condition on whole documents, which must have been read."""

    matches: Callable[[Document], bool]

    def ask(self, rows: CellRows, *, among: Outcome) -> Outcome:
        assert isinstance(rows, RowCells), "it is about documents"
        count = rows.portion.rows
        wanted = range(count) if isinstance(among, bool) else rows_of_mask(among, True).to_pylist()
        return mask_of_rows([row for row in wanted if self.matches(rows.document(row))], count)

    def weight(self, rows: CellRows) -> int:  # noqa: ARG002 - a node's signature
        return 2


@dataclass(frozen=True, slots=True)
class _Conjunction:
    nodes: Sequence[FilterNode]

    def ask(self, rows: CellRows, *, among: Outcome) -> Outcome:
        found: Outcome = True
        for node in sorted(self.nodes, key=lambda node: node.weight(rows)):
            found = conjoin(found, node.ask(rows, among=conjoin(among, found)))
            if found is False:
                break
        return found

    def weight(self, rows: CellRows) -> int:
        return max(node.weight(rows) for node in self.nodes)


def _compiled(tree: Filter, paths: set[str]) -> FilterNode:
    match tree:
        case MatchAll() | MatchNone():
            return _Constant(isinstance(tree, MatchAll))
        case And(filters):
            return _Conjunction([_compiled(child, paths) for child in filters])
        case Or(filters):  # what not all fail to match: so there is one place that knows which rows still matter
            return _Negation(_Conjunction([_Negation(_compiled(child, paths)) for child in filters]))
        case Not(child):
            return _Negation(_compiled(child, paths))
        case All(path, values):
            items = [_item(path, value) for value in values]
            return _compiled(conjunction(items) if items else NOTHING, paths)
        case Conforms():
            paths.add(DOCUMENT)
            return _DocumentNode(compile_filter(tree))
        case _:
            paths.add(".".join(tree.path))
            inner = _compiled(tree.filter, set()) if isinstance(tree, ElemMatch) and tree.kind == "value" else None
            return ConditionNode.of(tree, inner)


def _item(path: tuple[str, ...], value: Any) -> Filter:
    """What one value of $all asks."""
    if type(value) is Regex:
        return RegexMatch(path, value.pattern, regex_options(value))
    return Compare(path, "eq", value)
