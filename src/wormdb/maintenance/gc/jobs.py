"""Open jobs: what they may still attach is not garbage, and an entry ends those that stay open too long."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.engine.commit.operations import Pending
from wormdb.engine.state.jobs import Jobs
from wormdb.errors import ConflictError, CorruptionError, NotFoundError, UnsupportedFormatError
from wormdb.format.adopt_record import decode_adopt_record
from wormdb.format.event import JobExpired
from wormdb.settings import ORPHAN_MS, ROOT_MS_MAX
from wormdb.system.types import LogNumber, StoreTime, WriteId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.format.entry import Entry
    from wormdb.format.root import JobOutcome, Root
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["OpenJobs", "read_after", "read_tail"]

log = logging.getLogger(__name__)

_NEVER = StoreTime(0)


def read_tail(site: StoredCollection, root: Root) -> list[Entry]:
    """The log after a root, as far as it goes now. 1 GET for each entry and a few more; raises CorruptionError."""
    return read_after(site, LogNumber(root.applied))


def read_after(site: StoredCollection, number: LogNumber) -> list[Entry]:
    """The log after an entry. Costs and raises as `read_tail`."""
    return [record.entry for found in site.log.rounds(number) for record in found.records]


@dataclass(frozen=True, slots=True)
class OpenJobs:
    """The jobs that a root and the log after it leave open."""

    site: StoredCollection
    root: Root
    jobs: Jobs
    _times: dict[str, StoreTime | None] = field(default_factory=dict)
    """When each of them was opened, as far as that was asked."""

    @classmethod
    def after(cls, site: StoredCollection, root: Root, tail: Sequence[Entry]) -> OpenJobs:
        """No requests."""
        jobs = Jobs.of(root.jobs)
        for entry in tail:
            jobs = jobs.after(entry)
        return cls(site, root, jobs)

    @property
    def open(self) -> list[JobOutcome]:
        """The open jobs, oldest first."""
        return [outcome for outcome in self.jobs.known.values() if outcome.state == "open"]

    def stale(self, now: StoreTime, expiry_ms: int) -> list[str]:
        """The jobs that were opened at least `expiry_ms` ago, by the store's time. 1 HEAD for each that is open."""
        return [outcome.job for outcome in self.open if now - self._opened_by(outcome, now) >= expiry_ms]

    def expire(self, jobs: Sequence[str]) -> list[str]:
        """End jobs by an entry of the log each; returns those that were still open. 1 PUT each, as every commit."""
        ledger = self.site.ledger()
        expired = []
        for job in jobs:
            pending = Pending(self.site.runtime.batch_id(), events=(JobExpired(job=WriteId(job)),))
            try:
                ledger.commit(pending)
            except (ConflictError, NotFoundError) as error:
                log.info("%s: job %s ended by itself: %s", self.site.collection, job, error.reason)
            else:
                expired.append(job)
        return expired

    def spared_from(self) -> StoreTime | None:
        """Since when what is in the folders of blocks may be of an open job; None if there is none.

        1 HEAD for each open job, and 1 GET for the record of an adoption. A day is added for clocks that were set.
        """
        if self._is_adopted_now():
            return _NEVER
        return self._first_opened(ORPHAN_MS)

    def read_since(self) -> StoreTime | None:
        """Since when open jobs have been reading the state that they began with; None if there is none.

        1 HEAD for each open job. It is of a root that was read a little earlier.
        """
        return self._first_opened(ROOT_MS_MAX)

    def _first_opened(self, margin_ms: int) -> StoreTime | None:
        opened = [self._opened(outcome) for outcome in self.open]
        if not opened:
            return None
        return StoreTime(max(0, min(_NEVER if time is None else time for time in opened) - margin_ms))

    def _opened(self, outcome: JobOutcome) -> StoreTime | None:
        """When a job was opened; None if its entry is gone. 1 HEAD, once."""
        if outcome.job not in self._times:
            self._times[outcome.job] = self._written(outcome)
        return self._times[outcome.job]

    def _written(self, outcome: JobOutcome) -> StoreTime | None:
        key = self.site.paths.entry(LogNumber(outcome.number))
        try:
            return self.site.store.head(key).modified
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this object
            return None

    def _opened_by(self, outcome: JobOutcome, now: StoreTime) -> StoreTime:
        """A time at which a job was open for sure."""
        opened = self._opened(outcome)
        if opened is not None:
            return opened
        return min((StoreTime(mark.time) for mark in self.root.marks if mark.number >= outcome.number), default=now)

    def _is_adopted_now(self) -> bool:
        """Whether an adoption writes blocks that no entry names yet, and that its record will name. 1 GET."""
        key = self.site.paths.adoption
        try:
            body = self.site.body(key)
            if body is None:
                return False
            record = decode_adopt_record(body, name=key, path=self.site.collection)
        except (CorruptionError, UnsupportedFormatError):
            return True
        known = self.jobs.known.get(record.job)
        return known is None or known.state == "open"
