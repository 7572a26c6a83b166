"""The past of documents as users see it: entries of history, differences, snapshots, moments. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.document import shown_values
from wormdb.engine.moments import AsOf
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.format import json
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import milliseconds, moment
from wormdb.limits import INT_MAX
from wormdb.schema.duration import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.past_reader import Snapshot as Kept
    from wormdb.format.past import Version
    from wormdb.schema.model import SnapshotDefinition

__all__ = [
    "HistoryEntry",
    "Snapshot",
    "Visible",
    "chosen",
    "difference",
    "history_of",
    "parse_as_of",
    "parse_time",
    "taken_at",
    "visible",
]

STAMPED: Final = "updatedAt"
"""Changes at every save of a model's document, so it says nothing about what was changed."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change of one document: what was done, when, by whom, and what it did."""

    seq: int
    """Counts the document's changes, from 1, without gaps, also over deletes."""
    rev: int
    """The log number; give it to `as_of` to see the collection as it was then."""
    op: Literal["create", "update", "delete", "restore", "purge"]
    ts: datetime
    """When, by the clock of who made it, in UTC."""
    actor: str | None
    metadata: dict[str, Any] | None
    snapshot: dict[str, Any] | None
    """The whole document after a create or a restore, and before a delete.

    Also after an update, if that is the first change that history has: then there is no `diff`.
    """
    diff: dict[str, tuple[Any, Any]] | None
    """What an update changed: each field with its value before and after, None where it was absent."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a document that is kept to go back to."""

    ts: datetime
    """When it was taken, in UTC; different for every snapshot of a document."""
    seq: int
    """Which version: the document's change with this number."""
    size: int
    """Bytes of the document as JSON."""
    manual: bool
    """Whether `snapshot` took it; otherwise the model's `every` did."""


@dataclass(frozen=True, slots=True)
class Visible:
    """A snapshot, and the version that it keeps."""

    snapshot: Snapshot
    version: Version


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
        snapshot=None if is_compared or whole is None else shown_values(whole),
        diff=difference(earlier, version.document, stamped=stamped) if is_compared else None,
    )


def difference(before: bytes | None, after: bytes | None, *, stamped: bool) -> dict[str, tuple[Any, Any]]:
    """The fields in which two documents differ, with both values; None is no document. No requests.

    The id is not among them, nor `updatedAt` if a model keeps it.
    """
    one, two = _fields(before), _fields(after)
    skipped = {"_id", STAMPED} if stamped else {"_id"}
    names = [name for name in {**one, **two} if name not in skipped and one.get(name) != two.get(name)]
    return {name: (_value(one.get(name)), _value(two.get(name))) for name in names}


def _fields(document: bytes | None) -> dict[str, bytes]:
    return {} if document is None else {name: bytes(raw) for name, raw in _FIELDS.decode(document).items()}


def _value(field: bytes | None) -> Any:
    return None if field is None else json.decode(field, name="document")


# --- snapshots ---


def visible(
    kept: Iterable[Kept], versions: Sequence[Version], limits: SnapshotDefinition | None, now_ms: int
) -> list[Visible]:
    """The snapshots of a document that are shown, oldest first: after its last purge, and within age and number.

    Of several versions that one batch wrote, the last is the one that anybody could ever read. No requests.
    """
    purged = max((version.seq for version in versions if version.op == "purge"), default=0)
    last = {version.rev: version.seq for version in versions}
    found = sorted(
        (_visible(each) for each in kept if each.version.seq > purged and last[each.version.rev] == each.version.seq),
        key=lambda each: each.snapshot.ts,
    )
    if limits is None or not found:
        return found
    shown, newest = found[:-1], found[-1:]
    if limits.max_age is not None:
        seconds = duration_seconds(limits.max_age)
        assert seconds is not None, "the schema was checked when it was loaded"
        shown = [each for each in shown if milliseconds(each.snapshot.ts) >= now_ms - 1000 * seconds]
    if limits.max_count is not None:
        shown = shown[max(len(shown) + 1 - limits.max_count, 0) :]
    return shown + newest


def _visible(kept: Kept) -> Visible:
    version, taken = kept.version, kept.taken
    misc = version.misc if taken is None else taken.misc
    size = len(version.document or b"")
    return Visible(Snapshot(taken_at(misc), version.seq, size, manual=taken is not None), version)


def taken_at(misc: int) -> datetime:
    """The moment in a MISC, to the microsecond: no two entries of a log share one."""
    return _EPOCH + timedelta(microseconds=misc >> 8)


def chosen(shown: Sequence[Visible], ts: datetime | str, what: str) -> Visible:
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
