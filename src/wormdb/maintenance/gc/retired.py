"""Objects that roots named once: dated by the store after they were seen to be retired, gone an hour later.

A root says what it retired, and a later root since when. The time is of an object that was written after the first of
these was read, so any process that still reads by an older root began before it. Names leave the root after their
objects: a crash between leaves names of objects that are gone, which are removed again, and no object without a name.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.runs import runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.log.objects import NewObject
from wormdb.errors import NotFoundError, SnapshotTooOldError
from wormdb.format.event import JobAttached
from wormdb.format.root import ObjectRef, RetiredList, RetiredObject, decode_retired, encode_retired
from wormdb.maintenance.audit.lists import check_body
from wormdb.settings import GC_LIST_NAMES, RETIRED_INLINE_MAX, RETIRED_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.log.root import Place
    from wormdb.format.blocklist import BlockEntry, BlockPageRef
    from wormdb.format.entry import Entry
    from wormdb.format.root import IndexRoot, Root
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.system.types import StoreTime

__all__ = ["NameSet", "RetiredObjects", "attached_names", "read_retired", "root_names"]


@dataclass(frozen=True, slots=True)
class RetiredObjects:
    """All that a root has retired. About 250 bytes in memory for each."""

    site: StoredCollection
    root: Root
    now: StoreTime
    read_since: StoreTime | None = None
    """Since when an open job has been reading a state: what was retired later is needed by it. None without jobs."""
    older: tuple[RetiredObject, ...] = ()
    """Those in lists beside the root."""
    lists: tuple[str, ...] = field(default=())
    """The keys of these lists."""

    def keys(self) -> set[str]:
        """The keys of all of them, and of the lists. No requests."""
        folder = self.site.paths.folder
        return {folder + one.name for one in (*self.root.retired, *self.older)} | set(self.lists)

    def due(self) -> set[str]:
        """The keys of those that were retired long enough ago. No requests."""
        folder = self.site.paths.folder
        return {folder + one.name for one in (*self.root.retired, *self.older) if self._is_due(one)}

    def has_undated(self, root: Root) -> bool:
        """Whether some have no time of retirement yet; without those that the log of the next root needs."""
        return any(one.at is None and one.log <= root.trimmed for one in (*self.root.retired, *self.older))

    def following(self, root: Root, at: StoreTime, gone: set[str]) -> Root:
        """`root` with what has no time yet retired since `at`, and without those that are `gone`.

        1 PUT for each 10,000 if they are too many for the root, and none if their lists stay as they are.
        """
        inline = self._dated(root.retired, root, at, gone)
        older = self._dated(self.older, root, at, gone)
        root = self._undropped(root, {one.name for one in (*inline, *older)})
        if older == self.older:
            return msgspec.structs.replace(root, retired=inline)
        folder = self.site.paths.folder
        # Lists that are replaced are retired like everything else.
        inline += tuple(RetiredObject(name=key.removeprefix(folder), revision=root.revision + 1) for key in self.lists)
        if len(inline) + len(older) <= RETIRED_INLINE_MAX:
            return msgspec.structs.replace(root, retired=(*older, *inline), retired_older=None)
        return msgspec.structs.replace(root, retired=inline, retired_older=self._written(older))

    def _undropped(self, root: Root, retired: set[str]) -> Root:
        """`root` without the dropped indexes of which no object is left among the `retired`."""
        site = self.site
        shelf = IndexShelf(site.store, site.paths, site.pool)

        def is_left(index: IndexRoot) -> bool:
            folder = shelf.folder(index.name).removeprefix(site.paths.folder)
            return index.state != "dropped" or any(name.startswith(folder) for name in retired)

        return msgspec.structs.replace(root, indexes=tuple(filter(is_left, root.indexes)))

    def _is_due(self, one: RetiredObject) -> bool:
        if one.at is None or self.now - one.at < RETIRED_MS:
            return False
        return self.read_since is None or one.at < self.read_since

    def _dated(
        self, listed: Sequence[RetiredObject], root: Root, at: StoreTime, gone: set[str]
    ) -> tuple[RetiredObject, ...]:
        folder = self.site.paths.folder
        return tuple(
            one if one.at is not None or one.log > root.trimmed else msgspec.structs.replace(one, at=at)
            for one in listed
            if folder + one.name not in gone
        )

    def _written(self, listed: Sequence[RetiredObject]) -> ObjectRef | None:
        ref: ObjectRef | None = None
        for start in range(0, len(listed), GC_LIST_NAMES):
            name = self.site.writer.new_name()
            some = RetiredList(retired=tuple(listed[start : start + GC_LIST_NAMES]), older=ref)
            body = encode_retired(some, identity=name)
            self.site.writer.put(NewObject(self.site.paths.retired(name), body))
            ref = ObjectRef.of(name, body)
        return ref


def read_retired(
    site: StoredCollection, root: Root, now: StoreTime, read_since: StoreTime | None = None
) -> RetiredObjects:
    """What a root has retired. 1 GET for each list; raises CorruptionError, SnapshotTooOldError if one is gone."""
    found: list[RetiredObject] = []
    lists: list[str] = []
    ref = root.retired_older
    while ref is not None:
        key = site.paths.retired(ref.name)
        try:
            body = site.store.get(key).body
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this object
            raise SnapshotTooOldError(f"object {key}", reason="its root was replaced", key=key) from error
        listed = decode_retired(check_body(body, ref.length, ref.sha256, key), name=key, identity=ref.name)
        found += listed.retired
        lists.append(key)
        ref = listed.older
    return RetiredObjects(site, root, now, read_since, tuple(found), tuple(lists))


# --- Which objects a root and the tail of the log name: all of them, or an error; never as far as they can be found.
#
# Of each key only eight bytes of its digest are kept, so a million objects take 8 MB. Two keys that share a digest
# would let garbage stay, and never let anything go that is named.


class NameSet:
    """A set of keys. A key that was not put in counts as a member once in about 10^13 times, among a million."""

    def __init__(self, keys: Iterable[str]) -> None:
        """8 bytes a key; while they are sorted 40."""
        self._digests = array("Q", sorted(_digest(key) for key in keys))

    def __contains__(self, key: object) -> bool:
        """Whether it was put in. No requests."""
        digest = _digest(str(key))
        place = bisect_left(self._digests, digest)
        return place < len(self._digests) and self._digests[place] == digest

    def __len__(self) -> int:
        return len(self._digests)


def _digest(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")


def root_names(place: Place) -> Iterator[str]:
    """The keys of all objects that a root needs, without those that it has retired.

    1 GET for each page of a list, each node above the leaves and each part of a filter. Raises CorruptionError, and
    SnapshotTooOldError if one of these is gone: then what it named is unknown.
    """
    for folder, entries, pages in _lists(place):
        shelf = Shelf(place.store, place.pool, folder)
        for run in runs_of(entries, pages):
            yield from (shelf.page_key(page.name) for page in run.pages)
            for entry in run.blocks(shelf):
                yield from _block(shelf, entry)
    trees = IndexShelf(place.store, place.paths, place.pool)
    for index in place.root.indexes:
        if index.lists is not None:
            folder = trees.folder(index.name)
            yield from (folder + name for name in index.list_names)
            continue
        nodes = trees.nodes(place.root, index.name)
        yield from (nodes.key(child.name) for child, _ in trees.reader(place.root, index).refs())
        membership = trees.filter(place.root, index)
        yield from (nodes.key(ref.name) for ref in (() if membership is None else membership.refs))


def attached_names(place: Place, entries: Iterable[Entry]) -> Iterator[str]:
    """The keys of the blocks that entries of the log attach. No requests."""
    data, past = (Shelf(place.store, place.pool, folder) for folder in (place.paths.data, place.paths.history))
    for entry in entries:
        for event in entry.events:
            if isinstance(event, JobAttached):
                for shelf, blocks in ((data, event.blocks), (past, event.history)):
                    for block in blocks:
                        yield from _block(shelf, block)


def _lists(place: Place) -> tuple[tuple[str, tuple[BlockEntry, ...], tuple[BlockPageRef, ...]], ...]:
    root: Root = place.root
    data, past = place.paths.data, place.paths.history
    return (
        (data, root.blocks, root.block_pages),
        (data, root.attached, root.attached_pages),
        (past, root.history, root.history_pages),
        (past, root.brought, root.brought_pages),
    )


def _block(shelf: Shelf, entry: BlockEntry) -> tuple[str, str]:
    return shelf.block_key(entry.name), shelf.sidecar_key(entry.sidecar.name)
