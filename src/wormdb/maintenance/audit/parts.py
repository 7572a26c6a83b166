"""Whether documents, history, indexes and the log agree, looked at in ranges of ids that others can look at.

    look_at_range(…) -> PartTally          # anywhere: one range of the rows of a root whose blocks are sound
    report_of(…, tallies)                  # sums meet: by entry of the log, and by bucket of each index

Of a collection that is sound this says what one pass over everything says. Of one that is not it says only that: then
`wormdb.maintenance.audit.verify.verify` tells what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import Run, overlaps
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.state.upgrade import Upgrades
from wormdb.errors import CorruptionError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format.past import past_from
from wormdb.maintenance.audit.agreement import Agreement, BlobCheck, RowTally
from wormdb.maintenance.audit.chain import Chain
from wormdb.maintenance.audit.index_check import IndexTally, index_checks
from wormdb.maintenance.audit.lists import CheckedList, PastLists, Where
from wormdb.maintenance.audit.report import AuditReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.format.block import Row
    from wormdb.format.root import Root
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["LogOutline", "PartTally", "look_at_range", "report_of"]


@dataclass(frozen=True, slots=True)
class LogOutline:
    """What must be known of a log that was read elsewhere, and is whole."""

    begins: int
    last: int
    """The newest entry that was applied."""
    jobs: frozenset[int]
    """Entries that attached blocks."""


@dataclass(frozen=True, slots=True)
class PartTally:
    """What the rows of one range came to."""

    is_sound: bool
    documents: int = 0
    versions: int = 0
    rows: RowTally | None = None
    indexes: tuple[IndexTally, ...] = ()
    blobs: tuple[str, ...] = ()
    """The keys of the blobs that they refer to."""


@dataclass(slots=True)
class _OutlinedChain(Chain):
    """A log of which the numbers are known and the sums are elsewhere."""

    outline: LogOutline = LogOutline(0, 0, frozenset())

    def has_job(self, number: int) -> bool:
        return number in self.outline.jobs

    def has_entry(self, number: int) -> bool:
        return self.outline.begins <= number <= self.outline.last


@dataclass(slots=True)
class _RangedList(CheckedList):
    """The rows of a list in a range of keys, of blocks that are known to be sound."""

    low: bytes = b""
    high: bytes | None = None

    def stream(self, run: Run) -> Iterator[tuple[bytes, Row]]:
        shelf = Shelf(self.site.store, self.site.pool, self.folder)
        if self.where == "blocks":
            shelf = shelf.showing(Upgrades.of(self.root.versions))
        for entry in self.entries(run):
            if overlaps(entry, self.low, self.high):
                yield from rows_between(shelf, entry, self.low, self.high)


def look_at_range(site: StoredCollection, root: Root, outline: LogOutline, low: bytes, high: bytes | None) -> PartTally:
    """Compare the rows of documents whose ids' keys lie in a range; what they came to.

    1 GET for each block of all lists that lies in it, and for each page of a long list; of blocks that reach out of it
    their page map and the row groups that lie in it; 1 for each 4 MiB of blobs that they refer to.
    Raises UnavailableError.
    """
    report = AuditReport()
    checks = index_checks(site, root, report)

    def ranged(where: Where) -> CheckedList:
        is_past = where in ("history", "brought")
        ends = (past_from(low), None if high is None else past_from(high)) if is_past else (low, high)
        return _RangedList(site, where, root, report, low=ends[0], high=ends[1])

    past = PastLists(ranged("history"), ranged("attached"), ranged("brought"))
    chain = _OutlinedChain(outline=outline)
    blobs = BlobCheck(site, root, report)
    documents = ranged("blocks")
    agreement = Agreement(site, root, report, documents=documents, past=past, chain=chain, indexes=checks, blobs=blobs)
    try:
        agreement.begin()
        agreement.look()
        blobs.compare()
        indexes = tuple(check.tally() for check in checks)
    except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError):
        return PartTally(is_sound=False)
    counts = report.counts
    seen = tuple(blobs.checked())
    return PartTally(not report.findings, counts["documents"], counts["versions"], agreement.tally(), indexes, seen)


def report_of(
    site: StoredCollection, root: Root, chain: Chain, report: AuditReport, parts: Sequence[PartTally]
) -> AuditReport | None:
    """The report on a root whose blocks are sound, from all its parts; None if something is wrong.

    `report` is that of the log. 1 GET for each page of a long list, and for each node of the indexes.
    """
    if report.findings or not all(part.is_sound for part in parts):
        return None
    checks = index_checks(site, root, report)
    past = PastLists.of(site, root, lambda: report)
    documents = CheckedList(site, "blocks", root, report)
    agreement = Agreement(site, root, report, documents=documents, past=past, chain=chain, indexes=checks)
    agreement.begin()
    for listed in (documents, past.history, past.attached, past.brought):
        blocks = sum(1 for run in listed.runs for _ in listed.entries(run))
        report.count("blocks", blocks)
        report.count("sidecars", blocks)
    for part in parts:
        report.count("documents", part.documents)
        report.count("versions", part.versions)
        if part.rows is not None:
            agreement.take(part.rows)
        for check, tally in zip(checks, part.indexes, strict=True):
            check.take(tally)
    # One that documents of several ranges refer to was looked at in each of them, and is one.
    report.count("blobs", len({key for part in parts for key in part.blobs}))
    agreement.settle()
    is_bad = any(check.compare(with_documents=True) or check.is_bad for check in checks)
    return None if is_bad or report.findings else report
