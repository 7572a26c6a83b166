"""The documents as a projection of the log: runs of blocks, how many there are, and a sample of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.blocks.grow import Growth
from wormdb.engine.blocks.listing import is_run
from wormdb.engine.blocks.runs import Runs, row_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.state.projection import Outcome
from wormdb.engine.state.view import sequence_of
from wormdb.format.damage import corrupt
from wormdb.format.sample import Sampler, decode_sample, encode_sample

if TYPE_CHECKING:
    from wormdb.engine.blocks.grow import Grown
    from wormdb.engine.state.projection import Step
    from wormdb.format.event import JobAttached
    from wormdb.format.sample import Sample

__all__ = ["project_data"]


def project_data(step: Step, shelf: Shelf | None = None) -> Outcome:
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
    grown = growth.grow([(net.key, row_of(net.held)) for net in step.net], run=step.view.number)
    sample = sample.after((net.key, net.held.document) for net in step.net)
    if refill is not None and refill.sample.rows:
        sample = refill.sample
    sequence = max([root.sequence, *(sequence_of(net.held.id) for net in step.net)])
    return _outcome(step, grown, sample, sequence)


def _attach(step: Step, job: JobAttached, growth: Growth, attached: Runs, sample: Sample) -> Outcome:
    number = step.view.number
    entry = step.place.paths.entry(number)
    if not is_run(step.blocks):
        corrupt(entry, "the blocks of a job overlap")
    grown = growth.adopt(step.blocks, run=number)
    kept = Growth(attached, step.writer, step.sizes).append(job.blocks, run=number)
    newer = decode_sample(job.sample, name=entry)
    outcome = _outcome(step, grown, sample.with_newer(newer), max(step.root.sequence, job.sequence))
    return Outcome({**outcome.fields, "attached": kept.entries, "attached_pages": kept.pages}, outcome.retired)


def _outcome(step: Step, grown: Grown, sample: Sample, sequence: int) -> Outcome:
    fields = {
        "blocks": grown.entries,
        "block_pages": grown.pages,
        "rows": step.view.count,
        "sequence": sequence,
        "sample": encode_sample(sample),
    }
    return Outcome(fields, grown.retired)
