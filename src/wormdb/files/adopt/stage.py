"""Write documents and their past as blocks that no reader sees yet, part by part, and remember how far that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from wormdb.engine.blocks.runs import AttachedBase
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.write import BlockWriter, weight
from wormdb.engine.history.changes import member_of
from wormdb.engine.history.read import History
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.state.view import Overlay, StoredVersion, View
from wormdb.errors import ConflictError, CorruptionError, OutcomeUnknownError, UnavailableError
from wormdb.format import json
from wormdb.format.adopt_record import AdoptRecord, StagedPart, decode_adopt_record, encode_adopt_record
from wormdb.format.block import Row
from wormdb.format.entry import Entry, LoggedBatch
from wormdb.format.past import HISTORY_COLUMNS, SnapshotMark, Version, encode_past, past_id, past_key
from wormdb.settings import MIB
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import IfAbsent, IfMatch, Store
from wormdb.system.clock import Chance, new_write_id
from wormdb.system.types import LogNumber
from wormdb.system.types import Version as StoreVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.ledger import Runtime
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.state.definition import Definition
    from wormdb.files.adopt.listing import Inventory
    from wormdb.files.adopt.past import SettledDocument
    from wormdb.files.contents.names import FileNames
    from wormdb.format.columns import ColumnSpec
    from wormdb.format.event import JobAttached

__all__ = ["PART_BYTES", "BlockStage", "RecordKeeper", "Rehearsal", "digest_of"]

PART_BYTES: Final = 16 * MIB
"""Bytes of documents and versions after which a part is written and recorded."""
_NO_PLAN: Final = bytes(32)
"""Takes the place of a digest in a record that no run can continue."""


def digest_of(held: StoredVersion, versions: Sequence[Version], marks: Sequence[SnapshotMark]) -> bytes:
    """A digest of a document and its past, without the number of the entry that adopts them. No requests."""
    digest = blake2b(digest_size=16)
    digest.update(b"%b\0%d\0%b\0%b\n" % (held.id, held.seq, held.document or b"", held.trash or b""))
    rows: list[Version | SnapshotMark] = [*versions, *sorted(marks, key=lambda mark: mark.seq)]
    for row in rows:
        digest.update(encode_past(_unnumbered(row)))
    return digest.digest()


def _unnumbered(row: Version | SnapshotMark) -> Version | SnapshotMark:
    if isinstance(row, SnapshotMark):
        return SnapshotMark(row.id, row.seq, 0, row.misc, row.actor)
    return Version(
        row.id, row.seq, 0, row.op, row.misc, row.actor, row.meta, snapshot=row.snapshot, document=row.document
    )


@dataclass(slots=True)
class RecordKeeper:
    """The record of one adoption, as this process last saw it."""

    store: Store
    key: str
    collection: str
    chance: Chance
    record: AdoptRecord | None = None
    _version: StoreVersion | None = None

    def read(self) -> AdoptRecord | None:
        """The record that is there; None if there is none, or none that can be read. 1 GET."""
        found = self.store.probe(self.key).found
        self._version = None if found is None else found.version
        try:
            self.record = (
                None if found is None else decode_adopt_record(found.body, name=self.key, path=self.collection)
            )
        except CorruptionError:
            self.record = None
        return self.record

    def swap(self, following: AdoptRecord) -> None:
        """Replace the record that was read. 1 PUT, and 1 GET unless the answer is a clean success.

        Raises ConflictError if another process works on an adoption of the collection, UnavailableError.
        """
        made = msgspec.structs.replace(following, write_id=new_write_id(self.chance))
        precondition = IfAbsent() if self._version is None else IfMatch(self._version)
        outcome = put_classified(
            self.store, self.key, encode_adopt_record(made), precondition, content_type="application/zstd"
        )
        match outcome:
            case Landed(version=version):
                self.record, self._version = made, version
            case Lost():
                raise ConflictError(
                    f"the adoption of {self.collection}",
                    reason="another process adopts it at the same time",
                    fix="let that one finish; if it has ended, run this again, and it goes on from there",
                    key=self.key,
                )
            case NothingThere(cause=cause) | Unknown(cause=cause):
                raise UnavailableError(
                    f"the record {self.key}", reason=str(cause), fix="retry: nothing was adopted", key=self.key
                ) from cause

    def begin_anew(self) -> None:
        """Keep any process from going on with what was written: it is damaged. Costs and raises as `swap`.

        The record stays: while there is one, garbage collection leaves the blocks of other processes that do the job.
        """
        assert self.record is not None, "something was written"
        self.swap(msgspec.structs.replace(self.record, plan=_NO_PLAN, parts=()))

    def remove(self) -> None:
        """Forget the job: it is done. 1 DELETE; what fails is left for the next run."""
        try:
            self.store.delete(self.key)
        except (UnavailableError, OutcomeUnknownError):
            return


@dataclass(slots=True)
class BlockStage:
    """Takes documents in order of id, and writes them part by part."""

    keeper: RecordKeeper
    data: BlockWriter
    past: BlockWriter
    part_bytes: int = PART_BYTES
    _rows: list[tuple[bytes, Row]] = field(default_factory=list)
    _past: list[tuple[bytes, Row]] = field(default_factory=list)
    _size: int = 0

    @classmethod
    def of(
        cls,
        keeper: RecordKeeper,
        shelves: tuple[Shelf, Shelf],
        writer: ObjectWriter,
        columns: Sequence[ColumnSpec],
        block_target: int,
    ) -> BlockStage:
        """`shelves` are of the folders of data and of history. No requests."""
        data, past = shelves
        target = min(block_target, PART_BYTES)
        return cls(
            keeper,
            BlockWriter(data, writer, target, columns),
            BlockWriter(past, writer, target, HISTORY_COLUMNS, member_of),
            target,
        )

    def add(self, key: bytes, settled: SettledDocument) -> None:
        """Take a document. 2 PUTs for each of the blocks of a part that is full, and 1 for the record."""
        held = settled.held
        identity = json.decode(held.id, name="document id")
        self._take(self._rows, [(key, Row(identity, 0, held.seq, held.document, held.trash))])
        rows: list[Version | SnapshotMark] = [*settled.versions, *settled.marks]
        placed = sorted(((_place(key, row), _stored(row)) for row in rows), key=lambda item: item[0])
        self._take(self._past, placed)
        if self._size >= self.part_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what waits, and remember it. Costs as `add`. Raises ConflictError, UnavailableError."""
        record = self.keeper.record
        assert record is not None, "the job has begun"
        if not self._rows:
            return
        part = StagedPart(
            through=self._rows[-1][0],
            blocks=tuple(self.data.write(self._rows)),
            history=tuple(self.past.write(self._past)),
        )
        self._rows, self._past, self._size = [], [], 0
        self.keeper.swap(msgspec.structs.replace(record, parts=(*record.parts, part)))

    def _take(self, waiting: list[tuple[bytes, Row]], rows: Iterable[tuple[bytes, Row]]) -> None:
        for key, row in rows:
            waiting.append((key, row))
            self._size += weight(row)


