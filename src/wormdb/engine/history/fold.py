"""What jobs attached long ago becomes rows of history like all else, so that the root does not name each job for ever.

The blocks of a job are the history of its documents, kept as they were (`loads`). That saves writing them again, but
each job is a line in the root, and a look at the past asks the filters of each. So of each tier of size the newest few
stay as they are, and when twice as many have gathered, the older ones are folded: their versions are written to
history, as forwarding writes those of other entries. A byte is folded at most once.

Blocks that documents still have are left alone while the entry of their job is in the log, and others stay until it is
trimmed (`Retired.log`), because the change feed reads them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.grow import Growth
from wormdb.engine.blocks.runs import Run, Runs, runs_of
from wormdb.engine.blocks.tiers import tier_of
from wormdb.engine.history.changes import AttachedDocuments, loads_of_root, member_of, stored_version, with_operations
from wormdb.engine.history.read import History
from wormdb.engine.history.retention import sieve_of
from wormdb.engine.state.jobs import Jobs
from wormdb.format.past import HISTORY_COLUMNS, Version, past_key
from wormdb.format.root import Root, root_size
from wormdb.settings import FOLD_BYTES, LOADS_KEPT, ROOT_BYTES_FULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.state.projection import Sizes
    from wormdb.engine.state.view import View
    from wormdb.format.block import Row
    from wormdb.system.types import StoreTime

__all__ = ["Folder", "is_full", "loads_to_fold"]

ROWS_AT_ONCE = 4_096
"""For this many documents of a job at a time the versions before them are looked up."""


def loads_to_fold(root: Root, smallest: int, *, all_of_them: bool = False) -> list[int]:
    """The entries whose jobs are to be folded now, oldest first. No requests.

    Of each tier of size none until there are twice as many as stay; then the older ones, but not more than FOLD_BYTES
    of them at once. With `all_of_them` none stays that can be folded.
    """
    left = {run.through for run in runs_of(root.brought, root.brought_pages)}
    left |= {run.through for run in runs_of(root.blocks, root.block_pages) if run.through > root.trimmed}
    tiers: dict[int, list[tuple[int, int]]] = {}
    for number, runs in groupby(runs_of(root.attached, root.attached_pages), key=lambda run: run.through):
        size = sum(run.size for run in runs)
        if number not in left:
            tiers.setdefault(tier_of(size, smallest), []).append((number, size))
    # They come newest first.
    old = [load for loads in tiers.values() if len(loads) >= 2 * LOADS_KEPT for load in loads[LOADS_KEPT:]]
    if all_of_them:
        old = [load for loads in tiers.values() for load in loads]
    chosen: list[int] = []
    total = 0
    for number, size in sorted(old):
        if chosen and total + size > FOLD_BYTES:
            break
        chosen.append(number)
        total += size
    return chosen


@dataclass(frozen=True, slots=True)
class Folder:
    """Folds what a root names of jobs. `data` and `past` are the shelves of documents and of history."""

    data: Shelf
    past: Shelf
    writer: ObjectWriter
    sizes: Sizes
    time: StoreTime | None = None
    """When the root was read, by the store's time."""

    def run(self, root: Root, view: View) -> tuple[Root, dict[str, int]]:
        """A root that is to be swapped in, made smaller if it is time, and the keys of what it no longer names.

        With each key the entry that needs it until it is trimmed, or 0. `view` is the state that the root has applied.
        No requests if nothing is to be folded; otherwise 1 GET for each block of the jobs that are, what look-ups of
        the versions before theirs cost, and what `Growth.grow` does.
        """
        retired: dict[str, int] = {}
        root = _with_jobs(root)
        chosen = loads_to_fold(root, self.sizes.run_smallest, all_of_them=is_full(root))
        while chosen:
            root, more = self._folded(root, view, set(chosen))
            retired |= more
            root = _with_jobs(root)
            # One portion is enough at a time, unless the root could not be written.
            chosen = loads_to_fold(root, self.sizes.run_smallest, all_of_them=True) if is_full(root) else []
        return root, retired

    def _folded(self, root: Root, view: View, numbers: set[int]) -> tuple[Root, dict[str, int]]:
        loads = [load for load in loads_of_root(root, self.data) if load.number in numbers]
        folded = [run for run in runs_of(root.attached, root.attached_pages) if run.through in numbers]
        kept = [run for run in runs_of(root.attached, root.attached_pages) if run.through not in numbers]
        history = Runs(self.past, root.history, root.history_pages, keyed=False)
        sieve = sieve_of(root, view.definition.retention, self.time)
        sift = None if sieve is None else sieve.left
        growth = Growth(history, self.writer, self.sizes, HISTORY_COLUMNS, member_of, sift=sift)
        grown = growth.add(self._rows(loads, view), sum(run.size for run in folded), run=root.applied)
        changed = msgspec.structs.replace(
            root,
            history=grown.entries,
            history_pages=grown.pages,
            attached=tuple(entry for run in kept for entry in run.entries),
            attached_pages=tuple(page for run in kept for page in run.pages),
            dropped_through=root.dropped_through if sieve is None else sieve.trimmed,
        )
        return changed, {**dict.fromkeys(grown.retired, 0), **dict(self._retired(root, folded))}

    def _rows(self, loads: Sequence[AttachedDocuments], view: View) -> Iterator[tuple[bytes, Row]]:
        """Their versions as rows of history, in order of key and version."""
        history = History(view, past=self.past, data=self.data)
        found = _merged([self._versions(load, history) for load in loads])
        return ((place, stored_version(version)) for place, version in found)

    def _versions(self, load: AttachedDocuments, history: History) -> Iterator[tuple[bytes, Version]]:
        """The versions of one load, each with what it did: the version before it tells."""
        rows = load.layer.scan()
        while several := list(islice(rows, ROWS_AT_ONCE)):
            before = history.versions_at({key: held.seq - 1 for key, held in several if held.seq > 1})
            for key, held in several:
                known = [before[key]] if key in before else []
                *_, version = with_operations([*known, load.version(held)], {load.number})
                yield past_key(key, version.seq), version

    def _retired(self, root: Root, folded: Sequence[Run]) -> Iterator[tuple[str, int]]:
        """What only the folded jobs named: blocks that documents still have stay."""
        documents = Runs(self.data, root.blocks, root.block_pages)
        for run in folded:
            for page in run.pages:
                yield self.data.page_key(page.name), 0
            for entry in run.blocks(self.data):
                if not documents.names(entry):
                    yield self.data.block_key(entry.name), run.through
                    yield self.data.sidecar_key(entry.sidecar.name), run.through


def _with_jobs(root: Root) -> Root:
    """A root that remembers no more jobs than it needs."""
    attached = {run.through for run in runs_of(root.attached, root.attached_pages)}
    return msgspec.structs.replace(root, jobs=Jobs.of(root.jobs).remembered(attached))


def is_full(root: Root) -> bool:
    """Whether a root has no room left for those that only swap it. No requests."""
    return root_size(root) >= ROOT_BYTES_FULL


def _merged(layers: Sequence[Iterator[tuple[bytes, Version]]]) -> Iterator[tuple[bytes, Version]]:
    """Versions in order; no two have the same place."""
    return iter(heapq.merge(*layers, key=lambda item: item[0]))
