"""What the files of one document say of its past: versions, snapshots, and what is there now. No I/O.

The oplog is replayed. In the end stands what the document's own file has; if the oplog does not lead there, that is a
fault, and a last version says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.engine.history.tombstone import tombstone
from wormdb.engine.state.view import StoredVersion
from wormdb.files.contents.values import STAMPS
from wormdb.format import json
from wormdb.format.past import Operation, SnapshotMark, Version
from wormdb.format.values import equal
from wormdb.format.wrappers import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.files.contents.document import OplogEntry, TombstoneFile
    from wormdb.format.kinds import Document

__all__ = [
    "CREATED",
    "UPDATED",
    "Disagreement",
    "FileContents",
    "OplogReplay",
    "SettledDocument",
    "VersionDraft",
    "compare_fields",
    "settle",
    "us_of",
]


# --- An oplog, replayed: what each of its entries left of the document. No I/O.
#
# Where it cannot be followed (an entry is missing, or says that something else was there before), what came before that
# place is given up, and the next whole document begins anew.

CREATED, UPDATED = STAMPS
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PURGE: Final = "purge"
_EXPIRE: Final = "expire"
_NUMBERS: Final = frozenset({int, float})


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Files that do not agree. `seq` names the file of the oplog, `ts` that of a snapshot; else it is the document's.

    A note costs nothing: it says what was understood in another way than the file has it.
    """

    what: str
    kind: Literal["entity", "oplog", "snapshot", "trash"] = "entity"
    seq: int = 0
    ts: datetime | None = None
    is_note: bool = False


@dataclass(slots=True)
class VersionDraft:
    """A version in the making. `touched` are the fields that its file says were changed, if it `is_filed`."""

    seq: int
    op: Operation
    us: int
    document: Document | None
    actor: str | None = None
    metadata: dict[str, Any] | None = None
    touched: frozenset[str] = frozenset()
    is_filed: bool = False


class OplogReplay:
    """Replays the oplog of one document. `stamps` has the times of writing of the document, if it has any."""

    def __init__(self, identity: Any, stamps: Document) -> None:
        """Nothing has happened yet."""
        self._id = identity
        self._stamps = stamps
        self.steps: list[VersionDraft] = []
        """What could be followed."""
        self.faults: list[Disagreement] = []

    def run(self, oplog: Sequence[OplogEntry]) -> None:
        """Follow the entries, in order of seq."""
        expected, known = 1, True
        for entry in oplog:
            if entry.seq != expected:
                missing = f"{expected}" if entry.seq == expected + 1 else f"{expected} to {entry.seq - 1}"
                known = self._give_up(entry, f"the entries before it are missing: {missing}")
            expected = entry.seq + 1
            state = self.steps[-1].document if self.steps else None
            reason = self._misfit(entry, state) if known or entry.op != "update" else None
            if reason is not None:
                known = self._give_up(entry, reason)
            if entry.op == "delete":
                self._add(entry, None)
                known = True
            elif entry.snapshot is not None:
                self._add(entry, self._stamped(entry.snapshot, entry.ts))
                known = True
            elif known and entry.diff is not None and state is not None:
                document = _changed({**state, UPDATED: entry.ts} if UPDATED in state else state, entry.diff)
                self._add(entry, self._stamped(document, entry.ts), frozenset(entry.diff))

    def _misfit(self, entry: OplogEntry, state: Document | None) -> str | None:
        """Why an entry cannot follow a state."""
        if entry.op == "delete":
            is_other = entry.snapshot is not None and state is not None and compare_fields(state, entry.snapshot)
            return "what it deletes is not what the entries before it made" if is_other else None
        if entry.snapshot is not None:
            return None
        if entry.diff is None or entry.op != "update":
            return "it has no snapshot" if entry.op != "update" else "it has neither a diff nor a snapshot"
        if state is None:
            return "it changes a document that is not there"
        wrong = [name for name, (before, _) in entry.diff.items() if not _same(state.get(name), before)]
        return f"before it, {', '.join(wrong)} had another value than it says" if wrong else None

    def _give_up(self, entry: OplogEntry, reason: str) -> bool:
        """Forget what came before an entry; nothing is known then."""
        self.faults.append(Disagreement(reason, "oplog", seq=entry.seq))
        self.steps.clear()
        return False

    def _add(self, entry: OplogEntry, document: Document | None, touched: frozenset[str] = frozenset()) -> None:
        metadata = entry.metadata
        op: Operation = entry.op
        if entry.op == "delete" and metadata is not None and metadata.get(_PURGE) is True and entry.snapshot is None:
            op, metadata = "purge", {name: value for name, value in metadata.items() if name != _PURGE}
        if entry.op == "delete" and metadata is not None and metadata.get(_EXPIRE) is True:
            op, metadata = "expire", {name: value for name, value in metadata.items() if name != _EXPIRE}
        self.steps.append(
            VersionDraft(entry.seq, op, us_of(entry.ts), document, entry.actor, metadata, touched, is_filed=True)
        )

    def _stamped(self, document: Document, ts: datetime) -> Document:
        """A version with the times of writing, if the document has some and the file leaves them out."""
        made = {"_id": self._id, **{name: value for name, value in document.items() if name != "_id"}}
        if CREATED in self._stamps:
            made.setdefault(CREATED, self._stamps[CREATED])
        if UPDATED in self._stamps:
            made.setdefault(UPDATED, ts)
        return made


