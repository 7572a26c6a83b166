"""The past of documents as users see it: entries of history, differences, snapshots, moments. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wormdb.api.document import show_values
from wormdb.engine.history.snapshots import Snapshot, Visible, taken_at, visible
from wormdb.engine.history.tombstone import Tombstone, read_tombstone, tombstone
from wormdb.engine.state.moments import AsOf
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.format import json
from wormdb.format.differing import difference
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import milliseconds, moment
from wormdb.settings import INT_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.state.view import Held, View
    from wormdb.format.past import Version
    from wormdb.schema.model import Model

__all__ = [
    "HistoryEntry",
    "Snapshot",
    "Tombstone",
    "TrashedDocument",
    "Visible",
    "check_trash",
    "choose_snapshot",
    "difference",
    "history_of",
    "parse_as_of",
    "parse_time",
    "read_tombstone",
    "scan_trash",
    "taken_at",
    "tombstone",
    "visible",
]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change of one document: what was done, when, by whom, and what it did."""

    seq: int
    """Counts the document's changes, from 1, without gaps, also over deletes."""
    rev: int
    """The log number; give it to `as_of` to see the collection as it was then. What was adopted has the adoption's."""
    op: Literal["create", "update", "delete", "restore", "purge"]
    ts: datetime
    """When, by the clock of the process that made it, in UTC."""
    actor: str | None
    metadata: dict[str, Any] | None
    snapshot: dict[str, Any] | None
    """The whole document after a create or a restore, and before a delete.

    Also after an update, if that is the first change that history has: then there is no `diff`.
    """
    diff: dict[str, tuple[Any, Any]] | None
    """What an update changed: each field with its value before and after, None where it was absent."""


# --- history ---


def history_of(versions: Sequence[Version], *, stamped: bool) -> list[HistoryEntry]:
    """The entries of all versions of a document; `stamped` if a model keeps its times. No requests."""
    before: Version | None = None
    entries = []
    for version in versions:
        entries.append(_entry(version, before, stamped=stamped))
        before = version
    return entries


def _entry(version: Version, before: Version | None, *, stamped: bool) -> HistoryEntry:
    earlier = None if before is None else before.document
    # The first version that history has of a document may be an update: there is nothing to compare it with.
    is_compared = version.op == "update" and earlier is not None
    whole = earlier if version.op == "delete" else version.document
    return HistoryEntry(
        seq=version.seq,
        rev=version.rev,
        op=version.op,
        ts=moment(misc_ms(version.misc)),
        actor=version.actor,
        metadata=None if version.meta is None else json.decode_document(version.meta, name="metadata"),
        snapshot=None if is_compared or whole is None else show_values(whole),
        diff=difference(earlier, version.document, stamped=stamped) if is_compared else None,
    )


# --- snapshots ---


def choose_snapshot(shown: Sequence[Visible], ts: datetime | str, what: str) -> Visible:
    """The snapshot taken at `ts`, which may leave out the digits that no other one needs.

    Raises InvalidRequestError for what is no time or fits several, NotFoundError for none. No requests.
    """
    wanted = parse_time(ts, what)
    for unit in (1, 1_000, 1_000_000):
        if wanted.microsecond % unit:
            break
        cut = timedelta(microseconds=unit)
        fitting = [each for each in shown if wanted <= each.snapshot.ts < wanted + cut]
        if len(fitting) > 1:
            times = ", ".join(each.snapshot.ts.isoformat() for each in fitting[:10])
            raise InvalidRequestError(what, reason=f"several snapshots are of that time: {times}", fix="name one")
        if fitting:
            return fitting[0]
    raise NotFoundError(what, reason="there is none of that time", fix="see list_snapshots")


# --- moments ---


def parse_as_of(as_of: int | datetime | str, now_ms: int) -> AsOf:
    """The moment that a caller means; raises InvalidRequestError. No requests."""
    what = f"as_of={as_of!r}"
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        if not 0 <= as_of <= INT_MAX:
            raise InvalidRequestError(what, reason="a log number is 0 or more", fix="use the rev of a document")
        return AsOf.number(as_of)
    return AsOf.time(milliseconds(parse_time(as_of, what)), now_ms=now_ms)


def parse_time(value: datetime | str | bool, what: str) -> datetime:
    """An aware datetime, given as one or as ISO text; raises InvalidRequestError. No requests."""
    fix = 'give a datetime with a time zone, or text such as "2026-02-24T12:00:00Z"'
    time = value
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidRequestError(what, reason="it is no time in ISO 8601", fix=fix) from error
    if not isinstance(time, datetime):
        raise InvalidRequestError(what, reason="it is no time", fix=fix)
    if time.utcoffset() is None:
        raise InvalidRequestError(what, reason="it has no time zone, so it is no moment", fix=fix)
    return time


# --- Deleted documents that can be restored, as users see them. No I/O.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrashedDocument(Generic[T]):
    """A document in the trash."""

    id: Any
    deleted_at: datetime
    deleted_by: str | None
    """The actor of the delete."""
    expires_at: datetime | None
    """From when on `purge_expired` removes it; None if it stays for ever."""
    document: T
    """As it was when it was deleted."""


def scan_trash(view: View) -> Iterator[Held]:
    """Everything that is in the trash in a view, in order of id. Costs as `View.scan_trashed`."""
    return (held for _, held in view.scan_trashed())


def check_trash(model: Model | None, name: str) -> None:
    """Raise InvalidRequestError if deleted documents of a collection do not go to a trash. No requests."""
    if model is None:
        raise InvalidRequestError(
            f"Soft delete is not enabled for {name}",
            reason="the collection has no model",
            fix='give it a model with "softDelete": true',
        )
    if not model.soft_delete.enabled:
        raise InvalidRequestError(
            f"Soft delete is not enabled for {name}", fix='set "softDelete": true in the model, and apply the schema'
        )
