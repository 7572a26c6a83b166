"""Bring the indexes forward: what a step changes in the documents, in the tree of every index that is there.

A ready tree has every document of its root. A tree that is being built has those up to its cursor, and a step
changes it up to there; the builder (`engine.forward.build`) moves the cursor. A tree that is no longer wanted is
retired.

Changes are applied in order of key, however many there are, so that each leaf of a tree is written once: chunks by id
would reach most leaves again and again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Final, Self

import msgspec

from wormdb.engine.blocks.memory import give_back_memory
from wormdb.engine.blocks.runs import RunBase, Runs, held_of, runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.edit import CHUNK_ENTRIES_MAX, TreeEdit, ValueColumns, chunks, sliced
from wormdb.engine.index.shelf import IndexShelf, following_membership, following_statistics, tree_of
from wormdb.engine.state.indexes import goes_on, is_whole
from wormdb.engine.state.projection import Net, ProjectionResult, ProjectionStep
from wormdb.engine.state.upgrade import Upgrades
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.blockread import Block, assemble_block, parts_for, read_columns
from wormdb.format.columns import ELSEWHERE
from wormdb.format.key import encode_keys
from wormdb.format.root import IndexRoot
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.lists.advance import ListProjector
    from wormdb.engine.log.root import Place
    from wormdb.engine.state.indexes import IndexStates, IndexStatus
    from wormdb.engine.tree.definition import Index
    from wormdb.format.blocklist import BlockEntry

    Slice = ValueColumns | Sequence[Net]
    from types import TracebackType

    from wormdb.engine.tree.entries import Change

__all__ = ["ChangeSorter", "attached_slices", "project_indexes", "stored_slices"]

# --- The indexed values of new blocks from their columns, where these tell all: no document is read then.

_LOOKUPS_AT_ONCE: Final = 1_000
_SCALARS: Final = frozenset({"string", "int64", "double", "bool", "date", "binary", "objectid", "decimal"})
"""Types of columns whose values are no arrays."""
_FIRST: Final = 1
"""The number of a document's first change: before it nothing was there."""


def attached_slices(
    index: Index, blocks: Iterable[BlockEntry], shelf: Shelf, base: RunBase, *, high: bytes | None = None
) -> Iterator[ValueColumns | Sequence[Net]]:
    """The documents of attached blocks with keys below `high`, in order of key, as an index needs them.

    `base` has what was there before them. For each block 1 GET for its page map and 1 or a few for the columns, if
    these have every value of the index; else 1 GET for the block. Documents that replace others are looked up.
    Raises CorruptionError, SnapshotTooOldError.
    """
    for entry in sorted(blocks, key=lambda block: block.key_first):
        columns = None if high is not None else _columns(index, entry, shelf, are_first=True)
        yield from _documents(entry, shelf, base, high) if columns is None else _let_go(columns)


def stored_slices(index: Index, place: Place, shelf: Shelf) -> Iterator[ValueColumns | Sequence[Net]]:
    """Every document of a root as if it were new, in order of key, as an index needs them.

    Costs as `attached_slices` if the root has one run of blocks; else as `RunBase.scan`.
    """
    runs = runs_of(place.root.blocks, place.root.block_pages)
    if len(runs) != 1 or Upgrades.of(place.root.versions).steps:
        yield from sliced(Net(key, None, held) for key, held in RunBase(place, shelf).scan())
        return
    for entry in runs[0].blocks(shelf):
        columns = _columns(index, entry, shelf, are_first=False)
        rows = ((key, held_of(row)) for key, row in Runs(shelf, [entry]).scan())
        yield from sliced(Net(key, None, held) for key, held in rows) if columns is None else _let_go(columns)


def _let_go(columns: list[ValueColumns]) -> Iterator[ValueColumns]:
    """Each of them; what was seen is let go, while the caller gathers keys of it."""
    columns.reverse()
    while columns:
        yield columns.pop()


def _columns(index: Index, entry: BlockEntry, shelf: Shelf, *, are_first: bool) -> list[ValueColumns] | None:
    """The values of a block by row group; None if its columns do not tell all.

    With `are_first` also if a document is not the first version of its id.
    """
    paths = index.fields
    whole = {stats.path for stats in entry.columns if not stats.others and stats.type in _SCALARS}
    if entry.deleted or not whole.issuperset(paths):
        return None
    names = list(dict.fromkeys(("_id", *(("_seq",) if are_first else ()), *paths)))
    page_map = shelf.learn([entry])[0][entry.name]
    parts = parts_for(page_map, names)
    bodies = shelf.ranges(entry, [ByteRange(part.offset, part.length) for part in parts])
    block = assemble_block(page_map, zip(parts, bodies, strict=True))
    groups = [_group(block, names, paths, group) for group in range(block.groups)]
    found = [group for group in groups if group is not None]
    return found if len(found) == len(groups) else None


def _group(block: Block, names: Sequence[str], paths: Sequence[str], group: int) -> ValueColumns | None:
    values = read_columns(block, names, groups=[group])
    if not {_FIRST}.issuperset(values.get("_seq", ())) or ELSEWHERE in values["_id"]:
        return None
    identities = values["_id"]
    return ValueColumns(encode_keys(identities), json.encode_all(identities), [values[path] for path in paths])


