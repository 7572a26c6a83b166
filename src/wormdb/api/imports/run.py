"""One import: few records by one commit, more of them as a bulk job; all of it, or nothing.

Each record is checked, and those that do not fit are told and not written. A bulk job writes blocks, which one entry of
the log attaches. The same job name again does nothing if the job was attached before.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from wormdb.api.imports.conflicts import Claims, Standing, losers_of, repeated, suspects_of
from wormdb.api.imports.intake import Intake, New, Rejection
from wormdb.api.imports.load import LoadRules, documents_of
from wormdb.engine.blocks.memory import give_back_memory, plain_memory
from wormdb.engine.bulk.attach import hashes_of
from wormdb.engine.bulk.columns import job_clock
from wormdb.engine.bulk.report import BulkTarget, ConflictRule, decode_report
from wormdb.engine.commit.operations import Insert, Operation, ReadVersion, Save
from wormdb.engine.load import BulkOutcome, JobSpec, abort, attach, open_job
from wormdb.engine.state.view import id_key
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    UniqueViolationError,
    WormError,
)
from wormdb.settings import IMPORT_BLOCK_BYTES, IMPORT_PORTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.api.imports.conflicts import Fate, KeyClash, Losers, Suspect
    from wormdb.api.imports.rows import Rows, RowSpool
    from wormdb.api.write import Writer

__all__ = ["ImportResult", "ImportRules", "Loads", "Pieces", "StoppedError", "run_import"]

log = logging.getLogger(__name__)

KIND: Final = "import"
TRIES_MAX: Final = 5
"""How often records are looked at anew because others wrote to the same documents meanwhile."""


@dataclass(frozen=True, slots=True)
class ImportRules:
    """How records are imported, wherever they come from."""

    id_field: str | None = None
    """The field that is the id; without it `id` or `_id` is."""
    on_conflict: ConflictRule = "error"
    """What becomes of a record whose id exists, in the collection or before it: `error` rejects it."""
    job: str = ""
    """The name of the job: with the same one again nothing is imported twice."""
    actor: str | None = None
    is_strict: bool = False
    """Whether nothing is imported if any record is rejected."""
    texts: tuple[tuple[str, str], ...] = ()
    """What columns of text stand for, in a table."""
    rejects_max: int | None = None
    """Nothing is imported if more records are rejected."""
    needs_ids: bool = False
    """Whether a record is rejected if a second run would give it another id."""
    forwards: bool = False
    """Whether the log is brought forward after a bulk job, so that the next query finds the documents in indexes."""


@dataclass(slots=True)
class ImportResult:
    """What an import did."""

    read: int = 0
    """Records that were looked at."""
    inserted: int = 0
    replaced: int = 0
    """Documents that a record replaced."""
    unchanged: int = 0
    """Records that replace nothing: the document is the same, or a later record has its id."""
    ignored: int = 0
    """Records whose id exists, by the rule `ignore`."""
    rejected: int = 0
    line: int = 0
    """Every record that begins up to this line is dealt with."""
    is_stopped: bool = False
    """Whether too many records were rejected: then nothing was imported."""
    job: str = ""
    """The bulk job that did it; empty if one commit was enough."""
    number: int = 0
    """The entry of the log that brought all documents; 0 if nothing had to be written."""
    is_repeated: bool = False
    """Whether the job was done before: then nothing was read, and nothing is counted."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = {"is_stopped": "stopped", "is_repeated": "repeated"}
        return {names.get(name, name): value for name, value in asdict(self).items()}


class StoppedError(Exception):
    """Too many records were rejected."""


@dataclass(frozen=True, slots=True)
class Loads:
    """What became of all pieces."""

    reports: Sequence[bytes]
    read: int
    rejected: Sequence[Rejection] | RowSpool[Rejection]
    conflict: str = ""
    """Why nothing of it counts: records have to be looked at one by one."""
    line: int = 0
    """Of the last record, if there is one file."""
    is_stopped: bool = False
    """Whether too many records were rejected."""


