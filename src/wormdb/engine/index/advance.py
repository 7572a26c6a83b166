"""Bring the indexes forward: what a step changes in the documents, in the tree of every index that is there.

A ready tree has every document of its root. A tree that is being built has those up to its cursor, and a step
changes it up to there; the builder (`index_build`) moves the cursor. A tree that is no longer wanted is retired.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.edit import TreeEdit, chunks, sliced
from wormdb.engine.index.shelf import IndexShelf, is_whole, tree_of
from wormdb.engine.index_columns import attached_slices
from wormdb.engine.index_facts import following_membership, following_statistics
from wormdb.engine.state.projection import Net, Outcome
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format.root import IndexRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.index.edit import Columns
    from wormdb.engine.state.indexes import IndexStates, IndexStatus
    from wormdb.engine.state.projection import Step
    from wormdb.engine.tree.definition import Index

    Slice = Columns | Sequence[Net]

__all__ = ["project_indexes"]

DROPPED_MAX: Final = 32
"""Dropped indexes that a root names at most: where nobody collects garbage, they must not fill it."""


def project_indexes(step: Step, shelf: IndexShelf | None = None) -> Outcome:
    """The indexes after a step, and what they no longer name. `shelf` keeps what the next step needs again.

    For each ready index 1 GET and 1 PUT for each node that the changes reach, and 1 PUT for its filter if it is
    unique and has new keys. An index that is ready and has no tree is made from all documents of the root; one that is
    gone costs 1 GET for each node above its leaves. Raises CorruptionError, SnapshotTooOldError, UnavailableError.
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
    return Outcome({"indexes": tuple(following)}, tuple(projector.retired))


def _shown(states: IndexStates) -> list[IndexStatus]:
    """Those that the root names: of dropped ones the newest, until garbage collection has removed their nodes."""
    dropped = sorted((each for each in states if each.state == "dropped"), key=lambda each: each.number)
    gone = {each.index.name for each in dropped[:-DROPPED_MAX]}
    return [each for each in states if each.index.name not in gone]


@dataclass(slots=True)
class _Projector:
    step: Step
    shelf: IndexShelf
    blocks: Shelf
    retired: list[str] = field(default_factory=list)

    def following(self, status: IndexStatus, old: IndexRoot | None) -> IndexRoot:
        """An index after the step."""
        same = old if old is not None and old.definition == status.definition else None
        if status.state == "ready":
            if same is not None and is_whole(same):
                return self._edited(status, same, [self._net(status.index)])
            self.retire(old)
            # Nothing was there to index, or the projection is made anew from what the root has.
            return self._edited(status, _bare(status), [self._stored(), self._net(status.index)])
        if status.state == "building" and same is not None and _goes_on(same, status):
            return self._edited_to_cursor(status, same)
        self.retire(old)
        return _bare(status)

    def retire(self, old: IndexRoot | None) -> None:
        """List every object of an index. What lies below a damaged node stays behind as an object nobody names."""
        if old is None:
            return
        nodes = self.shelf.nodes(self.step.root, old.name)
        try:
            for child, _ in self.shelf.reader(self.step.root, old).refs():
                self.retired.append(nodes.key(child.name))
            membership = self.shelf.filter(self.step.root, old)
        except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError):
            return
        self.retired += [nodes.key(ref.name) for ref in (() if membership is None else membership.refs)]

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
        for chunk in chain.from_iterable(chunks(status.index, slices) for slices in sources):
            edit.apply(chunk.changes)
            hashes.extend(chunk.hashes)
            arrays = tuple(one or other for one, other in zip(arrays, chunk.arrays, strict=True))
        membership = old.membership
        wanted = ready and membership is None and edit.tree.root is not None
        if status.index.unique and (wanted or (membership is not None and hashes)):
            known = self.shelf.filter(root, old)
            was_empty = old.node is None
            membership = following_membership(edit, known, hashes, self.shelf, was_empty=was_empty)
        source = self.step.place.paths.root
        statistics = following_statistics(edit, old, arrays, source=source, is_whole=ready)
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

    def _stored(self) -> Iterator[Sequence[Net]]:
        """Every document of the root, as if it were new."""
        if not self.step.root.rows:
            return iter(())
        return sliced(Net(key, None, held) for key, held in RunBase(self.step.place, self.blocks).scan())

    def _net(self, index: Index, through: bytes | None = None) -> Iterator[Slice]:
        """What the step changes in documents with a key up to `through`."""
        if self.step.attached is not None:
            high = None if through is None else through + b"\0"
            base = RunBase(self.step.place, self.blocks)
            return attached_slices(index, self.step.blocks, self.blocks, base, high=high)
        return sliced(net for net in self.step.net if through is None or net.key <= through)


def _goes_on(old: IndexRoot, status: IndexStatus) -> bool:
    """Whether the root has the beginning of this very build."""
    return old.state == "building" and old.applied == status.number


def _bare(status: IndexStatus) -> IndexRoot:
    """An index without a tree."""
    return IndexRoot(
        name=status.index.name,
        definition=status.definition,
        state=status.state,
        applied=status.number,
        reason=status.reason,
    )
