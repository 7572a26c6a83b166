"""Compact: many runs and small blocks become few large blocks, of documents and of history. No answer changes.

The plan is a list of ranges of keys, each with its blocks (`wormdb.engine.forward.compact`); a piece of work reads them
and writes new ones; one swap of the root makes all of them visible. Writers go on meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.forward.compact import (
    Aim,
    BlockShape,
    Compaction,
    CompactionPiece,
    ListName,
    PieceResult,
    folder_of,
    plan_compaction,
    publish_compaction,
    runs_in,
    write_piece,
)
from wormdb.errors import ConflictError, InvalidRequestError, SnapshotTooOldError
from wormdb.format.blocklist import BlockEntry
from wormdb.jobs.work import Item, Output, ProgressListener, Runner
from wormdb.maintenance.gc.jobs import read_after
from wormdb.settings import BLOCK_BYTES_TARGET
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.log.root import RootState
    from wormdb.jobs.place import Where
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["CompactOptions", "CompactPlan", "CompactResult", "ListPlan", "compact", "plan_compact"]

log = logging.getLogger(__name__)

ROUNDS_MAX: Final = 3
"""How often what others replaced meanwhile is planned again."""


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """What is compacted, and to what."""

    block_bytes: int = BLOCK_BYTES_TARGET
    """Bytes of documents in a block, before compression."""
    history: bool = True
    """Whether history is compacted too."""
    everything: bool = False
    """Whether also blocks are written again that are as they should be: their columns become those of the schema."""


@dataclass(frozen=True, slots=True)
class ListPlan:
    """What is done with one list of blocks: of documents, or of history."""

    name: ListName
    runs: int
    """Runs that a read looks at now."""
    blocks: int
    """Blocks that are written again …"""
    size: int
    """… their stored bytes …"""
    rows: int
    """… and rows."""
    kept: int
    """Blocks that stay as they are."""
    makes: int
    """Blocks that come of it, about."""
    compaction: Compaction | None = field(default=None, repr=False, compare=False)

    @property
    def pieces(self) -> tuple[CompactionPiece, ...]:
        """The pieces of work."""
        return () if self.compaction is None else self.compaction.selection.pieces

    @property
    def gets(self) -> int:
        """Requests that read, about: blocks that lie in several pieces are read in parts."""
        return sum(len(run) for piece in self.pieces for run in piece.runs)

    @property
    def puts(self) -> int:
        """Requests that write, about: a block and its sidecar, and the root."""
        return 2 * self.makes + (self.compaction is not None)


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """What a compaction would do, and what it costs."""

    collection: str
    number: int
    """The log number that the root has applied."""
    lists: tuple[ListPlan, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return all(each.compaction is None for each in self.lists)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction did."""

    collection: str
    blocks_before: int
    """Of documents and history together."""
    blocks_after: int
    size_before: int
    """Stored bytes of these blocks."""
    size_after: int
    runs_before: int
    """Runs that a read of documents looks at."""
    runs_after: int
    rows: int
    """Rows that were written again."""
    is_done: bool
    """Whether nothing is left to compact; otherwise others replaced blocks meanwhile, and it can be run again."""


def plan_compact(where: Where, options: CompactOptions | None = None) -> CompactPlan:
    """What a compaction would do. 1 GET for the root, 1 for each page of a long list, 1 if the schema has to be read.

    Raises InvalidRequestError for a collection that was never brought forward.
    """
    chosen = options or CompactOptions()
    site = site_of(where)
    state = _read(site, where)
    names: tuple[ListName, ...] = ("blocks", "history") if chosen.history else ("blocks",)
    return CompactPlan(where.name, state.applied, tuple(_list_plan(site, state, name, chosen) for name in names))


def compact(
    where: Where,
    options: CompactOptions,
    runner: Runner,
    told: ProgressListener | None = None,
    *,
    plan: CompactPlan | None = None,
    job: str = "compact",
) -> CompactResult:
    """Compact a collection, as planned or as it is now. Costs what the plan says, and 1 GET for each later log entry.

    What others replaced meanwhile is planned again, three times at most. A crash leaves the old root or the new one,
    and perhaps objects that nothing names. Raises InvalidRequestError as `plan_compact`, what the first piece that
    failed raised, UnavailableError, OutcomeUnknownError.
    """
    site = site_of(where)
    before = _read(site, where)
    read_after(site, LogNumber(before.applied))  # what a newer version wrote there stops this one
    site.runtime.before_first_write()
    chosen = plan or plan_compact(where, options)
    rows, is_done = 0, False
    for _ in range(ROUNDS_MAX):
        outcomes = [
            _compact_list(site, _Rewrite(where, each.compaction.shape), each.compaction, (runner, told, job))
            for each in chosen.lists
            if each.compaction is not None
        ]
        rows += sum(written for written, _ in outcomes)
        is_done = all(is_whole for _, is_whole in outcomes)
        if is_done:
            break
        chosen = plan_compact(where, options)
    where.access().ledger.forget()
    return _compacted(where.name, site, before, _read(site, where), rows=rows, is_done=is_done)


