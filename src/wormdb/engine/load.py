"""Bulk jobs that other processes fill: opened by one entry, filled by tasks, attached by one entry.

    target = open_job(ledger, JobSpec("nightly load", "spark"))     # in the driver; commits that the job is open
    task = BulkTask(ledger, target, writer, number)    # in any process, from the target alone
    task.add(writer.inserts(rows).operations); report = task.report()
    attach(ledger, target, reports, writer)                         # in the driver: all of it, or nothing

The same job id again goes on with a job that is open, and tells the outcome of one that was attached: nothing is
attached twice. What a job wrote and did not attach is garbage that no root names; nothing is ever deleted here.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from wormdb.engine.bulk.attach import AttachGuard, Attaching
from wormdb.engine.bulk.report import CONFLICT_RULES, BulkTarget, decode_report
from wormdb.engine.commit.operations import Guard, Guards, Pending
from wormdb.engine.commit.resolve import commit_for_sure, opening
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    PermissionDeniedError,
    WormError,
)
from wormdb.format.event import Event, JobAborted, JobOpened
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.bulk.report import ConflictRule, DocumentMaker, JobLedger, TaskReport
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View

__all__ = ["BulkOutcome", "JobSpec", "abort", "attach", "job_id", "open_job"]

log = logging.getLogger(__name__)

TRIES_MAX: Final = 100
"""How often a job is attached anew because others wrote to the same collection."""
_JOB_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job is to be."""

    job: str = ""
    """What its caller calls it; without a name it gets one by chance."""
    kind: str = "bulk"
    on_conflict: ConflictRule = "error"
    """What becomes of a document whose id exists: `error` refuses all, `replace` replaces it, `ignore` leaves it."""
    overwrite: bool = False
    """Whether documents that the job does not bring are deleted."""
    tombstone: bytes | None = None
    """With it they go to the trash."""
    events: tuple[Event, ...] = ()
    """What comes with the opening: the definition of a new collection."""
    guard: Guard | None = field(default=None, compare=False)
    """Asked at every commit of the job."""
    actor: str | None = None
    meta: bytes | None = None
    portion_bytes: int | None = None
    """Bytes of documents that a task sorts at once; None: BULK_PORTION_BYTES."""
    block_bytes: int | None = None
    """Blocks of documents are closed here, or where the collection says if that is before: two are made at once."""


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """What a job did, by the entry `number`."""

    job: str
    number: LogNumber
    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    passed: int = 0
    """Rows that changed nothing."""
    rejected: int = 0
    """Rows that were set aside."""
    is_repeated: bool = False
    """Whether it was attached before: then nothing was done now, and the counts are not known."""


def job_id(name: str) -> WriteId:
    """The id of a job that its caller calls `name`. No requests."""
    return WriteId(name if _JOB_ID.fullmatch(name) else blake2b(name.encode(), digest_size=16).hexdigest())


def open_job(ledger: Ledger, spec: JobSpec) -> BulkTarget | BulkOutcome:
    """Open a job, or go on with it; its outcome if it was attached before. 2 GETs and 1 PUT.

    Raises InvalidRequestError for a rule that there is not, ConflictError for a job that was aborted or expired, and
    what its guard and the commit do.
    """
    if spec.on_conflict not in CONFLICT_RULES:
        raise InvalidRequestError(
            f"on_conflict={spec.on_conflict!r:.40}", reason="there is no such rule", fix=f"use one of {CONFLICT_RULES}"
        )
    job = job_id(spec.job or ledger.batch_id())
    view, _ = ledger.settled()
    if job not in view.jobs.known:
        _open(ledger, spec, job, view)
        view, _ = ledger.settled()
    done = _outcome(view, job)
    if done is not None:
        return done
    if spec.guard is not None:
        spec.guard.check(view)
    if spec.overwrite and view.definition.model is not None and view.definition.model.mode == "append":
        raise PermissionDeniedError(
            f"{ledger.collection} is append-only", reason="nothing in it may be overwritten", fix="append to it instead"
        )
    return BulkTarget(
        job=job,
        collection=ledger.collection,
        pinned=ledger.pin(view),
        on_conflict=spec.on_conflict,
        overwrite=spec.overwrite,
        tombstone=spec.tombstone,
        started_ms=ledger.clock.now_ms(),
        opened=view.jobs.known[job].number,
        portion_bytes=spec.portion_bytes,
        block_bytes=spec.block_bytes,
    )


