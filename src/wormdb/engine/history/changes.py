"""History as a projection of the log: every change of every document, in runs of blocks.

A row is a whole version (`wormdb.format.past`). Forwarding adds rows and merges runs; no row is ever changed or left
out. What a bulk job attached is not written again: its blocks, kept as they were, are the history of their documents;
unless it brought blocks of history of its own, which are kept as they were instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.blocks.grow import Growth
from wormdb.engine.blocks.listing import is_run
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.state.projection import Outcome
from wormdb.engine.state.view import id_key
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.damage import corrupt
from wormdb.format.event import SnapshotTaken
from wormdb.format.key import encode_key
from wormdb.format.past import HISTORY_COLUMNS, Taken, Version, encode_past, operation_of, past_id, past_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.engine.state.projection import Step
    from wormdb.format.entry import Entry
    from wormdb.format.event import JobAttached

__all__ = ["member_of", "past_of", "project_history", "stored_version"]


def project_history(step: Step, shelf: Shelf | None = None) -> Outcome:
    """Every change of the step's entries as a new run of history, merged with others by the rule of `tiers`.

    2 PUTs a block that is written, 1 GET for each block of the runs that are merged; for an attached job 1 PUT for each
    page, if it brings many blocks of history. Raises UnavailableError, CorruptionError.
    """
    place, root = step.place, step.root
    shelf = shelf or Shelf(place.store, place.pool, place.paths.history)
    if step.attached is not None:
        assert not any(batch.changes for entry in step.entries for batch in entry.batches), "a job comes alone"
        return _bring(step, step.attached, shelf)
    runs = Runs(shelf, root.history, root.history_pages, keyed=False)
    # Marks of one version by one entry are one mark.
    rows = {_place(key, row): row for key, row in past_of(step.entries)}
    new = [(place, stored_version(rows[place])) for place in sorted(rows)]
    growth = Growth(runs, step.writer, step.sizes, HISTORY_COLUMNS, member_of)
    grown = growth.grow(new, run=step.view.number)
    return Outcome({"history": grown.entries, "history_pages": grown.pages}, grown.retired)


def _bring(step: Step, job: JobAttached, shelf: Shelf) -> Outcome:
    """What a job brought stays as it is, and is named for ever: the log has nothing of it but its hashes."""
    if not job.history:
        return Outcome()
    number, root = step.view.number, step.root
    blocks = sorted(job.history, key=lambda block: block.key_first)
    if not is_run(blocks):
        corrupt(step.place.paths.entry(number), "the blocks of history of a job overlap")
    runs = Runs(shelf, root.brought, root.brought_pages, keyed=False)
    grown = Growth(runs, step.writer, step.sizes).append(blocks, run=number)
    return Outcome({"brought": grown.entries, "brought_pages": grown.pages})


def member_of(row: Row) -> bytes:
    """What the filters of history know a row by: the key of its document's id."""
    return encode_key(row.id["d"])


def _place(key: bytes, row: Version | Taken) -> bytes:
    return past_key(key, row.seq, None if isinstance(row, Version) else row.rev)


def stored_version(row: Version | Taken) -> Row:
    """A version, or the mark of one, as a row of a block of history."""
    return Row(json.decode(past_id(row), name="id of a version"), row.rev, row.seq, encode_past(row))


def past_of(entries: Iterable[Entry]) -> Iterator[tuple[bytes, Version | Taken]]:
    """What entries add to history, each with the key of its document's id, in the order of the log."""
    for entry in entries:
        for batch in entry.batches:
            for change in batch.changes:
                yield (
                    id_key(change.id),
                    Version(
                        change.id,
                        change.seq,
                        entry.number,
                        operation_of(change),
                        entry.misc,
                        batch.actor,
                        batch.meta,
                        snapshot=change.snapshot,
                        document=change.after,
                    ),
                )
        for event in entry.events:
            if isinstance(event, SnapshotTaken):
                yield id_key(event.id), Taken(event.id, event.seq, entry.number, entry.misc, _actor_of_events(entry))


def _actor_of_events(entry: Entry) -> str | None:
    """Who sent the events: batches that came for their events alone have no changes. None if that is not one actor."""
    actors = {batch.actor for batch in entry.batches if not batch.changes}
    return actors.pop() if len(actors) == 1 else None
