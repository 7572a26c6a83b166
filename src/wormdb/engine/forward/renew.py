"""Keep lists as good as when they were learned: measure what they find, and make them anew when they had better be.

Lists that are made anew stand in the root beside those that answer, as its `successor`. They grow by steps, each a swap
of the root: first what they learn, then the next documents by id; forwarding meanwhile changes what lies below their
cursor. At the end one swap puts them in the place of the others. Any process goes on where another stopped, and two of
them at once do no harm: one of the two swaps is lost, and what it wrote is garbage.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.edit import SLICE_DOCUMENTS
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.lists.advance import ListEdit, measure_lists, stored_documents, stored_net, train_lists
from wormdb.engine.lists.definition import is_stale, kind_for, why_join, why_renew
from wormdb.engine.lists.draft import RunDraft
from wormdb.engine.log.root import Place
from wormdb.engine.state.indexes import CURSOR_END
from wormdb.engine.state.successor import following_root
from wormdb.engine.tree.definition import decode_index
from wormdb.errors import ConflictError, CorruptionError, SnapshotTooOldError
from wormdb.format.list_run import Calibration, ListGeneration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.forward.build import Builder
    from wormdb.engine.lists.shelf import ListFolder
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.projection import Sizes
    from wormdb.engine.tree.definition import Index
    from wormdb.format.list_run import ListHead
    from wormdb.format.root import IndexRoot, Root
    from wormdb.storage.pool import Pool

__all__ = ["ListRenewal", "wants_care"]

T = TypeVar("T")

log = logging.getLogger(__name__)

CONFLICTS_MAX: Final = 64
"""How often a step is started again in one call, because another process was faster."""


def wants_care(root: Root, source: str) -> bool:
    """Whether `ListRenewal.tend` has something to do for a root, which is stored as `source`. No requests."""
    return any(
        is_stale(index, root.changes) or why_join(index) is not None or _wants(index, source, root)
        for index in root.indexes
        if _is_ready(index)
    )


def _wants(found: IndexRoot, source: str, root: Root) -> bool:
    index = decode_index(found.name, found.definition, source=source)
    return found.successor is not None or why_renew(found, index, root.changes) is not None


@dataclass(frozen=True, slots=True)
class ListRenewal:
    """Looks after the ready list indexes of one collection."""

    register: Register
    writer: ObjectWriter
    pool: Pool
    shelf: IndexShelf
    data: Shelf
    sizes: Sizes
    step_documents: int
    """Documents that one step puts into lists at most: what a process loses that ends in the middle of one."""

    @classmethod
    def of(cls, builder: Builder) -> ListRenewal:
        """With the same means as a builder. No requests."""
        register, pool = builder.register, builder.pool
        shelf = builder.shelf or IndexShelf(register.store, register.paths, pool)
        data = builder.data or Shelf(register.store, pool, register.paths.data)
        return cls(register, builder.writer, pool, shelf, data, builder.sizes, builder.chunk_entries)

    def tend(self) -> list[str]:
        """Measure indexes that changed much since, and make those anew that had better be; the names of the latter.

        1 GET if there is nothing to do. Costs and raises as `measure` and `renew`, for each index that needs it.
        """
        root = self.register.read().root
        names = [] if root is None else [index.name for index in root.indexes if _is_ready(index)]
        return [name for name in names if self._tend(name)]

    def _tend(self, name: str) -> bool:
        root, found = self._look(name)[1:]
        if root is None or found is None:
            return False
        source = self.register.paths.root
        if is_stale(found, root.changes) and not _wants(found, source, root):
            self.measure(name)
            root, found = self._look(name)[1:]
        if root is None or found is None:
            return False
        if _wants(found, source, root):
            return self.renew(name)
        if why_join(found) is not None:
            self._repeat(lambda: self._join(name))
        return False

    def measure(self, name: str) -> bool:
        """Measure what the lists of a ready index find, and keep that in the root; False if there is none.

        2 GETs, 1 PUT and what `measure_lists` costs; again if another's root came first. Raises CorruptionError,
        SnapshotTooOldError, UnavailableError, OutcomeUnknownError, MissingExtraError.
        """
        return self._repeat(lambda: self._measure(name))

    def renew(self, name: str) -> bool:
        """Make the lists of a ready index anew, or go on with that; False if there is no such index.

        1 GET for each block, twice; 1 PUT for the root and those of a run for each step of 250,000 documents, and what
        joining these runs and `measure_lists` cost. Raises as `measure`; another call goes on from the last step.
        """
        step = self._repeat(lambda: self._begin(name))
        while step is None:
            step = self._repeat(lambda: self._step(name))
        return step

    # --- steps: each returns None if there is more to do ---

    def _repeat(self, step: Callable[[], T]) -> T:
        """A step, once more whenever another process was faster."""
        for _ in range(CONFLICTS_MAX):
            try:
                return step()
            except (ConflictError, SnapshotTooOldError) as error:
                log.info("%s: lists: %s", self.register.collection, error)
        return step()

    def _measure(self, name: str) -> bool:
        current, root, found = self._look(name)
        if root is None or found is None or found.lists is None:
            return False
        index = self._index(found)
        head = measure_lists(self._folder(root, name), found.lists, kind_for(index), root.changes)
        if head != found.lists:
            self._swap(current, root, msgspec.structs.replace(found, lists=head), ())
        return head.calibration is not None

    def _join(self, name: str) -> None:
        current, root, found = self._look(name)
        if root is None or found is None or found.lists is None:
            return
        edit = self._edit(root, found, found.lists)
        edit.join(root.applied)
        following = msgspec.structs.replace(found, lists=edit.head, entries=max(edit.head.entries, 0))
        self._swap(current, root, following, edit.retired)

    def _begin(self, name: str) -> bool | None:
        current, root, found = self._look(name)
        if root is None or found is None:
            return False
        if found.successor is None:
            kind, documents = kind_for(self._index(found)), stored_documents(self._place(root), self.data)
            head = train_lists(self._folder(root, name), kind, self.writer, documents, root.rows)
            self._swap(current, root, msgspec.structs.replace(found, successor=ListGeneration(head=head)), ())
        return None

    def _step(self, name: str) -> bool | None:
        current, root, found = self._look(name)
        if root is None or found is None:
            return False
        if found.successor is None:
            return True  # another process was faster
        try:
            if found.successor.cursor != CURSOR_END:
                self._extend(current, root, found, found.successor)
                return None
            self._finish(current, root, found, found.successor)
        except (CorruptionError, SnapshotTooOldError) as error:
            # If the root has moved, this is a conflict. If not, what was made so far is damaged: the next call begins
            # anew. Or a block is, which verify tells.
            following = msgspec.structs.replace(found, successor=None)
            self._swap(current, root, following, found.successor.head.names)
            raise CorruptionError(
                f"index {name} cannot be made anew", reason=error.reason, fix="try again; else verify"
            ) from error
        return True

    def _extend(self, current: RootState, root: Root, found: IndexRoot, begun: ListGeneration) -> None:
        """Put the next documents into the new lists, as a run."""
        edit = self._edit(root, found, begun.head)
        net = stored_net(self._place(root), self.data, b"" if begun.cursor is None else begun.cursor + b"\0")
        maker, draft, last = edit.maker(), RunDraft(), CURSOR_END
        while some := list(islice(net, min(self.step_documents, SLICE_DOCUMENTS))):
            maker.add(draft, some)
            if draft.is_full or draft.documents >= self.step_documents:
                last = some[-1].key
                break
        edit.add(draft, root.applied)
        following = msgspec.structs.replace(found, successor=ListGeneration(head=edit.head, cursor=last))
        self._swap(current, root, following, edit.retired)

    def _finish(self, current: RootState, root: Root, found: IndexRoot, begun: ListGeneration) -> None:
        """Everything is in the new lists: make one run of them, measure it, and let them answer."""
        edit = self._edit(root, found, begun.head)
        edit.join(root.applied)
        head = measure_lists(edit.folder, edit.head, edit.kind, root.changes)
        if head.calibration is None:
            # Nothing can be told of them, but when they were made: so they are not made anew without end.
            told = Calibration(changes=root.changes, learned=root.changes, learned_from=max(head.entries, 0))
            head = msgspec.structs.replace(head, calibration=told)
        following = msgspec.structs.replace(
            found, lists=head, successor=None, entries=max(head.entries, 0), applied=root.applied
        )
        old = () if found.lists is None else found.lists.names
        self._swap(current, root, following, [*old, *edit.retired])

    # --- the root ---

    def _look(self, name: str) -> tuple[RootState, Root | None, IndexRoot | None]:
        """The root, and a ready list index of it. 1 GET."""
        current = self.register.read()
        found = None if current.root is None else current.root.index(name)
        return current, current.root, found if found is not None and _is_ready(found) else None

    def _swap(self, current: RootState, root: Root, found: IndexRoot, retired: Sequence[str]) -> None:
        """Name what was written in the root; raises ConflictError if another root came first."""
        indexes = tuple(found if index.name == found.name else index for index in root.indexes)
        folder = self._folder(root, found.name)
        changed = msgspec.structs.replace(root, indexes=indexes)
        gone = [folder.key(name) for name in retired]
        self.register.swap(current, following_root(current, changed, gone, self.writer, self.register.paths))

    def _edit(self, root: Root, found: IndexRoot, head: ListHead) -> ListEdit:
        kind, folder = kind_for(self._index(found)), self._folder(root, found.name)
        return ListEdit(head, folder, kind, self.writer, self.sizes.run_smallest)

    def _index(self, found: IndexRoot) -> Index:
        return decode_index(found.name, found.definition, source=self.register.paths.root)

    def _folder(self, root: Root, name: str) -> ListFolder:
        return self.shelf.lists.folder(root, name)

    def _place(self, root: Root) -> Place:
        return Place(self.register.store, self.pool, self.register.paths, root)


def _is_ready(index: IndexRoot) -> bool:
    return index.lists is not None and index.state == "ready" and index.cursor is None