class Pieces(Protocol):
    """Records in pieces that can be read as often as it takes."""

    def small(self) -> list[Rows] | None:
        """All records, if they are few enough for one commit; None if they are not, or they were not counted."""
        ...

    def load(self, rules: LoadRules, losers: Sequence[Losers]) -> Loads:
        """`Loader.load` of each piece, with its losers, if there are any."""
        ...

    def keys(self, rules: LoadRules) -> list[bytes]:
        """`Loader.keys` of each piece."""
        ...

    def suspects(self, rules: LoadRules, hashes: frozenset[int]) -> list[list[Suspect]]:
        """`Loader.suspects` of each piece."""
        ...


def run_import(
    access: Access[Any],
    by: Author,
    rules: ImportRules,
    found: Callable[[], Pieces],
    rejected: Callable[[Rejection], None],
) -> ImportResult:
    """Import all records, by one entry of the log; `rejected` is told of those that do not fit, at the end.

    Few records cost 1 GET, the look-up of their ids, and 1 PUT. More cost 2 GETs and 1 PUT to open a job, and as
    `BulkTask` and `attach`; if records stand against each other or against documents, reading and writing again.
    Raises InvalidRequestError for any rejected record if the rules are strict, ConflictError for a job that was given
    up or if others write the same documents again and again, and what reading and the commit raise.
    """
    access.check_mode()
    pieces = None if rules.job else found()  # a job that was done before needs no records
    small = None if pieces is None else pieces.small()
    done = None if small is None else _Commit(access, by, rules, rejected).run(small)
    if done is not None:
        return done
    spec = access.job_spec(rules.job, KIND, by, on_conflict=rules.on_conflict, overwrite=False)
    spec = replace(spec, portion_bytes=IMPORT_PORTION_BYTES, block_bytes=IMPORT_BLOCK_BYTES)
    target = open_job(access.ledger, spec)
    if isinstance(target, BulkOutcome):
        return _repeated(target)
    job = _Job(access, rules, replace(spec, job=target.job), rejected)
    with plain_memory():
        try:
            result = job.run(target, pieces or found())
        except WormError as error:
            if not rules.job and not isinstance(error, OutcomeUnknownError):
                abort(access.ledger, target.job, "the import failed")  # without a name it cannot be continued
            raise
        if result.is_stopped:
            abort(access.ledger, target.job, "too many records were rejected")
        elif rules.forwards:
            _forward(access)
    return result


def _repeated(outcome: BulkOutcome) -> ImportResult:
    return ImportResult(job=outcome.job, number=outcome.number, is_repeated=True)


def _forward(access: Access[Any]) -> None:
    """Bring the log forward. The documents are there already, so a failure is only logged."""
    give_back_memory()
    try:
        access.ledger.forward()
    except WormError as error:
        log.warning("%s: the log was not brought forward after an import: %s", access.name, error)


def _is_enough(rules: ImportRules, count: int) -> bool:
    return rules.rejects_max is not None and count > rules.rejects_max


def _refuse(access: Access[Any], rejects: Sequence[Rejection] | RowSpool[Rejection]) -> NoReturn:
    """Raise the error of a strict import."""
    first = next(iter(rejects))
    where = f"{first.file}, line {first.record.line:,}" if first.file else f"line {first.record.line:,}"
    raise InvalidRequestError(
        f"import into {access.name}",
        reason=f"{len(rejects):,} records do not fit; {where}: {first.reason}",
        fix="correct them, or let them be rejected; nothing was imported",
    )


# --- few records ---


@dataclass(slots=True)
class _ImportPlan:
    """What becomes of some records, if the state stays as it is."""

    operations: list[Operation] = field(default_factory=list)
    rejects: list[Rejection] = field(default_factory=list)
    kept: dict[bytes | int, New] = field(default_factory=dict)
    """The record of each id; of those without one by their places."""
    counts: ImportResult = field(default_factory=ImportResult)


