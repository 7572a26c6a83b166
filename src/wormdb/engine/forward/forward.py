"""Bring the tail of the log into the projections, and name them in the root: the only visible step.

Forwarding writes what changed since the root (documents, index nodes, history), so its cost follows what was written,
not what is stored. New objects have new names; a crash anywhere leaves the old root or the new one, and perhaps objects
that nobody names. It goes by stages, because the blocks of an attached job lie between what came before and
after it; but all stages share one swap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.listing import runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.bulk.merge import Merger
from wormdb.engine.bulk_join import Workplace
from wormdb.engine.data import project_data
from wormdb.engine.history.changes import project_history
from wormdb.engine.history.fold import Folder
from wormdb.engine.index.advance import project_indexes
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.place import Place
from wormdb.engine.state.projection import DEFAULT_SIZES, Sizes, Step, net_of
from wormdb.engine.state.successor import following_root
from wormdb.format.event import JobAttached
from wormdb.format.root import Root
from wormdb.system.clock import new_write_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.projection import Outcome, Stage
    from wormdb.engine.state.view import View
    from wormdb.format.blocklist import BlockEntry
    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Chance

__all__ = ["DEFAULT_SIZES", "Forwarder", "Shelves", "Sizes"]


@dataclass(frozen=True, slots=True)
class Shelves:
    """What is kept of a collection's objects from root to root; None keeps nothing."""

    data: Shelf | None = None
    trees: IndexShelf | None = None
    past: Shelf | None = None

    def project(self, step: Step) -> Iterator[Outcome]:
        """What each projection makes of a step."""
        yield project_data(step, self.data)
        yield project_indexes(step, self.trees)
        yield project_history(step, self.past)


NO_SHELVES = Shelves()


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Forwards one collection."""

    register: Register
    pool: Pool
    misc: MiscClock
    chance: Chance
    sizes: Sizes = DEFAULT_SIZES
    shelves: Shelves = NO_SHELVES

    @property
    def collection(self) -> str:
        """Its folder."""
        return self.register.collection

    @property
    def writer(self) -> ObjectWriter:
        """Writes what the next root names."""
        return ObjectWriter(self.register.store, self.pool, self.misc, self.chance)

    def run(self, current: RootState, stages: Sequence[Stage]) -> RootState:
        """Bring the root that was read to the last of the stages, which follow it.

        Returns the root as it then is, which is another's if that came first. 1 PUT for the root after those of the
        objects it names, and the GETs of what is merged; a lost race costs 1 GET.
        """
        root = current.root or self._first()
        retired: list[str] = []
        for stage in stages:
            root, more = self._project(root, stage)
            retired += more
        root, folded = self._folder.run(root, stages[-1].view)
        entries = [entry for stage in stages for entry in stage.entries]
        return self._follow(current, root, dict.fromkeys(retired, 0) | folded, entries)

    def shrink(self, current: RootState, view: View) -> RootState:
        """Make a root smaller that has applied the state of `view`; the root as it then is. Costs as `Folder.run`."""
        assert current.root is not None
        root, folded = self._folder.run(current.root, view)
        return self._follow(current, root, folded)

    def _follow(
        self, current: RootState, root: Root, gone: Mapping[str, int], entries: Sequence[Entry] = ()
    ) -> RootState:
        """Let `root` follow the one that it was made of; the root as it then is, another's if that came first."""

        def change(found: RootState) -> Root | None:
            if found is not current:
                return None  # `root` was made of an older one
            return following_root(current, root, gone, self.writer, self.register.paths, entries)

        return self.register.update(change, what=f"the state of entry {root.applied}", current=current)

    @property
    def _folder(self) -> Folder:
        store, paths = self.register.store, self.register.paths
        data = self.shelves.data or Shelf(store, self.pool, paths.data)
        return Folder(data, self.shelves.past or Shelf(store, self.pool, paths.history), self.writer, self.sizes)

    def _project(self, root: Root, stage: Stage) -> tuple[Root, tuple[str, ...]]:
        """The root after one stage, and the keys of what it no longer names."""
        view = stage.view
        attached = next((event for entry in stage.entries for event in entry.events if _attaches(event)), None)
        step = Step(
            place=Place(self.register.store, self.pool, self.register.paths, root),
            view=view,
            entries=stage.entries,
            net=net_of(stage.entries, view),
            writer=self.writer,
            sizes=self.sizes,
            attached=attached if isinstance(attached, JobAttached) else None,
            joined=self._joined(attached, view) if isinstance(attached, JobAttached) else None,
        )
        fields: dict[str, object] = {}
        retired: tuple[str, ...] = ()
        for outcome in self.shelves.project(step):
            fields |= outcome.fields
            retired += outcome.retired
        changed = msgspec.structs.replace(
            root,
            applied=view.number,
            hash_applied=stage.digest,
            definition=view.definition.body,
            files=view.definition.files,
            versions=view.definition.versions,
            functions=view.definition.functions,
            jobs=stage.jobs.outcomes(),
            changes=root.changes + len(step.net) + (0 if step.attached is None else _rows(step.attached)),
            **view.definition.blobs.kept(root.trimmed),
            **fields,
        )
        return changed, retired

    def _joined(self, job: JobAttached, view: View) -> tuple[BlockEntry, ...] | None:
        """The documents of a job whose blocks overlap as one run; None if they are one. Costs as `Merger.merge`."""
        runs = runs_of(job.blocks)
        if len(runs) < 2:
            return None
        shelf = self.shelves.data or Shelf(self.register.store, self.pool, self.register.paths.data)
        workplace = Workplace(shelf, self.writer, self.sizes.block_target)
        # Whoever attached them made sure that no id is there twice.
        merged = Merger(workplace, view.definition.columns, "replace").merge([run.entries for run in runs])
        return tuple(merged.blocks)

    def _first(self) -> Root:
        return Root(
            path=self.collection,
            collection=new_write_id(self.chance),
            revision=0,
            write_id=new_write_id(self.chance),
            misc=0,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
        )


def _rows(job: JobAttached) -> int:
    return sum(block.rows for block in job.blocks)


def _attaches(event: object) -> bool:
    return isinstance(event, JobAttached)
