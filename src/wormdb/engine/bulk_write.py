"""Rows of any kind into one task of a bulk job: checked, with the bad ones named or set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.bulk.rows import RowReader
from wormdb.errors import InvalidRequestError, WormError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from wormdb.engine.bulk.columns import ColumnMaker
    from wormdb.engine.bulk.task import BulkTask
    from wormdb.schema.model import Model

    Rejected = Callable[[int, WormError], None]

__all__ = ["BatchWriter"]

ROWS_AT_ONCE: Final = 1_000


class BatchWriter:
    """Gives rows to a task. Not thread-safe."""

    def __init__(
        self,
        task: BulkTask,
        rejected: Rejected | None = None,
        *,
        model: Model | None = None,
        texts: Mapping[str, str] | None = None,
        maker: ColumnMaker | None = None,
    ) -> None:
        """`texts` says what columns of text stand for, as for `RowReader`. No requests.

        With a `maker` batches go column by column where that is possible, which is many times faster.
        """
        self._maker = None if texts else maker
        self.task = task
        self._rejected = rejected
        self._model = model
        self._texts = texts
        self._reader: tuple[pa.Schema, RowReader] | None = None

    def add(self, batch: pa.RecordBatch | Sequence[Mapping[str, Any]]) -> None:
        """Take in some rows. Raises and costs as `BulkTask.add`."""
        if self._maker is not None and not isinstance(batch, Sequence):
            columns = self._maker.columns(batch)
            if columns is not None:
                self.task.read += batch.num_rows
                self.task.add_columns(columns)
                return
        rows = self._rows(batch)
        start, self.task.read = self.task.read, self.task.read + len(rows)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            self._some(rows[first : first + ROWS_AT_ONCE], start + first)

    def _rows(self, batch: pa.RecordBatch | Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        if isinstance(batch, Sequence):
            return batch
        schema = batch.schema
        if self._reader is None or not self._reader[0].equals(schema):
            self._reader = schema, RowReader(schema, self._model, self._texts)
        return self._reader[1].rows(batch)

    def _some(self, rows: Sequence[Any], start: int) -> None:
        make = self.task.documents.inserts
        if not any(isinstance(row, WormError) for row in rows):
            try:
                operations = make(rows).operations
            except WormError:
                pass  # one by one they tell which it is
            else:
                self.task.add(operations)
                return
        for place, row in enumerate(rows, start):
            try:
                if isinstance(row, WormError):
                    raise row
                operations = make([row]).operations
            except WormError as error:
                self._reject(place, error)
            else:
                self.task.add(operations)

    def _reject(self, place: int, error: WormError) -> None:
        if self._rejected is None:
            raise InvalidRequestError(
                f"row {place} of task {self.task.task}: {error.what}",
                reason=error.reason,
                fix=error.fix,
                problems=error.problems if isinstance(error, InvalidRequestError) else (),
            ) from error
        self.task.rejected += 1
        self._rejected(place, error)
