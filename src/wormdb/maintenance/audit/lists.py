"""A block list read whole: every page, block and sidecar is checked when it is reached; what is bad is passed over."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wormdb.engine.blocks.runs import Run, is_run, runs_of
from wormdb.engine.history.changes import member_of
from wormdb.engine.state.upgrade import Upgrades
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.blocklist import BlockEntry, BlockPageRef, decode_block_page
from wormdb.format.blockread import read_documents
from wormdb.format.frame import corrupt
from wormdb.format.key import encode_key
from wormdb.format.past import Operation, SnapshotMark, Version, decode_past, past_from
from wormdb.maintenance.audit.block_check import (
    block_faults,
    check_length,
    content_of,
    read_sidecar,
    salvage_rows,
    sidecar_faults,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wormdb.format.root import JobOutcome, Root
    from wormdb.maintenance.audit.block_check import Content
    from wormdb.maintenance.audit.report import AuditReport
    from wormdb.maintenance.collection import StoredCollection

__all__ = [
    "CheckedList",
    "Hole",
    "PastLists",
    "PastRow",
    "Where",
    "check_body",
    "claim_of",
    "is_sound",
    "past_rows",
    "read_loaded",
    "with_operations",
]

Where = Literal["blocks", "history", "attached", "brought"]


@dataclass(frozen=True, slots=True)
class Hole:
    """A range of keys, its ends included, in which a run may have lost rows."""

    low: bytes
    high: bytes
    run: int
    rows: int
    trashed: int
    rev_first: int
    rev_last: int
    block: BlockEntry | None = None
    """None if a page of the list is gone: its blocks are unknown."""

    @classmethod
    def of(cls, part: BlockEntry | BlockPageRef) -> Hole:
        """The range that is lost with a block, or with a page of the list."""
        block = part if isinstance(part, BlockEntry) else None
        # Rows of a job have no revision of their own: theirs is the run.
        first, last = part.rev_first or part.run, part.rev_last or part.run
        return cls(part.key_first, part.key_last, part.run, part.rows, part.trashed, first, last, block)

    def covers(self, low: bytes, high: bytes) -> bool:
        """Whether it may have keys from `low` through `high`."""
        return self.low <= high and low <= self.high


@dataclass(slots=True)
class CheckedList:
    """One list of a root. With `salvage` the rows of damaged blocks are given that are still as they were written."""

    site: StoredCollection
    where: Where
    root: Root
    report: AuditReport
    salvage: bool = False
    known: Mapping[int, Sequence[BlockEntry]] = field(default_factory=dict)
    """The blocks of some runs, for pages of the list that cannot be read."""
    holes: list[Hole] = field(default_factory=list)
    sound: list[BlockEntry] = field(default_factory=list)
    """The blocks that are as they should be."""
    wrong: bool = False
    """Whether it must be written again."""
    sidecars: dict[str, BlockEntry] = field(default_factory=dict)
    """Blocks that need a new sidecar, by name."""

    @property
    def is_history(self) -> bool:
        """Whether its rows are versions."""
        return self.where in ("history", "brought")

    @property
    def folder(self) -> str:
        """Where its objects are."""
        return self.site.paths.history if self.is_history else self.site.paths.data

    @property
    def runs(self) -> tuple[Run, ...]:
        """Its runs, newest first."""
        root = self.root
        lists = {
            "blocks": (root.blocks, root.block_pages),
            "history": (root.history, root.history_pages),
            "attached": (root.attached, root.attached_pages),
            "brought": (root.brought, root.brought_pages),
        }
        return runs_of(*lists[self.where])

    def keys(self, entry: BlockEntry) -> tuple[str, str]:
        """The object keys of a block and of its sidecar."""
        return f"{self.folder}{entry.name}.parquet", f"{self.folder}{entry.sidecar.name}.map"

    def streams(self) -> list[Iterator[tuple[bytes, Row]]]:
        """The rows of each run in order of key, newest run first. 1 GET for each object, when it is reached.

        A block is in memory at a time for each run.
        """
        counted = Counter(run.through for run in self.runs)
        # Only what a job attached may be several runs of one number.
        for number in [] if self.where == "attached" else [number for number, runs in counted.items() if runs > 1]:
            self._fault("list", self.site.paths.root, f"the blocks of run {number} overlap")
        return [self.stream(run) for run in self.runs]

    def stream(self, run: Run) -> Iterator[tuple[bytes, Row]]:
        """The rows of one run, in order of key."""
        entries = list(self.entries(run))
        if not is_run(entries):
            self._fault("list", self.site.paths.root, f"the blocks of run {run.through} overlap")
            return heapq.merge(*(self._rows(entry) for entry in entries), key=lambda item: item[0])
        return (item for entry in entries for item in self._rows(entry))

    def entries(self, run: Run) -> Iterator[BlockEntry]:
        """The blocks of a run, as far as pages of the list can be read. 1 GET a page."""
        for part in run.parts:
            if isinstance(part, BlockEntry):
                yield part
                continue
            key = f"{self.folder}{part.name}.list"
            self.report.count("lists")
            self.report.look(key)
            try:
                yield from self._page(part, key)
            except (CorruptionError, UnsupportedFormatError) as error:
                self._fault("list", key, error.reason)
                found = self._known(part)
                if found:
                    yield from (msgspec.structs.replace(entry, run=part.run) for entry in found)
                else:
                    self.holes.append(Hole.of(part))

    def _known(self, page: BlockPageRef) -> list[BlockEntry]:
        """The blocks of a page that cannot be read, if the log tells all of them."""
        for run in runs_of(self.known.get(page.run, ())):
            inside = [entry for entry in run.entries if page.key_first <= entry.key_first <= page.key_last]
            if len(inside) == page.blocks and inside[-1].key_last == page.key_last:
                return inside
        return []

    def _page(self, ref: BlockPageRef, key: str) -> tuple[BlockEntry, ...]:
        body = check_body(self.site.body(key, ref.length), ref.length, ref.sha256, key)
        entries = decode_block_page(body, name=key, identity=ref.name).blocks
        if not entries or any(entry.run != ref.run for entry in entries):
            corrupt(key, "it does not hold the blocks that the root says")
        if BlockPageRef.over(entries, name=ref.name, sha256=ref.sha256, length=ref.length) != ref:
            self._fault("list", key, "the root is wrong about what it holds")
        return entries

    def _rows(self, entry: BlockEntry) -> Iterator[tuple[bytes, Row]]:
        key, sidecar_key = self.keys(entry)
        self.report.count("blocks")
        self.report.look(key)
        body = self.site.body(key, entry.length)
        sidecar = self.site.body(sidecar_key, entry.sidecar.length)
        try:
            if body is None:
                corrupt(key, "it is missing")
            content = content_of(body, entry, name=key, is_history=self.is_history)
            is_passed = claim_of(entry, self.where) in self.site.passed
            faults = [] if is_passed else block_faults(content, entry)
        except (CorruptionError, UnsupportedFormatError) as error:
            self._fault("block", key, error.reason)
            self.holes.append(Hole.of(entry))
            rows = salvage_rows(body, sidecar, entry, name=key) if self.salvage else []
            return iter(self._keyed(rows, entry))
        for fault in faults:
            self._fault("block", key, fault)
        if not faults:
            self.sound.append(entry)
            if is_passed and _is_recorded(sidecar, entry):
                self.report.count("sidecars")
            else:
                self._check_sidecar(sidecar, sidecar_key, entry, content)
            # Unpacked again, a row group at a time: the rows of a whole block would be in memory for each run.
            return ((encode_key(row.id), self._shown(row, entry)) for row in read_documents(content.block))
        if not self.salvage:
            self.holes.append(Hole.of(entry))
            return iter(())
        return iter(self._keyed(content.rows, entry))

    def _keyed(self, rows: list[Row], entry: BlockEntry) -> list[tuple[bytes, Row]]:
        """Rows with their keys, in order of key."""
        return sorted(((encode_key(row.id), self._shown(row, entry)) for row in rows), key=lambda item: item[0])

    def _shown(self, row: Row, entry: BlockEntry) -> Row:
        """A row with its revision; of a document as it is now, also if it was written in an older version."""
        stamped = row if row.rev else Row(row.id, entry.run, row.seq, row.document, row.trash)
        return Upgrades.of(self.root.versions).row(entry, stamped) if self.where == "blocks" else stamped

    def _check_sidecar(self, body: bytes | None, key: str, entry: BlockEntry, content: Content) -> None:
        self.report.count("sidecars")
        try:
            if body is None:
                corrupt(key, "it is missing")
            faults = sidecar_faults(read_sidecar(body, entry, name=key, block=content.name), content)
        except (CorruptionError, UnsupportedFormatError) as error:
            faults = [error.reason]
        for fault in faults:
            self.report.add("sidecar", key, fault)
            self.sidecars[entry.name] = entry

    def _fault(self, kind: Literal["list", "block"], key: str, what: str) -> None:
        self.wrong = True
        self.report.add(kind, key, what)


def claim_of(entry: BlockEntry, where: Where) -> bytes:
    """A digest of all that a list says of a block. No requests."""
    return sha256(where.encode() + msgspec.msgpack.encode(entry)).digest()


def is_sound(site: StoredCollection, entry: BlockEntry, where: Where) -> bool:
    """Whether a block and its sidecar are all that a list says of them. 2 GETs.

    The costly part of a check: with the claims of sound blocks in `passed`, `verify` skips it and finds the same.
    """
    is_history = where in ("history", "brought")
    folder = site.paths.history if is_history else site.paths.data
    key = f"{folder}{entry.name}.parquet"
    body = site.body(key, entry.length)
    sidecar = site.body(f"{folder}{entry.sidecar.name}.map", entry.sidecar.length)
    if body is None or sidecar is None:
        return False
    try:
        content = content_of(body, entry, name=key, is_history=is_history)
        told = read_sidecar(sidecar, entry, name=key, block=key)
        return not block_faults(content, entry) and not sidecar_faults(told, content)
    except (CorruptionError, UnsupportedFormatError):
        return False


def _is_recorded(sidecar: bytes | None, entry: BlockEntry) -> bool:
    return sidecar is not None and sha256(sidecar).digest() == entry.sidecar.sha256


def check_body(body: bytes | None, length: int, digest: bytes, key: str) -> bytes:
    """The bytes of an object that are those recorded for it; raises CorruptionError. No requests."""
    if body is None:
        corrupt(key, "it is missing")
    check_length(body, length, key)
    if sha256(body).digest() != digest:
        corrupt(key, "its SHA-256 is not the one recorded for it")
    return body


# --- Every version that a root has of each document: rows of history, and the blocks that jobs attached.


@dataclass(frozen=True, slots=True)
class PastRow:
    """One version of a document, or the mark of a snapshot."""

    key: bytes
    """The key of the document's id."""
    row: Version | SnapshotMark
    is_loaded: bool = False
    """Whether a job attached it."""


