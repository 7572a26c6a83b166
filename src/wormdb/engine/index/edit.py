"""Changing the tree of one index: from documents before and after to nodes that are written once.

Between chunks the new nodes stay in memory, packed, so that a node which the next chunk changes again is never
written. Nothing that was written counts before a root names it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.log.objects import NewObject, ObjectWriter
from wormdb.engine.tree.change import BulkLoad, apply
from wormdb.engine.tree.extract import IndexKeys, extract, extract_columns
from wormdb.engine.tree.tree import TreeReader
from wormdb.format.membership import key_hashes
from wormdb.format.node import Child, Inner, Leaf
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.state.projection import Net
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.entries import Change
    from wormdb.engine.tree.nodes import NewNode, NodeMaker, NodeSource, Tree

__all__ = ["CHUNK_ENTRIES_MAX", "SLICE_DOCUMENTS", "IndexChunk", "TreeEdit", "ValueColumns", "chunks", "sliced"]

CHUNK_ENTRIES_MAX: Final = 50_000
"""Entries that are sorted and changed at once, and documents that are looked at for it."""
CHUNK_BYTES_MAX: Final = 64 * MIB
"""Of their keys and values: about a third of the memory they take."""
UNWRITTEN_BYTES_MAX: Final = 8 * MIB
"""Of new nodes, packed, that wait in memory."""
SLICE_DOCUMENTS: Final = 2_000


@dataclass(frozen=True, slots=True)
class IndexChunk:
    """What some documents change in a tree."""

    changes: list[Change]
    """In order of key."""
    hashes: array[int]
    """`key_hash` of each value's key that they add to a unique index."""
    arrays: tuple[bool, ...]
    """For each field of the index whether one of them has an array there."""
    last: bytes
    """The id's key of the last of them."""
    is_end: bool
    """Whether nothing comes after them."""


@dataclass(frozen=True, slots=True)
class ValueColumns:
    """New documents of which only the values that an index needs were read, in order of key; none has an array."""

    keys: list[bytes]
    """Of their ids."""
    identities: list[bytes]
    """Their ids as JSON."""
    values: list[list[Any]]
    """For each field of the index, the values of all documents."""


def sliced(net: Iterable[Net], size: int = SLICE_DOCUMENTS) -> Iterator[Sequence[Net]]:
    """Changed documents, a few at a time."""
    documents = iter(net)
    while some := list(islice(documents, size)):
        yield some


def chunks(
    index: Index, slices: Iterable[ValueColumns | Sequence[Net]], *, entries_max: int = CHUNK_ENTRIES_MAX
) -> Iterator[IndexChunk]:
    """What changed documents change in an index, in chunks that fit into memory. No requests of its own.

    Raises InvalidRequestError naming a document that the index cannot take.
    """
    gathered = _ChunkDraft(index)
    for some in slices:
        if isinstance(some, ValueColumns):
            gathered.add_columns(some)
        else:
            gathered.add(some)
        if max(gathered.entries, gathered.documents) >= entries_max or gathered.bytes >= CHUNK_BYTES_MAX:
            yield gathered.chunk(is_end=False)
            gathered = _ChunkDraft(index)
    if gathered.last is not None:
        yield gathered.chunk(is_end=True)


