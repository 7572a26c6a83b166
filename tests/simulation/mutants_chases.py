"""Ways to get wrong where a read ends while others write, for `tests.simulation.chasing`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.simulation.mutants import Mutant, rewritten
from wormdb.engine.commit.head import Head
from wormdb.engine.commit.readers import GroupRead, _Reader
from wormdb.engine.log.entries import Chase, Log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

__all__ = ["CHASING_MUTANTS"]


def no_slot_far_ahead() -> AbstractContextManager[object]:
    return rewritten(Chase, ("if self.distance and self.enough is None else None", "if False else None"))


def never_caught_up() -> AbstractContextManager[object]:
    """A reader whose process has just opened the collection believes nothing until it finds the end."""
    return rewritten(Head, ("tail.ended or is_enough", "tail.ended"))


def bound_for_later_readers() -> AbstractContextManager[object]:
    """Readers that a probe takes along get the bound of one that was sent before they came."""
    return rewritten(GroupRead, ("is_bounded = reader.chase.enough is not None", "is_bounded = False"))


@contextmanager
def bound_kept_for_later_readers() -> Iterator[None]:
    """And no other slot is asked for."""
    kept = rewritten(GroupRead, ("reader.chase.enough = None  # they may have come after that was found", "pass"))
    with bound_for_later_readers(), kept:
        yield


def bound_for_later_probes() -> AbstractContextManager[object]:
    return rewritten(GroupRead, ("if sender is reader or 0 < sender.order < reader.order:", "if True:"))


def bound_for_those_that_wait() -> AbstractContextManager[object]:
    """Readers that came after the probe was sent get its bound."""
    whom = "if sender is reader or 0 < sender.order < reader.order:\n            for each in (*sender.readers, sender"
    return rewritten(GroupRead, (whom, f"{whom}, *self._queue"))


def bound_of_others() -> AbstractContextManager[object]:
    """A reader goes with the sender of its probe, whose bound was found before it came."""
    return rewritten(
        GroupRead,
        ("if each.enough is not None and number >= each.enough", "if reader.enough and number >= reader.enough"),
        ("each.enough_sent", "reader.enough_sent"),
    )


def taken_slot_as_bound() -> AbstractContextManager[object]:
    """A slot far ahead bounds a read though an entry is there."""
    return rewritten(Log, ("None if mark is None or probes[0].found is not None else", "None if mark is None else"))


def age_of_the_last_probe() -> AbstractContextManager[object]:
    """A state counts as new as the last probe, though what others wrote after an earlier one is not in it."""
    return rewritten(
        GroupRead, ("self.asked_at or each.enough_sent, each.enough_sent", "self.asked_at or reader.sent, reader.sent")
    )


def bound_of_an_earlier_read() -> AbstractContextManager[object]:
    kept = Chase()
    return rewritten(_Reader, ("self.chase = Chase()", "self.chase = kept"), kept=kept)


CHASING_MUTANTS = [
    Mutant("no slot far ahead is asked for", no_slot_far_ahead, "chases", 1),
    Mutant("no bound makes a process caught up", never_caught_up, "chases", 1),
    Mutant("bound of an earlier probe", bound_for_later_readers, "chases", 17),
    Mutant("bound of an earlier probe, kept", bound_kept_for_later_readers, "chases", 1),
    Mutant("bound given to later probes", bound_for_later_probes, "chases", 52),
    Mutant("bound given to those that wait", bound_for_those_that_wait, "chases", 32),
    Mutant("bound of the sender for all", bound_of_others, "chases", 1),
    Mutant("a slot with an entry as bound", taken_slot_as_bound, "chases", 1),
    Mutant("age of the last probe", age_of_the_last_probe, "chases", 30),
    Mutant("bound of an earlier read", bound_of_an_earlier_read, "chases", 21),
]