def _place(key: bytes, row: Version | SnapshotMark) -> bytes:
    return past_key(key, row.seq, None if isinstance(row, Version) else row.rev)


def _stored(row: Version | SnapshotMark) -> Row:
    return Row(json.decode(past_id(row), name="id of a version"), row.rev, row.seq, encode_past(row))


# --- Before an adoption counts: what the engine will give is held to what every file says.

_EVERY = 100


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The state that the entry of an adoption will make, before that entry is written."""

    runtime: Runtime
    names: FileNames
    seen: View
    definition: Definition
    attached: JobAttached

    def compare(self, inventory: Inventory, told: Callable[[str, int, int], None]) -> None:
        """Go through all documents and their past. 1 GET for each block.

        Raises CorruptionError naming the first that is not as its files were found to say, or an object that is
        damaged, and SnapshotTooOldError naming one that is gone.
        """
        view, data, past = self._view()
        documents, history = view.scan(), History(view, past=past, data=data).documents()
        expected = [(key, listed) for key, listed in inventory.documents if listed.digest]
        for place, (key, listed) in enumerate(expected):
            (stored_key, held), recorded = next(documents, (b"", None)), next(history, None)
            if held is None or recorded is None or not stored_key == recorded.key == key:
                _differs(listed.place(self.names), "it is not where it should be")
            marks = [each.taken for each in recorded.snapshots if each.taken is not None]
            if digest_of(held, recorded.versions, marks) != listed.digest:
                _differs(listed.place(self.names), "it is not as its files have it")
            if place % _EVERY == 0:
                told("comparing", place, len(expected))
        if next(documents, None) is not None or next(history, None) is not None:
            _differs(self.names.collection, "there are more documents than files")

    def _view(self) -> tuple[View, Shelf, Shelf]:
        runtime, seen, job = self.runtime, self.seen, self.attached.job
        paths = EnginePaths.of_collection(self.names.collection)
        data, past = (Shelf(runtime.store, runtime.pool, folder) for folder in (paths.data, paths.history))
        number = LogNumber(seen.number + 1)
        entry = Entry(
            number=number,
            write_id=job,
            misc=runtime.misc.next(),
            node=runtime.misc.node,
            previous=bytes(32),
            batches=(LoggedBatch(id=job),),
            events=(self.attached,),
        )
        overlay = Overlay()
        overlay.apply(entry, AttachedBase(runtime.store, runtime.pool, paths, self.attached.blocks, number, data))
        view = View(number, self.definition, seen.base, seen.number, overlay, self.attached.added, seen.jobs)
        return view, data, past


def _differs(key: str, reason: str) -> NoReturn:
    raise CorruptionError(f"what was written of {key}", reason=reason, key=key)