class _ChunkDraft:
    """A chunk in the making."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._changes: list[Change] = []
        self._hashes = array("Q")
        self._arrays = (False,) * len(index.fields)
        self.documents = 0
        self.bytes = 0
        self.last: bytes | None = None

    @property
    def entries(self) -> int:
        return len(self._changes)

    def add(self, net: Sequence[Net]) -> None:
        identities = [one.held.id for one in net]
        after = extract(self._index, identities, [one.held.document for one in net])
        self._arrays = tuple(old or new for old, new in zip(self._arrays, after.arrays, strict=True))
        keys = [one.key for one in net]
        if all(one.before is None for one in net):
            self._take(keys, self._new(keys, identities, after))
        else:
            before = extract(self._index, identities, [one.before for one in net])
            self._take(keys, self._changed(keys, identities, before, after))

    def add_columns(self, columns: ValueColumns) -> None:
        found = extract_columns(self._index, columns.identities, columns.values)
        self._take(columns.keys, self._new(columns.keys, columns.identities, found))

    def _take(self, keys: Sequence[bytes], changes: list[Change]) -> None:
        self._changes += changes
        self.bytes += sum([len(key) + len(value or b"") for key, value in changes])
        self.documents += len(keys)
        self.last = keys[-1]

    def _new(self, keys: Sequence[bytes], identities: Sequence[bytes], after: IndexKeys) -> list[Change]:
        if self._index.unique:
            self._hashes += key_hashes(chain.from_iterable(after.keys))
        rows = zip(keys, identities, after.keys, strict=True)
        return [(key + own, identity) for own, identity, found in rows for key in found]

    def _changed(
        self, keys: Sequence[bytes], identities: Sequence[bytes], before: IndexKeys, after: IndexKeys
    ) -> list[Change]:
        changes: list[Change] = []
        for own, identity, was, now in zip(keys, identities, before.keys, after.keys, strict=True):
            if was == now:
                continue
            kept = set(was).intersection(now)
            changes += [(key + own, None) for key in was if key not in kept]
            changes += [(key + own, identity) for key in now if key not in kept]
            if self._index.unique:
                self._hashes += key_hashes(key for key in now if key not in kept)
        return changes

    def chunk(self, *, is_end: bool) -> IndexChunk:
        assert self.last is not None, "a chunk has a document"
        self._changes.sort()
        return IndexChunk(self._changes, self._hashes, self._arrays, self.last, is_end)


class TreeEdit:
    """A tree on its way from one state to another. Used by one thread."""

    def __init__(self, tree: Tree, stored: NodeSource, maker: NodeMaker, writer: ObjectWriter) -> None:
        """Begin with `tree`, whose nodes are in `stored`. No requests."""
        self.tree = tree
        self.maker = maker
        self.retired: list[str] = []
        """Names of stored objects that the tree no longer needs."""
        self._stored = stored
        self._writer = writer
        self._new: dict[str, NewNode] = {}
        self._new_bytes = 0

    @property
    def reader(self) -> TreeReader:
        """The tree as it is now. No requests."""
        return TreeReader(self.tree, self)

    def apply(self, changes: Sequence[Change]) -> None:
        """Change the tree by changes in order of key. 1 GET for each node reached; 1 PUT a node if many wait.

        Raises CorruptionError, SnapshotTooOldError, UnavailableError.
        """
        self.apply_all([changes])

    def apply_all(self, chunks: Iterable[Sequence[Change]]) -> None:
        """As `apply`, for chunks of changes in order of key; an empty tree is made of all of them at once."""
        if self.tree.root is None:
            changes = chain.from_iterable(chunks)
            load = BulkLoad(((key, value) for key, value in changes if value is not None), self.maker)
            for new in load:
                self.add(new)
            self.tree = load.tree
            return
        for some in chunks:
            self._change(some)

    def _change(self, changes: Sequence[Change]) -> None:
        applied = apply(self.tree, changes, self, self.maker)
        for child in applied.retired:
            self.retire(child.name)
        for new in applied.written:
            self.add(new)
        self.tree = applied.tree

    def add(self, new: NewNode) -> None:
        """Write an object, now or later. 1 PUT for each of those that wait, if they are too many."""
        self._new[new.name] = new
        self._new_bytes += len(new.body)
        if self._new_bytes > UNWRITTEN_BYTES_MAX:
            self.write()

    def retire(self, name: str) -> None:
        """The object of that name is no longer needed; one that was not written never will be. No requests."""
        waiting = self._new.pop(name, None)
        if waiting is None:
            self.retired.append(name)
        else:
            self._new_bytes -= len(waiting.body)

    def write(self) -> None:
        """Write what waits. 1 PUT each; raises UnavailableError."""
        self._writer.put_all(NewObject(self.key(new.name), new.body) for new in self._new.values())
        self._new.clear()
        self._new_bytes = 0

    # --- where nodes come from ---

    def key(self, name: str) -> str:
        """The object key of a node."""
        return self._stored.key(name)

    def leaves(self, refs: Sequence[Child]) -> list[Leaf]:
        """Nodes of the lowest level. 1 GET each that is neither new nor held; raises CorruptionError."""
        stored = iter(self._stored.leaves([ref for ref in refs if ref.name not in self._new]))
        found = [self.maker.read(self._new[ref.name]) if ref.name in self._new else next(stored) for ref in refs]
        leaves = [node for node in found if isinstance(node, Leaf)]
        assert len(leaves) == len(refs), "a new node is at its level"
        return leaves

    def inners(self, refs: Sequence[Child]) -> list[Inner]:
        """Nodes of a higher level. 1 GET each that is neither new nor held; raises CorruptionError."""
        stored = iter(self._stored.inners([ref for ref in refs if ref.name not in self._new]))
        found = [self.maker.read(self._new[ref.name]) if ref.name in self._new else next(stored) for ref in refs]
        inners = [node for node in found if isinstance(node, Inner)]
        assert len(inners) == len(refs), "a new node is at its level"
        return inners
