"""Rows of a stream as operations on documents: which of them write, and which delete.

Columns are the fields of documents, as for a batch. Beside them may stand what a change feed tells: `_after`, or
`_doc`, holds whole documents, and then no other column counts; `_deleted`, or `_op` with delete or purge, says that a
document goes; and `_seq` which of several rows of one document is the last. What else a feed tells is passed over.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from wormdb.engine.bulk.rows import DOCUMENT_COLUMN, ID_COLUMNS, RowReader
from wormdb.engine.commit.operations import Insert, InsertNext, Remove
from wormdb.errors import InvalidRequestError, WormError
from wormdb.spark.stream.changes import CHANGE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.api.write import Writer

__all__ = ["RowOperation", "StreamRows", "check_columns"]

ROWS_AT_ONCE: Final = 1_000

_DELETED: Final = "_deleted"
_GOING: Final = ("delete", "purge", "expire")
_WHOLE: Final = ("_after", DOCUMENT_COLUMN)
_TOLD: Final = frozenset({*CHANGE_COLUMNS, _DELETED, DOCUMENT_COLUMN, "_rev"})
_TYPES: Final = {
    _DELETED: spark.BooleanType(),
    DOCUMENT_COLUMN: spark.StringType(),
    **{name: CHANGE_COLUMNS[name][0] for name in ("_op", "_seq", "_after")},
}


@dataclass(frozen=True, slots=True)
class RowOperation:
    """What a row wants, and its number among the rows of its document."""

    operation: Insert | InsertNext | Remove
    seq: int | None


def check_columns(schema: spark.StructType) -> None:
    """Raise InvalidRequestError for columns that cannot say what is to be done. No requests."""
    for field in schema:
        kind = _TYPES.get(field.name, field.dataType)
        if field.dataType != kind:
            raise InvalidRequestError(
                f"column {field.name} as {field.dataType.simpleString()}",
                reason=f"it says what is to be done with a row, and must be {kind.simpleString()}",
                fix="cast it, or name it otherwise if it is a field",
            )
    names = schema.fieldNames()
    if not set(names) - _TOLD and not set(names) & set(_WHOLE):
        raise InvalidRequestError(
            'writeStream.format("worm")', reason="no column is a field of documents", fix="add some, or _after"
        )
    if ID_COLUMNS.isdisjoint(names) and {_DELETED, "_op"} & set(names):
        raise InvalidRequestError(
            'writeStream.format("worm")', reason="rows may delete, and have no id", fix="add a column id"
        )


class StreamRows:
    """Reads the rows of one task."""

    def __init__(self, writer: Writer[Any], texts: Mapping[str, str], whose: str) -> None:
        """`texts` as for `RowReader`; `whose` says in messages what rows these are. No requests."""
        self._writer = writer
        self._texts = texts
        self._whose = whose
        self._read = 0

    def given(self, batch: pa.RecordBatch) -> Iterator[RowOperation]:
        """What the rows of a batch want: first those that write, then those that delete. No requests.

        Raises InvalidRequestError naming a row that cannot be a document of the collection.
        """
        names = batch.schema.names
        gone = _gone(batch)
        seqs = batch.column("_seq").to_pylist() if "_seq" in names else [None] * batch.num_rows
        kept, going = ([place for place in range(batch.num_rows) if gone[place] is flag] for flag in (False, True))
        whole = next((name for name in _WHOLE if name in names), None)
        fields = {whole: DOCUMENT_COLUMN} if whole else {name: name for name in names if name not in _TOLD}
        for place, operation in self._made(self._rows(batch, kept, fields), kept):
            yield RowOperation(operation, seqs[place])
        ids = {name: name for name in names if name in ID_COLUMNS}
        for place, row in zip(going, self._rows(batch, going, ids), strict=True):
            with self._naming(place):
                removal = self._removal(row)
            yield RowOperation(removal, seqs[place])
        self._read += batch.num_rows

    def _rows(self, batch: pa.RecordBatch, places: Sequence[int], columns: Mapping[str, str]) -> Sequence[Any]:
        """Some rows, of the columns that are given with the names under which they are read."""
        import pyarrow as pa

        if not places:
            return []
        chosen = pa.RecordBatch.from_arrays([batch.column(name) for name in columns], names=list(columns.values()))
        reader = RowReader(chosen.schema, self._writer.model, self._texts)
        return reader.rows(chosen.take(pa.array(places)))

    def _made(self, rows: Sequence[Any], places: Sequence[int]) -> Iterator[tuple[int, Insert | InsertNext]]:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            try:
                made = self._inserts(some)
            except WormError:
                made = []
                for place, row in zip(places[start:], some, strict=False):
                    with self._naming(place):  # one by one they tell which it is
                        made += self._inserts([row])
            yield from zip(places[start:], made, strict=False)

    def _inserts(self, rows: Sequence[Any]) -> list[Insert | InsertNext]:
        for row in rows:
            if isinstance(row, WormError):
                raise row
        made = self._writer.inserts(rows).operations
        return [operation for operation in made if isinstance(operation, Insert | InsertNext)]

    def _removal(self, row: Any) -> Remove:
        if isinstance(row, WormError):
            raise row
        identity = next(iter(row.values()), None)
        if identity is None:
            raise InvalidRequestError("a delete", reason="it has no id", fix="give the id of the document")
        return Remove(self._writer.encoded_id(identity))

    @contextmanager
    def _naming(self, place: int) -> Iterator[None]:
        try:
            yield
        except WormError as error:
            problems = error.problems if isinstance(error, InvalidRequestError) else ()
            what = f"row {self._read + place} {self._whose}: {error.what}"
            raise InvalidRequestError(what, reason=error.reason, fix=error.fix, problems=problems) from error


def _gone(batch: pa.RecordBatch) -> list[bool]:
    """Which rows delete."""
    names = batch.schema.names
    gone = [False] * batch.num_rows
    if _DELETED in names:
        gone = [flag is True for flag in batch.column(_DELETED).to_pylist()]
    if "_op" in names:
        gone = [flag or op in _GOING for flag, op in zip(gone, batch.column("_op").to_pylist(), strict=True)]
    return gone
