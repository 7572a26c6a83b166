"""Import: records of files into a collection, as one bulk job that happens or does not.

Each piece of work reads records, checks them, and writes blocks; one entry of the log attaches all of them. The same
job id again goes on, and does nothing if the job was attached before. Records that do not fit, and those that stand
against others, are told and not written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from wormdb.engine.load import BulkOutcome, abort, attach, open_job
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, OutcomeUnknownError, WormError
from wormdb.jobs.import_conflicts import losers_of, repeated
from wormdb.jobs.import_files import FilePieces
from wormdb.jobs.import_intake import RejectedRecord
from wormdb.jobs.import_load import Loading, documents_of
from wormdb.jobs.import_sources import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.api.access import Access
    from wormdb.engine.bulk.report import BulkTarget, ConflictRule
    from wormdb.engine.load import JobSpec
    from wormdb.jobs.import_conflicts import Losers, Suspect
    from wormdb.jobs.import_load import Loaded
    from wormdb.jobs.import_parts import FileForm
    from wormdb.jobs.place import Where
    from wormdb.jobs.work import Runner, Told

__all__ = ["FileRecords", "ImportRules", "Imported", "Pieces", "RejectedRecord", "import_files", "import_pieces"]

KIND: Final = "import"
TRIES_MAX: Final = 5
"""How often records are looked at anew because others wrote to the same documents meanwhile."""


@dataclass(frozen=True, slots=True)
class ImportRules:
    """How records are imported, wherever they come from."""

    id_field: str | None = None
    """The field that is the id; without it `id` or `_id` is."""
    on_conflict: ConflictRule = "error"
    """What becomes of a record whose id exists, in the collection or before it: `error` sets it aside."""
    job: str = ""
    """The name of the job: with the same one again nothing is imported twice."""
    actor: str | None = None
    is_strict: bool = False
    """Whether nothing is imported if any record is set aside."""
    texts: tuple[tuple[str, str], ...] = ()
    """What columns of text stand for, in a table: json or objectid."""


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
    """What becomes of a record whose id exists, in the collection or before it: `error` sets it aside."""
    job: str = ""
    """The name of the job: with the same one again nothing is imported twice."""
    actor: str | None = None
    is_strict: bool = False
    """Whether nothing is imported if any record is set aside."""

    @property
    def rules(self) -> ImportRules:
        """How they are imported."""
        return ImportRules(self.id_field, self.on_conflict, self.job, self.actor, self.is_strict)


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


class Pieces(Protocol):
    """Records in pieces that can be read as often as it takes."""

    def load(self, loading: Loading, losers: Sequence[Losers]) -> list[Loaded]:
        """`Loading.load` of each piece, with its losers, if there are any."""
        ...

    def keys(self, loading: Loading) -> list[bytes]:
        """`Loading.keys` of each piece."""
        ...

    def suspects(self, loading: Loading, hashes: frozenset[int]) -> list[list[Suspect]]:
        """`Loading.suspects` of each piece."""
        ...


def import_files(where: Where, records: FileRecords, runner: Runner, told: Told | None = None) -> Imported:
    """Import all records of some files by one entry of the log; those that are set aside are told in the result.

    Costs as `pieces_of`, 2 GETs and 1 PUT to open the job, what reading costs, and as `BulkTask` and `attach`; if
    records stand against each other or against documents, reading and writing again. Raises LimitExceededError if too
    many records are set aside, InvalidRequestError for any if it is strict, AlreadyExistsError for a unique value of
    another document if documents are replaced, ConflictError for a job that was given up, and what the first piece that
    failed raised.
    """

    def pieces() -> Pieces:
        found = pieces_of(records.sources, records.form, records.separator, runner, told)
        return FilePieces(found, runner, told)

    return import_pieces(where, records.rules, pieces)


def import_pieces(where: Where, rules: ImportRules, found: Callable[[], Pieces]) -> Imported:
    """Import the records of pieces, which are found when the job is open. Costs and raises as `import_files`."""
    access = where.access()
    by = access.by(rules.actor, None)
    spec = access.job_spec(rules.job, KIND, by, on_conflict=rules.on_conflict, overwrite=False)
    pieces = None if rules.job else found()  # what is not there is no job, unless somebody asks for one by name
    target = open_job(access.ledger, spec)
    if isinstance(target, BulkOutcome):
        return _told(target, ())
    importing = _Importing(where, rules, replace(spec, job=target.job), access)
    try:
        return importing.run(target, pieces or found())
    except WormError as error:
        if not rules.job and not isinstance(error, OutcomeUnknownError):
            abort(access.ledger, target.job, "the import failed")  # nobody knows its name to go on with it
        raise


def _told(outcome: BulkOutcome, loaded: Sequence[Loaded]) -> Imported:
    if outcome.is_repeated:
        return Imported(outcome.job, outcome.number, 0, 0, 0, 0, is_repeated=True)
    read = sum(each.read for each in loaded)
    rejected = tuple(record for each in loaded for record in each.rejected)
    changing = outcome.inserted + outcome.replaced
    return Imported(
        outcome.job,
        outcome.number,
        read,
        outcome.inserted,
        outcome.replaced,
        read - len(rejected) - changing,
        is_repeated=False,
        rejected=rejected,
    )


@dataclass(frozen=True, slots=True)
class _Importing:
    """One import on its way."""

    where: Where
    rules: ImportRules
    spec: JobSpec
    access: Access[Any]

    def run(self, target: BulkTarget, pieces: Pieces) -> Imported:
        losers: Sequence[Losers] = ()
        conflict = ""
        for tries in range(TRIES_MAX):
            loading = Loading(self.where, target, self.rules.id_field, self.rules.texts, is_careful=tries > 0)
            if tries:
                losers = _losers(pieces, loading)
            loaded = pieces.load(loading, losers)
            conflict = next((each.conflict for each in loaded if each.conflict), "")
            if not conflict:
                self._check_strict(loaded)
                try:
                    return _told(self._attach(target, loaded), loaded)
                except AlreadyExistsError as error:
                    if self.rules.on_conflict == "replace":
                        raise
                    conflict = str(error)
            # The records are looked at one by one, with the state as it is now.
            again = open_job(self.access.ledger, self.spec)
            if isinstance(again, BulkOutcome):
                return _told(again, ())
            target = again
        raise ConflictError(
            f"import into {self.where.name}",
            reason=f"others wrote the same documents {TRIES_MAX} times in a row: {conflict}",
            fix="run it again: nothing was imported",
        )

    def _attach(self, target: BulkTarget, loaded: Sequence[Loaded]) -> BulkOutcome:
        reports = [each.report for each in loaded]
        return attach(self.access.ledger, target, reports, documents_of(self.access, target, 0), self.spec)

    def _check_strict(self, loaded: Sequence[Loaded]) -> None:
        rejected = [record for each in loaded for record in each.rejected]
        if self.rules.is_strict and rejected:
            first = rejected[0]
            raise InvalidRequestError(
                f"import into {self.where.name}",
                reason=f"{len(rejected):,} records do not fit; {first.file}, line {first.line:,}: {first.reason}",
                fix="correct them, or let them be set aside; nothing was imported",
            )


def _losers(pieces: Pieces, loading: Loading) -> Sequence[Losers]:
    """Of each piece, the records that others are preferred to."""
    hashes = repeated(pieces.keys(loading))
    return losers_of(pieces.suspects(loading, hashes)) if hashes else ()
