"""Make the trees of indexes again from the documents of a root, in pieces that others can do.

    parts = [extract_part(…, piece) for piece in pieces]          # by ranges of ids: entries, sorted, as small trees
    built = [join_parts(…, name, parts) for name in names]        # by index: one tree of them
    publish_indexes(…, built)                                     # see `index_publish`

The small trees are no part of the result; the root that names the result retires them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import RunBase, data_runs, held_of, merge_rows
from wormdb.engine.forward.compact import check_age
from wormdb.engine.forward.rebuild_lists import BuiltLists, ListSuccessor
from wormdb.engine.index.edit import TreeEdit, chunks, sliced
from wormdb.engine.index.shelf import IndexShelf, following_membership, following_statistics
from wormdb.engine.state.erased import check_unerased
from wormdb.engine.state.projection import Net
from wormdb.engine.state.successor import following_root
from wormdb.engine.tree.change import BulkLoad, merged
from wormdb.engine.tree.definition import decode_index
from wormdb.engine.tree.entries import value_key_of
from wormdb.engine.tree.nodes import Tree
from wormdb.errors import ConflictError, CorruptionError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format.membership import key_hash
from wormdb.format.root import ObjectRef  # noqa: TC001 - msgspec reads the annotations
from wormdb.settings import MIB
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.forward.compact import CompactionPiece
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Place, Register, RootState
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.entries import Change, Entry
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.root import IndexRoot, Root

__all__ = ["BuiltIndex", "PartTrees", "extract_part", "join_parts", "publish_indexes"]

PART_BYTES_MAX: Final = 32 * MIB
"""Of the keys and values of one small tree: about a third of the memory that they take before it is made."""


@dataclass(frozen=True, slots=True)
class PartTrees:
    """What the documents of one range have in one index: a value that can be sent."""

    name: str
    trees: tuple[Tree, ...]
    arrays: tuple[bool, ...]
    """For each field of the index whether one of them has an array there."""
    nodes: tuple[str, ...]
    """Names of all nodes of these trees."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The tree of one index: a value that can be sent."""

    name: str
    tree: Tree
    membership: ObjectRef | None
    statistics: bytes
    spare: tuple[str, ...]
    """Names of nodes that are no part of it."""


# --- by ranges of ids ---


def extract_part(
    place: Place, writer: ObjectWriter, indexes: Sequence[Index], piece: CompactionPiece
) -> tuple[list[PartTrees], int]:
    """What the documents of a range have in each index, and how many rows were looked at.

    1 GET for each block of the piece, and 1 PUT for each node. In memory are a block of each run, and the entries of
    one tree an index. Raises InvalidRequestError naming a document that an index cannot take, CorruptionError,
    SnapshotTooOldError, UnavailableError.
    """
    shelf = data_runs(place).shelf
    rows = merge_rows([_rows_of(shelf, run, piece) for run in piece.runs])
    gathered = [_Part(index, place, writer) for index in indexes]
    count = 0
    for some in sliced(Net(key, None, held_of(row)) for key, row in rows):
        count += len(some)
        for part in gathered:
            part.add(some)
    return [part.finish() for part in gathered], count


def _rows_of(shelf: Shelf, run: Sequence[BlockEntry], piece: CompactionPiece) -> Iterator[tuple[bytes, Row]]:
    for entry in run:
        yield from rows_between(shelf, entry, piece.low, piece.high)


class _Part:
    """The entries of one index on their way to small trees."""

    def __init__(self, index: Index, place: Place, writer: ObjectWriter) -> None:
        shelf = IndexShelf(place.store, place.paths, place.pool)
        self._index = index
        self._nodes = shelf.nodes(place.root, index.name)
        self._maker = shelf.maker(place.root, index.name, writer.new_name)
        self._writer = writer
        self._waiting: list[Change] = []
        self._bytes = 0
        self._arrays = (False,) * len(index.fields)
        self._trees: list[Tree] = []
        self._names: list[str] = []

    def add(self, some: Sequence[Net]) -> None:
        for chunk in chunks(self._index, [some]):
            self._waiting += chunk.changes
            self._bytes += sum(len(key) + len(value or b"") for key, value in chunk.changes)
            self._arrays = tuple(one or other for one, other in zip(self._arrays, chunk.arrays, strict=True))
        if self._bytes >= PART_BYTES_MAX:
            self._load()

    def finish(self) -> PartTrees:
        if self._waiting:
            self._load()
        return PartTrees(self._index.name, tuple(self._trees), self._arrays, tuple(self._names))

    def _load(self) -> None:
        self._waiting.sort()
        edit = TreeEdit(Tree(), self._nodes, self._maker, self._writer)
        self._trees.append(
            _load(edit, ((key, value) for key, value in self._waiting if value is not None), self._names)
        )
        self._waiting, self._bytes = [], 0


