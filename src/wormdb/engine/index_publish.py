"""Name in the root the trees that were made of an older one, with what changed since: one swap."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import RunBase, data_runs, held_of, merge_rows
from wormdb.engine.compact_publish import check_age
from wormdb.engine.index.edit import TreeEdit, chunks, sliced
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.index_facts import following_membership, following_statistics
from wormdb.engine.state.projection import Net
from wormdb.engine.state.successor import following_root
from wormdb.engine.tree.definition import decode_index
from wormdb.errors import ConflictError, CorruptionError, SnapshotTooOldError, UnsupportedFormatError
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.forward.rebuild import BuiltIndex
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.place import Place
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.root import IndexRoot, Root

__all__ = ["publish_indexes"]


def publish_indexes(
    register: Register, writer: ObjectWriter, planned: tuple[Place, RootState], built: Sequence[BuiltIndex]
) -> RootState:
    """Name new trees in the root instead of those that are there; `planned` is the root that they are of.

    What documents changed since then is added to them: 1 GET for each block with newer rows and for the pages with
    the rows that they replace, and the nodes that they reach. An index that was dropped or defined anew meanwhile is
    left alone. 1 GET and 1 PUT for the root; again if another's root came first. Raises ConflictError if the collection
    was made anew, SnapshotTooOldError if the planned root is too old, UnavailableError, OutcomeUnknownError.
    """
    place, state = planned

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is None or root.collection != place.root.collection:
            raise ConflictError(f"indexes of {register.collection}", reason="the collection was made anew meanwhile")
        check_age(register.collection, state.time, place.root.revision, current)
        writer.misc.observe(Misc(root.misc))
        following = _Following(place, root, writer)
        indexes = tuple(following.index(one, built) for one in root.indexes)
        if indexes == root.indexes:
            return None
        changed = msgspec.structs.replace(root, indexes=indexes)
        return following_root(current, changed, following.retired, writer, register.paths)

    return register.update(change, what="new indexes")


@dataclass(slots=True)
class _Following:
    """The indexes of a newer root, with trees that were made of an older one."""

    old: Place
    root: Root
    writer: ObjectWriter
    retired: list[str] = field(default_factory=list)

    def index(self, standing: IndexRoot, built: Sequence[BuiltIndex]) -> IndexRoot:
        """An index with its new tree, as of the newer root; as it stands if there is none."""
        made = next((one for one in built if one.name == standing.name), None)
        before = self.old.root.index(standing.name)
        is_same = before is not None and before.definition == standing.definition and standing.state == "ready"
        # A mapping may have changed what documents have in it, without changing their revisions.
        if made is None or not is_same or self.old.root.versions != self.root.versions:
            return standing
        shelf = IndexShelf(self.old.store, self.old.paths, self.old.pool)
        nodes = shelf.nodes(self.root, standing.name)
        self._retire(standing, shelf)
        edit = TreeEdit(made.tree, nodes, shelf.maker(self.root, standing.name, self.writer.new_name), self.writer)
        fresh = msgspec.structs.replace(standing, membership=made.membership, statistics=made.statistics)
        fresh = self._caught_up(fresh, edit, shelf)
        edit.write()
        self.retired += [nodes.key(name) for name in chain(edit.retired, made.spare)]
        return msgspec.structs.replace(
            fresh, node=edit.tree.root, height=edit.tree.height, entries=edit.tree.entries, applied=self.root.applied
        )

    def _caught_up(self, fresh: IndexRoot, edit: TreeEdit, shelf: IndexShelf) -> IndexRoot:
        """Bring a tree from the old root to the newer one."""
        source = self.old.paths.root
        index = decode_index(fresh.name, fresh.definition, source=source)
        hashes, arrays = array("Q"), (False,) * len(index.fields)
        was_empty = edit.tree.root is None
        for chunk in chunks(index, self._changed()):
            edit.apply(chunk.changes)
            hashes.extend(chunk.hashes)
            arrays = tuple(one or other for one, other in zip(arrays, chunk.arrays, strict=True))
        membership = fresh.membership
        if index.unique and hashes:
            known = shelf.filter(self.root, fresh)
            membership = following_membership(edit, known, hashes, shelf, was_empty=was_empty)
        statistics = following_statistics(edit, fresh, arrays, source=source)
        return msgspec.structs.replace(fresh, membership=membership, statistics=statistics)

    def _changed(self) -> Iterator[Sequence[Net]]:
        """What is another in the newer root than in the old one: rows of a greater revision, with what was before."""
        number = self.old.root.applied
        if self.root.applied == number:
            return
        newer = data_runs(replace(self.old, root=self.root))
        shelf, runs = newer.shelf, newer.runs
        rows = merge_rows([_newer(shelf, run.blocks(shelf), number) for run in runs])
        base = RunBase(self.old, shelf)
        for some in sliced(Net(key, None, held_of(row)) for key, row in rows):
            before = base.get_many([net.key for net in some])
            yield [Net(net.key, None if net.key not in before else before[net.key].document, net.held) for net in some]

    def _retire(self, standing: IndexRoot, shelf: IndexShelf) -> None:
        """List every object of a tree; what lies below a damaged node stays behind as an object that nobody names."""
        nodes = shelf.nodes(self.root, standing.name)
        try:
            self.retired += [nodes.key(child.name) for child, _ in shelf.reader(self.root, standing).refs()]
            membership = shelf.filter(self.root, standing)
        except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError):
            return
        self.retired += [nodes.key(ref.name) for ref in (() if membership is None else membership.refs)]


def _newer(shelf: Shelf, blocks: Iterable[BlockEntry], number: int) -> Iterator[tuple[bytes, Row]]:
    """The rows of a run that came after a number. 1 GET for each block that has some."""
    for block in blocks:
        if (block.rev_last or block.run) > number:
            yield from ((key, row) for key, row in rows_between(shelf, block) if row.rev > number)
