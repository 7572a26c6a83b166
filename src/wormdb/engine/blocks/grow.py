"""A block list grows: new rows become a run, together with the runs that `tiers` says.

    growth = Growth(runs, writer, sizes, columns=definition.columns)
    grown = growth.grow(rows, run=view.number)          # rows: (key, Row) in order of key
    Outcome({"blocks": grown.entries, "block_pages": grown.pages}, grown.retired)

Documents and history grow alike: of documents the newest row of a key stays, in history all keys are distinct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.runs import Run, Runs, is_run, list_run, merge_rows, runs_of
from wormdb.engine.blocks.tiers import plan_adopt, plan_cascade
from wormdb.engine.blocks.write import BlockWriter, weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.state.projection import Sizes
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry, BlockPageRef
    from wormdb.format.columns import ColumnSpec

__all__ = ["Growth", "GrowthResult"]

STORED_SHARE = 0.5
"""About what compression leaves of a document: enough to guess a run's tier before it is written."""


@dataclass(frozen=True, slots=True)
class GrowthResult:
    """The list as the next root has it, and the keys of the objects that it no longer names."""

    entries: tuple[BlockEntry, ...]
    pages: tuple[BlockPageRef, ...]
    retired: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Growth:
    """How one list grows. Nothing that it writes counts before a root names it, and it deletes nothing."""

    runs: Runs
    writer: ObjectWriter
    sizes: Sizes
    columns: Sequence[ColumnSpec] = ()
    members: Callable[[Row], bytes] | None = None
    """What filters know a row by; None: by the key of its id."""
    shape: int = 0
    """Through which log number mappings are done in the rows that come, and in those that are read to be merged."""
    is_kept: Callable[[BlockEntry], bool] = lambda _: False
    """Whether something else names a block, so that it is not retired when it was merged into another."""
    watch_all: Callable[[Iterator[tuple[bytes, Row]]], Iterator[tuple[bytes, Row]]] | None = None
    """What the rows go through when all of the list is written again, to see all of them."""
    sift: Callable[[Iterator[tuple[bytes, Row]]], Iterator[tuple[bytes, Row]]] | None = None
    """What the rows of a run that is written go through, to leave some out; not the newest of what belongs together."""

    def grow(self, rows: Sequence[tuple[bytes, Row]], *, run: int) -> GrowthResult:
        """The list with new rows, which come in order of key and hide older ones; `run` is their log number.

        2 PUTs a block that is written and 1 for a page of a long run's list; 1 GET for each block and page of the
        list of the runs that are merged. Bounds are in `tiers`. Raises UnavailableError, CorruptionError.
        """
        if not rows:
            return _grown(self.runs.runs)
        return self.add(iter(rows), int(STORED_SHARE * sum(weight(row) for _, row in rows)), run=run)

    def add(self, rows: Iterator[tuple[bytes, Row]], size: int, *, run: int) -> GrowthResult:
        """As `grow`, for rows of about `size` bytes as stored, which are read as they are written."""
        count = plan_cascade(size, [one.size for one in self.runs.runs], self.sizes.run_smallest)
        # A number names one run: what folding adds to history joins what forwarding has just written there.
        count = max(count, sum(one.through >= run for one in self.runs.runs))
        merged = merge_rows([rows, self.runs.scan_newest(count)]) if count else rows
        return self._replace(count, merged, run)

    def adopt(self, entries: Sequence[BlockEntry], *, run: int) -> GrowthResult:
        """The list with blocks that are there already, which do not overlap, as the newest run, not rewritten.

        1 PUT for each page if they are many. If too many runs stand below it, some of those are merged as `grow` does.
        """
        assert is_run(entries), "the blocks of a run do not overlap"
        standing = self.runs.runs
        added = self.append(entries, run=run)
        if not entries:
            return added
        size = sum(entry.length for entry in entries)
        count = plan_adopt(size, [one.size for one in standing], self.sizes.run_smallest)
        if not count:
            return added
        older = self._replace(count, self.runs.scan_newest(count), standing[0].through)
        newest = runs_of(added.entries, added.pages)[0]
        return GrowthResult((*newest.entries, *older.entries), (*newest.pages, *older.pages), older.retired)

    def append(self, entries: Sequence[BlockEntry], *, run: int) -> GrowthResult:
        """The same without ever merging: for a list of blocks that others own, which may overlap.

        1 PUT for each page if they are many.
        """
        adopted = [self._shaped(msgspec.structs.replace(entry, run=run)) for entry in entries]
        new = [list_run(one.entries, self.runs.shelf, self.writer) for one in runs_of(adopted)]
        return _grown((*new, *self.runs.runs))

    def _replace(self, count: int, rows: Iterator[tuple[bytes, Row]], run: int) -> GrowthResult:
        """The list with one run of `rows` instead of the newest `count` runs."""
        shelf = self.runs.shelf
        joined, kept = self.runs.runs[:count], self.runs.runs[count:]
        blocks = BlockWriter(shelf, self.writer, self.sizes.block_target, self.columns, self.members)
        if self.watch_all is not None and not kept:
            rows = self.watch_all(rows)
        if self.sift is not None:
            rows = self.sift(rows)
        level = max((one.level + 1 for one in joined), default=0)
        written = blocks.write(rows, run=run, level=level, kind="delta" if kept else "base")
        entries = [self._shaped(entry) for entry in written]
        retired = [key for one in joined for key in self._retired(one)]
        return _grown((list_run(entries, shelf, self.writer), *kept), retired)

    def _shaped(self, entry: BlockEntry) -> BlockEntry:
        """A block that says which mappings are done, unless its revisions tell."""
        return entry.shaped(self.shape) if entry.rev_first < self.shape else entry

    def _retired(self, run: Run) -> Iterator[str]:
        shelf = self.runs.shelf
        for page in run.pages:
            yield shelf.page_key(page.name)
        for entry in run.blocks(shelf):
            if not self.is_kept(entry):
                yield shelf.block_key(entry.name)
                yield shelf.sidecar_key(entry.sidecar.name)


def _grown(runs: Sequence[Run], retired: Sequence[str] = ()) -> GrowthResult:
    entries = tuple(entry for run in runs for entry in run.entries)
    return GrowthResult(entries, tuple(page for run in runs for page in run.pages), tuple(retired))
