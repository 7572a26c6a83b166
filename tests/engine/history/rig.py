"""What the tests of history share: a log and its steps without a ledger, and the history that a dict would have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tests.engine.rig import COLLECTION, PATHS
from wormdb.engine.blocks.runs import AttachedBase
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.history.changes import project_history
from wormdb.engine.history.read import History
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.root import Place
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.projection import ProjectionResult, ProjectionStep, Sizes
from wormdb.engine.state.view import Overlay, StoredVersion, View
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.format.event import JobAttached, SnapshotTaken
from wormdb.format.key import encode_key
from wormdb.format.past import SnapshotMark, Version
from wormdb.format.root import JobOutcome, Root
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.state.view import Base
    from wormdb.format.event import Event
    from wormdb.format.past import Operation
    from wormdb.storage.store import Store

__all__ = ["SMALL", "Bench", "key_of"]

SMALL = Sizes(block_target=400, run_smallest=1)
"""Blocks of a few versions, and tiers that fill after a few forwardings."""
NOBODY = WriteId("0" * 32)


def key_of(identity: Any) -> bytes:
    return encode_key(json.decode(json.encode(identity), name="id"))


@dataclass(frozen=True)
class ModelBase:
    """The state that a root stands for, taken from the model."""

    place: Place | None
    state: dict[bytes, StoredVersion]

    def get(self, key: bytes) -> StoredVersion | None:
        return self.state.get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        return {key: self.state[key] for key in keys if key in self.state}

    def trashed(self) -> Iterator[bytes]:
        return (key for key, held in self.scan() if held.trash is not None)

    def prepare(self, keys: Sequence[bytes]) -> None:
        pass

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        inside = [key for key in sorted(self.state) if low <= key and (high is None or key < high)]
        return iter([(key, self.state[key]) for key in inside])


@dataclass
class Bench:
    """One collection: its whole log, the root so far, and what every document was after every change."""

    sizes: Sizes = SMALL
    store: Store = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.misc = MiscClock(self.clock)
        self.writer = ObjectWriter(self.store, SerialPool(), self.misc, SeededChance(7))
        self.log: list[Entry] = []
        self.root: Root | None = None
        self.versions: dict[bytes, list[Version]] = {}
        self.marks: dict[bytes, list[SnapshotMark]] = {}
        self.retired: list[str] = []

    # --- writing ---

    @property
    def number(self) -> int:
        """The newest entry."""
        return len(self.log)

    def newest(self, identity: Any) -> Version | None:
        """The model's last version."""
        found = self.versions.get(key_of(identity))
        return found[-1] if found else None

    def commit(self, *changes: LoggedChange, events: Sequence[Event] = (), actor: str | None = None) -> Entry:
        """An entry of one batch; a millisecond passes."""
        self.clock.advance(0.001)
        entry = Entry(
            number=self.number + 1,
            write_id=NOBODY,
            misc=self.misc.next(),
            node=0,
            previous=bytes(32),
            batches=(LoggedBatch(id=NOBODY, actor=actor, meta=None, changes=changes),),
            events=tuple(events),
        )
        self.log.append(entry)
        return entry

    def write(self, identity: Any, *ops: str, snapshot: bool = False, actor: str | None = None) -> None:
        """Changes of one document in one entry: put, delete, restore or purge, if they make sense then."""
        changes: list[LoggedChange] = []
        versions: list[Version] = []
        before = self.newest(identity)
        for op in ops:
            change, told = self._change(identity, op, before, snapshot=snapshot)
            if change is None:
                continue
            changes.append(change)
            made = self.number + 1
            before = Version(change.id, change.seq, made, told, 0, actor, snapshot=snapshot, document=change.after)
            versions.append(before)
        if changes:
            entry = self.commit(*changes, actor=actor)
            self.versions.setdefault(key_of(identity), []).extend(replace(v, misc=entry.misc) for v in versions)

    def _change(
        self, identity: Any, op: str, before: Version | None, *, snapshot: bool
    ) -> tuple[LoggedChange | None, Operation]:
        seq = 1 if before is None else before.seq + 1
        image = None if before is None else before.document
        name = json.encode(identity)
        after = json.encode_document({"_id": identity, "n": seq, "at": self.number + 1})
        if op == "put":
            change = LoggedChange(id=name, seq=seq, before=image, after=after, snapshot=snapshot)
            return change, "create" if image is None else "update"
        if op == "restore":
            return LoggedChange(id=name, seq=seq, before=image, after=after, op="restore", snapshot=snapshot), "restore"
        if op == "delete" and image is not None:
            return LoggedChange(id=name, seq=seq, before=image, snapshot=snapshot), "delete"
        if op == "purge" and before is not None and image is None:
            return LoggedChange(id=name, seq=seq, op="purge", snapshot=snapshot), "purge"
        return None, "purge"

    def take(self, identity: Any, actor: str | None = None) -> None:
        """Make the newest version a snapshot."""
        version = self.newest(identity)
        if version is None or version.document is None:
            return
        entry = self.commit(events=[SnapshotTaken(id=version.id, seq=version.seq)], actor=actor)
        mark = SnapshotMark(version.id, version.seq, entry.number, entry.misc, actor)
        self.marks.setdefault(key_of(identity), []).append(mark)

    def load(self, *identities: Any, actor: str | None = None, remove: bool = False) -> None:
        """Attach a job that brings these documents, or with `remove` takes those away that it finds."""
        rows = {}
        for identity in identities:
            before = self.newest(identity)
            seq = 1 if before is None else before.seq + 1
            gone = remove and before is not None
            document = json.encode_document({"_id": identity, "n": seq, "loaded": self.number + 1})
            rows[key_of(identity)] = Row(identity, 0, seq, None if gone else document)
        blocks = BlockWriter(self.data, self.writer, 300).write(sorted(rows.items()))
        entry = self.commit(events=[JobAttached(job=NOBODY, blocks=tuple(blocks))], actor=actor)
        for key, row in rows.items():
            versions = self.versions.setdefault(key, [])
            alive = bool(versions) and versions[-1].document is not None
            op: Operation = "update" if alive else "create"
            if row.document is None:
                op = "delete" if alive else "purge"
            name = json.encode(row.id)
            versions.append(Version(name, row.seq, entry.number, op, entry.misc, actor, document=row.document))

    # --- forwarding ---

    @property
    def data(self) -> Shelf:
        return Shelf(self.store, SerialPool(), PATHS.data)

    def forward(self, through: int | None = None) -> ProjectionResult | None:
        """Bring the log into history, a step up to each attached job and one for it; the last step's outcome."""
        outcome: ProjectionResult | None = None
        waiting: list[Entry] = []
        applied = 0 if self.root is None else self.root.applied
        for entry in self.log[applied : self.number if through is None else through]:
            if _attached(entry) is not None:
                self._step(waiting)
                outcome, waiting = self._step([entry]), []
            else:
                waiting.append(entry)
        return self._step(waiting) or outcome

    def _step(self, entries: list[Entry]) -> ProjectionResult | None:
        if not entries:
            return None
        root = self.root or Root(
            path=COLLECTION,
            collection=NOBODY,
            revision=0,
            write_id=NOBODY,
            misc=0,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
        )
        last, job = entries[-1], _attached(entries[-1])
        view = replace(self.view(), number=LogNumber(last.number))
        step = ProjectionStep(
            Place(self.store, SerialPool(), PATHS, root), view, tuple(entries), (), self.writer, self.sizes, job
        )
        outcome = project_history(step)
        if job is not None:
            added = tuple(msgspec.structs.replace(block, run=last.number) for block in job.blocks)
            batch = last.batches[0]
            known = JobOutcome(
                job=NOBODY, state="attached", number=last.number, misc=last.misc, actor=batch.actor, meta=batch.meta
            )
            root = msgspec.structs.replace(root, attached=root.attached + added, jobs=(*root.jobs, known))
        self.retired += outcome.retired
        self.root = msgspec.structs.replace(root, applied=last.number, misc=self.misc.next(), **outcome.fields)
        return outcome

    # --- reading ---

    def view(self) -> View:
        """The newest state over the root so far."""
        applied = 0 if self.root is None else self.root.applied
        place = None if self.root is None else Place(self.store, SerialPool(), PATHS, self.root)
        overlay = Overlay()
        for entry in self.log[applied:]:
            job = _attached(entry)
            overlay.apply(entry, None if job is None else self._layer(job, entry.number))
        base = ModelBase(place, self.state(applied))
        return View(LogNumber(self.number), Definition.none(), base, LogNumber(applied), overlay, 0)

    def _layer(self, job: JobAttached, number: int) -> Base:
        return AttachedBase(self.store, SerialPool(), PATHS, job.blocks, LogNumber(number))

    def history(self, store: Store | None = None) -> History:
        """A reader of it; with `store` cold, and over that."""
        view = self.view()
        if store is not None and self.root is not None:
            view = replace(view, base=ModelBase(Place(store, SerialPool(), PATHS, self.root), {}))
        return History(view)

    # --- the model ---

    def state(self, number: int) -> dict[bytes, StoredVersion]:
        """Every id used through a log number, with its newest version then."""
        found = {}
        for key, versions in self.versions.items():
            for version in versions:
                if version.rev <= number:
                    found[key] = StoredVersion(version.id, version.rev, version.seq, version.document)
        return found


def _attached(entry: Entry) -> JobAttached | None:
    return next((event for event in entry.events if isinstance(event, JobAttached)), None)
