"""Build indexes while writers go on, in steps that any process can resume.

A build goes by id. Each step takes the next documents above the cursor from the root, adds them to the tree and moves
the cursor, by one swap of the root; forwarding meanwhile changes what lies below the cursor. At the end nothing lies
above it. Then a unique index is searched for duplicates, and an entry of the log makes it ready, guarded by a check of
what the log has after the root that was searched; or failed, with the reason.

Lists are built the same way. A step of its own comes before: what the lists need is learned from a sample.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.commit.operations import Guards
from wormdb.engine.index.advance import stored_slices
from wormdb.engine.index.edit import SLICE_DOCUMENTS, TreeEdit, chunks, sliced
from wormdb.engine.index.shelf import IndexShelf, following_statistics, tree_of
from wormdb.engine.index.unique import DuplicateSearch, check_tail, duplicate_problem, keys_of, owners_in
from wormdb.engine.lists.advance import (
    ListEdit,
    is_unmeasured,
    measure_lists,
    stored_documents,
    stored_net,
    train_lists,
)
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.draft import RunDraft
from wormdb.engine.log.root import Place
from wormdb.engine.state.indexes import CURSOR_END
from wormdb.engine.state.projection import DEFAULT_SIZES, Net, Sizes
from wormdb.engine.state.successor import following_root
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.membership import build_filter_of
from wormdb.errors import ConflictError, InvalidRequestError, SnapshotTooOldError
from wormdb.format.event import IndexBuilding, IndexFailed, IndexReady
from wormdb.format.list_run import ListHead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.engine.commit.operations import Guard
    from wormdb.engine.index.edit import ValueColumns
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.indexes import IndexStatus
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.tree import TreeReader
    from wormdb.format.event import Event
    from wormdb.format.root import IndexRoot, Root
    from wormdb.storage.pool import Pool

__all__ = ["Builder"]

log = logging.getLogger(__name__)

STEP_ENTRIES_MAX: Final = 250_000
"""Entries added by one step: what a process loses that ends in the middle of one."""
CONFLICTS_MAX: Final = 64
"""How often a build starts a step again in one run, because another process was faster."""
REASON_CHARS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the indexes of one collection that are not ready yet."""

    register: Register
    writer: ObjectWriter
    pool: Pool
    commit: Callable[[tuple[Event, ...], Guard], object]
    """Commits events while a guard accepts the state that they will follow."""
    view: Callable[[], View]
    """The state now."""
    forward: Callable[[], object] = lambda: None
    """Brings the root to the state now, without building."""
    shelf: IndexShelf | None = None
    """Keeps what of the trees is needed again."""
    data: Shelf | None = None
    """Keeps what of the blocks of documents is."""
    chunk_entries: int = STEP_ENTRIES_MAX
    sizes: Sizes = DEFAULT_SIZES

    def begin(self, view: View) -> None:
        """Say in the log that the indexes which wait at a state are built now. 1 PUT, none if no index waits.

        If another process has said so, or dropped one of them, nothing is written: `run` looks at each. Raises
        UnavailableError, OutcomeUnknownError.
        """
        waiting = [status for status in view.definition.indexes.unbuilt if status.state == "waiting"]
        if not waiting:
            return
        events = tuple(IndexBuilding(name=status.index.name, through=view.number) for status in waiting)
        try:
            self.commit(events, Guards(tuple(map(_StatusGuard, waiting))))
        except ConflictError as error:
            log.info("%s: indexes wait: %s", self.register.collection, error)

    def run(self) -> list[str]:
        """Go on with every index that waits or is being built; the names of those that became ready.

        For each chunk of 250,000 entries 1 GET for each block it reads and for each node it reaches, 1 PUT for each
        of these nodes and 1 for the root; at the end 1 GET for each node, and 1 PUT for the entry. Stops where it is if
        the root does not know of a build yet and `forward` does not change that. Raises UnavailableError,
        OutcomeUnknownError, CorruptionError; another run resumes.
        """
        unbuilt = [status.index.name for status in self.view().definition.indexes.unbuilt]
        ready = [name for name in unbuilt if self._build(name).run()]
        if ready:
            # So that the next look-up finds the tree in the root, and not in an entry after it.
            self.forward()
        return ready

    def _build(self, name: str) -> _Build:
        status = self.view().definition.indexes.get(name)
        return _ListBuild(self, name) if status is not None and status.index.kind else _Build(self, name)


