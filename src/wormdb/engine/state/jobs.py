"""The life of bulk jobs, as the log tells it: opened once, then attached, aborted or expired.

Streams that others run are told beside them: of each the newest micro-batch, so that none is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from wormdb.errors import AlreadyExistsError, ConflictError, NotFoundError
from wormdb.format.event import JobAborted, JobAttached, JobExpired, JobOpened, StreamAdvanced
from wormdb.format.past import misc_ms
from wormdb.format.root import JobOutcome
from wormdb.settings import JOBS_REMEMBERED, JOBS_REMEMBERED_MAX, JOBS_REMEMBERED_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from wormdb.format.entry import Entry, LoggedBatch
    from wormdb.format.event import Event
    from wormdb.system.types import WriteId

__all__ = ["NO_JOBS", "Jobs"]

JobState = Literal["open", "attached", "aborted", "expired", "streamed"]
_KEPT = frozenset({"open", "attached", "streamed"})
"""What forwarding forgets only as `Jobs.remembered` says."""
UNNAMED = "batch"
"""The kind of a job whose id was made by chance for one call: it never comes again."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """What became of each job that is remembered, by its id, oldest first."""

    known: Mapping[str, JobOutcome] = field(default_factory=dict)

    @classmethod
    def of(cls, outcomes: Iterable[JobOutcome]) -> Jobs:
        """As a root has them."""
        return cls({outcome.job: outcome for outcome in outcomes})

    def after(self, entry: Entry) -> Jobs:
        """With what an entry tells: the same object if it tells nothing."""
        if not entry.events:
            return self
        return self.told(entry.events, entry.number, entry.misc, entry.batches[0] if entry.batches else None)

    def told(self, events: Iterable[Event], number: int, misc: int = 0, by: LoggedBatch | None = None) -> Jobs:
        """With what the events of entry `number` tell: the same object if that is nothing."""
        told = [found for event in events if (found := _told(event)) is not None]
        if not told:
            return self
        actor, meta = (None, None) if by is None else (by.actor, by.meta)
        known = dict(self.known)
        for job, state, batch, kind in told:
            before = known.pop(job, None)
            known[job] = JobOutcome(
                job=job,
                state=state,
                number=number,
                misc=misc,
                actor=actor,
                meta=meta,
                batch=batch,
                kind=kind or ("" if before is None else before.kind),
            )
        return Jobs(known)

    def outcomes(self) -> tuple[JobOutcome, ...]:
        """What a root keeps: all streams, every job that is open or attached, and of the others those that ended last.

        Those that attached something say when and by whom it was: history needs that as long as it has their blocks.
        """
        ended = [outcome for outcome in self.known.values() if outcome.state not in _KEPT]
        forgotten = {outcome.job for outcome in ended[:-JOBS_REMEMBERED]}
        return tuple(outcome for outcome in self.known.values() if outcome.job not in forgotten)

    def remembered(self, attached: AbstractSet[int]) -> tuple[JobOutcome, ...]:
        """What a root keeps that names the blocks of the jobs which these entries attached.

        Those jobs, those that are open, and the newest streams. Of jobs whose blocks became history the outcome alone,
        so that a repeated driver is told of it: the newest JOBS_REMEMBERED, and more if they are young; not of batches,
        which are not repeated. A driver that comes later than that cannot attach, because its job is not open.
        """
        known = list(self.known.values())
        streams = [outcome for outcome in known if outcome.state == "streamed"][-JOBS_REMEMBERED_MAX:]
        ended = [outcome for outcome in known if outcome.state not in _KEPT][-JOBS_REMEMBERED:]
        told = [outcome for outcome in known if _is_told(outcome) and outcome.number not in attached]
        since = misc_ms(max((outcome.misc for outcome in known), default=0)) - JOBS_REMEMBERED_MS
        young = [outcome for outcome in told[:-JOBS_REMEMBERED] if misc_ms(outcome.misc) >= since]
        told = [*young, *told[-JOBS_REMEMBERED:]][-JOBS_REMEMBERED_MAX:]
        kept = {outcome.job for outcome in (*streams, *ended, *told)}
        return tuple(
            outcome if outcome.job not in kept or not _is_told(outcome) else _slim(outcome)
            for outcome in known
            if outcome.job in kept
            or outcome.state == "open"
            or (outcome.state == "attached" and outcome.number in attached)
        )

    def check(self, events: Iterable[Event]) -> None:
        """Raise if an event cannot come now: AlreadyExistsError, NotFoundError, ConflictError."""
        jobs = self
        for event in events:
            match event:
                case JobOpened(job=job):
                    jobs.check_new(job)
                case JobAttached(job=job) | JobAborted(job=job) | JobExpired(job=job):
                    jobs.check_open(job)
                case StreamAdvanced(stream=stream, batch=batch):
                    jobs.check_next(stream, batch)
                case _:
                    pass
            # One entry may open a job and attach what it wrote.
            jobs = jobs.told((event,), 0)

    def check_new(self, job: str) -> None:
        """Raise AlreadyExistsError if a job of this id was opened before."""
        if job in self.known:
            raise AlreadyExistsError(
                f"job {job}", reason=f"it is {self.known[job].state} already", fix="choose another job id"
            )

    def check_next(self, stream: str, batch: int) -> None:
        """Raise AlreadyExistsError if this micro-batch of a stream, or a later one, was written before."""
        outcome = self.known.get(stream)
        if outcome is not None and outcome.batch >= batch:
            raise AlreadyExistsError(
                f"batch {batch} of stream {stream}",
                reason=f"batch {outcome.batch} was written by entry {outcome.number}",
                fix="go on with the batch after that",
            )

    def check_open(self, job: str) -> None:
        """Raise NotFoundError or ConflictError unless the job is open."""
        outcome = self.known.get(job)
        if outcome is None:
            raise NotFoundError(f"job {job}", reason="it was never opened, or so long ago that it is forgotten")
        if outcome.state != "open":
            raise ConflictError(f"job {job}", reason=f"it was {outcome.state} by entry {outcome.number}")


NO_JOBS = Jobs()


def _is_told(outcome: JobOutcome) -> bool:
    """Whether a caller may ask for the outcome of a job that was attached."""
    return outcome.state == "attached" and outcome.kind != UNNAMED


def _slim(outcome: JobOutcome) -> JobOutcome:
    """Without what only its versions needed, which say it themselves now."""
    return msgspec.structs.replace(outcome, actor=None, meta=None)


def _told(event: Event) -> tuple[WriteId, JobState, int, str] | None:
    match event:
        case JobOpened():
            return event.job, "open", 0, event.kind
        case JobAttached():
            return event.job, "attached", 0, ""
        case JobAborted():
            return event.job, "aborted", 0, ""
        case JobExpired():
            return event.job, "expired", 0, ""
        case StreamAdvanced():
            return event.stream, "streamed", event.batch, ""
        case _:
            return None
