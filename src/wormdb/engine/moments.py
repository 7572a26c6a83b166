"""Moments of a collection: after an entry of its log, or at a time. Which of them a view can tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from wormdb.errors import InvalidRequestError, SnapshotTooOldError
from wormdb.format.blocklist import BlockPageRef
from wormdb.format.event import JobAttached
from wormdb.format.past import first_ms, misc_ms
from wormdb.format.wrappers import moment
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.state import View
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry

__all__ = ["AsOf", "check_begun", "view_at"]


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment: the changes through a log number, or those made up to the end of a millisecond."""

    bound: int
    is_time: bool = False
    now_ms: int = 0

    @classmethod
    def number(cls, number: int) -> AsOf:
        """After log entry `number`; 0 is before the first."""
        return cls(number)

    @classmethod
    def time(cls, ms: int, *, now_ms: int) -> AsOf:
        """At a time in milliseconds since 1970, by the clocks of those who wrote; now it is `now_ms`."""
        return cls(ms, is_time=True, now_ms=now_ms)

    def has(self, rev: int, misc: int) -> bool:
        """Whether a change by entry `rev`, made at `misc`, had been made then."""
        return (misc_ms(misc) if self.is_time else rev) <= self.bound

    def may_have(self, part: BlockEntry | BlockPageRef) -> bool:
        """Whether any row of a part of history may have been written by then."""
        if not self.is_time:
            return part.rev_first <= self.bound
        begun = None if isinstance(part, BlockPageRef) else first_ms(part)
        return begun is None or begun <= self.bound

    def __str__(self) -> str:
        return _show(self.bound) if self.is_time else f"entry {self.bound}"


def view_at(view: View, as_of: AsOf) -> View | None:
    """The view as it was then, or None if that was before its root, or before all it has: history tells. No requests.

    Raises InvalidRequestError for a moment to come, SnapshotTooOldError for an entry before history.
    """
    base, root = view.base_number, None if view.place is None else view.place.root
    if not as_of.is_time:
        if as_of.bound > view.number:
            raise InvalidRequestError(
                f"the state as of {as_of}",
                reason=f"the newest entry is {view.number}",
                fix=f"ask for an entry up to {view.number}",
            )
        begins = 0 if root is None else root.history_from
        if as_of.bound < begins:
            _too_old(as_of, f"history begins after entry {begins}", f"ask for entry {begins} or a later one")
        return _earlier(view, as_of.bound) if as_of.bound >= base and not _is_mapped(view) else None
    made = {entry.number: misc_ms(entry.misc) for entry in view.overlay.entries(view.number)}
    applied = 0 if root is None else misc_ms(root.misc)
    latest = max([as_of.now_ms, applied, *made.values()])
    if as_of.bound > latest:
        raise InvalidRequestError(
            f"the state as of {as_of}",
            reason=f"it is in the future: now it is {_show(latest)}",
            fix="ask for a time that has been",
        )
    reached = [number for number, ms in made.items() if ms <= as_of.bound]
    if _is_mapped(view) or (not reached and (root is None or as_of.bound < applied)):
        return None
    number = max([base, *reached])
    later = (entry for entry in view.overlay.entries(view.number) if entry.number > number)
    # What a job brought was made before its entry: only history tells what there was then.
    return None if any(map(_brings, later)) else _earlier(view, number)


def _is_mapped(view: View) -> bool:
    """Whether the view shows documents in another shape than they were written in: the past has the latter."""
    return bool(view.definition.upgrades.steps)


def _earlier(view: View, number: int) -> View:
    """A view before its last entries, with as many documents as there were."""
    later = (entry for entry in view.overlay.entries(view.number) if entry.number > number)
    added = sum(map(_added, later))
    return replace(view, number=LogNumber(number), count=view.count - added)


def _brings(entry: Entry) -> bool:
    return any(isinstance(event, JobAttached) and event.history for event in entry.events)


def _added(entry: Entry) -> int:
    """How many documents more there are after an entry."""
    changes = (change for batch in entry.batches for change in batch.changes)
    added = sum((change.after is not None) - (change.before is not None) for change in changes)
    return added + sum(event.added for event in entry.events if isinstance(event, JobAttached))


def check_begun(as_of: AsOf, begins_ms: int | None) -> None:
    """Raise SnapshotTooOldError for a time before the first change that history has, at `begins_ms`. No requests."""
    if as_of.is_time and begins_ms is not None and as_of.bound < begins_ms:
        _too_old(as_of, f"history begins at {_show(begins_ms)}", "ask for that time or a later one")


def _too_old(as_of: AsOf, reason: str, fix: str) -> NoReturn:
    raise SnapshotTooOldError(f"the state as of {as_of}", reason=reason, fix=fix)


def _show(ms: int) -> str:
    try:
        return moment(ms).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    except OverflowError:
        return f"{ms} ms"