@dataclass(slots=True)
class _Build:
    """One index on its way, in one process."""

    builder: Builder
    name: str
    shelf: IndexShelf = field(init=False)
    data: Shelf = field(init=False)
    search: DuplicateSearch = field(init=False)

    def __post_init__(self) -> None:
        register = self.builder.register
        self.shelf = self.builder.shelf or IndexShelf(register.store, register.paths, self.builder.pool)
        self.data = self.builder.data or Shelf(register.store, self.builder.pool, register.paths.data)
        self.search = DuplicateSearch()

    def run(self) -> bool:
        conflicts = 0
        while conflicts < CONFLICTS_MAX:
            status = self.builder.view().definition.indexes.get(self.name)
            if status is None or status.state not in {"waiting", "building"}:
                return status is not None and status.state == "ready"
            try:
                if status.state == "waiting":
                    self._begin(status)
                elif not self._advance(status):
                    return False
            except ConflictError as error:
                log.info("%s: index %s: %s", self.builder.register.collection, self.name, error)
                conflicts += 1
            except SnapshotTooOldError:
                conflicts += 1  # each step reads the root anew
                if conflicts == CONFLICTS_MAX:
                    raise
        return False

    # --- entries of the log ---

    def _begin(self, status: IndexStatus) -> None:
        through = self.builder.view().number
        self.builder.commit((IndexBuilding(name=self.name, through=through),), _StatusGuard(status))
        self.builder.forward()

    def _fail(self, status: IndexStatus, reason: str) -> None:
        log.warning("%s: index %s failed: %s", self.builder.register.collection, self.name, reason[:200])
        event = IndexFailed(name=self.name, reason=reason[:REASON_CHARS_MAX])
        self.builder.commit((event,), _StatusGuard(status))

    def _become_ready(self, status: IndexStatus, root: Root) -> None:
        guards = Guards((_StatusGuard(status), _DuplicateGuard(status.index, root, self.shelf)))
        try:
            self.builder.commit((IndexReady(name=self.name),), guards)
        except InvalidRequestError as error:
            self._fail(status, "; ".join(problem.reason for problem in error.problems) or str(error))

    # --- steps ---

    def _advance(self, status: IndexStatus) -> bool:
        """One step; False if nothing can be done before the root is brought forward."""
        current, found = self._look(status)
        if found is None:
            self.builder.forward()
            current, found = self._look(status)
        if found is None or current.root is None:
            return False
        if found.reason is not None:
            self._fail(status, found.reason)
        elif found.cursor != CURSOR_END:
            self._extend(status, current, current.root, found)
        else:
            self._finish(status, current, current.root, found)
        return True

    def _look(self, status: IndexStatus) -> tuple[RootState, IndexRoot | None]:
        """The root, and this very build in it if it is there."""
        current = self.builder.register.read()
        found = None if current.root is None else current.root.index(self.name)
        if found is None or (found.state, found.applied) != ("building", status.number):
            return current, None
        return current, found

    def _extend(self, status: IndexStatus, current: RootState, root: Root, found: IndexRoot) -> None:
        """Add the next documents to the tree."""
        try:
            most = self.builder.chunk_entries
            chunk = next(chunks(status.index, self._rest(status, root, found), entries_max=most), None)
        except InvalidRequestError as error:
            self._fail(status, str(error))
            return
        edit = self._edit(root, found)
        if chunk is not None:
            edit.apply(chunk.changes)
        arrays = (False,) * len(status.index.fields) if chunk is None else chunk.arrays
        source = self.builder.register.paths.root
        self._swap(
            current,
            root,
            edit,
            msgspec.structs.replace(
                found,
                node=edit.tree.root,
                height=edit.tree.height,
                entries=edit.tree.entries,
                cursor=CURSOR_END if chunk is None or chunk.is_end else chunk.last,
                statistics=following_statistics(edit, found, arrays, source=source, is_whole=False),
            ),
        )

    def _rest(self, status: IndexStatus, root: Root, found: IndexRoot) -> Iterator[ValueColumns | Sequence[Net]]:
        """The documents that are not in the tree yet."""
        if found.cursor is None:
            return stored_slices(status.index, self._place(root), self.data)
        base = RunBase(self._place(root), self.data)
        net = (Net(key, None, held) for key, held in base.scan(found.cursor + b"\0"))
        return sliced(net, min(self.builder.chunk_entries, SLICE_DOCUMENTS))

    def _finish(self, status: IndexStatus, current: RootState, root: Root, found: IndexRoot) -> None:
        """Everything is in the tree: search it, add what belongs to it, and say so in the log."""
        edit = self._edit(root, found)
        if status.index.unique:
            searched = self.search.run(edit.reader)
            if searched.duplicates:
                self._fail(status, self._report(status, edit.reader, searched.duplicates, root))
                return
            if found.membership is None and edit.tree.root is not None:
                change = build_filter_of(searched.hashes, edit.maker)
                for new in change.written:
                    edit.add(new)
                self.shelf.keep(change.filter)
                found = msgspec.structs.replace(found, membership=change.filter.ref)
                root = self._swap(current, root, edit, found)
        self._become_ready(status, root)

    def _report(self, status: IndexStatus, reader: TreeReader, values: Sequence[bytes], root: Root) -> str:
        """The reason why the index fails: each value with the ids of its documents."""
        owners = owners_in(reader, values)
        firsts = {value: id_key(ids[0]) for value, ids in owners.items()}
        held = RunBase(self._place(root)).get_many(firsts.values())
        problems = [
            duplicate_problem(status.index, keys_of(status.index, held[firsts[value]].document)[value], ids)
            for value, ids in owners.items()
        ]
        return "; ".join(problem.reason for problem in problems)

    def _place(self, root: Root) -> Place:
        register = self.builder.register
        return Place(register.store, self.builder.pool, register.paths, root)

    def _edit(self, root: Root, found: IndexRoot) -> TreeEdit:
        maker = self.shelf.maker(root, self.name, self.builder.writer.new_name)
        return TreeEdit(tree_of(found), self.shelf.nodes(root, self.name), maker, self.builder.writer)

    def _swap(self, current: RootState, root: Root, edit: TreeEdit, found: IndexRoot) -> Root:
        """Name what was written in the root; raises ConflictError if another root came first."""
        edit.write()
        return self._named(current, root, found, [edit.key(name) for name in edit.retired])

    def _named(self, current: RootState, root: Root, found: IndexRoot, retired: Sequence[str]) -> Root:
        indexes = tuple(found if index.name == self.name else index for index in root.indexes)
        changed = msgspec.structs.replace(root, indexes=indexes)
        register = self.builder.register
        following = following_root(current, changed, retired, self.builder.writer, register.paths)
        return register.swap(current, following).root or following


