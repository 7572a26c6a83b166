"""What tests of indexes in the engine share: steps made by hand, on a store that forgets retired objects at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from tests.engine.rig import COLLECTION, PATHS, doc, ident
from wormdb.engine.index.advance import project_indexes
from wormdb.engine.index.shelf import IndexShelf, tree_of
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.root import Place
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.indexes import IndexStates, IndexStatus
from wormdb.engine.state.projection import Net, ProjectionStep
from wormdb.engine.state.view import EmptyBase, Overlay, StoredVersion, View, id_key
from wormdb.engine.tree.entries import changes_of
from wormdb.engine.tree.nodes import NodeLimits
from wormdb.engine.tree.tree import verify
from wormdb.format import json
from wormdb.format.block import Row, write_block
from wormdb.format.columns import ColumnSpec
from wormdb.format.event import JobAttached
from wormdb.format.root import Root
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import IfAbsent
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.engine.state.projection import ProjectionResult
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.entries import Entry
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.root import IndexRoot

__all__ = ["SMALL", "Trees", "expected"]

SMALL = NodeLimits(4, 4 * 64)
"""So few entries a node that few documents make a high tree."""

JOB = WriteId("f" * 32)


def expected(index: Index, documents: Mapping[Any, dict[str, Any]]) -> list[Entry]:
    """The entries of a tree with these documents, each found by itself."""
    entries = []
    for identity, values in documents.items():
        found = changes_of(index, ident(identity), None, json.decode_document(doc(identity, **values), name="doc"))
        entries += [(key, value) for key, value in found if value is not None]
    return sorted(entries)


@dataclass
class Trees:
    """The indexes of a collection, brought forward step by step; `documents` is what they should have."""

    states: IndexStates
    limits: NodeLimits = SMALL
    documents: dict[Any, dict[str, Any]] = field(default_factory=dict)
    number: int = 0

    @classmethod
    def ready(cls, *indexes: Index, limits: NodeLimits = SMALL) -> Trees:
        """With indexes that were there before the first document."""
        known = {index.name: IndexStatus.of(index, LogNumber(0), is_empty=True) for index in indexes}
        return cls(IndexStates(known), limits)

    def __post_init__(self) -> None:
        clock = ManualClock()
        self.store = MeteredStore(MemoryStore(clock=clock))
        self.writer = ObjectWriter(self.store, SerialPool(), MiscClock(clock), SeededChance(7))
        self.shelf = self.cold()
        self.root = Root(
            path=COLLECTION,
            collection=WriteId("c" * 32),
            revision=0,
            write_id=WriteId("0" * 32),
            misc=0,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
        )

    def cold(self) -> IndexShelf:
        """A shelf that knows nothing yet."""
        return IndexShelf(self.store, PATHS, SerialPool(), self.limits)

    def index(self, name: str) -> IndexRoot:
        """An index as the root has it."""
        found = self.root.index(name)
        assert found is not None, name
        return found

    def step(self, changes: Mapping[Any, dict[str, Any] | None], states: IndexStates | None = None) -> ProjectionResult:
        """Bring the root forward over some changes; what it no longer names is deleted."""
        net = []
        for identity in sorted(changes, key=lambda one: id_key(ident(one))):
            before, after = self.documents.get(identity), changes[identity]
            self.documents.pop(identity, None)
            if after is not None:
                self.documents[identity] = after
            net.append(
                Net(
                    id_key(ident(identity)),
                    None if before is None else doc(identity, **before),
                    StoredVersion(
                        ident(identity), self.number + 1, 1, None if after is None else doc(identity, **after)
                    ),
                )
            )
        return self._project(tuple(net), states)

    def attach(self, documents: Mapping[Any, dict[str, Any]], *columns: str) -> ProjectionResult:
        """Bring the root forward over the blocks of a job, which have these columns."""
        rows = [self._row(identity, values, 1 + (identity in self.documents)) for identity, values in documents.items()]
        blocks = (self.block(rows, *columns, run=self.number + 1),)
        self.documents.update(documents)
        return self._project((), None, JobAttached(job=JOB, blocks=blocks))

    def keep_documents(self) -> None:
        """Let the root have the documents as a block."""
        rows = [self._row(identity, values, 1) for identity, values in self.documents.items()]
        self.root = msgspec.structs.replace(
            self.root, blocks=(self.block(rows, run=self.number),), rows=len(self.documents)
        )

    def block(self, rows: Iterable[Row], *columns: str, run: int) -> BlockEntry:
        """Write a block."""
        specs = [ColumnSpec(path) for path in columns]
        block = write_block(sorted(rows, key=lambda row: id_key(ident(row.id))), specs)
        name = self.writer.new_name()
        self.store.put(PATHS.block(name), block.parquet, IfAbsent())
        self.store.put(PATHS.sidecar(name), block.sidecar, IfAbsent())
        return block.entry(name, name, kind="delta", run=run)

    def _row(self, identity: Any, values: dict[str, Any], seq: int) -> Row:
        return Row(identity, self.number, seq, doc(identity, **values))

    def _project(
        self, net: tuple[Net, ...], states: IndexStates | None, attached: JobAttached | None = None
    ) -> ProjectionResult:
        self.number += 1
        self.states = states or self.states
        definition = Definition(LogNumber(self.number), b"", None, self.states)
        outcome = project_indexes(
            ProjectionStep(
                place=self.place,
                view=View(
                    LogNumber(self.number), definition, EmptyBase(), LogNumber(0), Overlay(), len(self.documents)
                ),
                entries=(),
                net=net,
                writer=self.writer,
                attached=attached,
            ),
            self.shelf,
        )
        self.root = msgspec.structs.replace(self.root, applied=self.number, **outcome.fields)
        for key in outcome.retired:
            self.store.head(key)
            self.store.delete(key)
        return outcome

    @property
    def place(self) -> Place:
        """The root as it is now."""
        return Place(self.store, SerialPool(), PATHS, self.root)

    def entries(self, name: str) -> list[Entry]:
        """All entries of an index."""
        return list(self.cold().reader(self.root, self.index(name)).scan())

    def check(self) -> None:
        """Every ready tree is sound and has what it should, and no object is left that nobody names."""
        named = set()
        for index in self.root.indexes:
            shelf = self.cold()
            nodes = shelf.nodes(self.root, index.name)
            assert verify(tree_of(index), nodes) == []
            status = self.states.known[index.name]
            if index.state == "ready":
                assert self.entries(index.name) == expected(status.index, self.documents)
                assert index.applied == self.root.applied
            named |= {nodes.key(child.name) for child, _ in shelf.reader(self.root, index).refs()}
            membership = shelf.filter(self.root, index)
            if membership is not None:
                named |= {nodes.key(ref.name) for ref in membership.refs}
                assert all(
                    membership.might_contain(key[: -len(_id_part(value))]) for key, value in self.entries(index.name)
                )
        assert named == {info.key for page in self.store.list(f"{PATHS.folder}indexes/") for info in page.objects}


def _id_part(value: bytes) -> bytes:
    return id_key(value.partition(b"\n")[0])
