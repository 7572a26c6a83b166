"""Indexes that are lists against the documents: all runs merged must be what the documents say.

As for trees, both are summed by the digests of their entries, in buckets; the statistics of the index are sums too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.engine.lists.audit import stored_entries
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.draft import ListMaker
from wormdb.engine.lists.shelf import ListFolder, ListShelf
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.list_run import ListHead
from wormdb.format.membership import key_hash
from wormdb.maintenance.audit.chain import SUM_BITS, digest_of
from wormdb.maintenance.audit.index_check import IndexCheck, told_damage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.format.block import Row

__all__ = ["ListCheck"]

_SLICE: Final = 1_000
_SHOWN: Final = 20
_DAMAGE: Final = (CorruptionError, SnapshotTooOldError, UnsupportedFormatError)


class ListCheck(IndexCheck):
    """One list index of a root: fed with every document, then compared with its lists."""

    __slots__ = ("_maker",)

    @property
    def key(self) -> str:
        """What names it in findings: its folder."""
        return self._folder.folder

    @property
    def _head(self) -> ListHead:
        return self.stored.lists or ListHead()

    @property
    def _folder(self) -> ListFolder:
        found = ListShelf(self.site.store, self.site.paths, self.site.pool).folder(self.root, self.stored.name)
        return replace(found, is_audit=True)

    def _entries(self, rows: Sequence[tuple[bytes, Row]]) -> Iterator[tuple[int, bytes]]:
        """The digest of each entry that documents should have, and the id of the document; counts statistics."""
        maker: ListMaker | None = getattr(self, "_maker", None)
        if maker is None:
            maker = ListMaker(kind_for(self.index), self._folder.trained(self._head.trained), is_strict=False)
            self._maker = maker
        documents = [json.decode_document(row.document, name="document") for _, row in rows if row.document is not None]
        for (key, row), document, lists in zip(rows, documents, maker.lists_of(documents), strict=True):
            hashed, identity = key_hash(key), json.encode(row.id)
            for list_key, payload in lists.items():
                yield _digest(list_key, hashed, payload), identity
            try:
                maker.kind.check(document)
            except InvalidRequestError as error:
                self.is_refused = True
                self._fault(self.key, f"{error.what}: {error.reason}", fix="correct the document, or drop the index")
                continue
            for place, value in enumerate(maker.tally_of(document)):
                self._sums[-1 - place] += value

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if not rows or self.is_unreadable:
            return
        try:
            for digest, _ in self._entries(rows):
                self._sums[digest >> (SUM_BITS - 12)] += digest
        except _DAMAGE:
            self.is_unreadable = True  # what was learned: `compare` reads it too, and tells

    def compare(self, *, with_documents: bool) -> set[int]:
        """Check the lists, and their entries against the documents that were added; the buckets that differ.

        Not against them if some could not be read. Costs as `stored_entries`, and 1 GET for what was learned.
        """
        self._flush()
        stored, head = self.stored, self._head
        if stored.state == "ready" and stored.applied != self.root.applied:
            self._fault(self.key, f"it was brought to entry {stored.applied}, the documents to {self.root.applied}")
        if not self.has_tree:
            if head.runs:
                self._fault(self.key, f"it is {stored.state} and has lists")
            return set()
        self.report.count("nodes", len(head.names))
        found: dict[int, int] = {-1 - place: value for place, value in enumerate(head.tally)}
        count = 0
        try:
            self._folder.trained(head.trained)
            for key, hashed, payload in stored_entries(self._folder, head, kind_for(self.index)):
                digest = _digest(key, hashed, payload)
                bucket = digest >> (SUM_BITS - 12)
                found[bucket] = found.get(bucket, 0) + digest
                count += 1
        except _DAMAGE as error:
            self._fault(error.key or self.key, told_damage(error))
            return set()
        self._check_successor()
        if count != head.entries:
            self._fault(self.key, f"it has {count} entries, by the root {head.entries}")
        if not with_documents:
            return set()
        if any(self._sums[place] != found.get(place, 0) for place in {*self._sums, *found} if place < 0):
            self._fault(self.key, "its statistics are not those of the documents")
        buckets = {bucket for bucket in {*self._sums, *found} if bucket >= 0}
        differing = {bucket for bucket in buckets if self._sums[bucket] != found.get(bucket, 0)}
        self.is_bad = self.is_bad or bool(differing)
        return differing

    def _check_successor(self) -> None:
        """Read what is made anew beside the lists, whole: what is damaged of it would end with an error."""
        begun = self.stored.successor
        if begun is None:
            return
        self.report.count("nodes", len(begun.head.names))
        try:
            self._folder.trained(begun.head.trained)
            count = sum(1 for _ in stored_entries(self._folder, begun.head, kind_for(self.index)))
        except _DAMAGE as error:
            self._fault(error.key or self.key, f"it is made anew, and {told_damage(error)}")
            return
        if count != begun.head.entries:
            self._fault(self.key, f"it is made anew, and has {count} entries, by the root {begun.head.entries}")

    def name_differences(self, differing: set[int], documents: Iterator[tuple[bytes, Row]]) -> None:
        """Say which documents the lists have wrongly, the first of them. Reads the documents and the lists again."""
        chosen = set(sorted(differing)[:_SHOWN])
        wanted: dict[int, bytes] = {}
        while rows := list(islice(documents, _SLICE)):
            own = [item for item in rows if self._wants(item[0])]
            wanted |= {one: name for one, name in self._entries(own) if one >> (SUM_BITS - 12) in chosen}
        entries = stored_entries(self._folder, self._head, kind_for(self.index))
        found = {one for one in (_digest(*entry) for entry in entries) if one >> (SUM_BITS - 12) in chosen}
        for digest in sorted(wanted.keys() - found, key=wanted.__getitem__)[:_SHOWN]:
            self._fault(self.key, f"it lacks an entry of document {wanted[digest].decode()}")
        if spare := len(found - wanted.keys()):
            self._fault(self.key, f"it has {spare} entries that no document has")


def _digest(key: bytes, hashed: int, payload: bytes) -> int:
    return digest_of(len(key).to_bytes(2, "big") + key + hashed.to_bytes(8, "big") + payload)