@dataclass(slots=True)
class _ListBuild(_Build):
    """One index of lists on its way, in one process."""

    def _extend(self, status: IndexStatus, current: RootState, root: Root, found: IndexRoot) -> None:
        """Learn what the lists need; then put the next documents into them, as a run."""
        head = found.lists or ListHead()
        place, kind = self._place(root), kind_for(status.index)
        folder = self.shelf.lists.folder(root, self.name)
        writer, smallest = self.builder.writer, self.builder.sizes.run_smallest
        try:
            if not head.is_trained:
                head = train_lists(folder, kind, writer, stored_documents(place, self.data), root.rows)
                self._named(current, root, msgspec.structs.replace(found, lists=head), ())
                return
            edit = ListEdit(head, folder, kind, writer, smallest, is_strict=True)
            low = b"" if found.cursor is None else found.cursor + b"\0"
            net = stored_net(place, self.data, low)
            maker, draft, last = edit.maker(), RunDraft(), CURSOR_END
            most = self.builder.chunk_entries
            while some := list(islice(net, min(most, SLICE_DOCUMENTS))):
                maker.add(draft, some)
                if draft.is_full or draft.documents >= most:
                    last = some[-1].key
                    break
        except InvalidRequestError as error:
            self._fail(status, str(error))
            return
        edit.add(draft, root.applied)
        head = edit.head
        following = msgspec.structs.replace(found, lists=head, entries=max(head.entries, 0), cursor=last)
        self._named(current, root, following, [folder.key(name) for name in edit.retired])

    def _finish(self, status: IndexStatus, current: RootState, root: Root, found: IndexRoot) -> None:
        """Everything is in the lists: make one run of them, measure it, and say so in the log."""
        folder = self.shelf.lists.folder(root, self.name)
        head, kind = found.lists or ListHead(), kind_for(status.index)
        if len(head.runs) > 1 or is_unmeasured(head, kind):
            edit = ListEdit(head, folder, kind, self.builder.writer, self.builder.sizes.run_smallest)
            edit.join(root.applied)
            head = measure_lists(folder, edit.head, kind, root.changes)
            following = msgspec.structs.replace(found, lists=head, entries=max(head.entries, 0))
            self._named(current, root, following, [folder.key(name) for name in edit.retired])
        self.builder.commit((IndexReady(name=self.name),), _StatusGuard(status))


@dataclass(frozen=True, slots=True)
class _StatusGuard:
    """Refuses an entry about an index that is no longer where it was seen."""

    status: IndexStatus

    def check(self, view: View) -> None:
        name = self.status.index.name
        found = view.definition.indexes.get(name)
        if found is None or (found.state, found.number) != (self.status.state, self.status.number):
            raise ConflictError(f"index {name}", reason="another process went on with it meanwhile")


@dataclass(frozen=True, slots=True)
class _DuplicateGuard:
    """Refuses to make an index ready over a value that came twice after the root that was searched."""

    index: Index
    root: Root
    shelf: IndexShelf

    def check(self, view: View) -> None:
        check_tail(self.index, view, self.root, self.shelf)
