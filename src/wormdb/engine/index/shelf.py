"""The trees of a collection's indexes: where their objects are, and what of them is kept in memory.

Nodes and filters are immutable, so what one root needed is right for every other root that names it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.state.indexes import folder_of, is_whole, scope_of
from wormdb.engine.tree.definition import Index, encode_index
from wormdb.engine.tree.entries import Entry, Range, value_key_of
from wormdb.engine.tree.membership import KeyFilter, build_filter_of, extend_filter_of, load_filter
from wormdb.engine.tree.nodes import NodeLimits, NodeMaker, StoreNodes, Tree
from wormdb.engine.tree.statistics import IndexStatistics, decode_statistics, encode_statistics, measure
from wormdb.engine.tree.tree import TreeReader, entries_of, overlapping
from wormdb.format.membership import key_hashes
from wormdb.format.node import Leaf

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.blocks.shelf import ColumnCache
    from wormdb.engine.index.edit import TreeEdit
    from wormdb.engine.lists.shelf import ListShelf
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.format.root import IndexRoot, ObjectRef, Root
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = [
    "IndexShelf",
    "KeptWay",
    "OwnerTree",
    "following_membership",
    "following_statistics",
    "hashes_in",
    "is_whole",
    "tree_of",
]

FILTERS_MAX: Final = 64
"""Filters kept in memory; one takes 8 bytes a key."""


def tree_of(index: IndexRoot) -> Tree:
    """The tree that a root names for an index."""
    return Tree(index.node, index.height, index.entries)


class IndexShelf:
    """The trees of one collection. Thread-safe."""

    def __init__(
        self,
        store: Store,
        paths: EnginePaths,
        pool: Pool,
        limits: NodeLimits | None = None,
        pages: ColumnCache | None = None,
    ) -> None:
        """`limits` are of new nodes; `pages` keeps pages of lists. No requests."""
        self._limits = limits or NodeLimits()
        self._store = store
        self._paths = paths
        self._pool = pool
        self._pages = pages
        self._lists: ListShelf | None = None
        self._nodes: dict[str, StoreNodes] = {}
        self._filters: OrderedDict[bytes, KeyFilter] = OrderedDict()
        self._lock = threading.Lock()

    def folder(self, name: str) -> str:
        """Where the objects of an index are. A name that a folder cannot have is replaced by its hash."""
        return folder_of(self._paths, name)

    @property
    def lists(self) -> ListShelf:
        """The indexes that are lists. No requests."""
        if self._lists is None:
            from wormdb.engine.lists.shelf import ListShelf  # most collections have none

            # Two threads may each make one: what one of them keeps, the other reads again.
            self._lists = ListShelf(self._store, self._paths, self._pool, self._pages)
        return self._lists

    def nodes(self, root: Root, name: str) -> StoreNodes:
        """The stored nodes of an index. No requests."""
        scope = scope_of(root, name)
        with self._lock:
            if scope not in self._nodes:
                self._nodes[scope] = StoreNodes(self._store, self.folder(name), pool=self._pool, scope=scope)
            return self._nodes[scope]

    def maker(self, root: Root, name: str, new_name: Callable[[], str]) -> NodeMaker:
        """Makes new nodes of an index. No requests."""
        return NodeMaker(new_name, scope_of(root, name), self._limits)

    def reader(self, root: Root, index: IndexRoot) -> TreeReader:
        """The tree of an index in a root. No requests."""
        return TreeReader(tree_of(index), self.nodes(root, index.name))

    @property
    def held_nodes(self) -> int:
        """How many nodes are kept unpacked. No requests."""
        held = 0
        for nodes in tuple(self._nodes.values()):
            held += nodes.held_count
        return held

    def kept_way(self, root: Root, index: IndexRoot, span: Range, *, reverse: bool = False) -> KeptWay:
        """What is kept of the way down to the beginning of a range, or to its end. No requests."""
        nodes, child = self.nodes(root, index.name), tree_of(index).top
        levels = 0
        while child is not None and (node := nodes.held(child)) is not None:
            levels += 1
            if isinstance(node, Leaf):
                return KeptWay(1.0, entries_of(node, span))
            chosen = node.children[overlapping(node, span)]
            child = chosen[-1 if reverse else 0] if chosen else None
        return KeptWay(levels / max(index.height, 1), ())

    def empty(self, name: str) -> TreeReader:
        """The tree of an index of a collection without a root: it has nothing. No requests."""
        return TreeReader(Tree(), StoreNodes(self._store, self.folder(name), pool=self._pool))

    def filter(self, root: Root, index: IndexRoot) -> KeyFilter | None:
        """The membership filter of an index in a root; None if it has none. 1 GET a run the first time.

        Raises CorruptionError, SnapshotTooOldError.
        """
        ref = index.membership
        if ref is None:
            return None
        with self._lock:
            held = self._filters.get(ref.sha256)
        if held is None:
            held = load_filter(ref, self.nodes(root, index.name), scope=scope_of(root, index.name))
            self.keep(held)
        return held

    def keep(self, made: KeyFilter) -> None:
        """Remember a filter that was just made or loaded. No requests."""
        with self._lock:
            self._filters[made.ref.sha256] = made
            self._filters.move_to_end(made.ref.sha256)
            while len(self._filters) > FILTERS_MAX:
                self._filters.popitem(last=False)

    def owner_tree(self, root: Root, index: Index) -> OwnerTree | None:
        """The tree of an index that has all documents of a root; None if the root has none. No requests."""
        found = root.index(index.name)
        if found is None or found.definition != encode_index(index) or not is_whole(found):
            return None
        return OwnerTree(self, root, found)


@dataclass(frozen=True, slots=True)
class KeptWay:
    """One way from the top of a tree to a leaf, as far as it is kept."""

    share: float
    """Of its nodes."""
    entries: Sequence[Entry]
    """Those of the range that the leaf has; none if it is not kept."""


@dataclass(frozen=True, slots=True)
class OwnerTree:
    """A unique index as one root has it."""

    shelf: IndexShelf
    root: Root
    index: IndexRoot

    def owners(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The documents that have some of the keys: their ids as JSON; no document has the others.

        A new key costs nothing once the filter is there; for the rest 1 GET for each node that is not held, one
        round trip a level. Raises CorruptionError, SnapshotTooOldError.
        """
        wanted = list(dict.fromkeys(keys))
        membership = self.shelf.filter(self.root, self.index) if wanted else None
        if membership is not None:
            wanted = [key for key in wanted if membership.might_contain(key)]
        if not wanted:
            return {}
        found = self.shelf.reader(self.root, self.index).prefix_many(wanted)
        return {key: entries[0][1] for key, entries in zip(wanted, found, strict=True) if entries}