def us_of(ts: datetime) -> int:
    """Microseconds since 1970."""
    since = ts - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _changed(document: Document, diff: Mapping[str, Sequence[Any]]) -> Document:
    changed = dict(document)
    for name, (_, after) in diff.items():
        if after is None:
            changed.pop(name, None)
        else:
            changed[name] = after
    return changed


def compare_fields(one: Document, two: Document) -> list[str]:
    """The fields in which two documents differ; null is as good as absent, and times of writing are left out."""
    names: Iterable[str] = dict.fromkeys([*one, *two])
    return [name for name in names if name not in {"_id", *STAMPS} and not _same(one.get(name), two.get(name))]


def _same(one: Any, two: Any) -> bool:
    """Whether two values mean the same: other tools write 1 for 1.0, and members in another order."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(value, two[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    if type(one) in _NUMBERS and type(two) in _NUMBERS:
        return bool(one == two or equal(one, two))
    return equal(one, two)


_NOTE: Final = {"adopted": True}
"""The metadata of a version that no file tells of."""


@dataclass(frozen=True, slots=True)
class FileContents:
    """The files of one document, as they were read."""

    id: Any
    entity: Document | None = None
    oplog: tuple[OplogEntry, ...] = ()
    """In order of seq."""
    snapshots: Mapping[datetime, Document] = field(default_factory=dict)
    trashed: Document | None = None
    tombstone: TombstoneFile | None = None


@dataclass(frozen=True, slots=True)
class SettledDocument:
    """A document as the engine holds it, with its past; revisions are 0, because the entry has no number yet."""

    held: StoredVersion
    versions: tuple[Version, ...]
    marks: tuple[SnapshotMark, ...]
    faults: tuple[Disagreement, ...]


def settle(filed: FileContents, limit: int) -> SettledDocument:
    """What a document's files say together; no version is later than the MISC `limit`. No requests."""
    past = _Past(filed, limit >> 8)
    past.begin()
    past.end()
    past.mark()
    identity = json.encode(filed.id)
    moments = past.moments()
    versions = tuple(
        Version(
            identity,
            step.seq,
            0,
            step.op,
            moment << 8,
            step.actor,
            json.encode(step.metadata) if step.metadata else None,
            document=None if step.document is None else json.encode_document(step.document),
        )
        for step, moment in zip(past.steps, moments, strict=True)
    )
    marks = tuple(SnapshotMark(identity, seq, 0, moment << 8) for seq, moment in past.marks())
    last = past.steps[-1]
    document = None if last.document is None else versions[-1].document
    trash = None if last.document is not None else past.trash(identity, moments[-1])
    held = StoredVersion(identity, 0, last.seq, document, trash)
    return SettledDocument(held, versions, marks, tuple(past.faults))