@dataclass(slots=True)
class _Commit:
    """An import of few records by one commit."""

    access: Access[Any]
    by: Author
    rules: ImportRules
    rejected: Callable[[Rejection], None]

    def run(self, small: Sequence[Rows]) -> ImportResult | None:
        """What it did; None if only a job can tell: a new collection has no indexes before its first entry."""
        ledger = self.access.ledger
        documents = self.access.writer.at(job_clock(ledger.clock.now_ms()), ledger.writer.chance)
        unfit: list[Rejection] = []
        intake = Intake(
            documents,
            unfit.append,
            self.rules.id_field,
            dict(self.rules.texts),
            needs_ids=self.rules.needs_ids,
            is_commit=True,
        )
        news = [new for rows in small for new in intake.take(rows)]
        files = {file: place for place, file in enumerate(dict.fromkeys(rows.file for rows in small))}
        is_careful, attempts = False, self.access.settings.modify_attempts
        for _ in range(attempts):
            standing = Standing(ledger, self.access.present(), self.rules.on_conflict)
            plan = self._planned(news, standing, documents, is_careful=is_careful)
            rejects = sorted([*unfit, *plan.rejects], key=lambda each: (files[each.file], each.record.line))
            done = self._end(intake.read, rejects)
            if done is not None:
                return done
            try:
                number = self.access.commit(plan.operations, self.by).number if plan.operations else 0
            except (UniqueViolationError, InvalidRequestError) as error:
                if is_careful and isinstance(error, InvalidRequestError):
                    raise
                if not standing.view.number:
                    return None
                is_careful = True  # the next look names the records
                continue
            except (AlreadyExistsError, ConflictError):
                continue  # another process wrote one of them meanwhile
            for each in rejects:
                self.rejected(each)
            lines = [record.line for rows in small for record in rows.records]
            counts = replace(plan.counts, read=intake.read, rejected=len(rejects))
            return replace(counts, line=max(lines, default=0), number=number)
        raise ConflictError(
            f"import into {self.access.name}", reason=f"others wrote the same documents {attempts} times in a row"
        )

    def _end(self, read: int, rejects: Sequence[Rejection]) -> ImportResult | None:
        """What there is to say if nothing may be imported; raises for a strict import."""
        is_stopped = _is_enough(self.rules, len(rejects))
        if not is_stopped and not (self.rules.is_strict and rejects):
            return None
        for each in rejects:
            self.rejected(each)
        if self.rules.is_strict:
            _refuse(self.access, rejects)
        return ImportResult(read=read, rejected=len(rejects), is_stopped=True)

    def _planned(
        self, news: Sequence[New], standing: Standing, documents: Writer[Any], *, is_careful: bool
    ) -> _ImportPlan:
        plan = _ImportPlan()
        found = standing.claims(news, with_values=is_careful)
        (losers,) = losers_of([suspects_of(news, found)], self.rules.on_conflict)
        for new, claims in zip(news, found, strict=True):
            self._sort(plan, new, claims, losers.get(new.place), standing)
        for key, new in plan.kept.items():
            _add(plan, key, new, standing, documents)
        return plan

    def _sort(
        self,
        plan: _ImportPlan,
        new: New,
        claims: Claims | WormError | Fate,
        loss: KeyClash | None,
        standing: Standing,
    ) -> None:
        """Decide about one record."""
        if isinstance(claims, WormError):
            plan.rejects.append(Rejection.of(new.file, new.record, claims))
        elif claims == "ignored" or (loss is not None and not loss.name and self.rules.on_conflict == "ignore"):
            plan.counts.ignored += 1
        elif loss is not None and not loss.name and self.rules.on_conflict == "replace":
            plan.counts.unchanged += 1
        elif loss is not None:
            plan.rejects.append(Rejection.of(new.file, new.record, standing.lost(new, claims, loss)))
        else:
            has_key = isinstance(new.insert, Insert) and not new.insert.fresh
            key = id_key(new.insert.id) if isinstance(new.insert, Insert) and has_key else new.place
            plan.kept[key] = new


