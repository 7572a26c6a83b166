"""Ways to take or to tell of an offered batch wrongly.

Made and found as those of `mutants.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.mutants import Mutant, rewritten
from wormdb.engine.commit.commit import Committer
from wormdb.engine.commit.offers import Offer, Offers
from wormdb.engine.commit.resolve import Resolver
from wormdb.engine.commit.validate import Group
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from wormdb.engine.commit.head import Head
    from wormdb.format.entry import Entry

__all__ = ["OFFER_MUTANTS"]


def taken_after_an_event() -> AbstractContextManager[object]:
    return rewritten(
        Offers, ("if any(entry.events for entry in near if", "if False and any(entry.events for entry in near if")
    )


def taken_over_newer() -> AbstractContextManager[object]:
    return rewritten(Group, ("held is not None and held.rev > number for", "False for"))


def taken_without_unique() -> AbstractContextManager[object]:
    return rewritten(Group, ("self._accept(batch, batch.claims(self._definition.indexes),", "self._accept(batch, {},"))


def taken_after_its_slots() -> AbstractContextManager[object]:
    def holds(offer: Entry, head: Head) -> bool:
        return head.hash_at(LogNumber(offer.number - 1)) == offer.previous

    return mock.patch.object(Offers, "_holds", staticmethod(holds))


def ends_too_early() -> AbstractContextManager[object]:
    return mock.patch.object(Offer, "through", property(lambda offer: offer.entry.number))


def refused_while_open() -> AbstractContextManager[object]:
    return rewritten(Committer, ("elif self._are_open(refused):", "elif False:"))


def nothing_told_while_open() -> AbstractContextManager[object]:
    return rewritten(Committer, ("if offer is None or pending.id not in offer.open:", "if True:"))


def nothing_told_though_taken() -> AbstractContextManager[object]:
    taken = "return committed(offer.taken[pending.id], pending.id)\n    if offer is None or"
    return rewritten(Committer, (taken, "return error\n    if offer is None or"))


def taken_meanwhile_unnoticed() -> AbstractContextManager[object]:
    return rewritten(Offers, ("return is_known and offer.taken.keys().isdisjoint(batches)", "return True"))


def resolved_by_one_slot() -> AbstractContextManager[object]:
    return rewritten(Resolver, ("commit.slot + commit.more + 1", "commit.slot + 1"))


OFFER_MUTANTS = [
    Mutant("offer taken after an event", taken_after_an_event, "unique", 3, "offers"),
    Mutant("offer taken over newer documents", taken_over_newer, "register", 3, "offers"),
    Mutant("offer taken without unique values", taken_without_unique, "unique", 29, "offers"),
    Mutant("offer taken after its slots", taken_after_its_slots, "set", 60, "offers"),
    Mutant("offer ends too early", ends_too_early, "set", 0, "offers"),
    Mutant("offer refused while it is open", refused_while_open, "unique", 39, "offers"),
    Mutant("nothing written while an offer is open", nothing_told_while_open, "set", 0, "offers"),
    Mutant("nothing written though an offer was taken", nothing_told_though_taken, "set", 21, "offers"),
    Mutant("offer taken meanwhile unnoticed", taken_meanwhile_unnoticed, "set", 3, "offers"),
    Mutant("offer resolved by one slot", resolved_by_one_slot, "set", 0, "offers"),
]
