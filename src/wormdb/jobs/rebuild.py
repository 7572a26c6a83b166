"""Rebuild: blocks with the columns of the schema, and the trees of all indexes, made again from the documents.

The log is brought forward first. Then every block of documents is written again, and the entries of each index are
taken from the new ones by ranges of ids, sorted, and joined to one tree, or to lists by ranges of these. Blocks and
indexes become visible by one swap of the root each. The result is what forwarding would have made, and writers go on
meanwhile. A job that was killed leaves everything as it was; the next one begins again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.forward.compact import Aim, CompactionPiece, runs_in, select
from wormdb.engine.forward.rebuild import BuiltIndex, PartTrees, extract_part, join_parts, publish_indexes
from wormdb.engine.forward.rebuild_lists import (
    BuiltLists,
    JoinedLists,
    ListJoin,
    extract_run,
    finish_lists,
    join_lists,
    learn_lists,
    plan_joins,
)
from wormdb.engine.tree.definition import Index, decode_index
from wormdb.errors import SnapshotTooOldError, UnavailableError
from wormdb.format.list_run import ListHead
from wormdb.jobs.compact import CompactOptions, CompactResult, compact, site_of
from wormdb.jobs.work import Item, Output, ProgressListener, Runner
from wormdb.settings import BLOCK_BYTES_TARGET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.engine.log.root import Place, RootState
    from wormdb.format.root import Root
    from wormdb.jobs.place import Where
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["RebuildOptions", "RebuildResult", "RebuiltIndex", "rebuild", "rebuild_indexes"]

log = logging.getLogger(__name__)

ROUNDS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """What is made again."""

    block_bytes: int = BLOCK_BYTES_TARGET
    """Bytes of documents in a block, before compression."""
    files: bool = True
    """Whether readable files are compared and mended too, if the collection keeps them."""


@dataclass(frozen=True, slots=True)
class RebuiltIndex:
    """One index that was made again."""

    name: str
    entries: int


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """What was made again."""

    collection: str
    documents: int
    blocks: int
    """Of documents, as they are now."""
    size: int
    """Stored bytes of them."""
    indexes: tuple[RebuiltIndex, ...]
    files: int
    """Readable files that were written or removed, because they were not as they should be."""


def rebuild(
    where: Where, options: RebuildOptions, runner: Runner, told: ProgressListener | None = None
) -> RebuildResult:
    """Make blocks, columns and indexes again. May be repeated at any time, beside other writers.

    Costs as `Collection.forward`; 1 GET for each block and 2 PUTs for each new one; 1 GET for each new block and, for
    each index, 2 PUTs and 1 GET for each node; for one that is lists what `wormdb.engine.forward.rebuild_lists` costs;
    with readable files what `Database.files.sync` costs. Indexes that are not ready are left to
    `Collection.build_index`. Raises what the first piece that failed raised, UnavailableError, OutcomeUnknownError.
    """
    handle = where.handle()
    handle.forward()
    if site_of(where).register.read().root is None:
        return RebuildResult(where.name, 0, 0, 0, (), 0)
    rewritten = CompactOptions(options.block_bytes, history=False, everything=True)
    _check_done(where, compact(where, rewritten, runner, told, job="rebuild"))
    indexes = rebuild_indexes(where, options, runner, told)
    files = 0
    if options.files and where.access().ledger.known().definition.keeps_files:
        synced = where.open().files.sync(handle.prefix)
        files = len(synced.mended)
    blocks = handle.parquet_files()
    found = tuple(sorted(indexes, key=lambda one: one.name))
    return RebuildResult(where.name, handle.count(), len(blocks.files), blocks.size_bytes, found, files)


def _check_done(where: Where, done: CompactResult) -> None:
    if not done.is_done:
        raise UnavailableError(
            f"rebuild of {where.name}",
            reason="others wrote its blocks again all the time",
            fix="run it again; everything is as before",
        )


def rebuild_indexes(
    where: Where, options: RebuildOptions, runner: Runner, told: ProgressListener | None = None
) -> tuple[RebuiltIndex, ...]:
    """Make the trees and lists of all ready indexes again; costs and raises as `rebuild` without blocks."""
    for _ in range(ROUNDS_MAX):
        site = site_of(where)
        state = site.register.read()
        if state.root is None or not any(one.state == "ready" for one in state.root.indexes):
            return ()
        try:
            return _round(where, site, state, (options, runner, told))
        except SnapshotTooOldError as error:
            # While it ran, blocks of the root were replaced, and removed an hour later.
            log.info("%s: %s", where.name, error)
    raise UnavailableError(
        f"indexes of {where.name}", reason="blocks were replaced faster than they were read", fix="run it again"
    )


def _round(
    where: Where, site: StoredCollection, state: RootState, by: tuple[RebuildOptions, Runner, ProgressListener | None]
) -> tuple[RebuiltIndex, ...]:
    options, runner, told = by
    assert state.root is not None
    place = site.place(state.root)
    items = [
        Item(piece.label, msgspec.msgpack.encode(piece), piece.size, piece.rows)
        for piece in _pieces(place, options.block_bytes)
    ]
    plan = _Plan.of(where, state.root)
    lists = {name: index for name, index in plan.indexes().items() if index.kind}
    heads = {name: learn_lists(place, site.writer, index) for name, index in lists.items()}
    plan = replace(plan, heads=tuple((name, msgspec.msgpack.encode(head)) for name, head in heads.items()))
    found = runner.run("rebuild indexes", _Extract(plan), items, told)
    taken = [msgspec.msgpack.decode(body, type=_Taken) for body in found]
    runs = {name: [one.lists[name] for one in taken] for name in lists}
    trees, joined = _join(place, plan, taken, runs, (runner, told))
    measured = [_measuring(name, runs[name], joined[name]) for name in lists]
    finished = runner.run("measure indexes", _Finish(plan), measured, told) if measured else []
    built = [msgspec.msgpack.decode(body, type=BuiltLists) for body in finished]
    publish_indexes(site.register, site.writer, (place, state), trees, built)
    where.access().ledger.forget()
    made = [RebuiltIndex(one.name, one.tree.entries) for one in trees]
    return (*made, *(RebuiltIndex(one.name, one.head.entries) for one in built))


def _join(
    place: Place,
    plan: _Plan,
    taken: Sequence[_Taken],
    runs: Mapping[str, Sequence[ListHead]],
    by: tuple[Runner, ProgressListener | None],
) -> tuple[list[BuiltIndex], dict[str, list[JoinedLists]]]:
    """One tree of the parts of each index, and the objects of one run of the runs of each that is lists."""
    runner, told = by
    parts = [part for one in taken for part in one.trees]
    items = [_joining(name, parts) for name, index in plan.indexes().items() if not index.kind]
    names: list[str | None] = [None] * len(items)
    for name, own in runs.items():
        tasks = plan_joins(place, plan.indexes()[name], own)
        items += [_joining_lists(name, own, task, len(tasks)) for task in tasks]
        names += [name] * len(tasks)
    trees: list[BuiltIndex] = []
    joined: dict[str, list[JoinedLists]] = {name: [] for name in runs}
    bodies = runner.run("join indexes", _Join(plan), items, told) if items else []
    for of, body in zip(names, bodies, strict=True):
        if of is None:
            trees.append(msgspec.msgpack.decode(body, type=BuiltIndex))
        else:
            joined[of].append(msgspec.msgpack.decode(body, type=JoinedLists))
    return trees, joined


class _Taken(msgspec.Struct, frozen=True):
    """What was taken from the documents of one range."""

    trees: list[PartTrees]
    lists: dict[str, ListHead]


class _TreeParts(msgspec.Struct, frozen=True, tag="tree"):
    """The parts of one index that are joined to a tree."""

    name: str
    parts: list[PartTrees]


class _ListRuns(msgspec.Struct, frozen=True, tag="lists"):
    """The runs of one index of which some lists are joined."""

    name: str
    runs: list[ListHead]
    task: ListJoin


class _ListParts(msgspec.Struct, frozen=True):
    """All that was joined of one index."""

    name: str
    runs: list[ListHead]
    joined: list[JoinedLists]


def _pieces(place: Place, block_bytes: int) -> tuple[CompactionPiece, ...]:
    shelf = Shelf(place.store, place.pool, place.paths.data)
    runs = [tuple(run.blocks(shelf)) for run in runs_in(place.root, "blocks")]
    return select(runs, Aim(block_bytes, everything=True)).pieces


def _joining(name: str, parts: Sequence[PartTrees]) -> Item:
    own = [part for part in parts if part.name == name]
    entries = sum(tree.entries for part in own for tree in part.trees)
    return Item(f"index {name}", msgspec.msgpack.encode(_TreeParts(name, own)), rows=entries)


def _joining_lists(name: str, runs: Sequence[ListHead], task: ListJoin, tasks: int) -> Item:
    body = msgspec.msgpack.encode(_ListRuns(name, list(runs), task))
    label = f"index {name}" if task.span is None or tasks == 1 else f"index {name} from list {task.span.low.hex()} on"
    size, rows = (sum(getattr(run, what) for run in runs) // tasks for what in ("size", "entries"))
    return Item(label, body, size, rows)


def _measuring(name: str, runs: Sequence[ListHead], joined: Sequence[JoinedLists]) -> Item:
    body = msgspec.msgpack.encode(_ListParts(name, list(runs), list(joined)))
    return Item(f"index {name}", body, rows=sum(run.entries for run in runs))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What every piece must know: a value that can be sent."""

    where: Where
    collection: str
    """The incarnation."""
    definitions: tuple[tuple[str, bytes], ...]
    """The definitions of the indexes, by name."""
    heads: tuple[tuple[str, bytes], ...] = ()
    """What was learned for those that are lists, by name."""

    @classmethod
    def of(cls, where: Where, root: Root) -> _Plan:
        return cls(where, root.collection, tuple((o.name, o.definition) for o in root.indexes if o.state == "ready"))

    def indexes(self) -> dict[str, Index]:
        return {name: decode_index(name, body, source="the root") for name, body in self.definitions}

    def opened(self) -> tuple[StoredCollection, Place]:
        """The collection and its root. 1 GET."""
        site = site_of(self.where)
        root = site.register.read().root
        if root is None or root.collection != self.collection:
            raise UnavailableError(f"collection {self.where.name}", reason="it was made anew", fix="run it again")
        site.runtime.before_first_write()
        return site, site.place(root)


