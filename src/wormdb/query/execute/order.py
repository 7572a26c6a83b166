"""Rows in an order: by columns, or by documents; with a limit, memory holds about that many rows."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from wormdb.bql.sorting import SortSpec, sort_key
from wormdb.query.columns import order as column_order
from wormdb.query.columns.order import TopRows
from wormdb.query.execute.rows import ColumnBatch, DocumentBatch, ReadBatch, join_documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Portion

__all__ = ["Ordering", "is_by_id", "order_keys"]

_SLACK_ROWS: Final = 1_024


def is_by_id(sort: SortSpec) -> bool:
    """Whether sort keys are the keys of ids."""
    return not sort.fields or (sort.fields[0].path == ("_id",) and not sort.fields[0].descending)


def order_keys(batch: ReadBatch, sort: SortSpec) -> Sequence[bytes]:
    """The sort key of each row, of documents, or of columns that tell the fields of the sort."""
    if is_by_id(sort):
        return batch.keys
    if isinstance(batch, DocumentBatch):
        return list(map(sort_key(sort), batch.documents))
    return column_order.order_keys(batch.portion, sort)


class Ordering:
    """Takes rows in any order and gives them in one; all of them by columns, or all by documents.

    With `first` it holds that many rows and a few more. Without, it holds all of them.
    """

    def __init__(self, sort: SortSpec, first: int | None) -> None:
        """Begins without rows."""
        self._columns = TopRows(sort, first)
        self._documents = _TopDocuments(sort, first)
        self._is_whole = True

    def add(self, batch: ReadBatch) -> None:
        """Add some rows."""
        if isinstance(batch, DocumentBatch):
            self._documents.add(batch)
        else:
            self._columns.add(batch.portion)
            self._is_whole &= batch.is_whole

    def narrowed(self, portion: Portion, mask: pa.Array | pa.ChunkedArray) -> Portion:
        """The rows of a mask that may be among the first."""
        return self._columns.narrowed(portion, mask)

    def rows(self, size: int) -> Iterator[ReadBatch]:
        """All rows in order, at most `size` at a time."""
        portion, documents = self._columns.finish(), self._documents.finish()
        assert portion is None or documents is None, "batches are of one kind"
        found: ReadBatch | None = documents if portion is None else ColumnBatch(portion, self._is_whole)
        for start in range(0, 0 if found is None else len(found), size):
            assert found is not None
            yield found.cut(start, min(start + size, len(found)))


class _TopDocuments:
    def __init__(self, sort: SortSpec, first: int | None) -> None:
        self._sort = sort
        self._first = first
        self._found: list[tuple[bytes, int, int]] = []
        self._batches: list[DocumentBatch] = []
        self._bound: bytes | None = None

    def add(self, batch: DocumentBatch) -> None:
        place, bound = len(self._batches), self._bound
        keys = order_keys(batch, self._sort)
        self._found += [(key, place, row) for row, key in enumerate(keys) if bound is None or key < bound]
        self._batches.append(batch)
        if self._first is not None and len(self._found) > 2 * self._first + _SLACK_ROWS:
            self._settle()

    def finish(self) -> DocumentBatch | None:
        self._settle()
        return self._batches[0] if self._found else None

    def _settle(self) -> None:
        """Hold the first rows in order as one batch, and nothing else."""
        self._found.sort()
        if self._first is not None and len(self._found) >= self._first:
            del self._found[self._first :]
            self._bound = self._found[-1][0] if self._found else b""
        if not self._found:
            self._batches = []
            return
        starts = list(accumulate(map(len, self._batches), initial=0))
        chosen = [starts[place] + row for _, place, row in self._found]
        self._batches = [join_documents(self._batches).pick(chosen)]
        self._found = [(key, 0, row) for row, (key, _, _) in enumerate(self._found)]
