"""The block list of a root as runs, and the pages that a long run's part of it is moved to.

A run is what one forwarding (or a merge of several) wrote: blocks that do not overlap, in order of key. What one job
attached may be several runs of the same number, one over another, which have no id in common. Few entries stand in the
root itself; more of them are in pages, each of one run, so that a new run leaves the pages of the others alone.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.log.objects import NewObject
from wormdb.format.blocklist import BlockEntry, BlockPage, BlockPageRef, encode_block_page
from wormdb.settings import LIST_INLINE_BYTES_MAX, LIST_PAGE_BLOCKS, LIST_PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.objects import ObjectWriter

__all__ = ["Part", "Run", "find_part", "is_run", "list_run", "overlaps", "runs_of"]

_key_last = attrgetter("key_last")

Part = BlockEntry | BlockPageRef
"""What a root says of a run: of a block, or of a page of blocks."""


def overlaps(part: Part, low: bytes, high: bytes | None) -> bool:
    """Whether keys from `low` up to but not including `high` may be in it."""
    return low <= part.key_last and (high is None or part.key_first < high)


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `through` names it: the log number up to which it was written."""

    through: int
    parts: tuple[Part, ...]
    """In order of key."""

    @property
    def size(self) -> int:
        """Bytes of all blocks together, as stored."""
        return sum(part.length if isinstance(part, BlockEntry) else part.size for part in self.parts)

    @property
    def level(self) -> int:
        """How often the rows that were merged most often were merged."""
        return max(part.level for part in self.parts)

    @property
    def entries(self) -> tuple[BlockEntry, ...]:
        """The blocks that the root names itself."""
        return tuple(part for part in self.parts if isinstance(part, BlockEntry))

    @property
    def pages(self) -> tuple[BlockPageRef, ...]:
        """The pages that name the others."""
        return tuple(part for part in self.parts if isinstance(part, BlockPageRef))

    def part_for(self, key: bytes) -> Part | None:
        """The one part whose range holds `key`."""
        return find_part(self.parts, key)

    def blocks(self, shelf: Shelf, low: bytes = b"", high: bytes | None = None) -> Iterator[BlockEntry]:
        """The blocks that may have keys in a range, in order of key. 1 GET for a page of the list, when reached."""
        for part in self.parts:
            if not overlaps(part, low, high):
                continue
            if isinstance(part, BlockEntry):
                yield part
            else:
                yield from (entry for entry in shelf.listed([part])[part.name] if overlaps(entry, low, high))


def find_part(parts: Sequence[Part], key: bytes) -> Part | None:
    """The one of several parts, in order of key, whose range holds `key`."""
    place = bisect_left(parts, key, key=_key_last)
    return parts[place] if place < len(parts) and parts[place].key_first <= key else None


def runs_of(entries: Iterable[BlockEntry], pages: Iterable[BlockPageRef] = ()) -> tuple[Run, ...]:
    """The runs that a root's blocks form, newest first. Those of one number that overlap are several, in any order."""
    parts: list[Part] = [*entries, *pages]
    ordered = sorted(parts, key=lambda part: (-part.run, part.key_first))
    return tuple(
        Run(through, tuple(layer))
        for through, group in groupby(ordered, key=lambda part: part.run)
        for layer in _layers(group)
    )


def _layers(parts: Iterable[Part]) -> list[list[Part]]:
    """Parts in order of their first keys as few sequences that do not overlap; nearly always one."""
    layers: list[list[Part]] = []
    for part in parts:
        fitting = next((layer for layer in layers if layer[-1].key_last < part.key_first), None)
        if fitting is None:
            layers.append([part])
        else:
            fitting.append(part)
    return layers


def is_run(entries: Sequence[BlockEntry]) -> bool:
    """Whether blocks can be one run: in order of key, and none overlaps another."""
    return all(one.key_last < following.key_first for one, following in pairwise(entries))


def list_run(entries: Sequence[BlockEntry], shelf: Shelf, writer: ObjectWriter) -> Run:
    """The run of some blocks as the root names it, in order of key. 1 PUT for each page, none for a short run."""
    sizes = [len(msgspec.msgpack.encode(entry)) for entry in entries]
    through = entries[0].run
    if sum(sizes) <= LIST_INLINE_BYTES_MAX:
        return Run(through, tuple(entries))
    made = [_page(page, shelf, writer.new_name()) for page in _cut(entries, sizes)]
    writer.put_all([new for new, _ in made])
    return Run(through, tuple(ref for _, ref in made))


def _cut(entries: Sequence[BlockEntry], sizes: Sequence[int]) -> Iterator[Sequence[BlockEntry]]:
    start, size = 0, 0
    for place, more in enumerate(sizes):
        if place > start and (place - start >= LIST_PAGE_BLOCKS or size + more > LIST_PAGE_BYTES):
            yield entries[start:place]
            start, size = place, 0
        size += more
    yield entries[start:]


def _page(entries: Sequence[BlockEntry], shelf: Shelf, name: str) -> tuple[NewObject, BlockPageRef]:
    body = encode_block_page(BlockPage(blocks=tuple(entries)), identity=name)
    ref = BlockPageRef.over(entries, name=name, sha256=sha256(body).digest(), length=len(body))
    return NewObject(shelf.page_key(name), body), ref