@dataclass(frozen=True, slots=True)
class PastLists:
    """The lists of a root that hold versions."""

    history: CheckedList
    attached: CheckedList
    brought: CheckedList

    @classmethod
    def of(cls, site: StoredCollection, root: Root, report: Callable[[], AuditReport], **options: Any) -> PastLists:
        """The lists of a root; `options` are those of `CheckedList`. No requests."""
        wheres: tuple[Where, ...] = ("history", "attached", "brought")
        return cls(*(CheckedList(site, where, root, report(), **options) for where in wheres))

    @property
    def holes(self) -> list[Hole]:
        """The ranges that are lost."""
        return [*self.history.holes, *self.attached.holes, *self.brought.holes]

    @property
    def wrong(self) -> bool:
        """Whether one of them must be written again."""
        return self.history.wrong or self.attached.wrong or self.brought.wrong

    @property
    def told(self) -> set[int]:
        """The entries whose jobs brought the history of what they attached."""
        return {run.through for run in self.brought.runs}


def past_rows(lists: PastLists, jobs: dict[int, JobOutcome]) -> Iterator[PastRow]:
    """All versions and marks in order of the ids' keys. Costs as the lists say."""
    told = lists.told
    layers: list[Iterator[PastRow]] = []
    for listed in (lists.history, lists.brought):
        stored = heapq.merge(*listed.streams(), key=lambda item: item[0])
        layers.append(_stored(stored, listed.folder))
    for run in lists.attached.runs:
        rows = read_loaded(lists.attached.stream(run), jobs.get(run.through))
        layers.append(_unheard(rows) if run.through in told else rows)
    return heapq.merge(*layers, key=lambda past: past.key)


