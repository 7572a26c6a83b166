"""Make the lists of indexes again from the documents of a root, in pieces that others can do.

    head = learn_lists(…, index)                                  # once: what the lists need to know
    runs = [extract_run(…, index, head, piece) for piece in …]    # by ranges of ids: a run each
    built = join_runs(…, index, head, runs)                       # one run of them
    publish_indexes(…)                                            # see `wormdb.engine.forward.rebuild`

No entry goes from one piece to another: a range of ids has its own run, and runs of lists are merged as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import data_runs, held_of, merge_rows
from wormdb.engine.lists.advance import ListEdit, measure_lists, stored_documents, train_lists
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.merge import RunWriter, StoredSource
from wormdb.engine.lists.shelf import ListShelf
from wormdb.engine.state.projection import DEFAULT_SIZES, Net
from wormdb.format.list_run import ListHead  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.forward.compact import CompactionPiece
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Place
    from wormdb.engine.tree.definition import Index
    from wormdb.format.list_run import ListRun
    from wormdb.format.root import IndexRoot, Root

__all__ = ["BuiltLists", "ListSuccessor", "extract_run", "join_runs", "learn_lists"]


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


def join_runs(
    place: Place, writer: ObjectWriter, index: Index, head: ListHead, parts: Sequence[ListHead]
) -> BuiltLists:
    """One run of many that have no document in common, and what its lists find.

    Costs as `RunWriter.merge`, or nothing for a single one, and as `measure_lists`.
    """
    folder = ListShelf(place.store, place.paths, place.pool).folder(place.root, index.name)
    kind = kind_for(index)
    runs = [run for part in parts for run in part.runs]
    made: ListRun | None = runs[0] if runs else None
    spare: list[str] = []
    if len(runs) > 1:
        sources = [StoredSource(folder, run, kind) for run in runs]
        made = RunWriter(folder, kind, writer).merge(sources, number=place.root.applied, is_base=True)
        spare = [part.name for run in runs for part in (*run.parts, *run.ids)]
    following = msgspec.structs.replace(head, runs=() if made is None else (made,))
    following = measure_lists(folder, following, kind, place.root.changes)
    return BuiltLists(index.name, following, tuple(spare))


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