def site_of(where: Where) -> StoredCollection:
    """The collection as jobs reach it: past every cache. Costs as `Where.handle`."""
    prefix = where.handle().prefix
    return where.open()._site(prefix)  # noqa: SLF001 - this package is a part of the database


def _read(site: StoredCollection, where: Where) -> RootState:
    state = site.register.read()
    if state.root is None:
        raise InvalidRequestError(
            f"collection {where.name!r}", reason="it has no blocks yet", fix="bring its log forward first: worm forward"
        )
    return state


def _list_plan(site: StoredCollection, state: RootState, name: ListName, options: CompactOptions) -> ListPlan:
    assert state.root is not None
    shelf = Shelf(site.store, site.pool, folder_of(site.paths, name))
    found = plan_compaction(state, shelf, name, Aim(options.block_bytes, everything=options.everything))
    runs = runs_in(state.root, name)
    total = sum(sum(1 for _ in run.blocks(shelf)) for run in runs)
    pieces = () if found is None else found.selection.pieces
    consumed = {entry.name: entry for piece in pieces for run in piece.runs for entry in run}
    return ListPlan(
        name=name,
        runs=len(runs),
        blocks=len(consumed),
        size=sum(entry.length for entry in consumed.values()),
        rows=sum(entry.rows for entry in consumed.values()),
        kept=total - len(consumed),
        makes=sum(max(1, -(-piece.weight // options.block_bytes)) for piece in pieces),
        compaction=found,
    )


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Writes the blocks of one piece; a value that can be sent."""

    where: Where
    shape: BlockShape

    def __call__(self, body: bytes, /) -> Output:
        """The entries of new blocks; nothing if its blocks are gone, because others replaced them long ago."""
        piece = msgspec.msgpack.decode(body, type=CompactionPiece)
        site = site_of(self.where)
        site.runtime.before_first_write()
        shelf = Shelf(site.store, site.pool, folder_of(site.paths, self.shape.where))
        try:
            written = write_piece(shelf, site.writer, self.shape, piece)
        except SnapshotTooOldError as error:
            log.info("%s: %s", self.where.name, error)
            return Output(b"")
        return Output(msgspec.msgpack.encode(written.entries), sum(entry.rows for entry in written.entries))


def _compact_list(
    site: StoredCollection, work: _Rewrite, plan: Compaction, by: tuple[Runner, ProgressListener | None, str]
) -> tuple[int, bool]:
    """Compact one list: how many rows were written, and whether all of it counts now."""
    runner, told, job = by
    pieces = plan.selection.pieces
    items = [Item(piece.label, msgspec.msgpack.encode(piece), piece.size, piece.rows) for piece in pieces]
    bodies = runner.run(f"{job} {plan.shape.where}", work, items, told)
    written = [
        PieceResult(piece, msgspec.msgpack.decode(body, type=tuple[BlockEntry, ...]))
        for piece, body in zip(pieces, bodies, strict=True)
        if body
    ]
    if len(written) < len(pieces):
        return 0, False  # a block may reach into the range of a piece that is missing
    shelf = Shelf(site.store, site.pool, folder_of(site.paths, plan.shape.where))
    try:
        _, taken = publish_compaction(site.register, shelf, site.writer, plan, written)
    except ConflictError as error:
        log.info("%s: %s", work.where.name, error)
        return 0, False
    return sum(entry.rows for one in written for entry in one.entries), taken == len(pieces)


def _compacted(
    name: str, site: StoredCollection, before: RootState, after: RootState, *, rows: int, is_done: bool
) -> CompactResult:
    (runs_before, blocks_before, size_before), (runs_after, blocks_after, size_after) = (
        _amount(site, state) for state in (before, after)
    )
    return CompactResult(
        name, blocks_before, blocks_after, size_before, size_after, runs_before, runs_after, rows, is_done
    )


def _amount(site: StoredCollection, state: RootState) -> tuple[int, int, int]:
    """Runs of documents, and blocks and bytes of both lists."""
    assert state.root is not None
    names: Sequence[ListName] = ("blocks", "history")
    entries = [
        entry
        for name in names
        for run in runs_in(state.root, name)
        for entry in run.blocks(Shelf(site.store, site.pool, folder_of(site.paths, name)))
    ]
    return len(runs_in(state.root, "blocks")), len(entries), sum(entry.length for entry in entries)
