"""Documents written again, from what is left of their blocks and from history."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.runs import Run, Runs, data_runs, list_run
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.history.changes import member_of, past_of
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.upgrade import Upgrades
from wormdb.engine.state.view import StoredVersion, id_key, sequence_of
from wormdb.errors import CorruptionError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.blocklist import BlockEntry, BlockPageRef, SidecarRef
from wormdb.format.event import JobAttached
from wormdb.format.past import HISTORY_COLUMNS, SnapshotMark, Version, encode_past, past_id, past_key, past_range
from wormdb.format.root import IndexRoot, JobOutcome, ObjectRef, Root
from wormdb.format.sample import Sampler, encode_sample
from wormdb.maintenance.audit.block_check import content_of, rebuild_sidecar
from wormdb.maintenance.audit.lists import CheckedList, Hole, PastLists, Where, past_rows, with_operations
from wormdb.maintenance.audit.report import AuditReport, Loss
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wormdb.engine.log.entries import LogRecord
    from wormdb.format.entry import Entry
    from wormdb.format.past import Operation
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["FIELDS", "DocumentRepair", "PastRepair", "objects_of", "with_facts", "with_sidecars", "write_list"]


# --- Write a list of blocks again, whole or with new sidecars. Nothing counts before a root names it.

FIELDS: dict[Where, tuple[str, str]] = {
    "blocks": ("blocks", "block_pages"),
    "history": ("history", "history_pages"),
    "attached": ("attached", "attached_pages"),
    "brought": ("brought", "brought_pages"),
}
"""The fields of a root that hold each list."""


def write_list(site: StoredCollection, root: Root, where: Where, rows: Iterable[tuple[bytes, Row]]) -> Root:
    """The root with one run of these rows, in order of key, as its list. 2 PUTs a block, 1 a page of the list."""
    listed = CheckedList(site, where, root, AuditReport())
    shelf = Shelf(site.store, site.pool, listed.folder)
    columns = HISTORY_COLUMNS if listed.is_history else Definition.of_root(root).columns
    members = member_of if listed.is_history else None
    blocks = BlockWriter(shelf, site.writer, site.runtime.sizes.block_target, columns, members)
    level = max((run.level for run in listed.runs), default=0)
    entries = blocks.write(rows, run=root.applied, level=level, kind="base")
    newest = Upgrades.of(root.versions).newest if where == "blocks" else 0
    entries = [entry.shaped(newest) if newest else entry for entry in entries]
    run = list_run(entries, shelf, site.writer) if entries else Run(root.applied, ())
    return _with_list(root, where, [run])


def _with_list(root: Root, where: Where, runs: Iterable[Run]) -> Root:
    entries: list[BlockEntry] = []
    pages: list[BlockPageRef] = []
    for run in runs:
        entries += run.entries
        pages += run.pages
    first, second = FIELDS[where]
    return msgspec.structs.replace(root, **{first: tuple(entries), second: tuple(pages)})


def with_sidecars(site: StoredCollection, root: Root, where: Where, blocks: Mapping[str, BlockEntry]) -> Root:
    """The root with new sidecars for some blocks of a list. 1 GET and 1 PUT each, and the pages that name them."""
    listed = CheckedList(site, where, root, AuditReport())
    shelf = Shelf(site.store, site.pool, listed.folder)
    runs = []
    for run in listed.runs:
        entries = list(listed.entries(run))
        if any(entry.name in blocks for entry in entries):
            made = [_mended(site, listed, entry) if entry.name in blocks else entry for entry in entries]
            runs.append(list_run(made, shelf, site.writer))
        else:
            runs.append(run)
    return _with_list(root, where, runs)


def _mended(site: StoredCollection, listed: CheckedList, entry: BlockEntry) -> BlockEntry:
    key, _ = listed.keys(entry)
    body = site.body(key, entry.length)
    assert body is not None, "the block was read a moment ago"
    data, map_bytes = rebuild_sidecar(content_of(body, entry, name=key, is_history=listed.is_history))
    ref = ObjectRef.of(site.writer.new_name(), data)
    site.writer.put(NewObject(f"{listed.folder}{ref.name}.map", data))
    sidecar = SidecarRef(name=ref.name, sha256=ref.sha256, length=ref.length, map_bytes=map_bytes, choice=entry.choice)
    return msgspec.structs.replace(entry, sidecar=sidecar).shaped(entry.shape)


def objects_of(site: StoredCollection, root: Root, where: Where) -> set[str]:
    """The keys of all objects of a list, as far as its pages can be read. 1 GET a page."""
    listed = CheckedList(site, where, root, AuditReport())
    found: set[str] = set()
    for run in listed.runs:
        found |= {f"{listed.folder}{page.name}.list" for page in run.pages}
        for entry in listed.entries(run):
            found |= set(listed.keys(entry))
    return found


_AT_ONCE: Final = 1_000


@dataclass(slots=True)
class DocumentRepair:
    """Makes the documents of a root again. `past` is the repair of its history, if that was needed."""

    site: StoredCollection
    root: Root
    past: PastRepair | None = None
    listed: dict[int, tuple[BlockEntry, ...]] = field(default_factory=dict)
    """The blocks of jobs, as the log has them, by the number of the entry that attached them."""
    erased: Mapping[bytes, int] = field(default_factory=dict)
    """What entries of the log erased, by the keys of ids, each with the last of them."""
    lost: list[Loss] = field(default_factory=list)
    _alive: int = 0
    _trashed: int = 0
    _doubtful: list[str] = field(default_factory=list)
    """Deleted documents that may have been in the trash: nothing tells."""
    _entry: Entry | None = None

    def run(self) -> Root:
        """The root with new documents. 1 GET for each object of the lists; costs as `write_list`."""
        root = self.root
        documents = CheckedList(self.site, "blocks", root, AuditReport(), salvage=True, known=self.listed)
        past = PastLists.of(self.site, root, AuditReport)
        jobs = {job.number: job for job in root.jobs}
        layers: list[Iterator[tuple[bytes, Row | Version]]] = list(documents.streams())
        upgrades = Upgrades.of(root.versions)
        versions = ((one.key, one.row) for one in past_rows(past, jobs) if isinstance(one.row, Version))
        layers.append((key, _as_now(version, upgrades)) for key, version in versions)
        merged = heapq.merge(*layers, key=lambda item: item[0])
        facts = _Facts(root.sequence)
        made = write_list(self.site, root, "blocks", facts.watch(self._rows(merged, documents)))
        self._alive = facts.alive
        made = facts.into(made)
        self._account(made, documents)
        return made

    # --- one document ---

    def _rows(
        self, merged: Iterable[tuple[bytes, Row | Version]], documents: CheckedList
    ) -> Iterator[tuple[bytes, Row]]:
        for key, group in groupby(merged, key=lambda item: item[0]):
            rows: list[Row] = []
            versions: list[Version] = []
            for _, item in group:
                if isinstance(item, Row):
                    rows.append(item)
                else:
                    versions.append(item)
            since = self.erased.get(key, 0)
            row = max((one for one in rows if one.rev > since), key=lambda one: one.seq, default=None)
            newest = max((one for one in versions if one.rev > since), key=lambda one: one.seq, default=None)
            if row is None and newest is None:
                continue
            chosen = self._chosen(key, row, newest, documents)
            self._check_newest(key, chosen, documents)
            yield key, chosen

    def _chosen(self, key: bytes, row: Row | None, newest: Version | None, documents: CheckedList) -> Row:
        if row is not None and (newest is None or newest.seq < row.seq):
            return row
        assert newest is not None, "a document or a version"
        if row is not None and (row.seq, row.rev, row.document) == (newest.seq, newest.rev, newest.document):
            self._trashed += row.trash is not None and any(hole.covers(key, key) for hole in documents.holes)
            return row
        trash = self._trash_of(newest) if newest.op == "delete" else None
        identity = json.decode(newest.id, name="document id")
        return Row(identity, newest.rev, newest.seq, newest.document, trash)

    def _trash_of(self, version: Version) -> bytes | None:
        """What a delete put into the trash. Only the log tells: 1 GET an entry."""
        if self._entry is None or self._entry.number != version.rev:
            try:
                record, _ = self.site.log.read(LogNumber(version.rev))
            except (CorruptionError, UnsupportedFormatError):
                record = None
            self._entry = None if record is None else record.entry
        if self._entry is None or any(isinstance(event, JobAttached) for event in self._entry.events):
            self._doubtful.append(version.id.decode())
            return None
        changes = [change for batch in self._entry.batches for change in batch.changes]
        trash = next((one.trash for one in changes if one.id == version.id and one.seq == version.seq), None)
        self._trashed += trash is not None
        held = StoredVersion(version.id, version.rev, version.seq, None, trash)
        return Upgrades.of(self.root.versions).held(held, version.rev).trash

    def _check_newest(self, key: bytes, row: Row, documents: CheckedList) -> None:
        """Note if a later version may be gone from the documents and from history."""
        if self.past is None:
            return
        through = self.past.may_be_behind(key, row.rev)
        if any(hole.covers(key, key) and min(hole.rev_last, through) > row.rev for hole in documents.holes):
            what = f"it is at version {row.seq}, and changes of it through entry {through} may be gone"
            self.lost.append(Loss(json.encode(row.id).decode(), what))

    # --- all of them ---

    def _account(self, made: Root, documents: CheckedList) -> None:
        """Note what is lost."""
        trashed = sum(hole.trashed for hole in documents.holes)
        if self._trashed < trashed:
            what = "it is deleted; if it was in the trash, it can only be brought back from history"
            self.lost += [Loss(name, what, is_document=False) for name in self._doubtful]
        missing = self.root.rows - self._alive
        if missing <= 0 or not documents.holes:
            return
        names = self._missing_names(made)
        self.lost += [Loss(name, "the document is gone") for name in names]
        if len(names) < missing:
            self.lost.append(Loss(None, f"{missing - len(names)} documents are gone, and nothing tells their ids"))

    def _missing_names(self, made: Root) -> list[str]:
        """Ids that an index has, and the documents no longer have. Reads the trees."""
        found: dict[str, None] = {}
        runs = Runs(Shelf(self.site.store, self.site.pool, self.site.paths.data), made.blocks, made.block_pages)
        for index in self.root.indexes:
            ids = self._ids_in(index)
            while some := list(islice(ids, _AT_ONCE)):
                keys = {id_key(identity): identity for identity in some}
                known = runs.get_many(keys)
                gone = [key for key in keys if key not in known or known[key].document is None]
                found |= dict.fromkeys(keys[key].decode() for key in gone)
        return list(found)

    def _ids_in(self, index: IndexRoot) -> Iterator[bytes]:
        if index.lists is not None:  # documents that are in no list are named by trees alone
            return
        shelf = IndexShelf(self.site.store, self.site.paths, self.site.pool)
        try:
            for _, identity in shelf.reader(self.root, index).scan():
                yield identity
        except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError):
            return


def _as_now(version: Version, upgrades: Upgrades) -> Version:
    """A version with its document as the newest version of the model has it."""
    if version.document is None:
        return version
    return replace(version, document=upgrades.document(version.document, version.rev))


class _Facts:
    """What a root says of its documents, gathered while they pass by."""

    def __init__(self, sequence: int = 0) -> None:
        self.alive = 0
        self.sequence = sequence
        self._sampler = Sampler()

    def watch(self, rows: Iterator[tuple[bytes, Row]]) -> Iterator[tuple[bytes, Row]]:
        for key, row in self._sampler.watch(rows):
            self.alive += row.document is not None
            self.sequence = max(self.sequence, sequence_of(json.encode(row.id)))
            yield key, row

    def into(self, root: Root) -> Root:
        sample = encode_sample(self._sampler.sample)
        return msgspec.structs.replace(root, rows=self.alive, sequence=self.sequence, sample=sample)


def with_facts(site: StoredCollection, root: Root) -> Root:
    """The root with counts and a sample that are true. 1 GET for each block."""
    facts = _Facts()
    runs = data_runs(site.place(root))
    for _ in facts.watch(runs.scan()):
        pass
    return facts.into(root)


# --- History written again, from what is left of it, from the log, and from the documents.

_REPAIRED: Final = b'{"repaired":true}'
"""The metadata of a version of which only the document and its number are known."""


@dataclass(slots=True)
class PastRepair:
    """Makes the history of a root again."""

    site: StoredCollection
    root: Root
    stale: set[int]
    """The entries of the log that history does not have as they are; their changes are in memory."""
    listed: dict[int, tuple[BlockEntry, ...]]
    """The blocks of jobs, as the log has them, by the number of the entry that attached them."""
    brought: dict[int, tuple[BlockEntry, ...]] = field(default_factory=dict)
    """The blocks of history that they brought, likewise."""
    erased: Mapping[bytes, int] = field(default_factory=dict)
    """What entries of the log erased, by the keys of ids, each with the last of them."""
    lost: list[Loss] = field(default_factory=list)
    history_from: int = 0
    _loaded: Counter[int] = field(default_factory=Counter)
    _jobs: dict[int, JobOutcome] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)
    _past_holes: list[Hole] = field(default_factory=list)
    _brought_holes: list[Hole] = field(default_factory=list)
    _attached_holes: list[Hole] = field(default_factory=list)

    def run(self) -> Root:
        """The root with a new history. 1 GET for each object of the three lists; costs as `write_list`.

        What jobs attached or brought becomes rows of history like any other.
        """
        root = self.root
        self.history_from = root.history_from
        self._jobs = {job.number: job for job in root.jobs if job.state == "attached"}
        past = PastLists(
            CheckedList(self.site, "history", root, AuditReport(), salvage=True),
            CheckedList(self.site, "attached", root, AuditReport(), salvage=True, known=self.listed),
            CheckedList(self.site, "brought", root, AuditReport(), salvage=True, known=self.brought),
        )
        documents = CheckedList(self.site, "blocks", root, AuditReport(), salvage=True, known=self.listed)
        self._past_holes, self._attached_holes = past.history.holes, past.attached.holes
        self._brought_holes = past.brought.holes
        self._told = past.told | {number for number, blocks in self.brought.items() if blocks}
        layers: list[Iterator[tuple[bytes, int, object]]] = [
            self._from_log(),
            ((one.key, 1, one.row) for one in past_rows(past, self._jobs)),
            *(self._from_documents(stream) for stream in documents.streams()),
        ]
        merged = heapq.merge(*layers, key=lambda item: item[:2])
        made = write_list(self.site, root, "history", self._rows(merged))
        runs = [run for run in past.attached.runs if run.through not in self._told]
        missing = Counter[int]()
        for run in [*runs, *past.brought.runs]:
            missing[run.through] += sum(part.rows for part in run.parts)
        missing.subtract(self._loaded)
        for number, count in sorted((+missing).items(), reverse=True):
            self.history_from = max(self.history_from, number)
            self.lost.append(Loss(None, f"{count} versions that entry {number} attached", is_document=False))
        empty = {"attached": (), "attached_pages": (), "brought": (), "brought_pages": ()}
        return msgspec.structs.replace(made, **empty, history_from=self.history_from)

    def may_be_behind(self, key: bytes, rev: int) -> int:
        """The last entry that may have made lost versions of a document, later than entry `rev`; 0 if there is none."""
        low, high = past_range(key)
        found = [hole for hole in self._lossy if hole.covers(low, high or b"\xff" * 64)]
        found += [hole for hole in self._attached_holes if hole.covers(key, key)]
        return max((hole.rev_last for hole in found if hole.rev_last > rev), default=0)

    @property
    def reach(self) -> int:
        """The last entry whose changes may be lost; 0 if there is none."""
        return max((hole.rev_last for hole in [*self._lossy, *self._attached_holes]), default=0)

    @property
    def _lossy(self) -> list[Hole]:
        """What the log does not have either."""
        return [*(hole for hole in self._past_holes if hole.rev_first <= self.root.trimmed), *self._brought_holes]

    # --- where versions come from: the log first, the documents last ---

    def _from_log(self) -> Iterator[tuple[bytes, int, object]]:
        found: list[tuple[bytes, int, object]] = []
        for number in sorted(self.stale):
            record = self._record(number)
            if record is not None:
                found += [(key, 0, row) for key, row in past_of([record.entry])]
        found.sort(key=lambda item: item[0])
        return iter(found)

    def _record(self, number: int) -> LogRecord | None:
        try:
            return self.site.log.read(LogNumber(number))[0]
        except (CorruptionError, UnsupportedFormatError):
            return None

    def _from_documents(self, rows: Iterable[tuple[bytes, Row]]) -> Iterator[tuple[bytes, int, object]]:
        for key, row in rows:
            job = self._jobs.get(row.rev)
            misc, actor, meta = (self.root.misc, None, _REPAIRED) if job is None else (job.misc, job.actor, job.meta)
            op: Operation = "delete" if row.document is None else "create" if row.seq == 1 else "update"
            name = json.encode(row.id)
            yield key, 2, Version(name, row.seq, row.rev, op, misc, actor, meta, document=row.document)

    # --- one document ---

    def _rows(self, merged: Iterable[tuple[bytes, int, object]]) -> Iterator[tuple[bytes, Row]]:
        for key, group in groupby(merged, key=lambda item: item[0]):
            versions: dict[int, Version] = {}
            marks: dict[tuple[int, int], SnapshotMark] = {}
            for _, _, row in group:
                if isinstance(row, Version | SnapshotMark) and row.rev <= self.erased.get(key, 0):
                    continue
                if isinstance(row, Version):
                    versions.setdefault(row.seq, row)
                elif isinstance(row, SnapshotMark):
                    marks.setdefault((row.seq, row.rev), row)
            self._loaded.update(version.rev for version in versions.values() if version.rev in self._jobs)
            self._loaded.update(mark.rev for mark in marks.values() if mark.rev in self._told)
            kept = self._kept(versions)
            for version in kept:
                if version.meta is _REPAIRED:
                    what = f"the author and the time of version {version.seq} are lost"
                    self.lost.append(Loss(version.id.decode(), what, is_document=False))
            known = {version.seq for version in kept}
            rows: list[Version | SnapshotMark] = [*kept, *(mark for mark in marks.values() if mark.seq in known)]
            yield from sorted(((_place(key, row), _stored(row)) for row in rows), key=lambda item: item[0])

    def _kept(self, versions: dict[int, Version]) -> list[Version]:
        """The newest versions without a gap."""
        if not versions:
            return []
        first = last = max(versions)
        while first - 1 in versions:
            first -= 1
        kept = with_operations([versions[seq] for seq in range(first, last + 1)], set(self._jobs) - self._told)
        if first > 1 and kept[0].rev > max(self.root.dropped_through, self.root.history_from):
            self.history_from = max(self.history_from, kept[0].rev)
            if kept[0].rev in self._told:
                # It came like that; or the damaged blocks account for what is missing.
                return kept
            what = f"its versions before {first} are gone" + (
                f"; those that were left of them, {sorted(set(versions) - set(range(first, last + 1)))}, do not connect"
                if len(versions) > len(kept)
                else ""
            )
            self.lost.append(Loss(kept[0].id.decode(), what, is_document=False))
        return kept


def _place(key: bytes, row: Version | SnapshotMark) -> bytes:
    return past_key(key, row.seq, None if isinstance(row, Version) else row.rev)


def _stored(row: Version | SnapshotMark) -> Row:
    return Row(json.decode(past_id(row), name="id of a version"), row.rev, row.seq, encode_past(row))
