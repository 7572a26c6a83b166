"""Moments of a collection: after an entry of its log, or at a time. Which of them a view can tell.

The state at a time is that after the last entry that was made by then. Entries say when they were made, by the clocks
of the writers, and each follows the time of the one before; but not if that was far ahead (see `MiscClock`). Then
times go back: what came before an entry, or before a root that has it, was made before it, whatever it says itself.
Roots keep where that happened (`Root.dated`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from wormdb.engine.state.erased import erasures_of
from wormdb.errors import InvalidRequestError, SnapshotTooOldError
from wormdb.format.blocklist import BlockPageRef
from wormdb.format.event import JobAttached
from wormdb.format.past import first_ms, misc_ms
from wormdb.format.root import DateCorrection
from wormdb.format.wrappers import moment
from wormdb.settings import DATED_MAX, MISC_LEAD_MS_MAX
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.state.view import View
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root

__all__ = ["AsOf", "check_begun", "following_dates", "view_at"]

_LEAD: Final = MISC_LEAD_MS_MAX * 1000 << 8


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment: the changes through a log number, or those made up to the end of a millisecond."""

    bound: int
    is_time: bool = False
    now_ms: int = 0
    floor: int = 0
    """At a time: through which entry all had been made by then, whatever they say; see `over`."""
    seen_ms: int | None = None
    """After an entry: when its state was shown, by the store's time, if documents that were over then do not count."""

    @classmethod
    def number(cls, number: int, *, seen_ms: int | None = None) -> AsOf:
        """After log entry `number`; 0 is before the first. As the log tells it, or as it was shown at `seen_ms`."""
        return cls(number, seen_ms=seen_ms)

    @property
    def shown_ms(self) -> int | None:
        """The time by which documents that were over are not shown; None if all are."""
        return self.bound if self.is_time else self.seen_ms

    @classmethod
    def time(cls, ms: int, *, now_ms: int) -> AsOf:
        """At a time in milliseconds since 1970, by the clocks of the writers; now it is `now_ms`."""
        return cls(ms, is_time=True, now_ms=now_ms)

    def over(self, view: View) -> AsOf:
        """The same moment as a view knows it. No requests."""
        if not self.is_time:
            return self
        view = view.bare
        made = [entry.number for entry in view.overlay.entries(view.number) if misc_ms(entry.misc) <= self.bound]
        if view.place is not None:
            root = view.place.root
            made += [dated.number for dated in root.dated if dated.time <= self.bound]
            made += [root.applied] if misc_ms(root.misc) <= self.bound else []
        return replace(self, floor=max(made, default=0))

    def has(self, rev: int, misc: int) -> bool:
        """Whether a change by entry `rev`, which says that it was made at `misc`, had been made then."""
        return rev <= self.floor or misc_ms(misc) <= self.bound if self.is_time else rev <= self.bound

    def may_have(self, part: BlockEntry | BlockPageRef) -> bool:
        """Whether any row of a part of history may have been written by then."""
        if not self.is_time:
            return part.rev_first <= self.bound
        if part.rev_first <= self.floor:
            return True
        begun = None if isinstance(part, BlockPageRef) else first_ms(part)
        return begun is None or begun <= self.bound

    def __str__(self) -> str:
        return _show(self.bound) if self.is_time else f"entry {self.bound}"


def view_at(view: View, as_of: AsOf) -> View | None:
    """The view as it was then, or None if that was before its root, or before all it has: history tells. No requests.

    Raises InvalidRequestError for a moment to come, SnapshotTooOldError for an entry before history.
    """
    view = view.bare  # the past is what the log tells
    is_cut = view.definition.retention is not None  # which versions are kept is told document by document
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
        is_told = as_of.bound >= base and not _is_mapped(view) and as_of.seen_ms is None
        is_told = is_told and (as_of.bound == view.number or not is_cut)
        return _earlier(view, as_of.bound) if is_told and not _erases(view, as_of.bound) else None
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
    if view.definition.expiries or is_cut:
        return None  # what was over by then is judged document by document
    if _is_mapped(view) or (not reached and (root is None or as_of.bound < applied)):
        return None
    number = max([base, *reached])
    later = (entry for entry in view.overlay.entries(view.number) if entry.number > number)
    # What a job brought was made before its entry: only history tells what there was then.
    return None if any(map(_brings, later)) or _erases(view, number) else _earlier(view, number)


def _is_mapped(view: View) -> bool:
    """Whether the view shows documents in another shape than they were written in: the past has the latter."""
    return bool(view.definition.upgrades.steps)


def _earlier(view: View, number: int) -> View:
    """A view before its last entries, with as many documents as there were."""
    later = (entry for entry in view.overlay.entries(view.number) if entry.number > number)
    added = sum(map(_added, later))
    return replace(view, number=LogNumber(number), count=view.count - added, pending=())


def _erases(view: View, number: int) -> bool:
    """Whether an entry after `number` erased something: an earlier state would still show it, history does not."""
    return any(number < each for each in erasures_of(view.overlay.entries(view.number)).values())


def _brings(entry: Entry) -> bool:
    return any(isinstance(event, JobAttached) and event.history for event in entry.events)


def _added(entry: Entry) -> int:
    """How many documents more there are after an entry."""
    changes = (change for batch in entry.batches for change in batch.changes)
    added = sum((change.after is not None) - (change.before is not None) for change in changes)
    return added + sum(event.added for event in entry.events if isinstance(event, JobAttached))


def following_dates(root: Root | None, entries: Sequence[Entry], applied: int, misc: int) -> tuple[DateCorrection, ...]:
    """Where times went back, for the root after `root`, which has applied some more entries and is made at `misc`."""
    known = [] if root is None else list(root.dated)
    latest = _latest(root, has_more=bool(entries))
    for entry in entries:
        if entry.misc < latest:
            known.append(DateCorrection(entry.number - 1, misc_ms(entry.misc)))
        latest = entry.misc
    if misc < latest:
        known.append(DateCorrection(applied, misc_ms(misc)))
    kept: list[DateCorrection] = []
    for dated in reversed(known):
        if not kept or dated.time < kept[-1].time:
            kept.append(dated)
    return tuple(reversed(kept[:DATED_MAX]))


def _latest(root: Root | None, *, has_more: bool) -> int:
    """The greatest MISC of entries in a root that none of its dates is about: a smaller one goes back."""
    if root is None:
        return 0
    if root.entered:
        return min(root.misc, root.entered)
    # Nothing tells; an entry may be a little older than a root that did not have it yet.
    return root.misc - (_LEAD if has_more else 0)


def check_begun(as_of: AsOf, begins_ms: int | None) -> None:
    """Raise SnapshotTooOldError for a time before the first change that history has, at `begins_ms`. No requests."""
    if as_of.is_time and not as_of.floor and begins_ms is not None and as_of.bound < begins_ms:
        _too_old(as_of, f"history begins at {_show(begins_ms)}", "ask for that time or a later one")


def _too_old(as_of: AsOf, reason: str, fix: str) -> NoReturn:
    raise SnapshotTooOldError(f"the state as of {as_of}", reason=reason, fix=fix)


def _show(ms: int) -> str:
    try:
        return moment(ms).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    except OverflowError:
        return f"{ms} ms"
