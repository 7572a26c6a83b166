"""Records on their way into a task: what each of them is as a document, and what is said of one that does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.api.imports import with_given_id
from wormdb.api.records import Record
from wormdb.engine.bulk.rows import ID_COLUMNS, RowReader
from wormdb.engine.commit.operations import Insert
from wormdb.errors import InvalidRequestError, LimitExceededError, WormError
from wormdb.format import json
from wormdb.schema.cells import CellReader
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.api.write import Writer
    from wormdb.engine.commit.operations import Operation
    from wormdb.jobs.import_read import Rows
    from wormdb.schema.model import Model

__all__ = ["Intake", "Kind", "New", "RejectedRecord", "with_id_column"]

Kind = Literal["record", "csv", "unreadable"]
REJECTS_BYTES_MAX: Final = 8 * MIB
"""Of one piece: more says that the form, the model or the rule is not the right one."""


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that was not imported, and why."""

    file: str
    line: int
    """Where it begins, from 1; of Parquet and of tables its row."""
    reason: str
    fix: str
    text: str
    """The record as JSON, or what was there instead."""
    kind: Kind = "record"
    """What `text` is: JSON, JSON of cells that are all text, or no record at all."""

    def to_line(self) -> bytes:
        """A line of JSON, as `worm import --from-rejects` reads it after people corrected it."""
        found: dict[str, Any] = {"file": self.file, "line": self.line, "reason": self.reason}
        if self.fix:
            found["fix"] = self.fix
        if self.kind == "csv":
            found["form"] = "csv"
        if self.kind == "unreadable":
            return json.encode({**found, "text": self.text}) + b"\n"
        return json.encode({**found, "record": json.parse(self.text)}) + b"\n"


@dataclass(frozen=True, slots=True)
class New:
    """A record that fits, and the document that it becomes."""

    place: int
    """Which record of its piece it is, from 0."""
    file: str
    record: Record
    insert: Insert


@dataclass(slots=True)
class Intake:
    """Takes the records of one piece. Not thread-safe."""

    documents: Writer[Any]
    id_field: str | None
    texts: Mapping[str, str] = field(default_factory=dict)
    """What columns of text stand for."""
    read: int = 0
    rejected: list[RejectedRecord] = field(default_factory=list)
    _size: int = 0
    _reader: tuple[pa.Schema, RowReader] | None = None

    @property
    def model(self) -> Model | None:
        """What decides about types."""
        return self.documents.model

    def take(self, rows: Rows) -> list[New]:
        """The documents of some records; those that are none are rejected. No requests.

        Raises LimitExceededError if too many are.
        """
        first, cells = self.read, CellReader(self.model)
        records = rows.records if rows.batch is None else list(self._records(rows))
        self.read += len(records)
        fitting = []
        for place, record in enumerate(records, first):
            values = self._values(rows.file, record, cells)
            if values is not None:
                fitting.append((place, record, values))
        operations = self._operations(rows.file, fitting)
        return [
            New(place, rows.file, record, operation)
            for (place, record, _), operation in zip(fitting, operations, strict=True)
            if isinstance(operation, Insert)
        ]

    def reject(self, file: str, record: Record, error: WormError) -> None:
        """Set a record aside. Raises LimitExceededError if there are too many."""
        text, kind = _text(record)
        self._size += len(text) + len(error.reason) + len(error.what)
        if self._size > REJECTS_BYTES_MAX:
            raise LimitExceededError(
                f"import of {file}",
                reason=f"over {len(self.rejected):,} records are set aside; line {record.line:,}: {error}",
                fix="check the form of the file, the model, and what is done about ids that exist",
            )
        reason = error.reason or error.what
        self.rejected.append(RejectedRecord(file, record.line, reason, error.fix, text, kind))

    # --- parts ---

    def _records(self, rows: Rows) -> Iterator[Record]:
        """The rows of a batch, one by one."""
        assert rows.batch is not None, "records are given as they are"
        batch = with_id_column(rows.batch, self.id_field, self.model)
        if self._reader is None or not self._reader[0].equals(batch.schema):
            self._reader = batch.schema, RowReader(batch.schema, self.model, self.texts)
        for line, values in enumerate(self._reader[1].rows(batch), rows.first + 1):
            if isinstance(values, WormError):
                yield Record(line, None, problem=values.reason or values.what, text=_shown(batch, line - rows.first))
            else:
                yield Record(line, values)

    def _values(self, file: str, record: Record, cells: CellReader) -> dict[str, Any] | None:
        if record.values is None:
            self.reject(file, record, InvalidRequestError("record", reason=record.problem))
            return None
        try:
            values = cells.document(record.values) if record.is_text else record.values
            return with_given_id(values, self.id_field, self.model)
        except InvalidRequestError as error:
            self.reject(file, record, error)
            return None

    def _operations(
        self, file: str, fitting: Sequence[tuple[int, Record, dict[str, Any]]]
    ) -> Sequence[Operation | None]:
        """What inserts each of them; None for those that fit no document."""
        try:
            found: Sequence[Operation] = self.documents.inserts([values for _, _, values in fitting]).operations
        except WormError:
            pass  # one by one they tell which it is
        else:
            if all(isinstance(one, Insert) for one in found):
                return found
        return [self._operation(file, record, values) for _, record, values in fitting]

    def _operation(self, file: str, record: Record, values: dict[str, Any]) -> Operation | None:
        try:
            (found,) = self.documents.inserts([values]).operations
            if isinstance(found, Insert):
                return found
            raise InvalidRequestError(
                "record without an id",
                reason="it has no id, and this model's ids are numbered by the commit",
                fix="give it one, or import it with worm import",
            )
        except WormError as error:
            self.reject(file, record, error)
            return None


def with_id_column(batch: pa.RecordBatch, id_field: str | None, model: Model | None) -> pa.RecordBatch:
    """A batch whose column `id_field` is the id. No requests."""
    names = batch.schema.names
    if id_field is None or id_field not in names or any(name in ID_COLUMNS for name in names):
        return batch
    stays = model is not None and id_field in model.fields
    column = batch.column(id_field)
    return (batch if stays else batch.drop_columns([id_field])).add_column(0, "id", column)


def _text(record: Record) -> tuple[str, Kind]:
    if record.values is None:
        return record.text, "unreadable"
    return json.encode(record.values).decode(), "csv" if record.is_text else "record"


def _shown(batch: pa.RecordBatch, row: int) -> str:
    return str(batch.slice(row - 1, 1).to_pylist()[0])