class _Past:
    """One document's versions, put together."""

    def __init__(self, filed: FileContents, limit: int) -> None:
        self._filed = filed
        self._limit = limit
        replay = OplogReplay(filed.id, filed.entity or filed.trashed or {})
        replay.run(filed.oplog)
        self.steps = replay.steps
        self.faults = replay.faults
        self._taken: dict[int, datetime] = {}

    # --- without an oplog ---

    def begin(self) -> None:
        """Without an oplog each snapshot that differs from the one before it is a version."""
        if self._filed.oplog:
            return
        for ts, document in sorted(self._filed.snapshots.items()):
            last = self.steps[-1].document if self.steps else None
            if last is None or compare_fields(last, document):
                self._append("update" if self.steps else "create", document, us_of(ts), note=False)

    def _append(
        self, op: Operation, document: Document | None, us: int, actor: str | None = None, *, note: bool = True
    ) -> None:
        """A version that the oplog does not have."""
        last = self._filed.oplog[-1].seq if self._filed.oplog else 0
        seq = max(last, self.steps[-1].seq if self.steps else 0) + 1
        self.steps.append(VersionDraft(seq, op, us, document, actor, _NOTE if note and self._filed.oplog else None))

    # --- the end ---

    def end(self) -> None:
        """Lead to what is there now."""
        if self._filed.entity is not None:
            self._end_alive(self._filed.entity)
        elif self._filed.trashed is not None or self._filed.tombstone is not None:
            self._end_in_trash(self._filed.trashed)
        elif not self.steps:
            self._append("delete", None, self._limit)
        elif self.steps[-1].document is not None:
            what = "its oplog does not end with a delete" if self._filed.oplog else "there are snapshots of it"
            self.faults.append(Disagreement(f"it is missing, and {what}"))
            self._append("delete", None, self._limit)

    def _end_alive(self, entity: Document) -> None:
        if self._filed.trashed is not None or self._filed.tombstone is not None:
            self.faults.append(
                Disagreement("it is there too, so what the trash has does not count", "trash", is_note=True)
            )
        last = self.steps[-1] if self.steps else None
        if last is None and not self._filed.oplog:
            self._append("create", entity, self._time_of(entity, CREATED))
        elif last is None:
            self._append("restore", entity, self._time_of(entity, UPDATED))
        elif last.document is None:
            self.faults.append(Disagreement("its oplog ends with a delete, and it is there"))
            self._append("restore", entity, self._later(entity, last))
        elif wrong := compare_fields(last.document, entity):
            if self._filed.oplog:
                self.faults.append(Disagreement(f"it is not as its oplog ends: {', '.join(wrong)}"))
            self._append("restore" if self._filed.oplog else "update", entity, self._later(entity, last))
        else:
            self._let_be(entity)

    def _end_in_trash(self, document: Document | None) -> None:
        stone = self._filed.tombstone
        us = self._limit if stone is None else us_of(stone.deleted_at)
        actor = None if stone is None else stone.deleted_by
        last = self.steps[-1] if self.steps else None
        if last is None and document is not None:
            op: Operation = "restore" if self._filed.oplog else "create"
            self._append(op, document, min(us, self._time_of(document, CREATED)))
            last = self.steps[-1]
        if last is None or last.document is not None or last.op == "purge":
            if self._filed.oplog and last is not None:
                self.faults.append(Disagreement("it is in the trash, and its oplog does not end with that", "trash"))
            self._append("delete", None, us, actor)
        before = self.steps[-2].document if len(self.steps) > 1 else None
        if document is None:
            if before is None:
                self.faults.append(Disagreement("its tombstone is there, and what was deleted is not", "trash"))
        elif before is not None and (wrong := compare_fields(before, document)):
            self.faults.append(
                Disagreement(f"what is in the trash is not what was deleted: {', '.join(wrong)}", "trash")
            )
        elif before is not None:
            self.steps[-2].document = document

    def _let_be(self, document: Document) -> None:
        """The last version is the document exactly: a diff cannot tell null from absent."""
        for name, value in document.items():
            if value is not None:
                continue
            for step in reversed(self.steps):
                if step.document is None or name in step.document:
                    break
                step.document[name] = None
                if name in step.touched:
                    break
        self.steps[-1].document = document

    def _time_of(self, document: Document, stamp: str) -> int:
        found = document.get(stamp)
        return us_of(found) if isinstance(found, datetime) else self._limit

    def _later(self, document: Document, last: VersionDraft) -> int:
        """The time of a change that no oplog has: as the document says, if that is later than the last change."""
        us = self._time_of(document, UPDATED)
        return us if us > last.us else self._limit

    # --- snapshots, times, trash ---

    def mark(self) -> None:
        """Find the version that each snapshot keeps: the last version until then that equals it."""
        for ts, document in sorted(self._filed.snapshots.items()):
            same = [
                step for step in self.steps if step.document is not None and not compare_fields(step.document, document)
            ]
            if not same:
                self.faults.append(Disagreement("no version of the oplog is what it keeps", "snapshot", ts=ts))
                continue
            until = [step for step in same if step.us <= us_of(ts)]
            step = until[-1] if until else same[0]
            if step.seq in self._taken:
                what = "a later snapshot keeps the same version"
                self.faults.append(Disagreement(what, "snapshot", ts=self._taken[step.seq], is_note=True))
            self._taken[step.seq] = ts

    def marks(self) -> list[tuple[int, int]]:
        """The versions that are snapshots, and when they were taken; no two at one moment."""
        marks: list[tuple[int, int]] = []
        for seq, ts in sorted(self._taken.items(), key=lambda item: item[1], reverse=True):
            bound = marks[-1][1] - 1 if marks else self._limit
            marks.append((seq, min(us_of(ts), bound)))
        return sorted(marks)

    def moments(self) -> list[int]:
        """When each version was made, in microseconds: each later than the one before it, none in the future."""
        moments, last, count = [], -1, len(self.steps)
        for step in self.steps:
            last = max(step.us, last + 1)
            moments.append(last)
        moments = [min(moment, self._limit - count + 1 + place) for place, moment in enumerate(moments)]
        for step, moment in zip(self.steps, moments, strict=True):
            if step.is_filed and moment // 1000 != step.us // 1000:
                what = "its time is in the future, or not after that of the change before it, and was moved"
                self.faults.append(Disagreement(what, "oplog", seq=step.seq, is_note=True))
        return moments

    def trash(self, identity: bytes, moment: int) -> bytes | None:
        """What the trash has of a document that was deleted."""
        stone = self._filed.tombstone
        if self._filed.entity is not None or (stone is None and self._filed.trashed is None):
            return None
        document = self._filed.trashed or (self.steps[-2].document if len(self.steps) > 1 else None)
        if document is None:
            return None
        ms = moment // 1000 if stone is None else milliseconds(stone.deleted_at)
        actor = self.steps[-1].actor if stone is None else stone.deleted_by
        members = tombstone(ms, actor, None if stone is None else stone.ttl)
        return b'{"_id":%b,%b,"document":%b}' % (identity, members, json.encode_document(document))
