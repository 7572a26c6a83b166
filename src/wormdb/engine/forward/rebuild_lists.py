"""Make the lists of indexes again from the documents of a root, in pieces that others can do.

    head = learn_lists(…, index)                                  # once: what the lists need to know
    runs = [extract_run(…, index, head, piece) for piece in …]    # by ranges of ids: a run each
    tasks = plan_joins(…, index, runs)                            # one if there is little of it
    done = [join_lists(…, index, runs, task) for task in tasks]   # by ranges of lists: objects of one run
    built = finish_lists(…, index, head, runs, done)              # the run, and what its lists find
    publish_indexes(…)                                            # see `wormdb.engine.forward.rebuild`

No entry goes from one piece to another: a range of ids has its own run, and a range of lists is read of each of them
and written as it will be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import data_runs, held_of, merge_rows
from wormdb.engine.lists.advance import ListEdit, measure_lists, stored_documents, train_lists
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.merge import RunWriter, StoredSource
from wormdb.engine.lists.shelf import ListShelf
from wormdb.engine.lists.span import ALL_LISTS, ListSpan, cut_lists
from wormdb.engine.state.projection import DEFAULT_SIZES, Net
from wormdb.format.list_run import ListHead, ListPart, ListRun
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.forward.compact import CompactionPiece
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Place
    from wormdb.engine.tree.definition import Index
    from wormdb.format.root import IndexRoot, Root

__all__ = [
    "BuiltLists",
    "JoinedLists",
    "ListJoin",
    "ListSuccessor",
    "extract_run",
    "finish_lists",
    "join_lists",
    "learn_lists",
    "plan_joins",
]

SPAN_BYTES: Final = 64 * MIB
"""Of runs that one piece of work joins: an object of the result, as large as others are. Less is joined by one …"""
PACKED_SPAN_BYTES: Final = 4 * MIB
"""… and of lists that are compressed: they have many times as many entries in a byte. Both take a few seconds."""


@dataclass(frozen=True, slots=True)
class BuiltLists:
    """The lists of one index: a value that can be sent."""

    name: str
    head: ListHead
    spare: tuple[str, ...]
    """Names of objects that are no part of them."""


def learn_lists(place: Place, writer: ObjectWriter, index: Index) -> ListHead:
    """What the lists of an index need to know, of a sample of the documents of a root; without lists yet.

    1 GET for each block and 1 PUT, or no requests if the kind learns nothing. Raises CorruptionError,
    SnapshotTooOldError, UnavailableError.
    """
    folder = ListShelf(place.store, place.paths, place.pool).folder(place.root, index.name)
    documents = stored_documents(place, data_runs(place).shelf)
    return train_lists(folder, kind_for(index), writer, documents, place.root.rows)


def extract_run(
    place: Place, writer: ObjectWriter, index: Index, head: ListHead, piece: CompactionPiece
) -> tuple[ListHead, int]:
    """What the documents of a range have in the lists of an index, and how many rows were looked at.

    1 GET for each block of the piece and for what was learned, 1 PUT for each object. Raises CorruptionError,
    SnapshotTooOldError, UnavailableError.
    """
    shelf = data_runs(place).shelf
    folder = ListShelf(place.store, place.paths, place.pool).folder(place.root, index.name)
    streams = [
        (row for entry in run for row in rows_between(shelf, entry, piece.low, piece.high)) for run in piece.runs
    ]
    count = 0

    def net() -> Iterable[Net]:
        nonlocal count
        for key, row in merge_rows(streams):
            count += 1
            yield Net(key, None, held_of(row))

    # Runs of one range are put aside as they come, and merged once.
    edit = ListEdit(head, folder, kind_for(index), writer, DEFAULT_SIZES.run_smallest)
    edit.apply(net(), place.root.applied)
    return edit.head, count


class ListJoin(msgspec.Struct, frozen=True):
    """What one piece of work joins of the runs of an index: a value that can be sent."""

    span: ListSpan | None = ALL_LISTS
    """The lists; None for none."""
    has_ids: bool = True
    """Whether the documents that lists name by places are joined too."""


class JoinedLists(msgspec.Struct, frozen=True):
    """What one of them wrote: a value that can be sent."""

    parts: tuple[ListPart, ...] = ()
    """In order of list."""
    entries: int = 0
    ids: tuple[ListPart, ...] = ()
    documents: int = 0
    """In `ids`."""


def plan_joins(place: Place, index: Index, parts: Sequence[ListHead]) -> list[ListJoin]:
    """The pieces in which runs are joined that have no document in common: one unless they are large.

    Then 1 GET for each object of them, side by side, for its directory. None if a single run needs no joining. Raises
    CorruptionError, SnapshotTooOldError, UnavailableError.
    """
    kind, runs = kind_for(index), _runs_of(parts)
    if len(runs) < 2:
        return []
    objects = [part for run in runs for part in run.parts]
    size = PACKED_SPAN_BYTES if kind.is_packed else SPAN_BYTES
    if sum(part.length for part in objects) <= size:
        return [ListJoin(has_ids=kind.is_shared)]
    folder = ListShelf(place.store, place.paths, place.pool).folder(place.root, index.name)
    spans = [ListJoin(span, has_ids=False) for span in cut_lists(folder.learn(objects), size)]
    return [ListJoin(None), *spans] if kind.is_shared else spans


def join_lists(
    place: Place, writer: ObjectWriter, index: Index, parts: Sequence[ListHead], task: ListJoin
) -> JoinedLists:
    """One piece of `plan_joins`. Costs as `RunWriter.join_lists` and `RunWriter.join_ids`, and raises as these."""
    folder = ListShelf(place.store, place.paths, place.pool).folder(place.root, index.name)
    kind, runs = kind_for(index), _runs_of(parts)
    run_writer = RunWriter(folder, kind, writer)
    joined = JoinedLists()
    if task.has_ids:
        ids, documents = run_writer.join_ids([StoredSource(folder, run, kind) for run in runs])
        joined = msgspec.structs.replace(joined, ids=ids, documents=documents)
    if task.span is not None:
        made, entries = run_writer.join_lists([StoredSource(folder, run, kind, task.span) for run in runs])
        joined = msgspec.structs.replace(joined, parts=made, entries=entries)
    return joined


def finish_lists(
    place: Place, index: Index, head: ListHead, parts: Sequence[ListHead], joined: Sequence[JoinedLists]
) -> BuiltLists:
    """The lists of an index, of what was joined in the order of `plan_joins`. Costs and raises as `measure_lists`."""
    folder = ListShelf(place.store, place.paths, place.pool).folder(place.root, index.name)
    runs = _runs_of(parts)
    made, spare = tuple(runs), tuple[str, ...]()
    if len(runs) > 1:
        tally = tuple(map(sum, zip(*(run.tally for run in runs if run.tally), strict=True)))
        one = ListRun(
            number=place.root.applied,
            parts=tuple(part for some in joined for part in some.parts),
            ids=tuple(part for some in joined for part in some.ids),
            documents=sum(some.documents for some in joined),
            entries=sum(some.entries for some in joined),
            tally=tally,
        )
        assert one.entries == sum(run.entries for run in runs), "every entry was joined"
        made = (one,)
        spare = tuple(part.name for run in runs for part in (*run.parts, *run.ids))
    following = msgspec.structs.replace(head, runs=made)
    return BuiltLists(index.name, measure_lists(folder, following, kind_for(index), place.root.changes), spare)


def _runs_of(parts: Sequence[ListHead]) -> list[ListRun]:
    """Runs of ranges of ids in order of id, where documents are named by places."""
    runs = [run for part in parts for run in part.runs]
    return sorted(runs, key=lambda run: [one.first for one in run.ids[:1]])


@dataclass(frozen=True, slots=True)
class ListSuccessor:
    """Lists that were made of an older root, brought to a newer one."""

    old: Place
    root: Root
    writer: ObjectWriter

    def index(
        self, standing: IndexRoot, index: Index, built: BuiltLists, changed: Iterable[Net]
    ) -> tuple[IndexRoot, list[str]]:
        """The index of the newer root with the new lists, and the keys of what it no longer names.

        `changed` are the documents that are others there. Costs as `ListEdit.apply`.
        """
        folder = ListShelf(self.old.store, self.old.paths, self.old.pool).folder(self.root, standing.name)
        edit = ListEdit(built.head, folder, kind_for(index), self.writer, DEFAULT_SIZES.run_smallest)
        edit.apply(changed, self.root.applied)
        gone = [*standing.list_names, *edit.retired, *built.spare]
        following = msgspec.structs.replace(
            standing, lists=edit.head, successor=None, entries=max(edit.head.entries, 0), applied=self.root.applied
        )
        return following, [folder.key(name) for name in gone]
