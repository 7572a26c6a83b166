"""Whether documents, history and the log say the same, document by document, in one pass over all of them.

Both lists are in the order of ids, so that one document with its versions is in memory at a time. The log is in another
order: each of its entries is compared by a sum of digests. Where an object is damaged nothing is said of the documents
that it may have had: the object is the finding.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from wormdb.engine.blocks.runs import merge_rows
from wormdb.engine.state.definition import BlobStates
from wormdb.engine.state.upgrade import Upgrades
from wormdb.engine.state.view import sequence_of
from wormdb.engine.tree.definition import OWNERS
from wormdb.errors import CorruptionError, NotFoundError
from wormdb.format import json
from wormdb.format.blob import BlobKey, blob_keys_in
from wormdb.format.block import Row
from wormdb.format.past import SnapshotMark, Version, encode_past, past_range
from wormdb.format.sample import Sample, decode_sample
from wormdb.maintenance.audit.chain import SUM_BITS, Chain, digest_of, sum_of
from wormdb.maintenance.audit.lists import CheckedList, Hole, PastLists, PastRow, past_rows
from wormdb.settings import BLOB_READ_BYTES
from wormdb.storage.store import ByteRange
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.format.root import JobOutcome, Root
    from wormdb.maintenance.audit.index_check import IndexCheck
    from wormdb.maintenance.audit.report import AuditReport
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["Agreement", "BlobCheck", "RowTally"]


@dataclass(frozen=True, slots=True)
class RowTally:
    """What some rows came to."""

    sums: dict[int, bytes]
    """By log number the sum of the digests of the versions that it made, which has 128 bits."""
    of_jobs: dict[int, int]
    alive: int
    sequence: int
    sampled: tuple[bytes, ...]


@dataclass(slots=True)
class Agreement:
    """One pass over what a root names, and what it found that a repair must know."""

    site: StoredCollection
    root: Root
    report: AuditReport
    documents: CheckedList
    past: PastLists
    chain: Chain
    indexes: Sequence[IndexCheck]
    blobs: BlobCheck | None = None
    documents_wrong: bool = False
    history_wrong: bool = False
    facts_wrong: bool = False
    """Whether the root is wrong about counts or the sample."""
    stale: set[int] = field(default_factory=set)
    """Entries of the log that history does not have as they are."""
    _sums: Counter[int] = field(default_factory=Counter)
    _of_jobs: Counter[int] = field(default_factory=Counter)
    _alive: int = 0
    _sequence: int = 0
    _sampled: set[bytes] = field(default_factory=set)
    _sample: Sample = field(default_factory=Sample)

    def run(self) -> None:
        """Look at everything. 1 GET for each object of the three lists; see `CheckedList` for memory."""
        self.begin()
        self.look()
        self.settle()

    def begin(self) -> None:
        """Check what the root says, before any row. 1 GET for each page of a long list of what jobs brought."""
        for number in dict.fromkeys(run.through for run in self.past.attached.runs):
            if number not in self._jobs:
                self._history_fault(f"the root has forgotten the job that entry {number} attached")
        self._compare_brought()
        try:
            self._sample = decode_sample(self.root.sample, name=self.site.paths.root)
        except CorruptionError as error:
            self._facts_fault(error.reason)

    def look(self) -> None:
        """Look at all rows that the lists give. 1 GET for each object of them."""
        rows: Iterator[tuple[bytes, Row | PastRow]] = merge_rows(self.documents.streams())
        past = ((one.key, one) for one in past_rows(self.past, self._jobs))
        merged: Iterator[tuple[bytes, Row | PastRow]] = heapq.merge(rows, past, key=lambda item: item[0])
        for key, group in groupby(merged, key=lambda item: item[0]):
            self._document(key, [item for _, item in group], self._sample)

    def settle(self) -> None:
        """Compare what all rows came to with the log and the root. No requests."""
        self._compare_log()
        self._compare_facts(self._sample)

    @property
    def _jobs(self) -> dict[int, JobOutcome]:
        return {job.number: job for job in self.root.jobs if job.state == "attached"}

    # --- rows that others looked at ---

    def tally(self) -> RowTally:
        """What the rows came to that were looked at here. No requests."""
        return RowTally(
            sums={rev: (total % (1 << SUM_BITS)).to_bytes(SUM_BITS // 8, "big") for rev, total in self._sums.items()},
            of_jobs=dict(self._of_jobs),
            alive=self._alive,
            sequence=self._sequence,
            sampled=tuple(sorted(self._sampled)),
        )

    def take(self, tally: RowTally) -> None:
        """Count in rows of other documents. No requests."""
        self._sums.update({rev: int.from_bytes(total, "big") for rev, total in tally.sums.items()})
        self._of_jobs.update(tally.of_jobs)
        self._alive += tally.alive
        self._sequence = max(self._sequence, tally.sequence)
        self._sampled.update(tally.sampled)

    # --- one document ---

    def _document(self, key: bytes, items: Iterable[Row | PastRow], sample: Sample) -> None:
        row: Row | None = None
        versions: list[Version] = []
        marks: list[SnapshotMark] = []
        for item in items:
            if isinstance(item, Row):
                row = item
            elif isinstance(item.row, SnapshotMark):
                marks.append(item.row)
                self._tally(item)
            else:
                versions.append(item.row)
                self._tally(item)
        self.report.count("versions", len(versions))
        if row is not None:
            self._take(key, row, sample)
        is_known = not _in_holes(self.documents.holes, key, key)
        is_told = not self._past_is_damaged(key)
        if is_told and versions:
            self._check_versions(versions, marks)
        if is_known and is_told:
            self._compare(row, versions)

    def _take(self, key: bytes, row: Row, sample: Sample) -> None:
        if self.blobs is not None:
            self.blobs.add(row)
        identity = json.encode(row.id)
        self._sequence = max(self._sequence, sequence_of(identity))
        if row.document is None:
            return
        self._alive += 1
        self.report.count("documents")
        for index in self.indexes:
            index.add(key, row)
        if key in sample.rows and Sample().after([(key, row.document)]).rows.get(key) == sample.rows[key]:
            self._sampled.add(key)

    def _tally(self, past: PastRow) -> None:
        rev = past.row.rev
        if self.chain.has_job(rev) or past.is_loaded:
            self._of_jobs[rev] += 1
        elif self.chain.has_entry(rev):
            self._sums[rev] += digest_of(encode_past(past.row))

    def _check_versions(self, versions: list[Version], marks: Sequence[SnapshotMark]) -> None:
        versions.sort(key=lambda version: version.seq)
        name = versions[0].id.decode()
        first, dropped = versions[0], self.root.dropped_through
        if first.seq != 1 and first.rev > max(dropped, self.root.history_from) and first.rev not in self.past.told:
            self._history_fault(f"document {name}: the versions before {first.seq} are missing")
        for before, after in pairwise(versions):
            if after.seq == before.seq:
                self._history_fault(f"document {name}: version {after.seq} is there twice")
            elif after.seq > before.seq + 1 and after.rev <= dropped:
                first = after  # the model keeps nothing before it
            elif after.seq != before.seq + 1:
                self._history_fault(f"document {name}: the versions between {before.seq} and {after.seq} are missing")
            elif after.rev < before.rev:
                self._history_fault(f"document {name}: version {after.seq} was made before version {before.seq}")
        known = {version.seq for version in versions}
        for mark in marks:
            if mark.seq not in known and not (mark.seq < first.seq and first.rev <= dropped):
                self._history_fault(f"document {name}: version {mark.seq} is a snapshot and is missing")

    def _compare(self, row: Row | None, versions: Sequence[Version]) -> None:
        newest = versions[-1] if versions else None
        if row is None:
            if newest is not None:
                self._documents_fault(f"document {newest.id.decode()} is in history and not among the documents")
            return
        name = json.encode(row.id).decode()
        if newest is None:
            self._history_fault(f"document {name} is not in history")
        elif newest.seq < row.seq:
            self._history_fault(f"document {name}: version {row.seq} is not in history")
        elif (newest.seq, newest.rev) != (row.seq, row.rev):
            self._documents_fault(f"document {name} is at version {row.seq}, and history at {newest.seq}")
        elif newest.document is None or row.document is None:
            if newest.document is not row.document:
                self._documents_fault(f"document {name} is not what its version {row.seq} in history is")
        elif Upgrades.of(self.root.versions).document(newest.document, newest.rev) != row.document:
            self._documents_fault(f"document {name} is not what its version {row.seq} in history is")

    # --- the log ---

    def _compare_log(self) -> None:
        holes = self.past.holes
        for number, expected in sorted(self.chain.sums.items()):
            if number <= self.root.history_from:
                continue
            job = self.chain.jobs.get(number)
            if job is not None:
                count = sum(block.rows for block in job.history or job.blocks)
                gone = sum(number <= by for by in self.chain.erased.values())
                agrees = count - gone <= self._of_jobs[number] <= count
            else:
                total = self._sums[number] % (1 << SUM_BITS)
                agrees = total == expected or total == self._sum_of_left(number)
            if agrees:
                continue
            self.stale.add(number)
            if not holes:
                key = self.site.paths.entry(LogNumber(number))
                self._history_fault(f"the changes of log entry {number} ({key}) are not in history as they are there")

    def _sum_of_left(self, number: int) -> int | None:
        """The sum of an entry without what was erased since; None if nothing was. 1 GET."""
        if all(number > by for by in self.chain.erased.values()):
            return None
        record, _ = self.site.log.read(LogNumber(number))
        return None if record is None else sum_of(record.entry, self.chain.erased)

    def _compare_brought(self) -> None:
        """The entry of a job says which blocks of history it brought."""
        for run in self.past.brought.runs:
            job = self.chain.jobs.get(run.through)
            if job is None or self.past.brought.wrong or run.through <= self.root.erased_through:
                continue
            listed = {(block.name, block.sha256) for block in self.past.brought.entries(run)}
            if listed != {(block.name, block.sha256) for block in job.history}:
                self._history_fault(f"the root names other blocks of history than entry {run.through} brought")

    # --- the root ---

    def _compare_facts(self, sample: Sample) -> None:
        if self.documents.holes:
            return
        root = self.root
        if root.rows != self._alive:
            self._facts_fault(f"it says that there are {root.rows} documents, and there are {self._alive}")
        # The greatest id may have been erased: its number is not given again.
        if root.sequence != self._sequence and not (root.erased_through and root.sequence > self._sequence):
            self._facts_fault(f"it says that the greatest id of digits is {root.sequence}, and it is {self._sequence}")
        if self._sampled != set(sample.rows):
            self._facts_fault("its sample has documents that are not so")

    # --- what is said ---

    def _past_is_damaged(self, key: bytes) -> bool:
        low, high = past_range(key)
        stored = [*self.past.history.holes, *self.past.brought.holes]
        return _in_holes(stored, low, high or b"\xff" * 64) or _in_holes(self.past.attached.holes, key, key)

    def _documents_fault(self, what: str) -> None:
        self.documents_wrong = True
        self.report.add("documents", self.documents.folder, what)

    def _history_fault(self, what: str) -> None:
        self.history_wrong = True
        self.report.add("history", self.past.history.folder, what)

    def _facts_fault(self, what: str) -> None:
        self.facts_wrong = True
        self.report.add("root", self.site.paths.root, what, fix="repair counts again")


def _in_holes(holes: Sequence[Hole], low: bytes, high: bytes) -> bool:
    return any(hole.covers(low, high) for hole in holes)


# --- Blobs that documents refer to: each is there, and its bytes have the digest that names it.


@dataclass(slots=True)
class BlobCheck:
    """The blobs of one root. About 200 bytes in memory for each that is referred to."""

    site: StoredCollection
    root: Root
    report: AuditReport
    _keys: set[BlobKey] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """A document of the root, alive or in the trash. No requests."""
        self._keys |= blob_keys_in(row.document) | blob_keys_in(row.trash)

    def checked(self) -> list[str]:
        """The keys that `compare` looks at: none in a collection that never had a blob. No requests."""
        return [] if self.root.index(OWNERS.name) is None else sorted(map(str, self._keys))

    def compare(self) -> None:
        """Look at each of them. 1 GET for each 4 MiB."""
        condemned = BlobStates.of_root(self.root).condemned
        for key in map(BlobKey.parse, self.checked()):
            assert key is not None, "it was one"
            path = self.site.paths.blob(key.name)
            self.report.count("blobs")
            self.report.look(path)
            if key in condemned:
                self.report.add("blob", path, f"documents refer to it, and entry {condemned[key]} condemned it")
            digest = self._digest(path)
            if digest is None:
                self.report.add("blob", path, "documents refer to it, and it is missing")
            elif digest != key.sha256:
                self.report.add("blob", path, "its bytes have another SHA-256 than its name says")

    def _digest(self, path: str) -> str | None:
        """The SHA-256 of an object, read a part at a time; None if it is not there."""
        digest, start = sha256(), 0
        while True:
            try:
                some = self.site.store.get_range(path, ByteRange(start, BLOB_READ_BYTES))
            except NotFoundError as error:
                if error.key != path:
                    raise  # the bucket is missing, not this object
                return None
            digest.update(some)
            start += len(some)
            if len(some) < BLOB_READ_BYTES:
                return digest.hexdigest()
