"""Import: records of files into a collection, all by one entry of the log or none.

In this process files are read one after the other. On Spark each piece of work reads records, checks them, and writes
blocks; one entry attaches all of them. The same job name again goes on, and does nothing if the job was attached
before. Records that do not fit, and those that stand against others, are told and not written.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.api.imports.conflicts import KeyClash, Losers, Suspect
from wormdb.api.imports.intake import RejectedRecord, Rejection, makes_ids
from wormdb.api.imports.load import ConflictFoundError, ImportLoader, LoadRules
from wormdb.api.imports.rows import Rows, some_rows
from wormdb.api.imports.run import ImportResult, ImportRules, Loads, Pieces, run_import
from wormdb.api.imports.stream import Stream
from wormdb.errors import LimitExceededError
from wormdb.jobs.parts import FileForm, Piece
from wormdb.jobs.records import RecordRules, count_records, read_files, rows_of
from wormdb.jobs.sources import pieces_of
from wormdb.jobs.work import Item, Output, ProgressListener, Runner, Work
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.api.access import Access
    from wormdb.api.records import Record
    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.jobs.place import Where

__all__ = [
    "FilePieces",
    "FileRecords",
    "ImportReport",
    "ImportRules",
    "LoadedPiece",
    "RejectedRecord",
    "import_files",
    "import_pieces",
    "join_loads",
    "load_files",
    "load_piece",
]


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Which records are imported, and how."""

    sources: tuple[str, ...]
    """Files, or folders and buckets with files: NDJSON, JSON, CSV or Parquet, also packed by gzip or zstd."""
    form: FileForm | None = None
    """Without it as names say, or else as files begin; `entities` are files with one document each."""
    separator: str | None = None
    """Between cells of CSV; without it a tab in .tsv, and else as the first line of each file tells."""
    id_field: str | None = None
    """The field that is the id; without it `id` or `_id` is."""
    on_conflict: ConflictRule = "error"
    """What becomes of a record whose id exists, in the collection or before it: `error` rejects it."""
    job: str = ""
    """The name of the job: with the same one again nothing is imported twice."""
    actor: str | None = None
    is_strict: bool = False
    """Whether nothing is imported if any record is rejected."""
    reading: RecordRules = field(default_factory=RecordRules)
    """What is done with each record before it is imported."""
    rejects_max: int | None = None
    """Nothing is imported if more records are rejected."""
    needs_ids: bool = False
    """Whether a record is rejected if a second run would give it another id."""
    forwards: bool = False
    """Whether the log is brought forward after it, so that the next query finds the documents in indexes."""
    encoding: str = ""
    """Of text; empty for UTF-8, and for what a mark at the beginning of a file tells."""

    def pieces(
        self, runner: Runner | None = None, told: ProgressListener | None = None, *, digests: bool = False
    ) -> list[Piece]:
        """`pieces_of` their files."""
        return pieces_of(self.sources, self.form, self.separator, runner, told, digests=digests, encoding=self.encoding)

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
class ImportReport:
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
    def of(cls, result: ImportResult, rejected: tuple[RejectedRecord, ...]) -> ImportReport:
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


def import_files(
    where: Where, records: FileRecords, runner: Runner | None, told: ProgressListener | None = None
) -> ImportReport:
    """Import all records of some files by one entry of the log; those that are rejected are told in the result.

    Without a runner files are read in this process. Costs and raises as `load_files`.
    """
    rejected: list[RejectedRecord] = []
    result = load_files(where, records, runner, told, lambda each: rejected.append(RejectedRecord.of(each)))
    return ImportReport.of(result, tuple(rejected))


