"""Documents whose time is over and that no entry has removed yet: found, and hidden from readers.

A state is shown with the ends of these documents on top, as if an entry had removed them. So everything that reads a
state (look-ups, scans, columns, indexes, unique values, counts, transactions) takes them for removed, and an answer
does not depend on how it is found. The time is the store's.

What is due is looked for in the column of the date, once for each root and `WINDOW_MS`; blocks that have nothing due
are not read. What the tail changed is looked at in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from weakref import ref

from wormdb.engine.columns.scan import scan_columns
from wormdb.engine.state.expiry import ExpiryRule, end_of
from wormdb.engine.state.view import Overlay, StoredVersion, View
from wormdb.engine.tree.entries import Range
from wormdb.format.arrays import settle_arrow
from wormdb.format.key import encode_key
from wormdb.format.wrappers import milliseconds, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from weakref import ReferenceType

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.state.view import Base
    from wormdb.format.change import LoggedChange

__all__ = ["OverdueDocuments"]

WINDOW_MS: Final = 600_000
"""What is due within this time is looked for at once."""
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _DueInBase:
    """What of one root is due until a time."""

    base: ReferenceType[Base]
    rule: ExpiryRule
    mapped: int
    """Through which entry documents are mapped: dates may be others then."""
    until_ms: int
    dues: Sequence[tuple[int, bytes]]
    """When and the key of the id, in order."""


@dataclass(frozen=True, slots=True)
class _ShownState:
    """A state without what is over, and for how long that is the same."""

    below: View
    shown: View
    since_ms: int
    until_ms: int


class OverdueDocuments:
    """What of one collection is over. Thread-safe: two threads may find the same out twice."""

    def __init__(self) -> None:
        """Nothing is known. No requests."""
        self._in_base: _DueInBase | None = None
        self._in_tail: dict[bytes, tuple[StoredVersion, int | None]] = {}
        self._tail_rule: ExpiryRule | None = None
        self._shown: _ShownState | None = None

    def hide(self, view: View, now_ms: int) -> View:
        """A state as it is shown at a time. Costs as `ends` if something became due, or the state is another."""
        known = self._shown
        if known is not None and _is_same(known.below, view) and known.since_ms <= now_ms < known.until_ms:
            return known.shown
        ends, until_ms = self.ends(view, now_ms)
        shown = replace(view.on_top(ends), now_ms=now_ms)
        self._shown = _ShownState(view, shown, now_ms, until_ms)
        return shown

    def ends(self, view: View, now_ms: int) -> tuple[list[LoggedChange], int]:
        """The ends of the documents that are over, and when there may be more.

        Reads the documents that are over, and once for each root the column of their date, where that may be due.
        """
        rule = view.definition.expiry
        if rule is None:
            return [], now_ms + WINDOW_MS
        # What jobs attached may be newer than what the tail has of an id: then all of the state is looked through.
        tail = {} if view.overlay.attached(view.number) else self._due_in_tail(view, rule)
        in_base = self._due_in_base(view, rule, now_ms)
        over = [key for _, key in in_base.dues[: bisect_right(in_base.dues, now_ms, key=_due_of)] if key not in tail]
        over += [key for key, due in tail.items() if due is not None and due <= now_ms]
        found = [held for held in view.get_many(sorted(over)).values() if held.document is not None] if over else []
        dues = rule.dues([held.document for held in found if held.document is not None])
        ends = [end_of(held) for held, due in zip(found, dues, strict=True) if due is not None and due <= now_ms]
        later = [due for due in tail.values() if due is not None and due > now_ms]
        later += [due for due, _ in in_base.dues[bisect_right(in_base.dues, now_ms, key=_due_of) :][:1]]
        return ends, min([in_base.until_ms + 1, *later])

    def _due_in_tail(self, view: View, rule: ExpiryRule) -> dict[bytes, int | None]:
        """When each document that the tail changed ends; each is looked at once."""
        if rule != self._tail_rule:
            self._in_tail, self._tail_rule = {}, rule
        known = self._in_tail
        found: dict[bytes, int | None] = {}
        rows = view.tail()
        new = [
            (key, held)
            for key, held in rows
            if held.document is not None and ((before := known.get(key)) is None or before[0] is not held)
        ]
        dues = rule.dues([held.document for _, held in new if held.document is not None])
        looked = {key: (held, due) for (key, held), due in zip(new, dues, strict=True)}
        for key, held in rows:
            if held.document is None:
                found[key] = None
            else:
                found[key] = (looked.get(key) or known[key])[1]
        self._in_tail = {key: looked.get(key) or known[key] for key, held in rows if held.document is not None}
        return found

    def _due_in_base(self, view: View, rule: ExpiryRule, now_ms: int) -> _DueInBase:
        """What of the root is due within a while; with what jobs attached since, if there is such."""
        mapped, known = view.definition.upgrades.newest, self._in_base
        has_attached = bool(view.overlay.attached(view.number))
        if (
            known is not None
            and known.base() is view.base
            and (known.rule, known.mapped) == (rule, mapped)
            and now_ms <= known.until_ms
            and not has_attached
        ):
            return known
        until_ms = now_ms + WINDOW_MS
        below = view if has_attached else replace(view, number=view.base_number, overlay=Overlay(), pending=())
        dues = sorted(_scan(below, rule, until_ms))
        made = _DueInBase(ref(view.base), rule, mapped, until_ms, dues)
        if not has_attached:
            self._in_base = made
        return made


def _is_same(one: View, two: View) -> bool:
    return one is two or (
        one.number == two.number
        and one.base is two.base
        and one.overlay is two.overlay
        and one.definition is two.definition
        and one.committed == two.committed
    )


def _due_of(row: tuple[int, bytes]) -> int:
    return row[0]


def _scan(view: View, rule: ExpiryRule, until_ms: int) -> Iterator[tuple[int, bytes]]:
    """When the documents of a state end that do until a time, each with the key of its id."""
    last = _date(until_ms - rule.after_ms)
    bounds = {rule.path: Range(encode_key(_FIRST), encode_key(last) + b"\xff")}
    for portion in scan_columns(view, ["_id", rule.path], bounds=bounds, in_order=False):
        rows = _candidates(portion, rule.path, last)
        chosen = portion if rows is None else portion.take(rows)
        if not chosen.rows:
            continue
        for identity, value in zip(chosen.values("_id"), chosen.values(rule.path), strict=True):
            due = _due(value, rule)
            if due is not None and due <= until_ms:
                yield due, encode_key(identity)


def _due(value: object, rule: ExpiryRule) -> int | None:
    """When a document with this value of the column ends; at once if only the document tells: then it is looked at."""
    from wormdb.format.path import TRAVERSED

    if type(value) is datetime:
        return milliseconds(value) + rule.after_ms
    if value is TRAVERSED:
        return -(2**63)
    dates = [milliseconds(one) for one in value if type(one) is datetime] if type(value) is list else []
    return min(dates) + rule.after_ms if dates else None


def _candidates(portion: Portion, path: str, last: datetime) -> pa.Array | None:
    """The numbers of rows that may be due, as an array; None for all of them."""
    if portion.types.get(path) != "date" or portion.kinds(path) is not None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    settle_arrow()
    cells = portion.table.column(path)
    mask = pc.fill_null(pc.less_equal(cells, pa.scalar(last, cells.type)), False)
    return pc.indices_nonzero(mask)


def _date(ms: int) -> datetime:
    """A date within the years that there are."""
    return moment(min(max(ms, milliseconds(_FIRST)), milliseconds(_LAST)))