def _load(edit: TreeEdit, entries: Iterable[Entry], names: list[str]) -> Tree:
    """A tree of entries in order of key; it is written. The names of its nodes are added to `names`."""
    load = BulkLoad(entries, edit.maker)
    for new in load:
        names.append(new.name)
        edit.add(new)
    edit.tree = load.tree
    edit.write()
    return edit.tree


# --- by index ---


def join_parts(place: Place, writer: ObjectWriter, index: Index, parts: Sequence[PartTrees]) -> BuiltIndex:
    """One tree of many that have no entry in common, with the filter of a unique index and statistics.

    1 GET for each node of the parts, 1 PUT for each new one; in memory are a few nodes of each part, and 8 bytes a key
    of a unique index. Raises CorruptionError, SnapshotTooOldError, UnavailableError.
    """
    shelf = IndexShelf(place.store, place.paths, place.pool)
    nodes = shelf.nodes(place.root, index.name)
    edit = TreeEdit(Tree(), nodes, shelf.maker(place.root, index.name, writer.new_name), writer)
    trees = [tree for part in parts for tree in part.trees if tree.root is not None]
    spare = [name for part in parts for name in part.nodes]
    hashes = array("Q")
    if len(trees) == 1 and not index.unique:
        edit.tree, spare = trees[0], []
    else:
        entries = merged(trees, nodes)
        _load(edit, _hashed(entries, hashes) if index.unique else entries, [])
    membership = None
    if index.unique and edit.tree.root is not None:
        membership = following_membership(edit, None, hashes, shelf, was_empty=True)
    arrays = tuple(map(any, zip(*(part.arrays for part in parts), strict=True))) if parts else ()
    told = arrays or (False,) * len(index.fields)
    statistics = following_statistics(edit, None, told, source=place.paths.root)
    edit.write()
    return BuiltIndex(index.name, edit.tree, membership, statistics, tuple(spare))


def _hashed(entries: Iterable[Entry], hashes: array[int]) -> Iterator[Entry]:
    """The same entries, while the hashes of their values' keys are noted."""
    for entry in entries:
        hashes.append(key_hash(value_key_of(entry)))
        yield entry


# --- Name in the root the trees that were made of an older one, with what changed since: one swap.


def publish_indexes(
    register: Register,
    writer: ObjectWriter,
    planned: tuple[Place, RootState],
    built: Sequence[BuiltIndex],
    lists: Sequence[BuiltLists] = (),
) -> RootState:
    """Name new trees and lists in the root instead of those that are there; `planned` is the root that they are of.

    What documents changed since then is added to them: 1 GET for each block with newer rows and for the pages with
    the rows that they replace, and the nodes that they reach. An index that was dropped or defined anew meanwhile is
    left alone. 1 GET and 1 PUT for the root; again if another's root came first. Raises ConflictError if the collection
    was made anew, SnapshotTooOldError if the planned root is too old, UnavailableError, OutcomeUnknownError.
    """
    place, state = planned

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is None or root.collection != place.root.collection:
            raise ConflictError(f"indexes of {register.collection}", reason="the collection was made anew meanwhile")
        check_age(register.collection, state.time, place.root.revision, current)
        check_unerased(f"indexes of {register.collection}", place.root.erased_through, root)
        writer.misc.observe(Misc(root.misc))
        following = _IndexSuccessor(place, root, writer)
        indexes = tuple(
            following.index(one, built) if one.lists is None else following.lists(one, lists) for one in root.indexes
        )
        if indexes == root.indexes:
            return None
        changed = msgspec.structs.replace(root, indexes=indexes)
        return following_root(current, changed, following.retired, writer, register.paths)

    return register.update(change, what="new indexes")


