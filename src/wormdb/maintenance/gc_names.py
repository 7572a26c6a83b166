"""Which objects a root and the tail of the log name: all of them, or an error; never as far as they can be found.

Of each key only eight bytes of its digest are kept, so a million objects take 8 MB. Two keys that share a digest would
let garbage stay, and never let anything go that is named.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b
from typing import TYPE_CHECKING

from wormdb.engine.blocks.listing import runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.shelf import IndexShelf
from wormdb.format.event import JobAttached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.engine.log.root import Place
    from wormdb.format.blocklist import BlockEntry, BlockPageRef
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root

__all__ = ["NameSet", "attached_names", "root_names"]


class NameSet:
    """Keys, to be asked for. A key that was not put in is in it once in about 10^13 times among a million."""

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
    SnapshotTooOldError if one of these is gone: then nobody knows what it named.
    """
    for folder, entries, pages in _lists(place):
        shelf = Shelf(place.store, place.pool, folder)
        for run in runs_of(entries, pages):
            yield from (shelf.page_key(page.name) for page in run.pages)
            for entry in run.blocks(shelf):
                yield from _block(shelf, entry)
    trees = IndexShelf(place.store, place.paths, place.pool)
    for index in place.root.indexes:
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