# --- What goes with the tree of an index in the root: the membership filter of a unique one, and statistics.


def following_membership(
    edit: TreeEdit, known: KeyFilter | None, hashes: array[int], shelf: IndexShelf, *, was_empty: bool
) -> ObjectRef:
    """The filter of the tree as it is now, where `hashes` are of the keys that came. No requests of its own.

    It is built anew when the one before has no room. That reads every leaf, unless the tree was empty before.
    """
    if known is not None and known.has_room(len(hashes)):
        change = extend_filter_of(known, hashes, edit.maker)
    else:
        change = build_filter_of(hashes if was_empty else hashes_in(edit), edit.maker)
        for ref in () if known is None else known.refs:
            edit.retire(ref.name)
    for new in change.written:
        edit.add(new)
    for ref in change.retired:
        edit.retire(ref.name)
    shelf.keep(change.filter)
    return change.filter.ref


def hashes_in(edit: TreeEdit) -> array[int]:
    """The hash of every value's key in a tree. 1 GET a node that is not held."""
    return key_hashes(map(value_key_of, edit.reader.scan()))


def following_statistics(
    edit: TreeEdit,
    old: IndexRoot | None,
    arrays: Sequence[bool],
    *,
    source: str,
    is_whole: bool = True,
    is_erased: bool = False,
) -> bytes:
    """The statistics of the tree as it is now: measured again if its entries changed by more than a tenth.

    Or if a document was erased: bounds are keys, and may be of it.

    Reads 8 leaves and those beside them, and the nodes above, when it measures. Of a tree that is being built
    only the arrays are known. `source` is the root's object; raises CorruptionError.
    """
    known = None if old is None or old.statistics is None else decode_statistics(old.statistics, name=source)
    before = (False,) * len(arrays) if known is None else known.arrays
    seen = tuple(one or other for one, other in zip(before, arrays, strict=True)) if before else ()
    if not is_whole:
        return encode_statistics(IndexStatistics(entries=0, distinct=0, arrays=seen))
    if known is None or is_erased or abs(edit.tree.entries - known.entries) * 10 > known.entries:
        return encode_statistics(measure(edit.reader, arrays=seen))
    return encode_statistics(msgspec.structs.replace(known, arrays=seen))
