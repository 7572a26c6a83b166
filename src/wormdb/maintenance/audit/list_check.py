"""Indexes that are lists against the documents: all runs merged must be what the documents say.

As for trees, both are summed by the digests of their entries, in buckets; the statistics of the index are sums too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.engine.lists.audit import stored_entries
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.draft import ListMaker
from wormdb.engine.lists.shelf import ListFolder, ListShelf
from wormdb.engine.state.indexes import CURSOR_END
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

_BUCKET_BITS: Final = 12
_BUCKETS: Final = 1 << _BUCKET_BITS
_SLICE: Final = 1_000
_SHOWN: Final = 20
_DAMAGE: Final = (CorruptionError, SnapshotTooOldError, UnsupportedFormatError)


@dataclass(frozen=True, slots=True)
class _Generation:
    """Lists of the index that are checked: those that answer, or those that are made anew beside them."""

    head: ListHead
    cursor: bytes | None
    """They have the documents whose id's key is not above this."""
    is_new: bool = False

    @property
    def base(self) -> int:
        """Where its sums begin: the numbers of its buckets from there on; those of its statistics below 0, mirrored."""
        return _BUCKETS if self.is_new else 0

    def own(self, rows: Sequence[tuple[bytes, Row]]) -> list[tuple[bytes, Row]]:
        """Those of some documents that must be in it."""
        through = self.cursor
        return [] if through is None else [row for row in rows if row[0] <= through]

    def has(self, place: int) -> bool:
        """Whether a sum is one of its own."""
        return self.base <= (place if place >= 0 else -1 - place) < self.base + _BUCKETS

    def bucket(self, digest: int) -> int:
        """The place of the sum that an entry belongs to."""
        return self.base + (digest >> (SUM_BITS - _BUCKET_BITS))

    def statistic(self, place: int) -> int:
        """The place of the sum of one of its statistics."""
        return -1 - self.base - place


