"""Import: records of files into a collection, all by one entry of the log or none.

In this process files are read one after the other. On Spark each piece of work reads records, checks them, and writes
blocks; one entry attaches all of them. The same job name again goes on, and does nothing if the job was attached
before. Records that do not fit, and those that stand against others, are told and not written.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.api.imports.intake import RejectedRecord, Rejection, makes_ids
from wormdb.api.imports.rows import some_rows
from wormdb.api.imports.run import ImportRules, run_import
from wormdb.api.imports.stream import Stream
from wormdb.jobs.import_files import FilePieces
from wormdb.jobs.import_read import Reading, read_files
from wormdb.jobs.import_sources import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.api.imports.rows import Rows
    from wormdb.api.imports.run import ImportResult, Pieces
    from wormdb.api.records import Record
    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.jobs.import_parts import FileForm
    from wormdb.jobs.place import Where
    from wormdb.jobs.work import Runner, Told

__all__ = ["FileRecords", "ImportRules", "Imported", "RejectedRecord", "import_files", "import_pieces", "load_files"]


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Which records are imported, and how."""

    sources: tuple[str, ...]
    """Files, or folders and buckets with files: NDJSON, JSON, CSV or Parquet, also packed by gzip."""
    form: FileForm | None = None
    """Without it as names say, or else as files begin; `entities` are files with one document each."""
    separator: str | None = None
    """Between cells of CSV; a comma, or a tab in .tsv."""
    id_field: str | None = None
    """The field that is the id; without it `id` or `_id` is."""
    on_conflict: ConflictRule = "error"
    """What becomes of a record whose id exists, in the collection or before it: `error` rejects it."""
    job: str = ""
    """The name of the job: with the same one again nothing is imported twice."""
    actor: str | None = None
    is_strict: bool = False
    """Whether nothing is imported if any record is rejected."""
    reading: Reading = field(default_factory=Reading)
    """What is done with each record before it is imported."""
    rejects_max: int | None = None
    """Nothing is imported if more records are rejected."""
    needs_ids: bool = False
    """Whether a record is rejected if a second run would give it another id."""
    forwards: bool = False
    """Whether the log is brought forward after it, so that the next query finds the documents in indexes."""

    @property
    def rules(self) -> ImportRules:
        """How they are imported."""
        return ImportRules(
            self.id_field,
            self.on_conflict,
            self.job,
            self.actor,
            self.is_strict,
            rejects_max=self.rejects_max,
            needs_ids=self.needs_ids,
            forwards=self.forwards,
        )


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did, all of it by log entry `number`."""

    job: str
    """Empty if there were few records: one commit was enough then."""
    number: int
    read: int
    inserted: int
    replaced: int
    unchanged: int
    """Records that changed nothing: by the rule `ignore`, or because the document is the same."""
    is_repeated: bool
    """Whether the job was done before: then nothing was read, and nothing is counted."""
    rejected: tuple[RejectedRecord, ...] = ()
    is_stopped: bool = False
    """Whether too many records were rejected: then nothing was imported."""

    @classmethod
    def of(cls, result: ImportResult, rejected: tuple[RejectedRecord, ...]) -> Imported:
        """No requests."""
        return cls(
            result.job,
            result.number,
            result.read,
            result.inserted,
            result.replaced,
            result.unchanged + result.ignored,
            result.is_repeated,
            rejected,
            result.is_stopped,
        )


def import_files(where: Where, records: FileRecords, runner: Runner | None, told: Told | None = None) -> Imported:
    """Import all records of some files by one entry of the log; those that are rejected are told in the result.

    Without a runner files are read in this process. Costs and raises as `load_files`.
    """
    rejected: list[RejectedRecord] = []
    result = load_files(where, records, runner, told, lambda each: rejected.append(RejectedRecord.of(each)))
    return Imported.of(result, tuple(rejected))


def load_files(
    where: Where,
    records: FileRecords,
    runner: Runner | None,
    told: Told | None,
    rejected: Callable[[Rejection], None],
    streams: Sequence[tuple[str, Iterable[Record]]] = (),
) -> ImportResult:
    """Import all records of some files; `rejected` is told of those that do not fit, at the end.

    `streams` are records of other places, with their names, that can be read as often as it takes, in this process.

    Costs as `pieces_of`, what reading costs, and as `run_import`. Raises what these do, LimitExceededError if workers
    reject too many records, and what the first piece that failed raised.
    """
    access = where.access()
    model = access.writer.model

    def pieces() -> Pieces:
        cutter = runner if records.reading.can_cut else None
        found = []
        if records.sources or not streams:
            found = pieces_of(records.sources, records.form, records.separator, cutter, told, digests=makes_ids(model))
        if runner is not None:
            return FilePieces(where, found, records.reading, runner, told)

        def rows() -> Iterator[Rows]:
            yield from read_files(found, model, records.reading, told)
            for name, each in streams:
                yield from some_rows(name, records.reading.records(each), None, records.reading.from_line)

        stream = Stream(access, rows, records.rejects_max)
        closing.callback(stream.close)
        return stream

    with ExitStack() as closing:
        return run_import(access, access.by(records.actor, None), records.rules, pieces, rejected)


def import_pieces(where: Where, rules: ImportRules, found: Callable[[], Pieces]) -> Imported:
    """Import the records of pieces. Costs and raises as `run_import`."""
    access = where.access()
    rejected: list[RejectedRecord] = []
    result = run_import(
        access, access.by(rules.actor, None), rules, found, lambda each: rejected.append(RejectedRecord.of(each))
    )
    return Imported.of(result, tuple(rejected))
