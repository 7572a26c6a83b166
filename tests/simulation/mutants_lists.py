"""Ways to get list indexes wrong: what answers, what a step changes, and what is made anew beside it.

Made and found as those of `mutants.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation.mutants import Mutant, rewritten
from wormdb.engine.forward.renew import ListRenewal
from wormdb.engine.lists import merge, postings
from wormdb.engine.lists.advance import ListProjector
from wormdb.engine.lists.read import read_lists
from wormdb.query.sources import vectors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from wormdb.engine.lists.read import ListReader

__all__ = ["LIST_MUTANTS"]


@contextmanager
def tail_not_hidden() -> Iterator[None]:
    """Lists show what the tail changed as it was before."""

    def read_bare(*given: Any) -> ListReader | None:
        found = read_lists(*given)
        return None if found is None else replace(found, touched=frozenset())

    with mock.patch.object(postings, "read_lists", read_bare), mock.patch.object(vectors, "read_lists", read_bare):
        yield


def changes_left_out_of_what_is_made_anew() -> AbstractContextManager[object]:
    return rewritten(ListProjector, ("edit.apply(self._net(begun.cursor), self.step.view.number)", "pass"))


def changes_beyond_the_cursor() -> AbstractContextManager[object]:
    """What is made anew gets documents that a later step gives it once more."""
    return rewritten(ListProjector, ("edit.apply(self._net(begun.cursor)", "edit.apply(self._net()"))


def made_anew_of_a_part() -> AbstractContextManager[object]:
    """The first documents count for all."""
    return rewritten(ListRenewal, ("found.successor.cursor != CURSOR_END", "found.successor.cursor is None"))


def deletions_lost_in_a_merge() -> AbstractContextManager[object]:
    return rewritten(merge, ("[] if is_base else sorted(gone)", "[]"))


def old_lists_not_retired() -> AbstractContextManager[object]:
    """What was made anew takes the place of the old, which no root names any more, and nothing retires."""
    return rewritten(ListRenewal, ("[*old, *edit.retired]", "edit.retired"))


LIST_MUTANTS = [
    Mutant("lists show what the tail changed", tail_not_hidden, "searching", 0, "busy"),
    Mutant("changes left out of new lists", changes_left_out_of_what_is_made_anew, "searching", 2, "busy"),
    Mutant("changes beyond the cursor of new lists", changes_beyond_the_cursor, "searching", 2, "busy"),
    Mutant("a part of the documents made anew", made_anew_of_a_part, "searching", 5, "busy"),
    Mutant("deletions lost in a merge of lists", deletions_lost_in_a_merge, "searching", 2, "busy"),
    Mutant("old lists not retired", old_lists_not_retired, "searching", 154, "busy"),
]
