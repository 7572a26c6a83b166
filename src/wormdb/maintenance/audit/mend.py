"""Documents written again, from what is left of their blocks and from history."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.runs import Runs, data_runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.state.upgrade import Upgrades
from wormdb.engine.state.view import Held, id_key, sequence_of
from wormdb.engine.tree.entries import id_of
from wormdb.errors import CorruptionError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.event import JobAttached
from wormdb.format.past import Version
from wormdb.format.sample import Sampler, encode_sample
from wormdb.maintenance.audit.listed import CheckedList
from wormdb.maintenance.audit.report import Loss, Report
from wormdb.maintenance.past_rows import PastLists, past_rows
from wormdb.maintenance.rewrite import write_list
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry
    from wormdb.format.root import IndexRoot, Root
    from wormdb.maintenance.past_repair import PastRepair
    from wormdb.maintenance.site import Site

__all__ = ["DocumentRepair", "with_facts"]

_AT_ONCE: Final = 1_000


@dataclass(slots=True)
class DocumentRepair:
    """Makes the documents of a root again. `past` is the repair of its history, if that was needed."""

    site: Site
    root: Root
    past: PastRepair | None = None
    listed: dict[int, tuple[BlockEntry, ...]] = field(default_factory=dict)
    """The blocks of jobs, as the log has them, by the number of the entry that attached them."""
    lost: list[Loss] = field(default_factory=list)
    _alive: int = 0
    _trashed: int = 0
    _doubtful: list[str] = field(default_factory=list)
    """Deleted documents of which nobody knows whether they were in the trash."""
    _entry: Entry | None = None

    def run(self) -> Root:
        """The root with new documents. 1 GET for each object of the lists; costs as `write_list`."""
        root = self.root
        documents = CheckedList(self.site, "blocks", root, Report(), salvage=True, known=self.listed)
        past = PastLists.of(self.site, root, Report)
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
            row = max(rows, key=lambda one: one.seq, default=None)
            newest = max(versions, key=lambda one: one.seq, default=None)
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
        held = Held(version.id, version.rev, version.seq, None, trash)
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
        """Tell what is gone."""
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
        shelf = IndexShelf(self.site.store, self.site.paths, self.site.pool)
        try:
            for _, value in shelf.reader(self.root, index).scan():
                yield id_of(value)
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


def with_facts(site: Site, root: Root) -> Root:
    """The root with counts and a sample that are true. 1 GET for each block."""
    facts = _Facts()
    runs = data_runs(site.place(root))
    for _ in facts.watch(runs.scan()):
        pass
    return facts.into(root)