def _add(plan: _ImportPlan, key: bytes | int, new: New, standing: Standing, documents: Writer[Any]) -> None:
    """What writes one record."""
    held = standing.held.get(key) if isinstance(key, bytes) else None
    if held is None or held.document is None or not isinstance(new.insert, Insert):
        plan.operations.append(new.insert)
        plan.counts.inserted += 1
        return
    body = documents.replaced(new.insert.document, held)
    if body is None:
        plan.counts.unchanged += 1
        return
    plan.operations.append(Save(new.insert.id, body, ReadVersion(held, standing.view.number, documents.origin)))
    plan.counts.replaced += 1


# --- a bulk job ---


@dataclass(frozen=True, slots=True)
class _Job:
    """An import as a bulk job on its way."""

    access: Access[Any]
    rules: ImportRules
    spec: JobSpec
    rejected: Callable[[Rejection], None]

    def run(self, target: BulkTarget, pieces: Pieces) -> ImportResult:
        losers: Sequence[Losers] = ()
        conflict = ""
        for tries in range(TRIES_MAX):
            rules = LoadRules(
                target,
                self.rules.id_field,
                self.rules.texts,
                self.rules.needs_ids,
                tries > 0,
            )
            if tries:
                losers = self._losers(pieces, rules)
            loads = pieces.load(rules, losers)
            conflict = loads.conflict or ("" if tries else self._repeated(loads))
            if not conflict:
                if self._is_stopped(loads):
                    return ImportResult(read=loads.read, rejected=len(loads.rejected), is_stopped=True, job=target.job)
                try:
                    return self._told(self._attach(target, loads), loads)
                except AlreadyExistsError as error:
                    conflict = str(error)
            # The records are looked at one by one, with the state as it is now.
            again = open_job(self.access.ledger, self.spec)
            if isinstance(again, BulkOutcome):
                return _repeated(again)
            target = again
        raise ConflictError(
            f"import into {self.access.name}",
            reason=f"others wrote the same documents {TRIES_MAX} times in a row: {conflict}",
            fix="run it again: nothing was imported",
        )

    def _repeated(self, loads: Loads) -> str:
        """Why records must be looked at one by one where they replace: each part decides about its own alone."""
        if self.rules.on_conflict != "replace":
            return ""
        reports = [decode_report(report) for report in loads.reports]
        ids = [digests for report in reports for digests in (report.ids, report.passed_ids) if digests is not None]
        return "an id comes more than once" if hashes_of(self.access.ledger, ids).repeated else ""

    def _losers(self, pieces: Pieces, rules: LoadRules) -> Sequence[Losers]:
        """Of each piece, the records that others are preferred to."""
        hashes = repeated(pieces.keys(rules))
        return losers_of(pieces.suspects(rules, hashes), self.rules.on_conflict) if hashes else ()

    def _attach(self, target: BulkTarget, loads: Loads) -> BulkOutcome:
        documents = documents_of(self.access, target, 0)
        return attach(self.access.ledger, target, loads.reports, documents, self.spec)

    def _is_stopped(self, loads: Loads) -> bool:
        """Whether nothing may be imported; then rejects are told. Raises for a strict import."""
        is_stopped = loads.is_stopped or _is_enough(self.rules, len(loads.rejected))
        if is_stopped or (self.rules.is_strict and loads.rejected):
            self._tell(loads)
        if self.rules.is_strict and loads.rejected:
            _refuse(self.access, loads.rejected)
        return is_stopped

    def _tell(self, loads: Loads) -> None:
        for each in loads.rejected:
            self.rejected(each)

    def _told(self, outcome: BulkOutcome, loads: Loads) -> ImportResult:
        if outcome.is_repeated:
            return _repeated(outcome)
        self._tell(loads)
        left = loads.read - len(loads.rejected) - outcome.inserted - outcome.replaced
        is_ignored = self.rules.on_conflict == "ignore"
        return ImportResult(
            read=loads.read,
            inserted=outcome.inserted,
            replaced=outcome.replaced,
            unchanged=0 if is_ignored else left,
            ignored=left if is_ignored else 0,
            rejected=len(loads.rejected),
            line=loads.line,
            job=outcome.job,
            number=outcome.number,
        )