def _documents(entry: BlockEntry, shelf: Shelf, base: RunBase, high: bytes | None) -> Iterator[Sequence[Net]]:
    found = Runs(shelf, [entry]).scan(high=high)
    while rows := list(islice(found, _LOOKUPS_AT_ONCE)):
        before = base.get_many([key for key, row in rows if row.seq > _FIRST])
        yield [Net(key, before[key].document if key in before else None, held_of(row)) for key, row in rows]


DROPPED_MAX: Final = 32
"""Dropped indexes that a root names at most: where gc never runs, they must not fill it."""


def project_indexes(step: ProjectionStep, shelf: IndexShelf | None = None) -> ProjectionResult:
    """The indexes after a step, and what they no longer name. `shelf` keeps what the next step needs again.

    For each ready index 1 GET and 1 PUT for each node that the changes reach, and 1 PUT for its filter if it is
    unique and has new keys. An index that is ready and has no tree is made from all documents of the root; one that is
    gone costs 1 GET for each node above its leaves. Lists cost as `ListProjector` says. Raises CorruptionError,
    SnapshotTooOldError, UnavailableError.
    """
    place = step.place
    blocks = Shelf(place.store, place.pool, place.paths.data)
    projector = _Projector(step, shelf or IndexShelf(place.store, place.paths, place.pool), blocks)
    states = step.view.definition.indexes
    following = [projector.following(status, step.root.index(status.index.name)) for status in _shown(states)]
    kept = {index.name for index in following}
    for old in step.root.indexes:
        if old.name not in kept:
            projector.retire(old)
    return ProjectionResult({"indexes": tuple(following)}, tuple(projector.retired))


def _shown(states: IndexStates) -> list[IndexStatus]:
    """Those that the root names: of dropped ones the newest, until garbage collection has removed their nodes."""
    dropped = sorted((each for each in states if each.state == "dropped"), key=lambda each: each.number)
    gone = {each.index.name for each in dropped[:-DROPPED_MAX]}
    return [each for each in states if each.index.name not in gone]


@dataclass(slots=True)
class _Projector:
    step: ProjectionStep
    shelf: IndexShelf
    blocks: Shelf
    retired: list[str] = field(default_factory=list)

    def following(self, status: IndexStatus, old: IndexRoot | None) -> IndexRoot:
        """An index after the step."""
        if status.index.kind:
            if old is not None and old.lists is None:
                self.retire(old)
            return self._lists().following(status, old)
        if old is not None and old.lists is not None:
            self.retire(old)
            old = None
        same = old if old is not None and old.definition == status.definition else None
        if status.state == "ready":
            if same is not None and is_whole(same):
                return self._edited(status, same, [self._net(status.index)])
            self.retire(old)
            # Nothing was there to index, or the projection is made anew from what the root has.
            return self._edited(status, _bare(status), [self._stored(status.index), self._net(status.index)])
        if status.state == "building" and same is not None and goes_on(same, status):
            return self._edited_to_cursor(status, same)
        self.retire(old)
        return _bare(status)

    def retire(self, old: IndexRoot | None) -> None:
        """List every object of an index. What lies below a damaged node stays behind, and no root names it."""
        if old is None:
            return
        if old.lists is not None:
            self._lists().retire(old)
            return
        nodes = self.shelf.nodes(self.step.root, old.name)
        try:
            for child, _ in self.shelf.reader(self.step.root, old).refs():
                self.retired.append(nodes.key(child.name))
            membership = self.shelf.filter(self.step.root, old)
        except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError):
            return
        self.retired += [nodes.key(ref.name) for ref in (() if membership is None else membership.refs)]

    def _lists(self) -> ListProjector:
        from wormdb.engine.lists.advance import ListProjector  # most collections have none

        return ListProjector(self.step, self.shelf.lists, self.blocks, self.retired)

    def _edited_to_cursor(self, status: IndexStatus, old: IndexRoot) -> IndexRoot:
        if old.reason is not None or old.cursor is None:
            return old
        try:
            return self._edited(status, old, [self._net(status.index, old.cursor)])
        except InvalidRequestError as error:
            # Only the log can fail an index: the builder finds the reason here, and says so there.
            self.retire(old)
            return msgspec.structs.replace(_bare(status), reason=str(error))

    def _edited(self, status: IndexStatus, old: IndexRoot, sources: Sequence[Iterable[Slice]]) -> IndexRoot:
        """An index with the tree after some changes, one after the other. It is written."""
        root, name, ready = self.step.root, old.name, status.state == "ready"
        maker = self.shelf.maker(root, name, self.step.writer.new_name)
        edit = TreeEdit(tree_of(old), self.shelf.nodes(root, name), maker, self.step.writer)
        hashes, arrays = array("Q"), (False,) * len(status.index.fields)
        with ChangeSorter() as sorter:
            for chunk in chain.from_iterable(chunks(status.index, slices) for slices in sources):
                sorter.add(chunk.changes)
                hashes.extend(chunk.hashes)
                arrays = tuple(one or other for one, other in zip(arrays, chunk.arrays, strict=True))
                give_back_memory()
            edit.apply_all(sorter.chunks(CHUNK_ENTRIES_MAX))
        give_back_memory()
        membership = old.membership
        wanted = ready and membership is None and edit.tree.root is not None
        if status.index.unique and (wanted or (membership is not None and hashes)):
            known = self.shelf.filter(root, old)
            was_empty = old.node is None
            membership = following_membership(edit, known, hashes, self.shelf, was_empty=was_empty)
        source = self.step.place.paths.root
        statistics = following_statistics(
            edit, old, arrays, source=source, is_whole=ready, is_erased=bool(self.step.erased)
        )
        edit.write()
        self.retired += [edit.key(name) for name in edit.retired]
        return msgspec.structs.replace(
            old,
            state=status.state,
            applied=self.step.view.number if ready else status.number,
            node=edit.tree.root,
            height=edit.tree.height,
            entries=edit.tree.entries,
            membership=membership,
            statistics=statistics,
            cursor=None if ready else old.cursor,
        )

    # --- what changed ---

    def _stored(self, index: Index) -> Iterator[Slice]:
        """Every document of the root, as if it were new."""
        return stored_slices(index, self.step.place, self.blocks) if self.step.root.rows else iter(())

    def _net(self, index: Index, through: bytes | None = None) -> Iterator[Slice]:
        """What the step changes in documents with a key up to `through`."""
        if self.step.attached is not None:
            high = None if through is None else through + b"\0"
            base = RunBase(self.step.place, self.blocks)
            return attached_slices(index, self.step.blocks, self.blocks, base, high=high)
        return sliced(net for net in self.step.net if through is None or net.key <= through)