def _unheard(rows: Iterator[PastRow]) -> Iterator[PastRow]:
    """Nothing, after all rows were read: where a job brought history, its documents do not count as versions."""
    for _ in rows:
        pass
    return iter(())


def _stored(rows: Iterator[tuple[bytes, Row]], name: str) -> Iterator[PastRow]:
    key, first = b"", b"\xff"
    for place, row in rows:
        if not place.startswith(first):
            # No key is the beginning of another one, so what begins alike is of the same document.
            key = member_of(row)
            first = past_from(key)
        yield PastRow(key, decode_past(row.cell, name=name, rev=row.rev))


def read_loaded(rows: Iterator[tuple[bytes, Row]], job: JobOutcome | None) -> Iterator[PastRow]:
    """What a job attached, as versions; `with_operations` finds out what each of them did."""
    misc, actor, meta = (0, None, None) if job is None else (job.misc, job.actor, job.meta)
    for key, row in rows:
        op: Operation = "create" if row.document is not None else "delete"
        version = Version(json.encode(row.id), row.seq, row.rev, op, misc, actor, meta, document=row.document)
        yield PastRow(key, version, is_loaded=True)


def with_operations(versions: Sequence[Version], told: set[int]) -> list[Version]:
    """Versions in order, those of the entries in `told` with what they did to the version before them."""
    settled = list(versions[:1])
    for before, version in pairwise(versions):
        op: Operation = version.op
        if version.rev in told:
            there, stays = before.document is not None, version.document is not None
            op = ("update" if there else "create") if stays else ("delete" if there else "purge")
        settled.append(replace(version, op=op))
    return settled
