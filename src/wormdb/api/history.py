"""The past of one collection: history, states as of a moment, and the ways back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wormdb.api.document import show_values
from wormdb.api.guard import VersionGuard
from wormdb.engine.commit.operations import Restore
from wormdb.engine.history.snapshots import Snapshot, VisibleSnapshot, taken_at, visible
from wormdb.engine.state.moments import AsOf
from wormdb.engine.state.view import StoredVersion, View, id_key
from wormdb.engine.tree.entries import Range
from wormdb.errors import (
    ConflictError,
    ErasedError,
    InvalidRequestError,
    NotFoundError,
    SnapshotTooOldError,
    ValidationError,
)
from wormdb.format import json
from wormdb.format.event import SnapshotTaken
from wormdb.format.past import Version, difference, misc_ms
from wormdb.format.values import normalize
from wormdb.format.wrappers import milliseconds, moment
from wormdb.settings import INT_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.engine.history.read import History

__all__ = ["CollectionHistory", "HistoryEntry", "choose_snapshot", "history_of", "parse_as_of", "parse_time"]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change of one document: what was done, when, by whom, and what it did."""

    seq: int
    """Counts the document's changes, from 1, without gaps, also over deletes."""
    rev: int
    """The log number; give it to `as_of` to see the collection as it was then. What was adopted has the adoption's."""
    op: Literal["create", "update", "delete", "restore", "purge", "expire"]
    ts: datetime
    """When, by the clock of the process that made it, in UTC."""
    actor: str | None
    metadata: dict[str, Any] | None
    snapshot: dict[str, Any] | None
    """The whole document after a create or a restore, and before a delete or an end by itself.

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
    whole = earlier if version.op in ("delete", "expire") else version.document
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


def choose_snapshot(shown: Sequence[VisibleSnapshot], ts: datetime | str, what: str) -> VisibleSnapshot:
    """The snapshot taken at `ts`, which may leave out the digits that no other one needs.

    Raises InvalidRequestError for a bad time and for one that fits several, NotFoundError for none. No requests.
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
            raise InvalidRequestError(what, reason="it must be a time in ISO 8601", fix=fix) from error
    if not isinstance(time, datetime):
        raise InvalidRequestError(what, reason="it must be a time", fix=fix)
    if time.utcoffset() is None:
        raise InvalidRequestError(what, reason="it must have a time zone", fix=fix)
    return time


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CollectionHistory(Generic[T]):
    """What a collection remembers."""

    access: Access[T]

    # --- states of the past ---

    def at(self, identity: Any, as_of: int | datetime | str) -> StoredVersion | None:
        """A document as it was; None if it was not there. Costs as `History.at`."""
        key = self.access.writer.key_of(identity)
        moment = parse_as_of(as_of, self.access.clock.now_ms())
        held = self.access.history(self.access.present()).at(key, moment)
        return None if held is None or held.document is None else held

    def scan(self, start: Any, stop: Any, as_of: int | datetime | str | None) -> Iterator[T]:
        """Documents of one state in order of id; raises what is wrong before the first one is read."""
        access = self.access
        low = b"" if start is None else _bound(start)
        high = None if stop is None else _bound(stop)
        if as_of is None and access.files is not None:
            found = access.files.answer().documents(Range(low, high))
            return (access.writer.show_past(held) for held in found)
        if as_of is None:
            view = access.view()
            if access.session is not None:
                access.session.note(None)
            return (access.writer.show(held, view.number) for _, held in view.scan(low, high) if _is_alive(held))
        moment = parse_as_of(as_of, access.clock.now_ms())
        past = access.history(access.present()).scan(moment, low, high)
        return (access.writer.show_past(held) for _, held in past if _is_alive(held))

    def count(self, as_of: int | datetime | str) -> int:
        """How many documents there were. Costs as `History.scan`."""
        moment = parse_as_of(as_of, self.access.clock.now_ms())
        found = self.access.history(self.access.present()).scan(moment)
        return sum(1 for _, held in found if _is_alive(held))

    # --- history ---

    def entries(self, identity: Any) -> list[HistoryEntry]:
        """Every change of a document, oldest first."""
        view, versions = self._versions(identity)
        return history_of(versions, stamped=self.access.writer.in_force(view) is not None)

    def diff(self, identity: Any, one: int, two: int) -> dict[str, tuple[Any, Any]]:
        """In what two versions differ; after a delete every field is absent."""
        for seq in (one, two):
            _check_seq(seq, f"diff of {identity!r} in {self.access.name}")
        view, versions = self._versions(identity)
        first, second = (self._version(versions, identity, seq) for seq in (one, two))
        stamped = self.access.writer.in_force(view) is not None
        return difference(first.document, second.document, stamped=stamped)

    def rollback(self, identity: Any, seq: int, by: Author) -> T:
        """Bring a document back to version `seq`."""
        _check_seq(seq, f"rollback of {identity!r} in {self.access.name}")
        view, versions = self._versions(identity)
        version = self._version(versions, identity, seq)
        if version.document is None:
            raise InvalidRequestError(
                f"Cannot roll back to seq {seq}", reason="entity was deleted", fix="choose a seq before or after it"
            )
        return self._bring_back(view, version, f"Cannot roll back to seq {seq}", by.noting(rollbackTo=seq))

    # --- snapshots ---

    def take(self, identity: Any, by: Author) -> Snapshot:
        """Keep the present version of a document as a snapshot; the one that there is, if it is kept already."""
        access = self.access
        encoded = access.writer.encoded_id(identity)
        key = id_key(encoded)
        for _ in range(access.settings.modify_attempts):
            view = access.present()
            self._check_enabled(view)
            held = view.get(key)
            if held is None or held.document is None:
                what = f"document {identity!r} in {access.name}"
                raise NotFoundError(what, reason="it does not exist", fix="check the id, or restore it first")
            newest = self._visible(view, key)[-1:]
            if newest and newest[0].snapshot.seq == held.seq:
                return newest[0].snapshot
            try:
                committed = access.commit_event(SnapshotTaken(id=encoded, seq=held.seq), by, VersionGuard(key, held))
            except ConflictError:
                continue
            return Snapshot(taken_at(committed.misc), held.seq, len(held.document), manual=True)
        raise ConflictError(
            f"snapshot of {identity!r} in {access.name}",
            reason=f"another writer changed it {access.settings.modify_attempts} times in a row",
        )

    def snapshots(self, identity: Any) -> list[Snapshot]:
        """The snapshots of a document that are kept, oldest first."""
        key = self.access.writer.key_of(identity)
        view = self.access.present()
        self._check_enabled(view)
        return [each.snapshot for each in self._visible(view, key)]

    def restore(self, identity: Any, ts: datetime | str, by: Author) -> T:
        """Bring a document back as a snapshot has it."""
        key = self.access.writer.key_of(identity)
        what = f"snapshot {ts!s} of {identity!r} in {self.access.name}"
        view = self.access.present()
        self._check_enabled(view)
        found = choose_snapshot(self._visible(view, key), ts, what)
        shown = found.snapshot.ts.isoformat().removesuffix("+00:00") + "Z"
        return self._bring_back(view, found.version, f"Cannot restore {what}", by.noting(snapshot=shown))

    # --- inside ---

    def _versions(self, identity: Any) -> tuple[View, list[Version]]:
        key = self.access.writer.key_of(identity)
        view = self.access.present()
        history = self.access.history(view)
        versions = history.versions(key)
        if not versions:
            self._check_unerased(history, key, identity)
        return view, versions

    def _check_unerased(self, history: History, key: bytes, identity: Any) -> None:
        """Raise ErasedError if nothing is there because it was erased. No requests."""
        erased_at = history.erased_at(key)
        if erased_at is not None:
            raise ErasedError(
                f"document {identity!r} in {self.access.name}", reason=f"it was erased at {_iso(erased_at)}"
            )

    def _version(self, versions: Sequence[Version], identity: Any, seq: int) -> Version:
        """Version `seq`; raises NotFoundError, SnapshotTooOldError."""
        name = f"{self.access.name} {identity!r}"
        if not versions:
            raise NotFoundError(f"No history of {name}", reason="there never was such a document", fix="check the id")
        first, last = versions[0].seq, versions[-1].seq
        if seq < first:
            reason = f"history begins at seq {first}"
            raise SnapshotTooOldError(f"seq {seq} of {name}", reason=reason, fix=f"choose {first} to {last}")
        if seq > last:
            raise NotFoundError(f"No oplog entry {seq} for {name}", fix=f"choose {first} to {last}")
        return versions[seq - first]

    def _bring_back(self, view: View, version: Version, what: str, by: Author) -> T:
        access = self.access
        assert version.document is not None, "deleted versions are not brought back"
        try:
            document = view.definition.upgrades.document(version.document, version.rev)
            document = access.writer.brought_back(document, access.writer.in_force(view))
        except ValidationError as error:
            raise ValidationError(
                what, problems=error.problems, fix="the model has changed since: save a document that fits it"
            ) from error
        committed = access.commit([Restore(version.id, document, view.number)], by)
        (change,) = committed.changes
        return access.writer.show(
            StoredVersion(change.id, committed.number, change.seq, change.after), committed.number
        )

    def _visible(self, view: View, key: bytes) -> list[VisibleSnapshot]:
        history = self.access.history(view)
        kept = history.snapshots(key)
        if not kept:
            return []
        model = self.access.writer.in_force(view)
        limits = None if model is None else model.snapshots
        return visible(kept, history.versions(key), limits, self.access.clock.now_ms())

    def _check_enabled(self, view: View) -> None:
        model = self.access.writer.in_force(view)
        if model is not None and not model.snapshots.enabled:
            raise InvalidRequestError(
                f"Snapshots are not enabled for {self.access.name}",
                fix='set "snapshots": {"enabled": true} in the model, and apply the schema',
            )


def _iso(ms: int) -> str:
    return moment(ms).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def _bound(identity: Any) -> bytes:
    return id_key(json.encode(normalize(identity)))


def _is_alive(held: StoredVersion) -> bool:
    return held.document is not None


def _check_seq(seq: object, what: str) -> None:
    if isinstance(seq, bool) or not isinstance(seq, int) or seq < 1:
        raise InvalidRequestError(
            what, reason=f"a seq must be a whole number of 1 or more, not {seq!r}", fix="take one from get_history"
        )
