"""One ready index over one view: the tree of the root, and what the tail changed on top of it."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from wormdb.engine.state.projection import Net, net_of
from wormdb.engine.state.view import StoredVersion, View, id_key, merge_newest
from wormdb.engine.tree.entries import ALL_ENTRIES, Entry, Range, changes_of
from wormdb.format import json
from wormdb.format.blob import blob_keys_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.tree import TreeReader
    from wormdb.format.kinds import Document
    from wormdb.system.types import LogNumber

__all__ = ["IndexReader", "advance_reader", "read_index"]


@dataclass(frozen=True, slots=True)
class IndexReader:
    """The entries of an index at the state of a view: (key of the value and of the id, id as JSON).

    Every method may raise CorruptionError, and SnapshotTooOldError if the view is so old that nodes are gone.
    """

    tree: TreeReader
    touched: frozenset[bytes]
    """The keys of the ids of documents that the tail changed: what the tree says of them does not count."""
    added: tuple[Entry, ...]
    """Their entries, in order of key."""
    gone: tuple[bytes, ...] | None
    """The keys of their entries in the tree, in order; None if they are not known without reading."""
    own: Mapping[bytes, tuple[Entry, ...]] = field(default_factory=dict)
    """The entries of each of them, by the key of its id."""

    def scan(self, span: Range = ALL_ENTRIES, *, reverse: bool = False, limit: int | None = None) -> Iterator[Entry]:
        """The entries of a range in order of key, or against it. Costs as `TreeReader.scan`."""
        added = self.added[self._within(span)]
        entries = self._untouched(self._stored(span, reverse, limit))
        if added:
            newer = iter(added[::-1] if reverse else added)
            entries = heapq.merge(entries, newer, reverse=reverse)
        return entries if limit is None else (entry for _, entry in zip(range(limit), entries, strict=False))

    def _stored(self, span: Range, reverse: bool, limit: int | None) -> Iterator[Entry]:
        """The entries of the tree. With a limit as many are asked for as are likely to be needed, then the others."""
        if limit is None or self.gone is None:
            yield from self.tree.scan(span, reverse=reverse)
            return
        # Entries of changed documents are left out later: as many more are read as lie among these on average.
        ahead = limit + -(-limit * len(self.gone) // max(self.tree.tree.entries, 1))
        taken, last = 0, b""
        for entry in self.tree.scan(span, reverse=reverse, limit=ahead):
            yield entry
            taken, last = taken + 1, entry[0]
        if taken == ahead and self.gone:
            rest = Range(span.low, last) if reverse else Range(last + b"\0", span.high)
            yield from self.tree.scan(rest, reverse=reverse)

    def ranges(self, spans: Sequence[Range]) -> list[list[Entry]]:
        """The entries of each of some ranges. 1 GET for each node touched, one round trip a level."""
        stored = self.tree.ranges(spans)
        if not self.touched:
            return stored
        return [
            sorted([*self._untouched(iter(some)), *self.added[self._within(span)]])
            for span, some in zip(spans, stored, strict=True)
        ]

    def count(self, span: Range = ALL_ENTRIES) -> int:
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
        return (entry for entry in entries if id_key(entry[1]) not in self.touched)

    def _within(self, span: Range) -> slice:
        low = bisect_left(self.added, span.low, key=lambda entry: entry[0])
        if span.high is None:
            return slice(low, len(self.added))
        return slice(low, max(low, bisect_left(self.added, span.high, key=lambda entry: entry[0])))


def read_index(view: View, index: Index, shelf: IndexShelf) -> IndexReader | None:
    """The index at the state of a view; None if it cannot answer for it: then a scan must. No requests.

    If blocks were attached since the root, they are read: 1 GET each.
    """
    status = view.definition.indexes.get(index.name)
    if status is None or status.state != "ready" or status.index != index:
        return None
    place = view.place
    tree = shelf.empty(index.name)
    if place is not None:
        whole = shelf.owner_tree(place.root, index)
        if whole is None or view.outdates(index):
            return None
        tree = shelf.reader(place.root, whole.index)
    attached = view.overlay.attached(view.number)
    newest = merge_newest([iter(view.overlay.scan(view.number)), *(one.base.scan() for one in attached)])
    own = {key: _entries_of(index, held) for key, held in newest}
    return _reader(tree, own, None if attached else _gone(view, index))


def advance_reader(reader: IndexReader, since: LogNumber, view: View, index: Index) -> IndexReader:
    """The reader of an index at an earlier view, `since`, of the same root, brought to a later view. No requests.

    No blocks were attached until then.
    """
    assert reader.gone is not None
    entries = [entry for entry in view.overlay.entries(view.number) if entry.number > since]
    changed = net_of(entries, view)
    own = {**reader.own, **{net.key: _entries_of(index, net.held) for net in changed}}
    first = [net for net in changed if net.key not in reader.own]
    return _reader(reader.tree, own, tuple(sorted([*reader.gone, *_keys_before(index, first)])))


def _reader(tree: TreeReader, own: Mapping[bytes, tuple[Entry, ...]], gone: tuple[bytes, ...] | None) -> IndexReader:
    return IndexReader(tree, frozenset(own), tuple(sorted(chain.from_iterable(own.values()))), gone, own)


def _entries_of(index: Index, held: StoredVersion) -> tuple[Entry, ...]:
    if index.is_owners and not blob_keys_in(held.document):
        return ()  # as good as all documents, which need not be decoded
    changes = changes_of(index, held.id, None, _decoded(held.document))
    return tuple((key, value) for key, value in changes if value is not None)


def _gone(view: View, index: Index) -> tuple[bytes, ...]:
    """The keys in the tree of the documents that entries changed: what they were at the root tells."""
    return tuple(sorted(_keys_before(index, net_of(view.overlay.entries(view.number), view))))


def _keys_before(index: Index, changed: Iterable[Net]) -> Iterator[bytes]:
    for net in changed:
        if index.is_owners and not blob_keys_in(net.before):
            continue
        yield from (key for key, _ in changes_of(index, net.held.id, _decoded(net.before), None))


def _decoded(document: bytes | None) -> Document | None:
    return None if document is None else json.decode_document(document, name="document")
