"""What the tests of column scans share: views of layers laid by hand, and what a dict says must be in them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.engine.rig import COLLECTION, PATHS
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.engine.blocks.runs import AttachedBase, RunBase, list_run
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.root import Place
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.upgrade import Upgrades, encode_mapping
from wormdb.engine.state.view import EmptyBase, Overlay, View
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.format.key import encode_key
from wormdb.format.root import Root, SchemaVersion
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.blocks.portion import Portion
    from wormdb.format.blocklist import BlockEntry, BlockPageRef
    from wormdb.format.columns import ColumnSpec
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["Gone", "Layers", "all_values"]

NOBODY = WriteId("0" * 32)
NOW = datetime(2020, 1, 1, tzinfo=UTC)
Values = dict[str, Any]


@dataclass(frozen=True)
class Gone:
    """A document that was deleted, perhaps into the trash."""

    trash: Values | None = None


@dataclass
class Layers:
    """A collection that is built from the oldest layer to the newest: runs first, then entries."""

    block_target: int = 300
    memory: Store = field(default_factory=MemoryStore)
    pool: Pool = field(default_factory=SerialPool)
    definition: Definition = field(default_factory=Definition.none)

    def __post_init__(self) -> None:
        self.requests: list[MeteredRequest] = []
        self.store = MeteredStore(self.memory, hook=self.requests.append)
        self.writer = ObjectWriter(self.store, self.pool, MiscClock(ManualClock()), SeededChance(1))
        self.shelf = Shelf(self.store, self.pool, PATHS.data)
        self.number = 0
        self.blocks: list[BlockEntry] = []
        self.pages: list[BlockPageRef] = []
        self.overlay = Overlay()
        self.base_number = 0
        self.model: dict[bytes, Values] = {}

    def run(self, documents: Iterable[Values | tuple[Any, Gone]], columns: Sequence[ColumnSpec] = ()) -> None:
        """One more run of blocks, newer than all before."""
        self.number += 1
        assert not self.overlay.entries(LogNumber(self.number)), "runs come before entries"
        entries = self._write(documents, columns, rev=self.number)
        if entries:
            listed = list_run(entries, self.shelf, self.writer)
            self.blocks += listed.entries
            self.pages += listed.pages
        self.base_number = self.number

    def attach(self, documents: Iterable[Values | tuple[Any, Gone]], columns: Sequence[ColumnSpec] = ()) -> None:
        """Blocks that a job attached, which no root has yet."""
        entries = self._write(documents, columns, rev=0)
        self.number += 1
        base = AttachedBase(self.store, self.pool, PATHS, entries, LogNumber(self.number), self.shelf)
        self.overlay.apply(self._entry(()), base)

    def change(self, documents: Iterable[Values | tuple[Any, Gone]]) -> None:
        """One entry of the log."""
        self.number += 1
        self.overlay.apply(self._entry([self._change(document) for document in documents]))

    def upgrade(self, mapping: Values) -> None:
        """A mapping that changes what all documents up to here are shown as; it is in the root if a run follows."""
        self.number += 1
        if self.overlay.entries(LogNumber(self.number)):
            self.overlay.apply(self._entry(()))
        known = self.definition.versions
        added = SchemaVersion(
            number=self.number, version=len(known) + 2, before=bytes(32), mapping=encode_mapping(mapping)
        )
        versions = (*known, added)
        self.definition = replace(self.definition, versions=versions, upgrades=Upgrades.of(versions))
        update = parse_update(mapping)
        self.model = {key: apply_update(update, one, now=NOW) for key, one in self.model.items()}

    def view(self, *, cold: bool = False) -> View:
        """The state now; a cold one knows nothing of the blocks yet."""
        shelf = Shelf(self.store, self.pool, PATHS.data) if cold else self.shelf
        root = Root(
            path=COLLECTION,
            collection=NOBODY,
            revision=1,
            write_id=NOBODY,
            misc=0,
            applied=self.base_number,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
            versions=tuple(one for one in self.definition.versions if one.number <= self.base_number),
            blocks=tuple(self.blocks),
            block_pages=tuple(self.pages),
        )
        place = Place(self.store, self.pool, PATHS, root)
        base = RunBase(place, shelf) if self.blocks or self.pages else EmptyBase()
        number, base_number = LogNumber(self.number), LogNumber(self.base_number)
        return View(number, self.definition, base, base_number, self.overlay, len(self.model))

    def expected(self, low: bytes = b"", high: bytes | None = None) -> list[Values]:
        """The documents of a range in order of id."""
        return [self.model[key] for key in sorted(self.model) if low <= key and (high is None or key < high)]

    def _note(self, document: Values | tuple[Any, Gone]) -> tuple[Any, Values | None, Values | None]:
        if isinstance(document, tuple):
            identity, gone = document
            self.model.pop(encode_key(identity), None)
            return identity, None, gone.trash
        self.model[encode_key(document["_id"])] = document
        return document["_id"], document, None

    def _write(
        self, documents: Iterable[Values | tuple[Any, Gone]], columns: Sequence[ColumnSpec], rev: int
    ) -> list[BlockEntry]:
        rows = {}
        for document in documents:
            identity, values, trash = self._note(document)
            body = None if values is None else json.encode_document(values)
            tombstone = None if trash is None else json.encode_document({"_id": identity, "document": trash})
            rows[encode_key(identity)] = Row(identity, rev, 1, body, tombstone)
        writer = BlockWriter(self.shelf, self.writer, self.block_target, columns)
        return writer.write(sorted(rows.items()), run=rev)

    def _change(self, document: Values | tuple[Any, Gone]) -> LoggedChange:
        identity, values, _ = self._note(document)
        after = None if values is None else json.encode_document(values)
        return LoggedChange(id=json.encode(identity), seq=1, after=after)

    def _entry(self, changes: Sequence[LoggedChange]) -> Entry:
        return Entry(
            number=self.number,
            write_id=NOBODY,
            misc=self.number << 8,
            node=0,
            previous=bytes(32),
            batches=(LoggedBatch(id=NOBODY, changes=tuple(changes)),) if changes else (),
        )


def all_values(portions: Iterable[Portion], name: str) -> list[Any]:
    """The values of one column in all portions."""
    return [value for portion in portions for value in portion.values(name)]
