"""History written again, from what is left of it, from the log, and from the documents."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.history.changes import past_of
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.past import Taken, Version, encode_past, past_id, past_key, past_range
from wormdb.maintenance.audit.listed import CheckedList
from wormdb.maintenance.audit.report import Loss, Report
from wormdb.maintenance.past_rows import PastLists, past_rows, with_operations
from wormdb.maintenance.rewrite import write_list
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.engine.log.entries import Record
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.past import Operation
    from wormdb.format.root import JobOutcome, Root
    from wormdb.maintenance.audit.listed import Hole
    from wormdb.maintenance.site import Site

__all__ = ["PastRepair"]

_REPAIRED: Final = b'{"repaired":true}'
"""The metadata of a version of which only the document and its number are known."""


@dataclass(slots=True)
class PastRepair:
    """Makes the history of a root again."""

    site: Site
    root: Root
    stale: set[int]
    """The entries of the log that history does not have as they are; their changes are in memory."""
    listed: dict[int, tuple[BlockEntry, ...]]
    """The blocks of jobs, as the log has them, by the number of the entry that attached them."""
    brought: dict[int, tuple[BlockEntry, ...]] = field(default_factory=dict)
    """The blocks of history that they brought, likewise."""
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
            CheckedList(self.site, "history", root, Report(), salvage=True),
            CheckedList(self.site, "attached", root, Report(), salvage=True, known=self.listed),
            CheckedList(self.site, "brought", root, Report(), salvage=True, known=self.brought),
        )
        documents = CheckedList(self.site, "blocks", root, Report(), salvage=True, known=self.listed)
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
        """Through which entry later versions of a document than that by entry `rev` may be gone; 0 if none can be."""
        low, high = past_range(key)
        found = [hole for hole in self._lossy if hole.covers(low, high or b"\xff" * 64)]
        found += [hole for hole in self._attached_holes if hole.covers(key, key)]
        return max((hole.rev_last for hole in found if hole.rev_last > rev), default=0)

    @property
    def reach(self) -> int:
        """Through which entry changes may be gone; 0 if none are."""
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

    def _record(self, number: int) -> Record | None:
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
            marks: dict[tuple[int, int], Taken] = {}
            for _, _, row in group:
                if isinstance(row, Version):
                    versions.setdefault(row.seq, row)
                elif isinstance(row, Taken):
                    marks.setdefault((row.seq, row.rev), row)
            self._loaded.update(version.rev for version in versions.values() if version.rev in self._jobs)
            self._loaded.update(mark.rev for mark in marks.values() if mark.rev in self._told)
            kept = self._kept(versions)
            for version in kept:
                if version.meta is _REPAIRED:
                    what = f"who made version {version.seq} and when is no longer known"
                    self.lost.append(Loss(version.id.decode(), what, is_document=False))
            known = {version.seq for version in kept}
            rows: list[Version | Taken] = [*kept, *(mark for mark in marks.values() if mark.seq in known)]
            yield from sorted(((_place(key, row), _stored(row)) for row in rows), key=lambda item: item[0])

    def _kept(self, versions: dict[int, Version]) -> list[Version]:
        """The newest versions without a gap."""
        if not versions:
            return []
        first = last = max(versions)
        while first - 1 in versions:
            first -= 1
        kept = with_operations([versions[seq] for seq in range(first, last + 1)], set(self._jobs) - self._told)
        if first > 1 and kept[0].rev > self.root.history_from:
            self.history_from = max(self.history_from, kept[0].rev)
            if kept[0].rev in self._told:
                # It came like that; or what is missing is told of the blocks that are damaged.
                return kept
            what = f"its versions before {first} are gone" + (
                f"; those that were left of them, {sorted(set(versions) - set(range(first, last + 1)))}, do not connect"
                if len(versions) > len(kept)
                else ""
            )
            self.lost.append(Loss(kept[0].id.decode(), what, is_document=False))
        return kept


def _place(key: bytes, row: Version | Taken) -> bytes:
    return past_key(key, row.seq, None if isinstance(row, Version) else row.rev)


def _stored(row: Version | Taken) -> Row:
    return Row(json.decode(past_id(row), name="id of a version"), row.rev, row.seq, encode_past(row))
