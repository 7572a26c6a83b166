"""A handed write lands once, whatever becomes of the server that it was handed to: the log decides.

A write that is handed on carries a mark, and the log number that the server which hands it on knew. If no answer comes,
that server withdraws it: an empty event with the mark, which the log takes only while no batch with the mark is in it.
The owner's commit in turn is taken only while no such event is in the log. As each entry follows all entries before
it, one of the two comes first, and the other is refused for good: also if the owner slept for hours meanwhile.

    the batch is in the log       it is told as done, with its ids
    the withdrawal is             the owner can never commit it: it is written here, as if it had not been handed on
    neither can be told           the outcome is unknown

Both look at every entry behind the number: in the tail that the process has, or, where the root went further, in the
log itself. Where that was trimmed, nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wormdb.api.collection import Collection
from wormdb.engine.state.view import View
from wormdb.errors import WormError
from wormdb.format import json
from wormdb.format.event import Nothing
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.ledger import Ledger
    from wormdb.format.entry import Entry

__all__ = ["MARK", "UntoldWriteError", "WithdrawnWriteError", "commit_marked", "withdraw"]

MARK: Final = "handed"
"""Of metadata: names a write that was handed from one server to another."""
LOOKS_MAX: Final = 8
"""How often the log is looked at again because a root went further meanwhile."""

T = TypeVar("T")


class WithdrawnWriteError(WormError):
    """The server that handed a write on has withdrawn it: it is not written. Inside this package."""


class UntoldWriteError(WormError):
    """The log does not tell any more whether a write was withdrawn, or landed: it is not written. Of this package."""


class _BehindError(WormError):
    """The root went further than what was looked at. Nothing was written."""


class _LandedError(WormError):
    """The write that is to be withdrawn is in the log."""


@dataclass(frozen=True, slots=True)
class _UnwithdrawnGuard:
    """Refuses a handed batch that was withdrawn; what entries up to a number say is known."""

    mark: str
    number: int

    def check(self, view: View) -> None:
        """See `Guard`; raises WithdrawnWriteError. No requests."""
        if _is_withdrawn(_entries_after(view, self.number), self.mark):
            raise WithdrawnWriteError(f"write {self.mark}", reason="it was withdrawn")


@dataclass(frozen=True, slots=True)
class _UnwrittenGuard:
    """Refuses to withdraw a batch that is in the log; what entries up to a number say is known."""

    mark: str
    number: int

    def check(self, view: View) -> None:
        """See `Guard`. No requests."""
        if _written(_entries_after(view, self.number), self.mark) is not None:
            raise _LandedError(f"write {self.mark}", reason="it was committed")


def _entries_after(view: View, number: int) -> list[Entry]:
    """The entries of a state behind a number. Raises _BehindError if its tail does not reach back so far."""
    while isinstance(view.base, View):  # the state of a batch whose entry others share stands on another
        view = view.base
    if view.base_number > number:
        raise _BehindError(f"entry {number + 1}", reason="it is in the root")
    return [entry for entry in view.overlay.entries(view.number) if entry.number > number]


def _is_withdrawn(entries: Iterable[Entry], mark: str) -> bool:
    return any(isinstance(event, Nothing) and event.write_id == mark for entry in entries for event in entry.events)


def _written(entries: Iterable[Entry], mark: str) -> list[Any] | None:
    """The ids of what a batch with a mark changed; None if there is none."""
    name = mark.encode()
    for batch in (batch for entry in entries for batch in entry.batches):
        if batch.meta is not None and name in batch.meta and json.decode(batch.meta, name="metadata").get(MARK) == mark:
            return [json.decode(change.id, name="document id") for change in batch.changes]
    return None


def _seen(ledger: Ledger, after: int, mark: str) -> tuple[LogNumber, Sequence[Entry]]:
    """What the log has behind a number that no tail has: through which number, and these entries.

    No requests if the tail reaches back; else those of `Ledger.entries`. Raises UntoldWriteError.
    """
    base = ledger.known().base_number
    if base <= after:
        return LogNumber(after), ()
    entries = ledger.entries(LogNumber(after), base)
    if entries is None:
        raise UntoldWriteError(f"write {mark}", reason=f"the log behind entry {after} was trimmed")
    return base, entries


def commit_marked(collection: Collection[Any], mark: str, number: int, commit: Callable[[Collection[Any]], T]) -> T:
    """Commit a write that was handed on when the log ended at `number`, unless it was withdrawn.

    `commit` is given the collection to write to, and must write the mark as metadata. Costs what it costs; 1 GET for
    each entry between, and 1, if the root of this process goes further than `number`. Raises what it raises;
    WithdrawnWriteError, and UntoldWriteError: then nothing was written, and nothing will be.
    """
    access = collection._access  # noqa: SLF001 - this package is a part of the database
    for _ in range(LOOKS_MAX):
        through, entries = _seen(access.ledger, number, mark)
        if _is_withdrawn(entries, mark):
            raise WithdrawnWriteError(f"write {mark}", reason="it was withdrawn")
        try:
            return commit(Collection(replace(access, guard=_UnwithdrawnGuard(mark, through))))
        except _BehindError:
            continue
    raise UntoldWriteError(f"write {mark}", reason="the root went further each time that the log was looked at")


def withdraw(collection: Collection[Any], mark: str, number: int) -> list[Any] | None:
    """The ids of what a handed write changed, if it landed; else None, and from then on it never lands.

    1 PUT, and 1 GET as `commit_marked` if the root goes further. Raises UntoldWriteError, and what a commit raises:
    then the write may have landed, or may yet.
    """
    access = collection._access  # noqa: SLF001 - this package is a part of the database
    for _ in range(LOOKS_MAX):
        view = access.ledger.view().bare
        through, entries = _seen(access.ledger, number, mark)
        tail = (entry for entry in view.overlay.entries(view.number) if entry.number > number)
        found = _written([*entries, *tail], mark)
        if found is not None:
            return found
        try:
            access.commit_event(Nothing(write_id=WriteId(mark)), access.author, _UnwrittenGuard(mark, through))
        except (_BehindError, _LandedError):
            continue
        return None
    raise UntoldWriteError(f"write {mark}", reason="the root went further each time that the log was looked at")
