"""Indexes of vectors at the state of a view: what a planner knows of them, and what reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wormdb.engine.lists.centroids import count_lists
from wormdb.engine.lists.definition import is_stale, kind_for
from wormdb.engine.lists.nearest import NearestReader
from wormdb.engine.lists.read import can_answer, find_listed, read_lists
from wormdb.engine.lists.vector_kind import VectorKind
from wormdb.query.sources.source import VectorFacts

if TYPE_CHECKING:
    from wormdb.bql.nearest import Distance
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.format.list_run import ListHead
    from wormdb.format.path import Path
    from wormdb.format.root import IndexRoot

__all__ = ["find_vector_facts", "open_nearest", "prepare_nearest"]


def find_vector_facts(view: View) -> tuple[VectorFacts, ...]:
    """The indexes of vectors by name, those that are still to be built too, but not what failed. No requests."""
    found = []
    for status in view.definition.indexes:
        if status.index.kind != VectorKind.name or status.state in {"failed", "dropped"}:
            continue
        kind = kind_for(status.index)
        assert isinstance(kind, VectorKind)
        changes = 0 if view.place is None else view.place.root.changes
        is_ready = can_answer(view, status)
        stored = find_listed(view, status) if is_ready else None
        facts = _facts_of(status.index.name, kind, stored, changes, is_ready=is_ready)
        found.append(replace(facts, is_built=status.state == "ready"))
    return tuple(found)


def _facts_of(name: str, kind: VectorKind, stored: IndexRoot | None, changes: int, *, is_ready: bool) -> VectorFacts:
    head = None if stored is None else stored.lists
    if stored is None or head is None:
        return VectorFacts(name, kind.path, kind.dimensions, kind.distance, is_ready=is_ready)
    return VectorFacts(
        name,
        kind.path,
        kind.dimensions,
        kind.distance,
        is_ready=is_ready,
        entries=head.entries,
        lists=_count_lists(head),
        runs=len(head.runs),
        bytes=head.size,
        calibration=head.calibration,
        is_stale=is_stale(stored, changes),
    )


def _count_lists(head: ListHead) -> int:
    if head.calibration is not None:
        return head.calibration.lists
    return 1 if head.trained is None else count_lists(head.trained.documents)


def open_nearest(view: View, name: str, ledger: Ledger, before: NearestReader | None = None) -> NearestReader:
    """An index of vectors that is among the facts, at the state of a view. Costs as `read_lists`.

    What `before`, of another state of the same index, has made of the tail is taken over.
    """
    status = view.definition.indexes.get(name)
    assert status is not None, "facts name only indexes that can answer"
    reader = read_lists(view, status.index, ledger.trees.lists)
    assert reader is not None, "facts name only indexes that can answer"
    kind = kind_for(status.index)
    assert isinstance(kind, VectorKind)
    # It is kept for as long as the root is known; its view would keep that in memory.
    return NearestReader(replace(reader, view=None), kind, before)  # type: ignore[arg-type] # only a tally asks for the view


def prepare_nearest(view: View, path: Path, distance: Distance | None, ledger: Ledger) -> None:
    """Read what an index of vectors on a path needs before its lists. Costs as `NearestReader.prepare`."""
    for facts in find_vector_facts(view):
        if facts.path == path and facts.is_ready and distance in {None, facts.distance}:
            open_nearest(view, facts.name, ledger).prepare()
            return