def load_files(
    where: Where,
    records: FileRecords,
    runner: Runner | None,
    told: ProgressListener | None,
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
            found = records.pieces(cutter, told, digests=makes_ids(model))
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


def import_pieces(where: Where, rules: ImportRules, found: Callable[[], Pieces]) -> ImportReport:
    """Import the records of pieces. Costs and raises as `run_import`."""
    access = where.access()
    rejected: list[RejectedRecord] = []
    result = run_import(
        access, access.by(rules.actor, None), rules, found, lambda each: rejected.append(RejectedRecord.of(each))
    )
    return ImportReport.of(result, tuple(rejected))


# --- pieces of files: sent to workers, read there, and put together again ---

REJECTS_BYTES_MAX: Final = 8 * MIB
"""Of one piece: more says that the form, the model or the rule is not the right one."""


class LoadedPiece(msgspec.Struct, frozen=True):
    """What became of the records of one piece."""

    report: bytes
    read: int
    lines: int
    """In a piece that is a part of a file of lines; 0 if lines are known."""
    rejected: list[RejectedRecord]
    conflict: str = ""
    """Why nothing of it was written: records have to be looked at one by one."""


@dataclass(slots=True)
class _RejectList:
    """Rejection records of one piece, as they are sent."""

    rejected: list[RejectedRecord] = field(default_factory=list)
    size: int = 0

    def add(self, rejected: Rejection) -> None:
        """Raises LimitExceededError if there are too many."""
        one = RejectedRecord.of(rejected)
        self.size += len(one.text) + len(one.reason)
        if self.size > REJECTS_BYTES_MAX:
            raise LimitExceededError(
                f"import of {one.file}",
                reason=f"over {len(self.rejected):,} records are rejected; line {one.line:,}: {one.reason}",
                fix="check the form of the file, the model, and what is done about ids that exist",
            )
        self.rejected.append(one)


def load_piece(access: Access[Any], rules: LoadRules, task: int, rows: Iterable[Rows], losers: Losers) -> LoadedPiece:
    """`Loader.load` of one piece, as a value that can be sent. If one record stands against others, it says so."""
    kept, lines = _RejectList(), [0]

    def counted() -> Iterator[Rows]:
        for some in rows:
            lines[0] += some.lines
            yield some

    try:
        report, read = ImportLoader(access, rules, task).load(counted(), losers, kept.add)
    except ConflictFoundError as conflict:
        return LoadedPiece(b"", 0, 0, [], str(conflict))
    return LoadedPiece(report, read, lines[0], kept.rejected)


def join_loads(loaded: Sequence[LoadedPiece]) -> Loads:
    """What became of all pieces. No requests."""
    return Loads(
        [each.report for each in loaded],
        sum(each.read for each in loaded),
        [record.rejected() for each in loaded for record in each.rejected],
        next((each.conflict for each in loaded if each.conflict), ""),
    )


@dataclass(slots=True)
class FilePieces:
    """Pieces that are parts of files."""

    where: Where
    pieces: Sequence[Piece]
    reading: RecordRules
    runner: Runner
    told: ProgressListener | None
    _is_counted: bool = False

    def small(self) -> None:
        """None: workers are for many records."""

    def load(self, rules: LoadRules, losers: Sequence[Losers]) -> Loads:
        """`Loader.load` of each piece, with its losers, if there are any; lines are those of whole files."""
        more = [msgspec.msgpack.encode(each) for each in losers] or [msgspec.msgpack.encode({})] * len(self.pieces)
        bodies = self._run("import", _Load(self.where, self.reading, rules), more)
        found = [msgspec.msgpack.decode(body, type=LoadedPiece) for body in bodies]
        return join_loads(list(_placed(self.pieces, found)))

    def keys(self, rules: LoadRules) -> list[bytes]:
        """`Loader.keys` of each piece."""
        return self._run("import: keys", _Keys(self.where, self.reading, rules), [b""] * len(self.pieces))

    def suspects(self, rules: LoadRules, hashes: frozenset[int]) -> list[list[Suspect]]:
        """`Loader.suspects` of each piece."""
        more = [msgspec.msgpack.encode(sorted(hashes))] * len(self.pieces)
        bodies = self._run("import: conflicts", _Suspects(self.where, self.reading, rules), more)
        return [msgspec.msgpack.decode(body, type=list[Suspect]) for body in bodies]

    def _run(self, name: str, work: Work, more: Sequence[bytes]) -> list[bytes]:
        self._count()
        return self.runner.run(name, work, self._items(more), self.told)

    def _items(self, more: Sequence[bytes]) -> list[Item]:
        return [
            Item(piece.name, msgspec.msgpack.encode((number, piece, extra)), piece.size)
            for number, (piece, extra) in enumerate(zip(self.pieces, more, strict=True))
        ]

    def _count(self) -> None:
        """Find out how many records are before each part, if ids are made of that."""
        is_wanted = any(part.source is not None and not part.is_whole for piece in self.pieces for part in piece.parts)
        if self._is_counted or not is_wanted:
            return
        self._is_counted = True
        bodies = self.runner.run("import: records", _Count(), self._items([b""] * len(self.pieces)), self.told)
        counts = [msgspec.msgpack.decode(body, type=int) for body in bodies]
        self.pieces = list(_counted(self.pieces, counts))


def _counted(pieces: Sequence[Piece], counts: Sequence[int]) -> Iterator[Piece]:
    """The pieces, each part of a file with the number of records before it."""
    before = 0
    for piece, count in zip(pieces, counts, strict=True):
        first = piece.parts[0]
        if first.is_whole:
            yield piece
            continue
        before = before if first.start else 0
        yield replace(piece, parts=(replace(first, before=before),))
        before += count


def _placed(pieces: Sequence[Piece], loaded: Sequence[LoadedPiece]) -> Iterator[LoadedPiece]:
    """What was loaded, with the lines of whole files."""
    before = 0
    for piece, each in zip(pieces, loaded, strict=True):
        before = before if piece.parts[0].start else 0
        moved = [replace(record, line=record.line + before) for record in each.rejected] if before else each.rejected
        yield msgspec.structs.replace(each, rejected=moved)
        before += each.lines


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    number: int
    piece: Piece
    more: bytes


@dataclass(frozen=True, slots=True)
class _FileWork:
    """What is done with one piece; a value that can be sent."""

    where: Where
    reading: RecordRules
    rules: LoadRules

    def opened(self, body: bytes) -> tuple[Access[Any], int, Iterator[Rows], bytes]:
        sent = msgspec.msgpack.decode(body, type=_Sent)
        access = self.where.access()
        return access, sent.number, rows_of(sent.piece, access.writer.model, self.reading), sent.more


@dataclass(frozen=True, slots=True)
class _Load(_FileWork):
    """Loads one piece."""

    def __call__(self, body: bytes, /) -> Output:
        access, number, rows, more = self.opened(body)
        losers = msgspec.msgpack.decode(more, type=dict[int, KeyClash])
        found = load_piece(access, self.rules, number, rows, losers)
        return Output(msgspec.msgpack.encode(found), found.read)


@dataclass(frozen=True, slots=True)
class _Keys(_FileWork):
    """Tells the keys of one piece."""

    def __call__(self, body: bytes, /) -> Output:
        access, number, rows, _ = self.opened(body)
        return Output(ImportLoader(access, self.rules, number).keys(rows))


@dataclass(frozen=True, slots=True)
class _Suspects(_FileWork):
    """Tells which records of one piece have some keys."""

    def __call__(self, body: bytes, /) -> Output:
        access, number, rows, more = self.opened(body)
        hashes = frozenset(msgspec.msgpack.decode(more, type=list[int]))
        return Output(msgspec.msgpack.encode(ImportLoader(access, self.rules, number).suspects(rows, hashes)))


@dataclass(frozen=True, slots=True)
class _Count:
    """Tells how many records a part of a file has."""

    def __call__(self, body: bytes, /) -> Output:
        sent = msgspec.msgpack.decode(body, type=_Sent)
        return Output(msgspec.msgpack.encode(0 if sent.piece.parts[0].is_whole else count_records(sent.piece)))
