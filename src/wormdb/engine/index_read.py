"""One ready index over one view: the tree of the root, and what the tail changed on top of it."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.forward import net_of
from wormdb.engine.state import id_key, merge_newest
from wormdb.format import json
from wormdb.index.btree import EVERYTHING
from wormdb.index.entries import changes_of, id_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.index_shelf import IndexShelf
    from wormdb.engine.state import View
    from wormdb.format.kinds import Document
    from wormdb.index.btree import TreeReader
    from wormdb.index.definition import Index
    from wormdb.index.entries import Entry, Range

__all__ = ["IndexReader", "read_index"]


@dataclass(frozen=True, slots=True)
class IndexReader:
    """The entries of an index at the state of a view: (key of the value and of the id, id and covered values).

    Every method may raise CorruptionError, and SnapshotTooOldError if the view is so old that nodes are gone.
    """

    tree: TreeReader
    touched: frozenset[bytes]
    """The keys of the ids of documents that the tail changed: what the tree says of them does not count."""
    added: tuple[Entry, ...]
    """Their entries, in order of key."""
    gone: tuple[bytes, ...] | None
    """The keys of their entries in the tree, in order; None if nobody knows them without reading."""

    def scan(self, span: Range = EVERYTHING, *, reverse: bool = False, limit: int | None = None) -> Iterator[Entry]:
        """The entries of a range in order of key, or against it. Costs as `TreeReader.scan`."""
        # Entries of changed documents are left out on the way, so as many more may have to be read.
        ahead = None if limit is None else limit + len(self.gone or ())
        stored = self.tree.scan(span, reverse=reverse, limit=None if self.gone is None else ahead)
        added = self.added[self._within(span)]
        entries = self._untouched(stored)
        if added:
            newer = iter(added[::-1] if reverse else added)
            entries = heapq.merge(entries, newer, reverse=reverse)
        return entries if limit is None else (entry for _, entry in zip(range(limit), entries, strict=False))

    def ranges(self, spans: Sequence[Range]) -> list[list[Entry]]:
        """The entries of each of some ranges. 1 GET for each node touched, one round trip a level."""
        return [
            sorted([*self._untouched(iter(stored)), *self.added[self._within(span)]])
            for span, stored in zip(spans, self.tree.ranges(spans), strict=True)
        ]

    def count(self, span: Range = EVERYTHING) -> int:
        """How many entries a range has, without reading what lies inside: 2 GETs a level at most.

        If blocks were attached since the root, the entries of the range are read.
        """
        if self.gone is None:
            return sum(1 for _ in self.scan(span))
        gone = sum(key in span for key in self.gone)
        return self.tree.count(span) - gone + len(self.added[self._within(span)])

    def _untouched(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        if not self.touched:
            return entries
        return (entry for entry in entries if id_key(id_of(entry[1])) not in self.touched)

    def _within(self, span: Range) -> slice:
        low = bisect_left(self.added, span.low, key=lambda entry: entry[0])
        if span.high is None:
            return slice(low, len(self.added))
        return slice(low, max(low, bisect_left(self.added, span.high, key=lambda entry: entry[0])))


def read_index(view: View, index: Index, shelf: IndexShelf) -> IndexReader | None:
    """The index at the state of a view; None if it cannot answer for it: then a scan must. No requests.

    If blocks were attached since the root, they are read: 1 GET each.
    """
    if index not in view.definition.indexes.ready:
        return None
    place = view.place
    tree = shelf.empty(index.name)
    if place is not None:
        whole = shelf.owner_tree(place.root, index)
        if whole is None:
            return None
        tree = shelf.reader(place.root, whole.index)
    attached = view.overlay.attached(view.number)
    newest = merge_newest([iter(view.overlay.scan(view.number)), *(one.base.scan() for one in attached)])
    touched: set[bytes] = set()
    added: list[Entry] = []
    for key, held in newest:
        touched.add(key)
        changes = changes_of(index, held.id, None, _decoded(held.document))
        added += [(entry, value) for entry, value in changes if value is not None]
    return IndexReader(tree, frozenset(touched), tuple(sorted(added)), None if attached else _gone(view, index))


def _gone(view: View, index: Index) -> tuple[bytes, ...]:
    """The keys in the tree of the documents that entries changed: what they were at the root tells."""
    keys: list[bytes] = []
    for net in net_of(view.overlay.entries(view.number), view):
        changes = changes_of(index, net.held.id, _decoded(net.before), None)
        keys += [key for key, _ in changes]
    return tuple(sorted(keys))


def _decoded(document: bytes | None) -> Document | None:
    return None if document is None else json.decode_document(document, name="document")