@dataclass(slots=True)
class _IndexSuccessor:
    """The indexes of a newer root, with trees that were made of an older one."""

    old: Place
    root: Root
    writer: ObjectWriter
    retired: list[str] = field(default_factory=list)

    def lists(self, standing: IndexRoot, built: Sequence[BuiltLists]) -> IndexRoot:
        """An index with its new lists, as of the newer root; as it stands if there are none."""
        made = next((one for one in built if one.name == standing.name), None)
        if made is None or not self._is_same(standing):
            return standing
        index = decode_index(standing.name, standing.definition, source=self.old.paths.root)
        changed = chain.from_iterable(self._changed())
        following, gone = ListSuccessor(self.old, self.root, self.writer).index(standing, index, made, changed)
        self.retired += gone
        return following

    def _is_same(self, standing: IndexRoot) -> bool:
        """Whether what was made of the old root can stand for an index of the newer one."""
        before = self.old.root.index(standing.name)
        is_same = before is not None and before.definition == standing.definition and standing.state == "ready"
        # A mapping may have changed what documents have in it, without changing their revisions.
        return is_same and self.old.root.versions == self.root.versions

    def index(self, standing: IndexRoot, built: Sequence[BuiltIndex]) -> IndexRoot:
        """An index with its new tree, as of the newer root; as it stands if there is none."""
        made = next((one for one in built if one.name == standing.name), None)
        if made is None or not self._is_same(standing):
            return standing
        shelf = IndexShelf(self.old.store, self.old.paths, self.old.pool)
        nodes = shelf.nodes(self.root, standing.name)
        self._retire(standing, shelf)
        edit = TreeEdit(made.tree, nodes, shelf.maker(self.root, standing.name, self.writer.new_name), self.writer)
        fresh = msgspec.structs.replace(standing, membership=made.membership, statistics=made.statistics)
        fresh = self._caught_up(fresh, edit, shelf)
        edit.write()
        self.retired += [nodes.key(name) for name in chain(edit.retired, made.spare)]
        return msgspec.structs.replace(
            fresh, node=edit.tree.root, height=edit.tree.height, entries=edit.tree.entries, applied=self.root.applied
        )

    def _caught_up(self, fresh: IndexRoot, edit: TreeEdit, shelf: IndexShelf) -> IndexRoot:
        """Bring a tree from the old root to the newer one."""
        source = self.old.paths.root
        index = decode_index(fresh.name, fresh.definition, source=source)
        hashes, arrays = array("Q"), (False,) * len(index.fields)
        was_empty = edit.tree.root is None
        for chunk in chunks(index, self._changed()):
            edit.apply(chunk.changes)
            hashes.extend(chunk.hashes)
            arrays = tuple(one or other for one, other in zip(arrays, chunk.arrays, strict=True))
        membership = fresh.membership
        if index.unique and hashes:
            known = shelf.filter(self.root, fresh)
            membership = following_membership(edit, known, hashes, shelf, was_empty=was_empty)
        statistics = following_statistics(edit, fresh, arrays, source=source)
        return msgspec.structs.replace(fresh, membership=membership, statistics=statistics)

    def _changed(self) -> Iterator[Sequence[Net]]:
        """What is another in the newer root than in the old one: rows of a greater revision, with what was before."""
        number = self.old.root.applied
        if self.root.applied == number:
            return
        newer = data_runs(replace(self.old, root=self.root))
        shelf, runs = newer.shelf, newer.runs
        rows = merge_rows([_newer(shelf, run.blocks(shelf), number) for run in runs])
        base = RunBase(self.old, shelf)
        for some in sliced(Net(key, None, held_of(row)) for key, row in rows):
            before = base.get_many([net.key for net in some])
            yield [Net(net.key, None if net.key not in before else before[net.key].document, net.held) for net in some]

    def _retire(self, standing: IndexRoot, shelf: IndexShelf) -> None:
        """List every object of a tree; what lies below a damaged node stays behind as an object that no root names."""
        nodes = shelf.nodes(self.root, standing.name)
        try:
            self.retired += [nodes.key(child.name) for child, _ in shelf.reader(self.root, standing).refs()]
            membership = shelf.filter(self.root, standing)
        except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError):
            return
        self.retired += [nodes.key(ref.name) for ref in (() if membership is None else membership.refs)]


def _newer(shelf: Shelf, blocks: Iterable[BlockEntry], number: int) -> Iterator[tuple[bytes, Row]]:
    """The rows of a run that came after a number. 1 GET for each block that has some."""
    for block in blocks:
        if (block.rev_last or block.run) > number:
            yield from ((key, row) for key, row in rows_between(shelf, block) if row.rev > number)
