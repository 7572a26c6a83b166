"""History read over one view: the versions of a document, and the collection as it was.

Everything comes from objects that one root names and from the tail that the view knows, so nothing moves. Rows of
history are sorted by document and version, and the filters of their blocks are over documents: what a document has
in a run lies together, and runs that have nothing of it are not read.

A root with `history_from` above 0 has every change after that number, and the newest version until then of each
document that there was.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.runs import Part, Runs, merge_rows
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.history.changes import brought_by, loads_of_root, loads_of_tail, member_of, past_of, with_operations
from wormdb.engine.history.retention import too_old
from wormdb.engine.state.erased import erasures_of, mark_of
from wormdb.engine.state.expiry import ExpiryRule, rule_at
from wormdb.engine.state.moments import AsOf, check_begun, view_at
from wormdb.engine.state.view import StoredVersion, View
from wormdb.format.blocklist import BlockEntry, BlockPageRef
from wormdb.format.frame import corrupt
from wormdb.format.past import (
    SnapshotMark,
    Version,
    decode_past,
    first_ms,
    misc_ms,
    misc_of,
    past_from,
    past_key,
    past_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.history.changes import AttachedDocuments
    from wormdb.engine.history.retention import RetentionBound
    from wormdb.format.block import Row
    from wormdb.format.entry import Entry

__all__ = ["DocumentHistory", "History", "SnapshotVersion"]

LOOK_UPS_MAX: Final = 16
"""More versions than this are not looked up one by one: the history between them is read."""


@dataclass(frozen=True, slots=True)
class SnapshotVersion:
    """A version that is kept as a snapshot: since it was written, or since it was `taken` by hand, the last time."""

    version: Version
    taken: SnapshotMark | None = None


@dataclass(frozen=True, slots=True)
class DocumentHistory:
    """What history has of one document, by the key of its id: every version, and those kept as snapshots."""

    key: bytes
    versions: list[Version]
    snapshots: list[SnapshotVersion]


class History:
    """What a view knows of the past. It does not move, as the view does not.

    All reads raise CorruptionError for what is damaged, and SnapshotTooOldError if the view is so old that an
    object of its root is gone.
    """

    def __init__(
        self,
        view: View,
        *,
        past: Shelf | None = None,
        data: Shelf | None = None,
        bound: RetentionBound | None = None,
    ) -> None:
        """`past` is of the folder of history and `data` of that of documents; shared ones keep what they know.

        Within `bound` it is what readers are shown; else all that is stored. No requests.
        """
        place = view.place
        self._view = view.bare
        self._root = None if place is None else place.root
        self._name = "history" if place is None else place.paths.history
        if place is not None:
            past = past or Shelf(place.store, place.pool, place.paths.history)
            data = data or Shelf(place.store, place.pool, place.paths.data)
        self._past = past
        self._data = data
        self._bound = bound
        self._dropped = 0 if self._root is None else self._root.dropped_through

    # --- one document ---

    def versions(self, key: bytes) -> list[Version]:
        """Every version of the document with an id's key `key`, oldest first; none if there never was one.

        For each run of history and each attached job that holds it (and one in 256 of the others): 1 GET, of the page
        or the pages that its versions there fill, and 1 of the block's sidecar unless that is kept.
        Raises CorruptionError naming the collection's history if a version is missing.
        """
        return self._read(key)[0]

    def version(self, key: bytes, seq: int) -> Version | None:
        """Version `seq` of a document, or None. Costs as `versions`."""
        return next((version for version in self.versions(key) if version.seq == seq), None)

    def versions_at(self, wanted: Mapping[bytes, int]) -> dict[bytes, Version]:
        """By the keys of ids their versions of these numbers, as far as there are such; `wanted` is in order of key.

        Costs as `versions` of each, or a scan of the history between them if they are many.
        """
        if len(wanted) <= LOOK_UPS_MAX:
            versions = {key: self.version(key, seq) for key, seq in wanted.items()}
            return {key: version for key, version in versions.items() if version is not None}
        return {
            recorded.key: version
            for recorded in self.documents(min(wanted), max(wanted) + b"\0")
            for version in recorded.versions
            if version.seq == wanted.get(recorded.key)
        }

    def erased_at(self, key: bytes) -> int | None:
        """When the document with an id's key `key` was erased, in ms since 1970; None if it was not. No requests.

        A root forgets the oldest of more than ERASED_MARKS_MAX.
        """
        number = self._erased.get(key)
        if number is not None:
            return next(misc_ms(entry.misc) for entry in self._entries if entry.number == number)
        mark = None if self._root is None else mark_of(self._root, key)
        return None if mark is None else mark.time

    def snapshots(self, key: bytes) -> list[SnapshotVersion]:
        """The versions of a document that are snapshots, oldest first. Costs as `versions`."""
        return _kept(*self._read(key))

    def recorded(self, key: bytes) -> DocumentHistory:
        """All that history has of a document. Costs as `versions`."""
        versions, marks = self._read(key)
        return DocumentHistory(key, versions, _kept(versions, marks))

    def at(self, key: bytes, as_of: AsOf) -> StoredVersion | None:
        """What was under an id's key, as it was written; None if nothing ever had been.

        Costs as `versions`, or as a read of the view.

        Raises InvalidRequestError for a moment to come, SnapshotTooOldError for one before history.
        """
        as_of = as_of.over(self._view)
        view = view_at(self._view, as_of)
        if view is not None:
            return view.get(key)
        self._check_begun(as_of)
        if self._may_lack:
            found = self._known_at(self._cut(self._stored(key)), as_of)
        else:
            found = next(reversed(self._read(key, as_of)[0]), None)
        held = None if found is None else _held(found)
        rule = self._rule(as_of)
        return held if held is None or rule is None else _shown(held, rule, as_of)

    # --- the whole collection ---

    def scan(self, as_of: AsOf, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        """Every id used until then whose key is from `low` up to but not including `high`, in order of key.

        Costs a scan of that range in the blocks of history that had begun and in what jobs had attached; or a scan
        of the view, if nothing that its root has applied came later and nothing was mapped. Raises as `at`, when it
        is called.
        """
        as_of = as_of.over(self._view)
        view = view_at(self._view, as_of)
        if view is not None:
            return view.scan(low, high)
        self._check_begun(as_of)
        rule = self._rule(as_of)
        found = self._scan_kept(as_of, low, high) if self._may_lack else self._scan_past(as_of, low, high)
        return found if rule is None else ((key, _shown(held, rule, as_of)) for key, held in found)

    def documents(self, low: bytes = b"", high: bytes | None = None) -> Iterator[DocumentHistory]:
        """All that history has of each document whose id's key is in a range, in order of key.

        Costs a scan of that range in all blocks of history, and in all that jobs attached. Raises CorruptionError
        naming the collection's history if a version is missing.
        """
        for key, found in self._grouped(low, high):
            versions, marks = self._told(found)
            yield DocumentHistory(key, versions, _kept(versions, marks))

    def _grouped(self, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, list[Version | SnapshotMark]]]:
        """All rows of each document in a range, in order of key."""
        tail = sorted(key for key in self._tail if low <= key and (high is None or key < high))
        layers = [self._decoded(low, high), ((key, row) for key in tail for row in self._tail[key])]
        layers += [_versions_of(load, low, high) for load in self._loads]
        for key, found in groupby(heapq.merge(*layers, key=lambda each: each[0]), key=lambda each: each[0]):
            yield key, [row for _, row in found]

    def _scan_kept(self, as_of: AsOf, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, StoredVersion]]:
        """As `_scan_past`, where versions may be lacking: what came later tells that there were more."""
        for key, rows in self._grouped(low, high):
            found = self._known_at(self._cut(rows), as_of)
            if found is not None:
                yield key, _held(found)

    def _rule(self, as_of: AsOf) -> ExpiryRule | None:
        """Which documents were not seen at a time, though no entry had removed them yet; None if all were."""
        expiries = self._view.definition.expiries
        return rule_at(expiries, as_of) if expiries and as_of.shown_ms is not None else None

    def _decoded(self, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, Version | SnapshotMark]]:
        rows = self._rows(past_from(low), None if high is None else past_from(high), as_of=None)
        return ((member_of(row), decode_past(row.cell, name=self._name, rev=row.rev)) for _, row in rows)

    def _scan_past(self, as_of: AsOf, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, StoredVersion]]:
        layers = [self._stored_between(as_of, low, high), self._tail_between(as_of, low, high)]
        layers += [_loaded(load, low, high) for load in self._loads if as_of.has(load.number, load.misc)]
        rows = heapq.merge(*layers, key=lambda row: (row.key, row.seq))
        for key, versions in groupby(rows, key=lambda row: row.key):
            *_, newest = versions
            yield key, newest.held if isinstance(newest.held, StoredVersion) else _held(self._version_in(newest.held))

    def _stored_between(self, as_of: AsOf, low: bytes, high: bytes | None) -> Iterator[_VersionRow]:
        """The versions that the rows of history hold, still as rows; marks are left out."""
        key, first = b"", b"\xff"
        for place, row in self._rows(past_from(low), None if high is None else past_from(high), as_of=as_of):
            if not place.startswith(first):
                # No key is the beginning of another one, so what begins alike is of the same document.
                key = member_of(row)
                first = past_from(key)
            misc = misc_of(row.cell, name=self._name) if as_of.is_time else 0
            if as_of.has(row.rev, misc) and place == past_key(key, row.seq):
                yield _VersionRow(key, row.seq, row)

    def _tail_between(self, as_of: AsOf, low: bytes, high: bytes | None) -> Iterator[_VersionRow]:
        """The versions that entries after the root hold themselves."""
        for key in sorted(key for key in self._tail if low <= key and (high is None or key < high)):
            for row in self._tail[key]:
                if isinstance(row, Version) and as_of.has(row.rev, row.misc):
                    yield _VersionRow(key, row.seq, _held(row))

    # --- where versions come from ---

    def _read(self, key: bytes, as_of: AsOf | None = None) -> tuple[list[Version], list[SnapshotMark]]:
        """The versions of a document by number and its marks by age; with `as_of` those of then."""
        found = self._stored(key, as_of)
        return self._told([row for row in found if as_of is None or as_of.has(row.rev, row.misc)])

    def _stored(self, key: bytes, as_of: AsOf | None = None) -> list[Version | SnapshotMark]:
        """All rows of a document, but for those in blocks that were begun later than `as_of`."""
        low, high = past_range(key)
        rows = self._rows(low, high, as_of=as_of, member=key)
        found = [decode_past(row.cell, name=self._name, rev=row.rev) for _, row in rows]
        found += self._tail.get(key, ())
        found += [load.version(held) for load in self._loads if (held := load.layer.get(key)) is not None]
        return found

    def _told(self, known: Sequence[Version | SnapshotMark]) -> tuple[list[Version], list[SnapshotMark]]:
        versions, _ = self._cut(known)
        marks = sorted((row for row in known if isinstance(row, SnapshotMark)), key=lambda mark: mark.rev)
        return versions, marks

    # --- what of it is kept ---

    @property
    def _may_lack(self) -> bool:
        """Whether versions are gone, or not shown, that would tell of a moment."""
        return self._bound is not None or self._dropped > 0

    def _cut(self, known: Sequence[Version | SnapshotMark]) -> tuple[list[Version], bool]:
        """The versions among rows of one document that are kept and shown, and whether there were more before them."""
        found = sorted((row for row in known if isinstance(row, Version)), key=lambda version: version.seq)
        versions: Sequence[Version] = with_operations(found, {load.number for load in self._loads})
        for place, (before, after) in enumerate(pairwise(found), 1):
            if after.seq > before.seq + 1 and after.rev <= self._dropped:
                versions = versions[-(len(found) - place) :]
        self._check_gapless(versions)
        shown = versions if self._bound is None else self._bound.shown(versions)
        is_cut = len(shown) < len(found) or any(
            one.seq != 1 and one.rev <= self._dropped and not self._is_brought(one) for one in shown[:1]
        )
        return list(shown), is_cut

    def _known_at(self, cut: tuple[list[Version], bool], as_of: AsOf) -> Version | None:
        """The version of a moment; raises SnapshotTooOldError if it may be one of those that are not kept."""
        versions, is_cut = cut
        newest = next((one for one in reversed(versions) if as_of.has(one.rev, one.misc)), None)
        if newest is None and is_cut:
            raise too_old(as_of, None if self._bound is None else self._bound.rule)
        return newest

    def _rows(
        self, low: bytes, high: bytes | None, *, as_of: AsOf | None, member: bytes | None = None
    ) -> Iterator[tuple[bytes, Row]]:
        """Rows of history in a range; blocks that were begun later than `as_of` are left out."""
        if self._past is None:
            return iter(())
        stored: list[Part] = [] if self._root is None else [*self._root.history, *self._root.history_pages]
        found = []
        for parts in (stored, *self._brought):
            chosen = [part for part in parts if as_of is None or as_of.may_have(part)]
            blocks = [part for part in chosen if isinstance(part, BlockEntry)]
            pages = [part for part in chosen if isinstance(part, BlockPageRef)]
            found.append(Runs(self._past, blocks, pages, keyed=False).scan(low, high, member=member))
        rows = merge_rows(found)
        if not self._erased:
            return rows
        return ((place, row) for place, row in rows if row.rev > self._erased.get(member_of(row), 0))

    @cached_property
    def _erased(self) -> Mapping[bytes, int]:
        """What entries after the root erased, each with the entry: what is not newer is as if it had never been."""
        return erasures_of(self._entries)

    @cached_property
    def _brought(self) -> list[Sequence[Part]]:
        """The blocks of history that jobs brought: by entries that the root has applied, and by those after it."""
        rooted: list[Part] = [] if self._root is None else [*self._root.brought, *self._root.brought_pages]
        return [parts for parts in (rooted, *map(brought_by, self._entries)) if parts]

    @cached_property
    def _entries(self) -> Sequence[Entry]:
        return self._view.overlay.entries(self._view.number)

    @cached_property
    def _tail(self) -> dict[bytes, list[Version | SnapshotMark]]:
        """What entries after the root hold themselves, by the keys of their documents."""
        found: dict[bytes, list[Version | SnapshotMark]] = {}
        for key, row in past_of(self._entries):
            if row.rev > self._erased.get(key, 0):
                found.setdefault(key, []).append(row)
        return found

    @cached_property
    def _loads(self) -> list[AttachedDocuments]:
        """What jobs attached: by entries that the root has applied, and by those after it."""
        rooted = [] if self._root is None or self._data is None else loads_of_root(self._root, self._data)
        loads = rooted + loads_of_tail(self._view.overlay, self._view.number)
        return [load.without(self._erased) for load in loads] if self._erased else loads

    # --- checks ---

    def _check_begun(self, as_of: AsOf) -> None:
        """1 GET of a page of the list, if the root does not name all blocks itself; of what jobs brought all pages."""
        if self._bound is not None:
            self._bound.check(as_of)
        elif as_of.is_time and not self._may_lack:
            check_begun(as_of, self._begins_ms())

    def _begins_ms(self) -> int | None:
        """When the first change that history has was made; None if it has none."""
        known = [misc_ms(load.misc) for load in self._loads]
        if not known and not self._brought:
            known = [misc_ms(entry.misc) for entry in self._entries[:1]]
        parts: list[Part] = [] if self._root is None else [*self._root.history, *self._root.history_pages]
        oldest = min(parts, key=lambda part: part.rev_first, default=None)
        # Blocks that a job brought are not in the order of time: any of them may have the oldest version.
        first = [*([] if oldest is None else [oldest]), *(part for brought in self._brought for part in brought)]
        blocks = [part for part in first if isinstance(part, BlockEntry)]
        pages = [part for part in first if isinstance(part, BlockPageRef)]
        if pages and self._past is not None:
            blocks += [block for listed in self._past.listed(pages).values() for block in listed]
        return min([*known, *(ms for block in blocks if (ms := first_ms(block)) is not None)], default=None)

    def _check_gapless(self, versions: Sequence[Version]) -> None:
        begins = max(self._dropped, 0 if self._root is None else self._root.history_from)
        # The versions that a job brought may begin anywhere: of what came before there is no record.
        wrong = [one for one in versions[:1] if one.seq != 1 and one.rev > begins and not self._is_brought(one)]
        wrong += [after for before, after in pairwise(versions) if after.seq != before.seq + 1]
        if wrong:
            what = f"version {wrong[0].seq} of document {wrong[0].id.decode()}"
            corrupt(self._name, f"{what} does not follow the one before it")

    def _is_brought(self, version: Version) -> bool:
        return any(part.run == version.rev for parts in self._brought for part in parts)

    def _version_in(self, row: Row) -> Version:
        version = decode_past(row.cell, name=self._name, rev=row.rev)
        if not isinstance(version, Version):
            corrupt(self._name, "a row with the id of a version is the mark of a snapshot")
        return version


@dataclass(frozen=True, slots=True)
class _VersionRow:
    """A version in a scan: the row of history that holds it, or the document itself if a job or the tail has it."""

    key: bytes
    seq: int
    held: Row | StoredVersion


def _kept(versions: Sequence[Version], marks: Sequence[SnapshotMark]) -> list[SnapshotVersion]:
    taken = {mark.seq: mark for mark in marks}
    return [
        SnapshotVersion(version, taken.get(version.seq))
        for version in versions
        if version.snapshot or version.seq in taken
    ]


def _versions_of(
    load: AttachedDocuments, low: bytes, high: bytes | None
) -> Iterator[tuple[bytes, Version | SnapshotMark]]:
    return ((key, load.version(held)) for key, held in load.layer.scan(low, high))


def _loaded(load: AttachedDocuments, low: bytes, high: bytes | None) -> Iterator[_VersionRow]:
    return (_VersionRow(key, held.seq, held) for key, held in load.layer.scan(low, high))


def _shown(held: StoredVersion, rule: ExpiryRule, as_of: AsOf) -> StoredVersion:
    """What was seen of a version at a moment."""
    is_over = held.document is not None and rule.is_over(held.document, as_of.shown_ms or 0)
    return StoredVersion(held.id, held.rev, held.seq, None) if is_over else held


def _held(version: Version) -> StoredVersion:
    return StoredVersion(version.id, version.rev, version.seq, version.document)
