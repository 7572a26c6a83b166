"""Import: records of files into a collection, as one bulk job that happens or does not.

Each piece of work reads lines, checks them, and writes blocks; one entry of the log attaches all of them. The same job
id again goes on, and does nothing if the job was attached before. Records that do not fit are told, not written.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.engine.bulk import BulkOutcome, abort, attach, open_job
from wormdb.engine.bulk_ids import TaskChance, job_clock
from wormdb.engine.bulk_task import BulkTask
from wormdb.engine.bulk_write import BatchWriter
from wormdb.errors import InvalidRequestError, LimitExceededError, OutcomeUnknownError, WormError
from wormdb.format import json
from wormdb.importing import with_given_id
from wormdb.jobs.import_sources import Piece, pieces_of, read_piece, whole_of
from wormdb.jobs.work import Item, Output
from wormdb.limits import MIB
from wormdb.schema.cells import Cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.access import Access
    from wormdb.engine.bulk_report import BulkTarget, ConflictRule
    from wormdb.jobs.import_sources import FileForm
    from wormdb.jobs.place import Where
    from wormdb.jobs.work import Runner, Told
    from wormdb.records import Record
    from wormdb.schema.model import Model
    from wormdb.writing import Writer

__all__ = ["FileRecords", "Imported", "RejectedRecord", "import_files"]

Kind = Literal["record", "csv", "unreadable"]
KIND: Final = "import"
ROWS_AT_ONCE: Final = 1_000
REJECTS_BYTES_MAX: Final = 8 * MIB
"""Of one piece: more says that the form or the model is not the right one."""


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Which records are imported, and how."""

    sources: tuple[str, ...]
    """Files, or folders and buckets with files: NDJSON, JSON, CSV or Parquet, also packed by gzip."""
    form: FileForm | None = None
    """Without it as names say, or else as files begin."""
    separator: str | None = None
    """Between cells of CSV; a comma, or a tab in .tsv."""
    id_field: str | None = None
    """The field that is the id; without it `id` or `_id` is."""
    on_conflict: ConflictRule = "error"
    """What becomes of a record whose id exists: `error` refuses the whole import."""
    job: str = ""
    """The name of the job: with the same one again nothing is imported twice."""
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that was not imported, and why."""

    file: str
    line: int
    """Where it begins, from 1; of Parquet its row."""
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
class Imported:
    """What an import did, all of it by log entry `number`."""

    job: str
    number: int
    read: int
    inserted: int
    replaced: int
    unchanged: int
    """Records that changed nothing: by the rule `ignore`, or because the document is the same."""
    is_repeated: bool
    """Whether the job was done before: then nothing was read, and nothing is counted."""
    rejected: tuple[RejectedRecord, ...] = ()


def import_files(where: Where, records: FileRecords, runner: Runner, told: Told | None = None) -> Imported:
    """Import all records of some files by one entry of the log; those that do not fit are told in the result.

    Costs as `pieces_of`, 2 GETs and 1 PUT to open the job, 1 GET for each piece, and as `BulkTask` and `attach`. Raises
    AlreadyExistsError for an id that comes twice or exists, also for values of unique indexes, ConflictError for a job
    that was given up, LimitExceededError if too many records do not fit, and what the first piece that failed raised.
    """
    pieces = pieces_of(records.sources, records.form, records.separator)
    access = where.access()
    by = access.by(records.actor, None)
    spec = access.job_spec(records.job, KIND, by, on_conflict=records.on_conflict, overwrite=False)
    target = open_job(access.ledger, spec)
    if isinstance(target, BulkOutcome):
        return Imported(target.job, target.number, 0, 0, 0, 0, is_repeated=True)
    items = [
        Item(piece.name, msgspec.msgpack.encode((number, piece)), piece.stop - piece.start)
        for number, piece in enumerate(pieces)
    ]
    work = _Import(where, target, records.id_field)
    try:
        done = [msgspec.msgpack.decode(body, type=_Done) for body in runner.run("import", work, items, told)]
        reports = [each.report for each in done]
        outcome = attach(access.ledger, target, reports, _documents(access, target, 0), spec)
    except WormError as error:
        if not records.job and not isinstance(error, OutcomeUnknownError):
            abort(access.ledger, target.job, "the import failed")  # nobody knows its name to go on with it
        raise
    counts = (outcome.inserted, outcome.replaced, outcome.passed)
    read = sum(each.read for each in done)
    return Imported(
        outcome.job, outcome.number, read, *counts, is_repeated=False, rejected=tuple(_placed(pieces, done))
    )


def _placed(pieces: Sequence[Piece], done: Sequence[_Done]) -> Iterator[RejectedRecord]:
    """The rejected records, with the lines of whole files."""
    before = 0
    for piece, each in zip(pieces, done, strict=True):
        before = before if piece.start else 0
        for record in each.rejected:
            yield replace(record, line=record.line + before)
        before += each.lines


class _Done(msgspec.Struct, frozen=True):
    report: bytes
    read: int
    lines: int
    rejected: list[RejectedRecord]


@dataclass(frozen=True, slots=True)
class _Import:
    """Writes the records of one piece; a value that can be sent."""

    where: Where
    target: BulkTarget
    id_field: str | None

    def __call__(self, body: bytes, /) -> Output:
        """Read, check and write. Costs and raises as `BulkTask`."""
        number, piece = msgspec.msgpack.decode(body, type=tuple[int, Piece])
        access = self.where.access()
        documents = _documents(access, self.target, number)
        loading = _Loading(piece, access.writer.model, self.id_field)
        task = BulkTask(access.ledger.bulk_tools(), self.target, documents, number)
        lines = loading.load(task)
        done = _Done(task.report(), loading.read, lines, loading.rejected)
        return Output(msgspec.msgpack.encode(done), loading.read)


def _documents(access: Access[Any], target: BulkTarget, task: int) -> Writer[Any]:
    """Makes documents of the job's moment, with ids of the task's own."""
    model = access.writer.model
    chance = TaskChance(access.ledger.bulk_tools().writer.chance, "ulid" if model is None else model.id, task)
    return access.writer.at(job_clock(target.started_ms), chance)


@dataclass(slots=True)
class _Loading:
    """The records of one piece on their way in."""

    piece: Piece
    model: Model | None
    id_field: str | None
    read: int = 0
    rejected: list[RejectedRecord] = field(default_factory=list)
    _size: int = 0

    def load(self, task: BulkTask) -> int:
        """Give all records to a task; how many lines there were."""
        if self.piece.form == "parquet":
            self._load_table(task)
            return 0
        records, lines = read_piece(self.piece)
        cells = Cells(self.model)
        while some := list(islice(records, ROWS_AT_ONCE)):
            self.read += len(some)
            fitting = [(record, values) for record in some if (values := self._values(record, cells)) is not None]
            first = task.read

            def reject(place: int, error: WormError, first: int = first, rows: Any = fitting) -> None:
                record = rows[place - first][0]
                self._reject(record.line, error, *_text(record))

            BatchWriter(task, reject, model=self.model).add([values for _, values in fitting])
        return lines

    def _values(self, record: Record, cells: Cells) -> dict[str, Any] | None:
        if record.values is None:
            problem = InvalidRequestError("record", reason=record.problem)
            self._reject(record.line, problem, record.text, "unreadable")
            return None
        try:
            values = cells.document(record.values) if record.is_text else record.values
            return with_given_id(values, self.id_field, self.model)
        except InvalidRequestError as error:
            self._reject(record.line, error, *_text(record))
            return None

    def _load_table(self, task: BulkTask) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        def reject(place: int, error: WormError) -> None:
            self._reject(place + 1, error, "", "unreadable")

        try:
            file = pq.ParquetFile(io.BytesIO(whole_of(self.piece)))
        except pa.ArrowException as error:
            raise InvalidRequestError(f"{self.piece.name} is no Parquet", reason=str(error)) from error
        writer = BatchWriter(task, reject, model=self.model)
        for batch in file.iter_batches():
            chosen = batch
            if self.id_field is not None and "id" not in batch.schema.names and self.id_field in batch.schema.names:
                column = batch.column(self.id_field)
                keeps = self.model is not None and self.id_field in self.model.fields
                chosen = (batch if keeps else batch.drop_columns([self.id_field])).add_column(0, "id", column)
            self.read += chosen.num_rows
            writer.add(chosen)

    def _reject(self, line: int, error: WormError, text: str, kind: Kind) -> None:
        self._size += len(text) + len(error.reason) + 1
        if self._size > REJECTS_BYTES_MAX:
            raise LimitExceededError(
                f"import of {self.piece.name}",
                reason=f"over {len(self.rejected):,} of its records do not fit; line {line:,}: {error}",
                fix="check the form of the file and the model",
            )
        where = f"{self.piece.folder.rstrip('/')}/{self.piece.key}"
        self.rejected.append(RejectedRecord(where, line, error.reason or error.what, error.fix, text, kind))


def _text(record: Record) -> tuple[str, Kind]:
    return json.encode(record.values).decode(), "csv" if record.is_text else "record"
