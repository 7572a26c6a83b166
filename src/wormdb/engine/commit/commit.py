"""Make a batch visible: the only writer of log entries.

A commit is one PUT of the next number, if absent. Of two writers exactly one wins; the other reads the winner's
entry, checks its batches against the new state and goes on. While an answer is missing the same bytes are
sent to the same slot, so that the entry can land at most once; only when another's entry is found there may the
batches move on.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, assert_never

from wormdb.engine.commit.attempt import Attempt, CommitResult, Outcome, batches_of, committed, offered
from wormdb.engine.commit.head import is_recent
from wormdb.engine.commit.offers import OFFER_BYTES_MAX, Offer
from wormdb.engine.commit.operations import ApartError, LockedError
from wormdb.engine.commit.validate import Group
from wormdb.engine.log.entries import LogRecord
from wormdb.errors import (
    LimitExceededError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    UnavailableError,
    WormError,
)
from wormdb.format.entry import Entry, LoggedBatch, encode_entry, entry_hash
from wormdb.format.event import ExpirySet, Nothing
from wormdb.settings import MISC_LEAD_MS_MAX
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import IfAbsent
from wormdb.system.clock import new_write_id
from wormdb.system.deadline import is_over, pause, within
from wormdb.system.types import Misc, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.commit.head import Head
    from wormdb.engine.commit.offers import Offers
    from wormdb.engine.commit.operations import Pending
    from wormdb.engine.commit.turns import WriterTurns
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.log.entries import Log
    from wormdb.engine.log.root import Register
    from wormdb.engine.state.view import View
    from wormdb.format.event import Event
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.types import StoreTime

__all__ = ["CommitResult", "Committer", "Outcome"]

log = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN = 0.005
BACKOFF_SECONDS_MAX = 1.0
CONTENT_TYPE = "application/zstd"
RESOLVE_FIRST = "call resolve(commit_id) before retrying: the batch may be in the log, or may still land"


class Committer:
    """Commits groups of batches to one collection, one group at a time."""

    def __init__(  # noqa: PLR0913 - everything comes in by argument, for tests and simulations
        self,
        log: Log,
        *,
        head: Head,
        register: Register,
        misc: MiscClock,
        clock: Clock,
        chance: Chance,
        pace: WriterTurns,
        offers: Offers,
        settle_attached: Callable[[], object],
        decided: Callable[[str], bool | None] = lambda _: None,
    ) -> None:
        """Nothing is read or written yet.

        `pace` and `offers` hear of each entry from the head; `settle_attached` brings into the root what a job
        attached; `decided` tells whether a transaction committed, if that is known.
        """
        self._log = log
        self._store = log.store
        self._paths = log.paths
        self._collection = log.collection
        self._head = head
        self._register = register
        self._misc = misc
        self._clock = clock
        self._chance = chance
        self._settle_attached = settle_attached
        self._decided = decided
        self._pace = pace
        self._offers = offers
        self._in_flight: Attempt | None = None
        self._outcomes: dict[str, Outcome] = {}
        """Of the batches of the commit that is under way, or of the last one."""
        self._withdrawn: set[str] = set()
        """Batches whose callers have returned: they are not sent to another slot."""
        self._fates = threading.Lock()
        """Held where it is decided whether a batch is on its way, was withdrawn, or has an outcome."""
        self._stood_on = 0
        """The revision of the root of which an object was gone."""

    def commit(self, batches: Sequence[Pending], deadline: float) -> list[Outcome]:
        """Commit each batch or say why not, in order; `deadline` is on the monotonic clock.

        1 PUT without competing writers. Among others about 1 GET for each entry of theirs, and 2 requests more for
        each race lost. An OutcomeUnknownError carries the commit id; every other error means that the batch was
        not written.
        """
        with self._fates:
            outcomes: dict[str, Outcome] = {}
            self._outcomes, self._in_flight, self._offers.own = outcomes, None, None
        try:
            self._settle_anew(batches, outcomes, deadline)
        except LimitExceededError as error:
            if not outcomes and self._offers.own is None:
                raise
            outcomes |= {one.id: self._ended(one, error) for one in batches if one.id not in outcomes}
        except WormError as error:
            # Raised while nothing was on its way to a slot; what has an outcome by then keeps it.
            outcomes |= {one.id: self._ended(one, error) for one in batches if one.id not in outcomes}
        with self._fates:
            self._withdrawn.difference_update(outcomes)
        return [outcomes[pending.id] for pending in batches]

    def fate_of(self, pending: Pending) -> Outcome | str | None:
        """What is known of a batch of the commit that is under way, or was interrupted.

        Its outcome if it has one; its commit id if it is on its way, or may be in the log; None if it was not sent.
        """
        if pending.id in self._outcomes:
            return self._outcomes[pending.id]
        offer = self._offers.own
        if offer is not None and pending.id in offer.taken:
            return committed(offer.taken[pending.id], pending.id)
        if offer is not None and pending.id in offer.open:
            return str(offered(offer, pending.id))
        attempt = self._in_flight
        if attempt is None or not attempt.has({pending.id}):
            return None
        return str(attempt.commit_id(pending.id))

    def withdraw(self, pending: Pending) -> Outcome | str | None:
        """Take a batch out of the commit that is under way, because its time is over.

        Its outcome if it has one by now; its commit id if it is on its way, which then goes on for this slot only; None
        if it will not be sent.
        """
        with self._fates:
            if pending.id not in self._outcomes:
                self._withdrawn.add(pending.id)
            return self.fate_of(pending)

    def _begin(self, attempt: Attempt) -> bool:
        """Whether all its batches are still wanted: then it is on its way."""
        with self._fates:
            if attempt.has(self._withdrawn):
                return False
            self._in_flight = attempt
            return True

    def _end(self, told: dict[str, Outcome]) -> None:
        """What was on its way is there or is not, and its batches have these outcomes."""
        with self._fates:
            # In this order: after an interrupt in between it is still known what was on its way.
            self._outcomes |= told
            self._in_flight = None

    def _settle_anew(self, batches: Sequence[Pending], outcomes: dict[str, Outcome], deadline: float) -> None:
        """As `_settle`; from the newest root if objects of the one that is known are gone."""
        while True:
            try:
                return self._settle([one for one in batches if one.id not in outcomes], outcomes, deadline)
            except SnapshotTooOldError as error:
                self._head.renew(self._stood_on, error)

    def _settle(self, waiting: list[Pending], outcomes: dict[str, Outcome], deadline: float) -> None:
        """Fill in the outcome of every batch that waits; raises what kept those without one from being tried."""
        fresh, losses, arrived = False, 0, self._clock.monotonic()
        while waiting := self._wanted(waiting, outcomes):
            fresh |= self._await_moment(waiting, deadline)
            is_offer = self._may_offer(waiting)
            checked = self._checked(waiting, arrived, takes=not is_offer)
            if checked is None:
                continue  # another thread opens it again or found what was offered, or more was attached
            attempt, refused = checked
            if refused and not self._may_refuse(refused, deadline, fresh=fresh):
                fresh = True
                continue
            outcomes |= refused
            waiting = [pending for pending in waiting if pending.id not in refused]
            if attempt is None:
                break
            is_own = {batch.id for batch in attempt.entry.batches} <= {one.id for one in waiting}
            if is_offer and is_own and not attempt.entry.events and len(attempt.body) <= OFFER_BYTES_MAX:
                self._offer(attempt, deadline)
                fresh = True
                continue
            self._pace.leave_gap(attempt.number)
            if not self._begin(attempt):
                continue
            try:
                landed = self._place(attempt, deadline)
            except WormError as error:
                self._end({pending.id: self._failed(error, attempt, pending) for pending in waiting})
                break
            told = batches_of(attempt.entry) if landed else ()
            self._end({batch.id: committed(attempt.entry, batch.id, attempt.answered) for batch in told})
            fresh |= landed
            losses += not landed
            self._offers.forget_ended()
            if not landed and self._clock.monotonic() >= deadline:
                outcomes |= {one.id: self._ended(one, self._too_late(losses)) for one in waiting}
                break
            if not landed and losses % 2 == 0:
                # The winner's entry is known from its answer; a writer that loses again is further behind.
                self._pace.pause_after_loss(losses)
                self._head.refresh()
                fresh = True

    def _await_moment(self, waiting: Sequence[Pending], deadline: float) -> bool:
        """Wait until something can be done for batches, and know a state to check them against; whether it is fresh."""
        fresh = self._catch_up()
        self._offers.follow(self._head)
        if self._are_open(one.id for one in waiting) and self._pace.next_offer_look() is not None:
            self._await_taken(deadline)
            fresh = True
        elif not self._may_offer(waiting):
            fresh |= self._await_turn(deadline)
            self._gather()
        self._check_clock()
        return fresh

    def _may_refuse(self, refused: Iterable[str], deadline: float, *, fresh: bool) -> bool:
        """Whether a refusal is final; if not, do what it takes to find out.

        It must come from a state that is not older than the call: others may have made room meanwhile. And it must
        be of a batch that no other writer can take.
        """
        if not fresh:
            self._head.refresh()
        elif self._are_open(refused):
            self._end_offer(deadline)
        else:
            return True
        return False

    def _checked(
        self, waiting: Sequence[Pending], arrived: float, *, takes: bool
    ) -> tuple[Attempt | None, dict[str, Outcome]] | None:
        """An entry of the batches that can be written, and the outcomes of those that will not be; None: not now.

        If it `takes`, what others offer is in it too. That is never offered again, in other slots than their writers
        know of.
        """
        with self._head.lock:
            is_known = self._offers.is_settled(self._head.number, (one.id for one in waiting))
            if not is_known or not self._is_settled():
                return None
            batches, events, refused = self._check(waiting, takes=takes)
            return self._try(batches, events, arrived), refused

    def _wanted(self, waiting: list[Pending], outcomes: dict[str, Outcome]) -> list[Pending]:
        """The batches without an outcome; those that were withdrawn get one, for which no caller waits."""
        with self._fates:
            if (offer := self._offers.own) is not None:
                found = {one.id for one in waiting if one.id in offer.taken}
                outcomes |= {one: committed(offer.taken[one], one) for one in found - outcomes.keys()}
            if gone := [one.id for one in waiting if one.id in self._withdrawn and one.id not in outcomes]:
                what, reason = f"commit to {self._collection}", "its time was over; nothing was written"
                outcomes |= dict.fromkeys(gone, UnavailableError(what, reason=reason))
            return [pending for pending in waiting if pending.id not in outcomes]

    def settled(self) -> tuple[View, int]:
        """A state that batches can be checked against, and its greatest id of digits: all attached is in the root."""
        while True:
            self._catch_up()
            with self._head.lock:
                if self._is_settled():
                    return self._head.view(), self._head.sequence()

    def _catch_up(self) -> bool:
        """Know a state that batches can be checked against; whether the store was asked for it."""
        asked = not self._head.caught_up
        if asked:
            self._head.refresh()
        if self._head.has_attached:
            # Which unique values the attached documents have is told by the trees of a root, not by the entry.
            try:
                self._settle_attached()
            except OutcomeUnknownError as error:
                # Unknown is what became of the root; of the batches that wait nothing was written.
                raise UnavailableError(error.what, reason=error.reason, fix="retry", key=error.key) from error
        return asked

    def _check_clock(self) -> None:
        """Raise UnavailableError if the wall clock is far ahead of the store's: entries would be dated in the future.

        No requests; 1 GET if it seems so, because a process that was suspended does not know how late it is.
        """
        if self._misc.lead_ms > MISC_LEAD_MS_MAX:
            self._misc.doubt()
            self._head.refresh()
        seconds = self._misc.lead_ms // 1000
        if seconds * 1000 > MISC_LEAD_MS_MAX:
            raise UnavailableError(
                f"commit to {self._collection}",
                reason=f"the clock of this machine is {seconds} s ahead of the store's; nothing was written",
                fix="set the clock of this machine, best by NTP, then retry",
            )

    def _await_turn(self, deadline: float) -> bool:
        """Let others write whose turn it is, and learn of what they wrote; whether all that there is was seen."""
        ended = False
        while (start := self._clock.monotonic()) < deadline and (look := self._pace.next_look()) is not None:
            if look.after_seconds:
                pause(self._clock, look.after_seconds)
                start = self._clock.monotonic()
            ended = self._head.look(look.width)
            self._pace.looked(self._clock.monotonic() - start, look.width, ended=ended)
        return ended

    # --- batches that other writers take along ---

    def _may_offer(self, waiting: Sequence[Pending]) -> bool:
        """Whether another writer would take these batches; what was offered in vain is written once before the next."""
        offer = self._offers.own
        is_new = offer is None or offer.ids.isdisjoint(pending.id for pending in waiting)
        return is_new and self._pace.is_gathered and all(pending.is_offerable for pending in waiting)

    def _are_open(self, batches: Iterable[str]) -> bool:
        """Whether one of these batches was offered, and may still be taken."""
        return self._offers.own is not None and not self._offers.own.open.isdisjoint(batches)

    def _offer(self, attempt: Attempt, deadline: float) -> None:
        """Offer an entry instead of writing it, and wait until it is taken, or does not seem to be.

        1 PUT, and about 1 GET for each request that the other writer needs.
        """
        with self._fates:
            if attempt.has(self._withdrawn):
                return
            self._offers.own = Offer(attempt.entry)
        start = self._clock.monotonic()
        self._offers.put(attempt.entry, attempt.body)
        self._pace.offered(self._clock.monotonic() - start)
        self._await_taken(deadline)

    def _await_taken(self, deadline: float) -> None:
        """Follow the log until what was offered is taken, has ended, or no entries come any more. 1 GET a look."""
        offer = self._offers.own
        while offer is not None and offer.open and (start := self._clock.monotonic()) < deadline:
            wait = self._pace.next_offer_look()
            if wait is None:
                return
            if wait:
                pause(self._clock, wait)
                start = self._clock.monotonic()
            ended = self._head.look(1)
            self._pace.looked(self._clock.monotonic() - start, 1, ended=ended)
            self._offers.follow(self._head)
        if offer is not None and offer.taken:
            self._pace.taken()

    def _end_offer(self, deadline: float) -> None:
        """Have what was offered taken from now on by no writer: an empty event comes before. 1 PUT, as `_place`."""
        assert self._offers.own is not None
        with self._head.lock:
            if not self._is_settled():
                return
            event = Nothing(write_id=WriteId(self._offers.own.entry.write_id))
            attempt = self._try((), (event,), self._clock.monotonic())
        assert attempt is not None
        try:
            self._place(attempt, deadline)
        except OutcomeUnknownError as error:
            # Unknown is what became of the event; what was offered stays open, and the rest was not written.
            raise UnavailableError(error.what, reason=error.reason, fix="retry", key=error.key) from error

    def _gather(self) -> None:
        """Learn of what others offer, if they may; costs as `Offers.gather`."""
        if self._gathers:
            start = self._clock.monotonic()
            found = self._offers.gather(self._head.number, self._pace.name)
            self._pace.gathered(found, self._clock.monotonic() - start)

    @property
    def _gathers(self) -> bool:
        """Whether others may have offered something: to this writer, or to one that did not take its offer either."""
        return self._pace.gathers or self._offers.own is not None

    def _ended(self, pending: Pending, error: WormError) -> Outcome:
        """The outcome of a batch that was not written here: unknown, if another writer may take it or did."""
        offer = self._offers.own
        if offer is not None and pending.id in offer.taken:
            return committed(offer.taken[pending.id], pending.id)
        if offer is None or pending.id not in offer.open:
            return error
        failure = OutcomeUnknownError(
            f"commit to {self._collection}",
            reason=f"it was offered to other writers: {error}",
            fix=RESOLVE_FIRST,
            commit_id=str(offered(offer, pending.id)),
        )
        failure.__cause__ = error
        return failure

    def _is_settled(self) -> bool:
        return self._head.caught_up and not self._head.has_attached

    def _check(
        self, waiting: Sequence[Pending], *, takes: bool
    ) -> tuple[list[LoggedBatch], list[Event], dict[str, Outcome]]:
        """The batches that can be written now with their events, and the outcomes of those that will not be.

        A batch that fails only because of those before it in the group is neither: they may not land, and
        then it would have been refused for nothing. It waits until their fate is known.

        What finishes transactions comes with the batches, unless one of these has events: then it comes before them.
        """
        group = self._new_group(waiting)
        if group.finished and any(pending.events for pending in waiting):
            return group.finishing, list(group.finished), {}
        accepted: list[LoggedBatch] = []
        refused: dict[str, Outcome] = {}
        is_awaited = False
        for pending in waiting:
            if group.finished and pending.is_empty:
                is_awaited = True
                continue
            outcome = self._judge(group, pending)
            if isinstance(outcome, LoggedBatch):
                accepted += () if pending.prepare is not None else (outcome,)
                continue
            if (accepted or group.prepared) and not isinstance(outcome, ApartError):
                outcome = self._judge(self._new_group(waiting), pending)
            if isinstance(outcome, LoggedBatch | ApartError) or (group.is_crowded and isinstance(outcome, LockedError)):
                is_awaited = True
            else:
                refused[pending.id] = outcome
        if not accepted and not group.prepared and not any(group.events.values()) and not is_awaited:
            return [], [], refused
        events = [event for events in group.events.values() for event in events]
        if takes and accepted and self._gathers and not events and not group.prepared and not group.finished:
            accepted += self._offers.take(group, accepted, self._head)
        return [*group.finishing, *accepted], [*group.finished, *group.prepared.values(), *events], refused

    def _new_group(self, waiting: Sequence[Pending]) -> Group:
        has_expiry = bool(self._head.view().definition.expiries)
        # The first batch of a collection brings its rule.
        has_expiry = has_expiry or any(isinstance(event, ExpirySet) for each in waiting for event in each.events)
        return Group(self._head, self._collection, self._decided, self._misc.store_ms() if has_expiry else None)

    def _judge(self, group: Group, pending: Pending) -> LoggedBatch | Outcome:
        """The batch if it can be written behind those of the group, else its outcome."""
        try:
            changes = group.add(pending)
        except WormError as error:
            if isinstance(error, SnapshotTooOldError) and error.key is not None:
                # Not about the batch: the root that it is checked against was replaced long ago.
                self._stood_on = self._head.revision
                raise
            return error
        if not changes and (pending.operations or not pending.events) and pending.prepare is None:
            # Nothing to write: it is done as soon as the state is known to be fresh.
            return CommitResult(self._head.number, Misc(0), ())
        return LoggedBatch(id=WriteId(pending.id), actor=pending.actor, meta=pending.meta, changes=changes)

    def _try(self, batches: Sequence[LoggedBatch], events: Sequence[Event], arrived: float) -> Attempt | None:
        if not batches and not events:
            return None
        mark = self._pace.mark(arrived, may_gather=not events and self._store.is_served)
        entry = Entry(
            number=self._head.number + 1,
            write_id=new_write_id(self._chance, mark),
            misc=self._misc.next(),
            node=self._misc.node,
            previous=self._head.hash,
            batches=tuple(batches),
            events=tuple(events),
        )
        return Attempt(entry, encode_entry(entry, collection=self._collection), self._head.time)

    def _place(self, attempt: Attempt, deadline: float) -> bool:
        """True if the entry is in its slot for good, False if another's is. Raises if neither can be told."""
        key = self._paths.entry(attempt.number)
        tries = 0
        while True:
            start = self._clock.monotonic()
            outcome = put_classified(self._store, key, attempt.body, IfAbsent(), content_type=CONTENT_TYPE)
            match outcome:
                case Landed(time=time):
                    created = time if self._confirm(attempt, time) else None
                    attempt.answered = time
                    self._head.absorb(LogRecord(attempt.entry, entry_hash(attempt.body), len(attempt.body)), created)
                    log.debug("%s: committed entry %d, %d batches", self._collection, attempt.number, attempt.batches)
                    self._pace.won(attempt.number, self._clock.monotonic() - start)
                    return True
                case Lost(found=found):
                    self._confirm(attempt, None if found is None else found.time)
                    if found is None:
                        raise OutcomeUnknownError(
                            f"log slot {attempt.number}", reason="it was refused as taken, and is empty"
                        )
                    # From here on an error is not about our entry: it can no longer land.
                    attempt.refused_only = True
                    self._head.absorb(self._log.decode(attempt.number, found.body))
                    log.debug("%s: entry %d went to another writer", self._collection, attempt.number)
                    self._pace.lost(self._clock.monotonic() - start)
                    return False
                case NothingThere(cause=cause) | Unknown(cause=cause):
                    attempt.refused_only &= isinstance(outcome, NothingThere) and isinstance(cause, UnavailableError)
                    if self._clock.monotonic() >= deadline or is_over():
                        raise cause
                    tries += 1
                    self._pause(tries)
                case _:
                    assert_never(outcome)

    def _confirm(self, attempt: Attempt, time: StoreTime | None) -> bool:
        """Trust an answer about a slot only if the slot cannot have been trimmed since the state was known.

        True if the times tell so; if they are more than a minute apart or missing, the root does: 1 GET.
        """
        attempt.refused_only = False
        if is_recent(attempt.known, time):
            return True
        state = self._register.read()
        if state.root is not None and state.root.trimmed >= attempt.number:
            raise OutcomeUnknownError(
                f"log slot {attempt.number} of {self._collection}",
                reason="the answer came so late that the slot was trimmed meanwhile",
                key=self._paths.entry(attempt.number),
            )
        return False

    def _too_late(self, losses: int) -> UnavailableError:
        return UnavailableError(
            f"commit to {self._collection}",
            reason=f"{losses} races were lost to other writers until the deadline",
            fix="retry later, or commit larger batches less often",
        )

    def _failed(self, error: WormError, attempt: Attempt, pending: Pending) -> Outcome:
        what, key = f"commit to {self._collection}", self._paths.entry(attempt.number)
        failure: WormError
        if not attempt.has({pending.id}):
            failure = UnavailableError(what, reason=f"what it waited for failed: {error}", key=key)
        elif attempt.refused_only:
            failure = UnavailableError(what, reason=f"{error.what}: {error.reason}", fix=error.fix, key=key)
            if not isinstance(error, UnavailableError):
                failure = error
        else:
            with within(None):  # however long the state is held: what is told here must be true
                self._head.forget()
            commit_id = attempt.commit_id(pending.id)
            failure = OutcomeUnknownError(what, reason=str(error), fix=RESOLVE_FIRST, key=key, commit_id=str(commit_id))
            log.warning("%s: outcome of entry %d is unknown: %s", self._collection, attempt.number, error)
        if failure is not error:
            failure.__cause__ = error
        return self._ended(pending, failure)

    def _pause(self, tries: int) -> None:
        """Full jitter: anywhere between nothing and a bound that doubles."""
        bound = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2 ** min(tries, 20))
        pause(self._clock, self._chance.fraction() * bound)