@dataclass(frozen=True, slots=True)
class _Extract:
    """Takes the entries of all indexes from some blocks; a value that can be sent."""

    plan: _Plan

    def __call__(self, body: bytes, /) -> Output:
        """What the documents of one range have in each index. Costs as `extract_part`, and 1 GET."""
        site, place = self.plan.opened()
        piece = msgspec.msgpack.decode(body, type=CompactionPiece)
        trees = [index for index in self.plan.indexes().values() if not index.kind]
        parts, rows = extract_part(place, site.writer, trees, piece) if trees else ([], 0)
        lists: dict[str, ListHead] = {}
        for name, head in self.plan.heads:
            known = msgspec.msgpack.decode(head, type=ListHead)
            lists[name], rows = extract_run(place, site.writer, self.plan.indexes()[name], known, piece)
        return Output(msgspec.msgpack.encode(_Taken(parts, lists)), rows)


@dataclass(frozen=True, slots=True)
class _Join:
    """Joins the parts of one index, or some of them; a value that can be sent."""

    plan: _Plan

    def __call__(self, body: bytes, /) -> Output:
        """The tree, or some lists, of one index. Costs as `join_parts` or `join_lists`, and 1 GET."""
        site, place = self.plan.opened()
        asked = msgspec.msgpack.decode(body, type=_TreeParts | _ListRuns)
        index = self.plan.indexes()[asked.name]
        if isinstance(asked, _TreeParts):
            built = join_parts(place, site.writer, index, asked.parts)
            return Output(msgspec.msgpack.encode(built), built.tree.entries)
        joined = join_lists(place, site.writer, index, asked.runs, asked.task)
        return Output(msgspec.msgpack.encode(joined), joined.entries)


@dataclass(frozen=True, slots=True)
class _Finish:
    """Makes the lists of one index of what was joined, and measures what they find; a value that can be sent."""

    plan: _Plan

    def __call__(self, body: bytes, /) -> Output:
        """The lists of one index. Costs as `finish_lists`, and 1 GET."""
        _, place = self.plan.opened()
        asked = msgspec.msgpack.decode(body, type=_ListParts)
        head = msgspec.msgpack.decode(dict(self.plan.heads)[asked.name], type=ListHead)
        built = finish_lists(place, self.plan.indexes()[asked.name], head, asked.runs, asked.joined)
        return Output(msgspec.msgpack.encode(built), built.head.entries)
