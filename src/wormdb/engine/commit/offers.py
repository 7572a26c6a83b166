"""Entries that another writer may take into the log, so that writers of many processes share one entry.

Only one PUT at a time can win the next slot of a log. Among many processes the one that writes entries without a break
gathers: it takes the batches of the others into its own. An offer is an entry as its writer would put it into slot
n + 1, checked against the state at n, and stored beside the log instead. The one that gathers takes its batches into a
later slot m + 1, if nothing that they rest on changed from n to m. Its writer finds them when it reads the log.

Each batch lands at most once, without clocks, because of what each writer knows for sure:

- An offer holds for `OFFER_SLOTS` slots from its own on, and ends before the first entry with an event.
- A batch is taken only by a writer that has read every entry from the offer's slot on, and if none of them changes one
  of its documents: so it is in none of them.
- The writer of the offer may commit the batch itself at any time: it too has read all of these entries, and of
  two entries for one slot one wins. It refuses a batch only when the offer has ended; an empty event ends it.

So an offer may be lost, late, stored for years or deleted at any time: its writer then commits by itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wormdb.errors import UnavailableError, WormError
from wormdb.settings import ENTRY_BYTES_MAX, GROUP_BATCHES_MAX, KIB
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.commit.head import Head
    from wormdb.engine.commit.validate import Group
    from wormdb.engine.log.entries import Log
    from wormdb.format.entry import Entry, LoggedBatch

__all__ = ["OFFER_BYTES_MAX", "OFFER_SLOTS", "Offer", "Offers"]

log = logging.getLogger(__name__)

OFFER_SLOTS = 8
"""In how many slots, from its own on, the batches of an offer may be."""
OFFER_BYTES_MAX = 256 * KIB
"""A larger entry is not offered: another process would have to read and write it again."""
TIDY_AT = 16
"""How many offers that have ended are removed at once."""


class Offer:
    """What this process has offered, and what became of it by the entries that are known."""

    def __init__(self, entry: Entry) -> None:
        """Nothing is known of it yet but the entries before its slot."""
        self.entry = entry
        self.ids = frozenset(batch.id for batch in entry.batches)
        self.taken: dict[str, Entry] = {}
        """In which entries its batches are."""
        self.seen = LogNumber(entry.number - 1)
        """Through which entry the log is known."""
        self._is_void = False

    @property
    def through(self) -> LogNumber:
        """The last slot that may have a batch of it."""
        return LogNumber(self.entry.number + OFFER_SLOTS - 1)

    @property
    def open(self) -> frozenset[str]:
        """The batches that may still be taken."""
        if self._is_void or self.seen >= self.through:
            return frozenset()
        return self.ids.difference(self.taken)

    def told(self, entry: Entry) -> None:
        """An entry is known; one that does not follow on is left to `Offers.follow`."""
        if entry.number != self.seen + 1 or not self.open:
            return
        # Anew, and before the rest: other threads read it meanwhile.
        self.taken = self.taken | {batch.id: entry for batch in entry.batches if batch.id in self.ids}
        self.seen = LogNumber(entry.number)
        self._is_void = bool(entry.events)


class Offers:
    """The offers of one collection: those of this process, and those of others. For one thread, but for `told`."""

    def __init__(self, log: Log) -> None:
        """Nothing is read or written yet."""
        self._log = log
        self.own: Offer | None = None
        """The last one of this process, whose batches may be in the log, or get there."""
        self._ended: list[str] = []
        self._read: dict[str, Entry | None] = {}
        """Offers of others that may be taken, by key; None for one that cannot be read."""

    def told(self, entry: Entry) -> None:
        """An entry is known, the next of the log; see `Head`."""
        if self.own is not None:
            self.own.told(entry)

    def put(self, entry: Entry, body: bytes) -> None:
        """Offer an entry. 1 PUT, and 1 DELETE beside it for each 16. Whatever goes wrong, it may be there."""
        key = self._log.paths.offer(LogNumber(entry.number), entry.write_id)
        gone, self._ended = (self._ended, [key]) if len(self._ended) >= TIDY_AT else ([], [*self._ended, key])

        def store(offered: str) -> None:
            if offered:
                self._log.store.put(key, body)
            else:
                self._log.store.delete_many(gone)

        try:
            for _ in self._log.pool.map(store, [key, ""] if gone else [key]):
                pass
        except WormError as error:
            log.info("%s: an offer may not be there: %s", self._log.collection, error)

    def forget_ended(self) -> None:
        """Let what was offered be offered again, if no writer can take it any more."""
        if self.own is not None and not self.own.open and not self.own.taken:
            self.own = None

    def is_settled(self, number: LogNumber, batches: Iterable[str]) -> bool:
        """Whether none of these batches is known to be in the log, and all that it holds through `number` is known."""
        offer = self.own
        if offer is None:
            return True
        is_known = not offer.open or offer.seen >= min(number, offer.through)
        return is_known and offer.taken.keys().isdisjoint(batches)

    def follow(self, head: Head) -> None:
        """Know of every entry that the head has passed. No requests, or 1 GET each and 1 if the head began anew.

        Raises UnavailableError if the entries are gone: then nothing tells whether the offer was taken.
        """
        offer = self.own
        if offer is None or not offer.open:
            return
        with head.lock:
            reached = LogNumber(min(head.number, offer.through))
            for entry in head.view().overlay.entries(reached):
                offer.told(entry)
        if not offer.open or offer.seen >= reached:
            return
        found = self._log.between(offer.seen, reached, head.register)
        if found is None:
            raise UnavailableError(f"the log of {self._log.collection}", reason=f"entry {offer.seen + 1} is gone")
        for record in found:
            offer.told(record.entry)

    def gather(self, after: LogNumber, mark: str) -> int:
        """Learn of the offers of others that may be taken into the entry after `after`; how many are new.

        1 LIST, and 1 GET for each new one, side by side. What cannot be read is left to its writer.
        """
        paths = self._log.paths
        first = paths.offer(LogNumber(max(after + 2 - OFFER_SLOTS, 0)), "")
        try:
            keys = [info.key for page in self._log.store.list(paths.offers, after=first) for info in page.objects]
            self._read = {key: entry for key, entry in self._read.items() if key >= first}
            new = [key for key in keys if key not in self._read and not _is_of(key, mark)]
            self._read |= dict(zip(new, self._log.pool.map(self._fetch, new), strict=True))
        except WormError as error:
            log.info("%s: offers are not gathered: %s", self._log.collection, error)
            return 0
        return len(new)

    def _fetch(self, key: str) -> Entry | None:
        try:
            found = self._log.store.probe(key).found
            number = int(key.rpartition("/")[2].partition("-")[0])
            return None if found is None else self._log.decode(LogNumber(number), found.body).entry
        except (WormError, ValueError) as error:
            log.warning("%s: offer %s is passed over: %s", self._log.collection, key, error)
            return None

    def take(self, group: Group, accepted: Sequence[LoggedBatch], head: Head) -> list[LoggedBatch]:
        """The batches of others that can follow those of a group, which then has them. Needs the lock of the head.

        No requests but those of looking up unique values.
        """
        view = head.view()
        if not self._read or not view.count:
            return []  # an empty collection without a model takes the first one that comes
        near = [entry for entry in view.overlay.entries(view.number) if entry.number > view.number - OFFER_SLOTS]
        taken: list[LoggedBatch] = []
        size = _bytes_of(accepted)
        for _, offer in sorted(self._read.items()):
            if offer is None or not self._holds(offer, head):
                continue
            if any(entry.events for entry in near if entry.number >= offer.number):
                continue
            for batch in offer.batches:
                size += _bytes_of([batch])
                if size > ENTRY_BYTES_MAX // 2 or len(accepted) + len(taken) >= GROUP_BATCHES_MAX:
                    return taken
                try:
                    group.add_checked(batch, LogNumber(offer.number - 1))
                except WormError as error:
                    log.debug("%s: a batch is left to its writer: %s", self._log.collection, error)
                else:
                    taken.append(batch)
        return taken

    @staticmethod
    def _holds(offer: Entry, head: Head) -> bool:
        """Whether the next slot is one of the offer's, and every entry from the first of these on is known."""
        is_near = offer.number <= head.number + 1 < offer.number + OFFER_SLOTS
        return is_near and not offer.events and head.hash_at(LogNumber(offer.number - 1)) == offer.previous


def _is_of(key: str, mark: str) -> bool:
    return key.rpartition("-")[2].startswith(mark)


def _bytes_of(batches: Iterable[LoggedBatch]) -> int:
    return sum(200 + len(each.before or b"") + len(each.after or b"") for one in batches for each in one.changes)
