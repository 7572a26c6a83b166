"""Indexes against the documents, in memory that does not grow with them.

What the documents should have in a tree and what the tree has are two bags in different orders. Both are summed by the
digests of their entries, in a number of buckets; where the sums of a bucket differ, a second look names the documents.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.engine.index.shelf import IndexShelf, tree_of
from wormdb.engine.state.indexes import CURSOR_END, folder_of
from wormdb.engine.tree.definition import Index, decode_index
from wormdb.engine.tree.entries import Entry, value_key_of
from wormdb.engine.tree.extract import extract
from wormdb.engine.tree.statistics import decode_statistics
from wormdb.engine.tree.tree import verify
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError, UnsupportedFormatError, WormError
from wormdb.format import json
from wormdb.maintenance.audit.chain import SUM_BITS, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.tree.membership import KeyFilter
    from wormdb.engine.tree.nodes import NodeSource
    from wormdb.format.block import Row
    from wormdb.format.node import Child, Inner, Leaf
    from wormdb.format.root import IndexRoot, Root
    from wormdb.maintenance.audit.report import AuditReport
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["IndexCheck", "IndexTally", "index_checks", "told_damage", "tree_objects"]

_SLICE: Final = 1_000
_SHOWN: Final = 20

_DAMAGE: Final = (CorruptionError, SnapshotTooOldError, UnsupportedFormatError)


def told_damage(error: WormError) -> str:
    """What a check says of an object that it cannot read: if its root stands, an object that is gone is missing."""
    return "it is missing" if isinstance(error, SnapshotTooOldError) else error.reason


def _bucket(digest: int) -> int:
    return digest >> (SUM_BITS - 12)


@dataclass(frozen=True, slots=True)
class IndexTally:
    """What some documents should have in the tree of an index."""

    name: str
    sums: dict[int, bytes]
    """By bucket, as numbers."""
    arrays: tuple[bool, ...]


@dataclass(slots=True)
class IndexCheck:
    """One index of a root: fed with every document, then compared with its tree."""

    site: StoredCollection
    root: Root
    stored: IndexRoot
    index: Index
    report: AuditReport
    is_bad: bool = False
    """Whether it must be built again."""
    is_refused: bool = False
    """Whether the documents themselves do not fit it: no repair helps."""
    _sums: Counter[int] = field(default_factory=Counter)
    _count: int = 0
    _arrays: tuple[bool, ...] = ()
    _waiting: list[tuple[bytes, Row]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What names it in findings: its top node, or its folder."""
        nodes = self._shelf().nodes(self.root, self.stored.name)
        return nodes.key("" if self.stored.node is None else self.stored.node.name)

    @property
    def has_tree(self) -> bool:
        """Whether it should have documents."""
        return self.stored.state in {"ready", "building"} and self.stored.reason is None

    def add(self, key: bytes, row: Row) -> None:
        """A document of the root. No requests."""
        if self._wants(key):
            self._waiting.append((key, row))
            if len(self._waiting) >= _SLICE:
                self._flush()

    def _wants(self, key: bytes) -> bool:
        if not self.has_tree:
            return False
        cursor = CURSOR_END if self.stored.state == "ready" else self.stored.cursor
        return cursor is not None and key <= cursor

    def tally(self) -> IndexTally:
        """What the documents that were added here should have in the tree. No requests."""
        self._flush()
        sums = {bucket: total.to_bytes(2 * SUM_BITS // 8, "big") for bucket, total in self._sums.items()}
        return IndexTally(self.stored.name, sums, self._arrays)

    def take(self, tally: IndexTally) -> None:
        """Count in what other documents should have. No requests."""
        self._sums.update({bucket: int.from_bytes(total, "big") for bucket, total in tally.sums.items()})
        pairs = zip(self._arrays or tally.arrays, tally.arrays, strict=True)
        self._arrays = tuple(one or other for one, other in pairs) if tally.arrays else self._arrays

    def _flush(self) -> None:
        for entry_key, value in self._entries_of(self._waiting):
            digest = digest_of(entry_key + b"\n" + value)
            self._sums[_bucket(digest)] += digest
            self._count += 1
        self._waiting = []

    def _entries_of(self, rows: Sequence[tuple[bytes, Row]]) -> Iterator[Entry]:
        if not rows:
            return
        identities = [json.encode(row.id) for _, row in rows]
        try:
            found = extract(self.index, identities, [row.document for _, row in rows])
        except InvalidRequestError as error:
            if len(rows) > 1:
                for one in rows:
                    yield from self._entries_of([one])
                return
            self.is_refused = True
            self._fault(self.key, f"{error.what}: {error.reason}", fix="correct the document, or drop the index")
            return
        self._arrays = tuple(a or b for a, b in zip(self._arrays or found.arrays, found.arrays, strict=True))
        for (key, _), identity, own in zip(rows, identities, found.keys, strict=True):
            for value_key in own:
                yield value_key + key, identity

    # --- the tree ---

    def compare(self, *, with_documents: bool) -> set[int]:
        """Check the tree, and its entries against the documents that were added; the buckets that differ.

        Not against them if some could not be read. 1 GET a node and a run of its filter.
        """
        self._flush()
        self._check_state()
        if not self.has_tree:
            return set()
        shelf = self._shelf()
        nodes = shelf.nodes(self.root, self.stored.name)
        tap = _Tap(nodes, self.index.unique, self._filter(shelf))
        problems = verify(tree_of(self.stored), tap)
        self.report.count("nodes", tap.nodes)
        for problem in problems:
            self._fault(problem.path or self.key, problem.reason)
        if problems:
            return set()
        if tap.denied:
            self._fault(self.key, f"its filter denies {tap.denied} keys that are there")
        for key in tap.duplicates:
            self.is_refused = True
            self._refuse(key, tap)
        if not with_documents:
            return set()
        differing = {bucket for bucket in {*self._sums, *tap.sums} if self._sums[bucket] != tap.sums[bucket]}
        if differing:
            self.is_bad = True
        return differing

    def name_differences(self, differing: set[int], documents: Iterator[tuple[bytes, Row]]) -> None:
        """Say which documents an index has wrongly, the first of them. Reads the documents and the tree again."""
        chosen = set(sorted(differing)[:_SHOWN])
        wanted: set[Entry] = set()
        while rows := list(islice(documents, _SLICE)):
            own = [item for item in rows if self._wants(item[0])]
            wanted |= {entry for entry in self._entries_of(own) if _falls(entry, chosen)}
        found = {entry for entry in self._shelf().reader(self.root, self.stored).scan() if _falls(entry, chosen)}
        for entry in sorted(wanted - found)[:_SHOWN]:
            self._fault(self.key, f"it lacks an entry of document {entry[1].decode()}")
        for entry in sorted(found - wanted)[:_SHOWN]:
            self._fault(self.key, f"it has an entry of document {entry[1].decode()} that it should not have")

    def _filter(self, shelf: IndexShelf) -> KeyFilter | None:
        stored = self.stored
        if stored.membership is None:
            if self.index.unique and stored.state == "ready" and stored.node is not None:
                self._fault(self.key, "it is unique and has no filter")
            return None
        try:
            found = shelf.filter(self.root, stored)
        except _DAMAGE as error:
            self._fault(error.key or self.key, told_damage(error))
            return None
        self.report.count("nodes", 0 if found is None else len(found.refs))
        return found

    def _check_state(self) -> None:
        stored, root = self.stored, self.root
        if stored.state == "ready" and stored.applied != root.applied:
            self._fault(self.key, f"it was brought to entry {stored.applied}, the documents to {root.applied}")
        if not self.has_tree and stored.node is not None:
            self._fault(self.key, f"it is {stored.state} and has a tree")
        if stored.statistics is None or not self._arrays:
            return
        try:
            arrays = decode_statistics(stored.statistics, name=self.site.paths.root).arrays
        except CorruptionError as error:
            self._fault(self.key, error.reason)
            return
        if arrays and any(seen and not said for seen, said in zip(self._arrays, arrays, strict=True)):
            self._fault(self.key, "its statistics deny an array that a document has")

    def _refuse(self, value: bytes, tap: _Tap) -> None:
        owners = ", ".join(identity.decode() for identity in tap.duplicates[value])
        self.report.add(
            "index",
            self.key,
            f"{self.index.label} is unique and has one value on several documents: {owners}",
            fix="change or delete all but one of these documents",
        )

    def _fault(self, key: str, what: str, *, fix: str | None = None) -> None:
        if fix is None:
            self.is_bad = True
        self.report.add("index", key, f"index {self.stored.name}: {what}", fix=fix)

    def _shelf(self) -> IndexShelf:
        return IndexShelf(self.site.store, self.site.paths, self.site.pool)


def _falls(entry: Entry, buckets: set[int]) -> bool:
    return _bucket(digest_of(entry[0] + b"\n" + entry[1])) in buckets


class _Tap:
    """Nodes on their way to the check of the tree, which asks for leaves in order; their entries are summed up."""

    def __init__(self, nodes: NodeSource, unique: bool, membership: KeyFilter | None) -> None:
        self._nodes = nodes
        self._unique = unique
        self._filter = membership
        self._last: tuple[bytes, bytes] | None = None
        self.nodes = 0
        self.sums: Counter[int] = Counter()
        self.denied = 0
        self.duplicates: dict[bytes, list[bytes]] = {}

    def key(self, name: str) -> str:
        return self._nodes.key(name)

    def inners(self, refs: Sequence[Child]) -> list[Inner]:
        found = self._nodes.inners(refs)
        self.nodes += len(found)
        return found

    def leaves(self, refs: Sequence[Child]) -> list[Leaf]:
        found = self._nodes.leaves(refs)
        self.nodes += len(found)
        for leaf in found:
            for entry in zip(leaf.keys, leaf.values, strict=True):
                self._look(entry)
        return found

    def _look(self, entry: Entry) -> None:
        digest = digest_of(entry[0] + b"\n" + entry[1])
        self.sums[_bucket(digest)] += digest
        if not self._unique:
            return
        value, identity = value_key_of(entry), entry[1]
        if self._filter is not None and not self._filter.might_contain(value):
            self.denied += 1
        if self._last is not None and self._last[0] == value and len(self.duplicates) < _SHOWN:
            self.duplicates.setdefault(value, [self._last[1]]).append(identity)
        self._last = value, identity


def index_checks(site: StoredCollection, root: Root, report: AuditReport) -> list[IndexCheck]:
    """One for each index of a root. No requests; raises CorruptionError."""
    return [_check_of(site, root, stored, report) for stored in root.indexes]


def _check_of(site: StoredCollection, root: Root, stored: IndexRoot, report: AuditReport) -> IndexCheck:
    index = decode_index(stored.name, stored.definition, source=site.paths.root)
    if stored.lists is None:
        return IndexCheck(site, root, stored, index, report)
    from wormdb.maintenance.audit.list_check import ListCheck

    return ListCheck(site, root, stored, index, report)


def tree_objects(site: StoredCollection, root: Root, stored: IndexRoot) -> list[str]:
    """The keys of the objects of an index, as far as they can be found. 1 GET for each node above the leaves."""
    if stored.lists is not None:
        folder = folder_of(site.paths, stored.name)
        return [folder + name for name in stored.list_names]
    shelf = IndexShelf(site.store, site.paths, site.pool)
    nodes = shelf.nodes(root, stored.name)
    top = tree_of(stored).top
    found: list[str] = []
    level, refs = stored.height, [] if top is None else [top]
    while refs:
        found += [nodes.key(ref.name) for ref in refs]
        below: list[Child] = []
        for ref in refs if level > 1 else ():
            try:
                below += nodes.inners([ref])[0].children
            except _DAMAGE:
                continue
        level, refs = level - 1, below
    if stored.membership is not None:
        try:
            membership = shelf.filter(root, stored)
            found += [nodes.key(ref.name) for ref in (() if membership is None else membership.refs)]
        except _DAMAGE:
            found.append(nodes.key(stored.membership.name))
    return found