def attach(
    ledger: Ledger, target: BulkTarget, reports: Sequence[bytes], documents: DocumentMaker, spec: JobSpec | None = None
) -> BulkOutcome:
    """Attach what tasks wrote, by one entry: 1 PUT, after what `Attaching` costs to make one run of their blocks.

    If the job was attached before, its outcome. Of `spec` guard, actor and metadata count. Raises AlreadyExistsError
    for an id that came twice or exists, UniqueViolationError, ConflictError if others changed what the job rests on,
    and what the commit does. Unless that is OutcomeUnknownError nothing was attached, and the job stays open.
    """
    spec = spec or JobSpec()
    view = ledger.view()
    done = _outcome(view, target.job)
    if done is not None:
        return done
    told = _reports(target, reports)
    attaching = Attaching(ledger, target, told, documents)
    attaching.check_open(view)
    draft = attaching.draft()
    for _ in range(TRIES_MAX):
        draft = attaching.caught_up(draft)
        pending = Pending(
            ledger.batch_id(),
            events=(draft.event(target.job),),
            actor=spec.actor,
            meta=spec.meta,
            guard=Guards.of(spec.guard, AttachGuard(attaching, draft)),
        )
        try:
            committed = commit_for_sure(ledger.commit, ledger.settle, pending)
        except ConflictError as error:
            done = _outcome(ledger.view(), target.job)
            if done is not None:
                return done
            if not attaching.is_overtaken(error):
                raise
            log.info("%s: job %s is checked again: %s", ledger.collection, target.job, error.reason)
            continue
        if committed is not None:
            return _told(target.job, committed.number, told, draft.counts)
        done = _outcome(ledger.view(), target.job)
        if done is not None:
            return done
    raise ConflictError(
        f"job {target.job} on {ledger.collection}",
        reason=f"others wrote to the same documents {TRIES_MAX} times while it was attached",
        fix="run it again when fewer write",
    )


def abort(ledger: Ledger, job: str, reason: str) -> None:
    """Give a job up, if it is open. Nothing is deleted. 1 PUT; failures are only logged: an open job expires."""
    events = (JobAborted(job=job_id(job), reason=reason[:1000]),)
    try:
        ledger.commit(Pending(ledger.batch_id(), events=events))
    except WormError as error:
        log.info("%s: job %s was not aborted: %s", ledger.collection, job, error)


def _open(ledger: JobLedger, spec: JobSpec, job: WriteId, view: View) -> None:
    opened = JobOpened(job=job, kind=spec.kind, base=view.number)
    pending = Pending(
        ledger.batch_id(),
        events=(*spec.events, opened),
        actor=spec.actor,
        meta=spec.meta,
        guard=spec.guard,
    )
    try:
        with opening(f"job {job} on {ledger.collection}"):
            if commit_for_sure(ledger.commit, ledger.settle, pending) is None and job not in ledger.view().jobs.known:
                ledger.commit(pending)
    except AlreadyExistsError:
        if job not in ledger.view().jobs.known:
            raise  # not about the job


def _outcome(view: View, job: str) -> BulkOutcome | None:
    """What became of a job; None while it is open. Raises ConflictError if it ended without being attached."""
    known = view.jobs.known.get(job)
    if known is None or known.state == "open":
        return None
    if known.state == "attached":
        return BulkOutcome(job, LogNumber(known.number), is_repeated=True)
    raise ConflictError(
        f"job {job}", reason=f"it was {known.state} by entry {known.number}", fix="run it under another job id"
    )


def _reports(target: BulkTarget, reports: Sequence[bytes]) -> list[TaskReport]:
    """The reports in order of their tasks; raises InvalidRequestError if they are not those of one job."""
    told = sorted((decode_report(report) for report in reports), key=lambda report: report.task)
    tasks = [report.task for report in told]
    if len(set(tasks)) < len(tasks) or any(report.job != target.job for report in told):
        raise InvalidRequestError(
            f"job {target.job}",
            reason="a report is of another job, or two are of one task",
            fix="give the report of one attempt at each task",
        )
    return told


def _told(job: str, number: LogNumber, reports: Sequence[TaskReport], counts: tuple[int, int, int]) -> BulkOutcome:
    inserted, replaced, deleted = counts
    passed, rejected = sum(report.passed for report in reports), sum(report.rejected for report in reports)
    return BulkOutcome(job, number, inserted, replaced, deleted, passed, rejected)