def _bare(status: IndexStatus) -> IndexRoot:
    """An index without a tree."""
    return IndexRoot(
        name=status.index.name,
        definition=status.definition,
        state=status.state,
        applied=status.number,
        reason=status.reason,
    )


# --- changes in order of key, in memory one chunk of them ---


_PART: Final = 1_000
"""Changes that are packed together."""
_KEY: Final = itemgetter(0)
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]])


class ChangeSorter:
    """Takes chunks of changes, each in order of key, and gives all of them in order. Not thread-safe.

    Of changes with one key the last one that was added counts. One chunk stays in memory; if there are more, all of
    them are in a temporary file, which is removed in the end.
    """

    def __init__(self, part: int = _PART) -> None:
        """Nothing is there yet; `part` changes of the file are read at once."""
        self._part = part
        self._only: list[Change] | None = None
        self._file: IO[bytes] | None = None
        self._runs: list[list[tuple[int, int]]] = []
        """Of each chunk, where its parts are in the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, changes: list[Change]) -> None:
        """Take a chunk in. No requests."""
        if self._only is None and not self._runs:
            self._only = changes
            return
        if self._only is not None:
            self._spill(self._only)
            self._only = None
        self._spill(changes)

    def chunks(self, size: int) -> Iterator[list[Change]]:
        """All changes in order of key, at most `size` at once; a single chunk as it was added. No requests."""
        if self._only is not None:
            yield self._only
            return
        found: list[Change] = []
        for some in self._merged():
            found += some
            while len(found) >= size:
                yield found[:size]
                del found[:size]
        if found:
            yield found

    def _spill(self, changes: list[Change]) -> None:
        if self._file is None:
            from tempfile import TemporaryFile  # only large steps need it

            self._file = TemporaryFile(prefix="worm-index-")  # noqa: SIM115 - __exit__ closes it
        self._file.seek(0, 2)
        parts = []
        for start in range(0, len(changes), self._part):
            body = msgspec.msgpack.encode(changes[start : start + self._part])
            parts.append((self._file.tell(), len(body)))
            self._file.write(body)
        self._runs.append(parts)

    def _merged(self) -> Iterator[list[Change]]:
        """The changes of all chunks in order of key, some at a time, of each key the last.

        Sorted are those up to the least of the keys at which a chunk must be read on, so that no change is compared
        one by one.
        """
        rests = [iter(parts) for parts in self._runs]
        held: list[list[Change]] = [[] for _ in rests]
        while True:
            for place, rest in enumerate(rests):
                if not held[place]:
                    held[place] = self._read(next(rest, None))
            ends = [some[-1][0] for some in held if some]
            if not ends:
                return
            least, due = min(ends), []
            for place, some in enumerate(held):
                stop = bisect_right(some, least, key=_KEY)
                due += some[:stop]
                held[place] = some[stop:]
            due.sort(key=_KEY)  # stable: those of one key stay in the order in which they were added
            last = dict(due)
            yield due if len(last) == len(due) else list(last.items())

    def _read(self, part: tuple[int, int] | None) -> list[Change]:
        if part is None:
            return []
        assert self._file is not None, "runs are in the file"
        self._file.seek(part[0])
        return _DECODER.decode(self._file.read(part[1]))
