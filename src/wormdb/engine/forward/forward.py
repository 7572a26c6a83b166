"""Bring the tail of the log into the projections, and name them in the root: the only visible step.

Forwarding writes what changed since the root (documents, index nodes, history), so its cost follows what was written,
not what is stored. New objects have new names; a crash anywhere leaves the old root or the new one, and perhaps objects
that no root names. It goes by stages, because the blocks of an attached job lie between what came before and
after it; but all stages share one swap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.grow import Growth
from wormdb.engine.blocks.runs import Runs, is_run, row_of, runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.bulk.merge import Merger
from wormdb.engine.forward.erase import Eraser
from wormdb.engine.history.changes import project_history
from wormdb.engine.history.fold import Folder
from wormdb.engine.index.advance import project_indexes
from wormdb.engine.log.root import Place
from wormdb.engine.state.erased import erasures_of, following_marks
from wormdb.engine.state.prepared import carried
from wormdb.engine.state.projection import DEFAULT_SIZES, ProjectionResult, ProjectionStep, Sizes, net_of
from wormdb.engine.state.successor import following_root
from wormdb.engine.state.view import greatest_sequence
from wormdb.format.event import JobAttached
from wormdb.format.frame import corrupt
from wormdb.format.root import Root
from wormdb.format.sample import Sampler, decode_sample, encode_sample
from wormdb.system.clock import new_write_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.engine.blocks.grow import GrowthResult
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.projection import LogStage
    from wormdb.engine.state.view import View
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry
    from wormdb.format.sample import Sample
    from wormdb.system.types import StoreTime

__all__ = ["DEFAULT_SIZES", "Forwarder", "Sizes", "project_data"]


# --- The documents as a projection of the log: runs of blocks, how many there are, and a sample of them.


def project_data(step: ProjectionStep, shelf: Shelf | None = None) -> ProjectionResult:
    """The documents after a step; `shelf` is of the folder of data. Costs as `Growth.grow` or `Growth.adopt` says.

    Fields: blocks, block_pages, rows, sequence, sample; and attached, attached_pages if a job attached blocks. Blocks
    of a job stay named there as the history of their documents, so they are not retired when they are merged.
    """
    place, root, upgrades = step.place, step.root, step.view.definition.upgrades
    shelf = shelf or Shelf(place.store, place.pool, place.paths.data)
    attached = Runs(shelf, root.attached, root.attached_pages)
    sample = decode_sample(root.sample, name=place.paths.root)
    if upgrades.newest > root.applied:
        sample = sample.after((key, upgrades.document(body, root.applied)) for key, body in sample.rows.items())
    refill = Sampler() if sample.is_thin(step.view.count) else None
    growth = Growth(
        Runs(shelf.showing(upgrades), root.blocks, root.block_pages),
        step.writer,
        step.sizes,
        columns=step.view.definition.columns,
        shape=upgrades.newest,
        is_kept=attached.names,
        watch_all=None if refill is None else refill.watch,
    )
    if step.attached is not None:
        return _attach(step, step.attached, growth, attached, sample)
    grown = growth.grow(
        # Of what was erased there is no deletion either.
        [(net.key, row_of(net.held)) for net in step.net if net.held.seq],
        run=step.view.number,
    )
    sample = sample.after((net.key, net.held.document) for net in step.net)
    if refill is not None and refill.sample.rows:
        sample = refill.sample
    # Ids that a transaction counted are used up, whatever becomes of it.
    used = (one.sequence for one in step.view.pending)
    sequence = max([root.sequence, greatest_sequence(net.held.id for net in step.net), *used])
    return _outcome(step, grown, sample, sequence)


def _attach(step: ProjectionStep, job: JobAttached, growth: Growth, attached: Runs, sample: Sample) -> ProjectionResult:
    number = step.view.number
    entry = step.place.paths.entry(number)
    if not is_run(step.blocks):
        corrupt(entry, "the blocks of a job overlap")
    grown = growth.adopt(step.blocks, run=number)
    kept = Growth(attached, step.writer, step.sizes).append(job.blocks, run=number)
    newer = decode_sample(job.sample, name=entry)
    outcome = _outcome(step, grown, sample.with_newer(newer), max(step.root.sequence, job.sequence))
    return ProjectionResult({**outcome.fields, "attached": kept.entries, "attached_pages": kept.pages}, outcome.retired)


def _outcome(step: ProjectionStep, grown: GrowthResult, sample: Sample, sequence: int) -> ProjectionResult:
    fields = {
        "blocks": grown.entries,
        "block_pages": grown.pages,
        "rows": step.view.count,
        "sequence": sequence,
        "sample": encode_sample(sample),
    }
    return ProjectionResult(fields, grown.retired)


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Forwards one collection. Its shelves keep what is read again from root to root."""

    register: Register
    writer: ObjectWriter
    """Writes what the next root names."""
    sizes: Sizes
    data: Shelf
    trees: IndexShelf
    past: Shelf

    @property
    def collection(self) -> str:
        """Its folder."""
        return self.register.collection

    def run(self, current: RootState, stages: Sequence[LogStage]) -> RootState:
        """Bring the root that was read to the last of the stages, which follow it.

        Returns the root as it then is, which is another's if that came first. 1 PUT for the root after those of the
        objects it names, and the GETs of what is merged; a lost race costs 1 GET.
        """
        root = current.root or self._first()
        retired: list[str] = []
        for stage in stages:
            root, more = self._project(root, stage, current.time)
            retired += more
        entries = [entry for stage in stages for entry in stage.entries]
        root, gone = Eraser(self.data, self.past, self.writer, self.sizes).run(root, erasures_of(entries))
        root = msgspec.structs.replace(root, **following_marks(root, entries, self.writer.chance))
        root, folded = self._folder(current).run(root, stages[-1].view)
        return self._follow(current, root, dict.fromkeys(retired, 0) | gone | folded, entries)

    def shrink(self, current: RootState, view: View) -> RootState:
        """Make a root smaller that has applied the state of `view`; the root as it then is. Costs as `Folder.run`."""
        assert current.root is not None
        root, folded = self._folder(current).run(current.root, view)
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

    def _folder(self, current: RootState) -> Folder:
        return Folder(self.data, self.past, self.writer, self.sizes, current.time)

    def _project(self, root: Root, stage: LogStage, time: StoreTime | None) -> tuple[Root, tuple[str, ...]]:
        """The root after one stage, and the keys of what it no longer names."""
        view = stage.view
        attached = next((event for entry in stage.entries for event in entry.events if _attaches(event)), None)
        step = ProjectionStep(
            place=Place(self.register.store, self.writer.pool, self.register.paths, root),
            view=view,
            entries=stage.entries,
            net=net_of(stage.entries, view),
            writer=self.writer,
            sizes=self.sizes,
            attached=attached if isinstance(attached, JobAttached) else None,
            joined=self._joined(attached, view) if isinstance(attached, JobAttached) else None,
            time=time,
        )
        fields: dict[str, object] = {}
        retired: tuple[str, ...] = ()
        projections = project_data(step, self.data), project_indexes(step, self.trees), project_history(step, self.past)
        for outcome in projections:
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
            expiries=view.definition.expiries,
            retained=view.definition.retained,
            pending=carried(view.pending),
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
        blocks = BlockWriter(self.data, self.writer, self.sizes.block_target, view.definition.columns)
        # The job made sure that no id is there twice before it attached them.
        merged = Merger(blocks, "replace").merge([run.entries for run in runs])
        return tuple(merged.blocks)

    def _first(self) -> Root:
        return Root(
            path=self.collection,
            collection=new_write_id(self.writer.chance),
            revision=0,
            write_id=new_write_id(self.writer.chance),
            misc=0,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
        )


def _rows(job: JobAttached) -> int:
    return sum(block.rows for block in job.blocks)


def _attaches(event: object) -> bool:
    return isinstance(event, JobAttached)
