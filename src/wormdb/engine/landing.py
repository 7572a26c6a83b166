"""What became of an entry, for work that goes on after it: told for sure, and not forgotten when the rest fails.

A job ends in one entry. If the answer to it is lost the job settles the slot, so that it knows, or says that it does
not know. And where more is to be done after the entry, a failure of that must not say that nothing was written.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from wormdb.engine.commit.commit import CommitId, Committed
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.state.operations import Pending

__all__ = ["commit_for_sure", "landed"]


def commit_for_sure(
    commit: Callable[[Pending], Committed], settle: Callable[[str], Fate], pending: Pending
) -> Committed | None:
    """Commit a batch, and find out what became of it; None if it is not in the log, and can no longer get there.

    Costs as `commit`; 4 GETs and 1 PUT more if its outcome is unknown. Raises what `commit` does: an
    OutcomeUnknownError only if `settle` cannot tell either.
    """
    try:
        return commit(pending)
    except OutcomeUnknownError as error:
        if error.commit_id is None:
            raise
        try:
            fate = settle(error.commit_id)
        except WormError as failure:
            raise error from failure
        if fate is Fate.UNKNOWN:
            raise
        known = CommitId.parse(error.commit_id)
        return None if fate is Fate.NOT_COMMITTED else Committed(known.slot, Misc(0), (), error.commit_id)


@contextmanager
def landed(what: str, committed: Committed | None, *, rest: str) -> Iterator[None]:
    """Run what follows an entry; `rest` says who does it if it fails. Without an entry errors are what they are.

    UnavailableError would say that nothing was written: an OutcomeUnknownError with the commit id of the entry is
    raised instead of it, and instead of one about something else.
    """
    try:
        yield
    except (UnavailableError, OutcomeUnknownError) as error:
        if committed is None or not committed.id:
            raise
        raise OutcomeUnknownError(
            what,
            reason=f"entry {committed.number} is in the log, but what follows it failed: {error}",
            fix=f"do not repeat it: {rest}",
            key=error.key,
            commit_id=committed.id,
        ) from error