@dataclass(slots=True)
class ListCheck(IndexCheck):
    """One list index of a root: fed with every document, then compared with its lists, and those that are made anew."""

    _makers: dict[int, ListMaker] = field(default_factory=dict)
    """By `_Generation.base`."""
    _unreadable: set[int] = field(default_factory=set)
    """Those of which it cannot be told what documents should have in them, likewise."""

    @property
    def key(self) -> str:
        """What names it in findings: its folder."""
        return self._folder.folder

    @property
    def _folder(self) -> ListFolder:
        found = ListShelf(self.site.store, self.site.paths, self.site.pool).folder(self.root, self.stored.name)
        return replace(found, is_audit=True)

    @property
    def _generations(self) -> list[_Generation]:
        stored, begun = self.stored, self.stored.successor
        through = CURSOR_END if stored.state == "ready" else stored.cursor
        found = [_Generation(stored.lists or ListHead(), through)]
        return found if begun is None else [*found, _Generation(begun.head, begun.cursor, is_new=True)]

    def _maker(self, generation: _Generation) -> ListMaker:
        """What finds the lists of documents. 1 GET for what was learned, the first time."""
        found = self._makers.get(generation.base)
        if found is None:
            trained = self._folder.trained(generation.head.trained)
            found = self._makers[generation.base] = ListMaker(kind_for(self.index), trained, is_strict=False)
        return found

    def _entries(self, generation: _Generation, rows: Sequence[tuple[bytes, Row]]) -> Iterator[tuple[int, bytes]]:
        """The digest of each entry that documents should have, and the id of the document; counts statistics."""
        maker = self._maker(generation)
        own = [(key, row, row.document) for key, row in rows if row.document is not None]
        documents = [json.decode_document(document, name="document") for _, _, document in own]
        for (key, row, _), document, lists in zip(own, documents, maker.lists_of(documents), strict=True):
            hashed, identity = key_hash(key), json.encode(row.id)
            for list_key, payload in lists.items():
                yield _digest(list_key, hashed, payload), identity
            try:
                maker.kind.check(document)
            except InvalidRequestError as error:
                if not generation.is_new:
                    self.is_refused = True
                    self._fault(
                        self.key, f"{error.what}: {error.reason}", fix="correct the document, or drop the index"
                    )
                continue
            for place, value in enumerate(maker.tally_of(document)):
                self._sums[generation.statistic(place)] += value

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        for generation in self._generations if rows else ():
            if generation.base in self._unreadable:
                continue
            try:
                for digest, _ in self._entries(generation, generation.own(rows)):
                    self._sums[generation.bucket(digest)] += digest
            except _DAMAGE:
                self._unreadable.add(generation.base)  # what was learned: `compare` reads it too, and tells

    def compare(self, *, with_documents: bool) -> set[int]:
        """Check the lists, and their entries against the documents that were added; the buckets that differ.

        Not against them if some could not be read. Lists that are made anew are checked as far as they have come.
        Costs as `stored_entries`, and 1 GET for what was learned.
        """
        self._flush()
        stored = self.stored
        if stored.state == "ready" and stored.applied != self.root.applied:
            self._fault(self.key, f"it was brought to entry {stored.applied}, the documents to {self.root.applied}")
        if not self.has_tree:
            if stored.lists is not None and stored.lists.runs:
                self._fault(self.key, f"it is {stored.state} and has lists")
            return set()
        differing: set[int] = set()
        for generation in self._generations:
            differing |= self._compare(generation, with_documents=with_documents)
        return differing

    def _compare(self, generation: _Generation, *, with_documents: bool) -> set[int]:
        head, told = generation.head, "it is made anew, and " if generation.is_new else ""
        self.report.count("nodes", len(head.names))
        found: Counter[int] = Counter({generation.statistic(place): value for place, value in enumerate(head.tally)})
        count = 0
        try:
            self._folder.trained(head.trained)
            for key, hashed, payload in stored_entries(self._folder, head, kind_for(self.index)):
                digest = _digest(key, hashed, payload)
                found[generation.bucket(digest)] += digest
                count += 1
        except _DAMAGE as error:
            self._fault(error.key or self.key, f"{told}{told_damage(error)}")
            return set()
        if count != head.entries:
            has = "has" if told else "it has"
            self._fault(self.key, f"{told}{has} {count} entries, by the root {head.entries}")
        if not with_documents:
            return set()
        places = [place for place in {*self._sums, *found} if generation.has(place)]
        differing = {place for place in places if self._sums[place] != found[place]}
        if any(place < 0 for place in differing):
            self._fault(self.key, f"{told}its statistics are not those of the documents")
        self.is_bad = self.is_bad or bool(differing)
        return {place for place in differing if place >= 0}

    def name_differences(self, differing: set[int], documents: Iterator[tuple[bytes, Row]]) -> None:
        """Say which documents the lists have wrongly, the first of them. Reads the documents and the lists again."""
        chosen = [(one, set(sorted(filter(one.has, differing))[:_SHOWN])) for one in self._generations]
        looked_at = [(one, buckets, dict[int, bytes]()) for one, buckets in chosen if buckets]
        while rows := list(islice(documents, _SLICE)):
            for one, buckets, wanted in looked_at:
                entries = self._entries(one, one.own(rows))
                wanted.update((digest, name) for digest, name in entries if one.bucket(digest) in buckets)
        for one, buckets, wanted in looked_at:
            self._name(one, buckets, wanted)

    def _name(self, generation: _Generation, buckets: set[int], wanted: dict[int, bytes]) -> None:
        subject = "it is made anew, and" if generation.is_new else "it"
        entries = stored_entries(self._folder, generation.head, kind_for(self.index))
        found = {one for one in (_digest(*entry) for entry in entries) if generation.bucket(one) in buckets}
        for digest in sorted(wanted.keys() - found, key=wanted.__getitem__)[:_SHOWN]:
            self._fault(self.key, f"{subject} lacks an entry of document {wanted[digest].decode()}")
        if spare := len(found - wanted.keys()):
            self._fault(self.key, f"{subject} has {spare} entries that no document has")


def _digest(key: bytes, hashed: int, payload: bytes) -> int:
    return digest_of(len(key).to_bytes(2, "big") + key + hashed.to_bytes(8, "big") + payload)
