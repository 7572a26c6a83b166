"""A block list as runs, newest first: how a root lists them, look-ups, scans, and the base of a view over a root.

    shelf = Shelf(store, pool, paths.data)
    runs = Runs(shelf, root.blocks, root.block_pages)
    runs.get(key); runs.get_many(keys); runs.scan(low, high)

A run is what one forwarding (or a merge of several) wrote: blocks that do not overlap, in order of key. What one job
attached may be several runs of the same number, one over another, which have no id in common. Few entries stand in the
root itself; more of them are in pages, each of one run, so that a new run leaves the pages of the others alone.

A newer run hides the older ones, key by key. A look-up finds the blocks by their ranges of keys, asks the filters of
all but the oldest, and then reads one page; a scan merges the runs, one row group of each at a time.

History has its filters over the ids of documents, not over its rows' keys: `Runs(…, keyed=False)`, and the id's key is
given as `member`: `runs.scan(low, high, member=id_key)`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.fetch import rows_between, rows_by_key
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.log.objects import NewObject, ObjectWriter
from wormdb.engine.state.upgrade import Upgrades
from wormdb.engine.state.view import StoredVersion
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.blocklist import BlockEntry, BlockPage, BlockPageRef, encode_block_page
from wormdb.settings import LIST_INLINE_BYTES_MAX, LIST_PAGE_BLOCKS, LIST_PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.log.root import Place
    from wormdb.format.membership import MembershipFilter
    from wormdb.format.sidecar import PageMap
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.types import LogNumber

__all__ = [
    "AttachedBase",
    "Part",
    "Run",
    "RunBase",
    "Runs",
    "data_runs",
    "find_part",
    "held_of",
    "is_run",
    "list_run",
    "merge_rows",
    "overlaps",
    "row_of",
    "runs_of",
]

# --- the block list of a root ---

_key_last = attrgetter("key_last")
_LOOKED_AT: Final = 4
"""Rows of many that are looked for among those that are kept, before all others are."""

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


# --- their rows ---


class Runs:
    """The rows of a block list. A value: it does not move; what it reads is kept by the shelf. Thread-safe.

    Everything raises SnapshotTooOldError, naming the object, if one is gone, and CorruptionError if one is damaged.
    Rows that a job wrote have the number of the entry that attached them as their revision.
    """

    def __init__(
        self, shelf: Shelf, entries: Iterable[BlockEntry], pages: Iterable[BlockPageRef] = (), *, keyed: bool = True
    ) -> None:
        """`keyed` says whether the filters of the blocks are over the keys of their rows. No requests."""
        self.shelf = shelf
        self.keyed = keyed
        self.runs = runs_of(entries, pages)
        """Newest first."""

    def get(self, key: bytes, *, member: bytes | None = None) -> Row | None:
        """The newest row with a key; `member` is what it is known by to the filters, if not by its key.

        1 GET for one page. At first also 1 for the page map of the block, and 1 for the filter of each newer block
        whose range has the key, side by side. If runs are long, before that 1 for a page of each one's list.
        """
        row = self.find_kept(key) if self.keyed and member is None else None
        return row if row is not None else self._get_many([key], member).get(key)

    def get_many(self, keys: Iterable[bytes], *, member: bytes | None = None) -> dict[bytes, Row]:
        """The newest rows with these keys, by key, of those that are there. Costs as `get`, and no page is read twice.

        Where several keys lie in one block its filter is read too, so that keys that are not there cost no page. Each
        kind of object is one round trip.
        """
        rest, found = sorted(set(keys)), dict[bytes, Row]()
        if self.keyed and member is None:
            # Where the first few are not kept, the others will not be either.
            for key in rest if any(self.find_kept(key) is not None for key in rest[:_LOOKED_AT]) else ():
                if (row := self.find_kept(key)) is not None:
                    found[key] = row
            rest = [key for key in rest if key not in found] if found else rest
        return {**found, **self._get_many(rest, member)} if rest else found

    def find_kept(self, key: bytes) -> Row | None:
        """The newest row with a key, if that is kept, and what is kept shows that no newer one has it. No requests."""
        for run in self.runs:
            part = find_part(run.parts, key)
            if part is None:
                continue
            if not isinstance(part, BlockEntry):
                return None
            row = self.shelf.find_row(part, key)
            if row is not None:
                return row
            membership = self.shelf.known_filter(part)
            if membership is None or membership.might_contain(key):
                return None
        return None

    def _get_many(self, keys: Sequence[bytes], member: bytes | None) -> dict[bytes, Row]:
        waiting = {key: blocks for key, blocks in self._candidates(keys).items() if blocks}
        found: dict[bytes, Row] = {}
        while waiting:
            maps, filters = self.shelf.learn(*self._wanted(waiting, member))
            for key, blocks in list(waiting.items()):
                waiting[key] = [block for block in blocks if self._may_have(block, filters, member or key, member)]
                if not waiting[key]:
                    del waiting[key]
            maps |= self.shelf.learn([blocks[0] for blocks in waiting.values() if blocks[0].name not in maps])[0]
            found |= self._look_up(waiting, maps)
            waiting = {key: blocks[1:] for key, blocks in waiting.items() if key not in found and blocks[1:]}
        return found

    def keeps(self, key: bytes) -> bool:
        """Whether a row with a key stays decoded: then `get` reads no page for it. No requests."""
        parts = (run.part_for(key) for run in self.runs)
        return any(isinstance(part, BlockEntry) and self.shelf.find_row(part, key) is not None for part in parts)

    def prepare(self, keys: Iterable[bytes]) -> None:
        """Read what look-ups of these keys need before their pages, while the caller does something else.

        Costs what `get_many` does without the pages; then, if it is not forgotten, that costs the pages alone.
        """
        waiting = {key: blocks for key, blocks in self._candidates(sorted(set(keys))).items() if blocks}
        self.shelf.learn(*self._wanted(waiting, None))

    def scan(
        self, low: bytes = b"", high: bytes | None = None, *, member: bytes | None = None
    ) -> Iterator[tuple[bytes, Row]]:
        """The newest row of each key from `low` up to but not including `high`, in order of key.

        With `member`, blocks whose filter denies it are left out: 1 GET for each filter not kept, side by side. Blocks
        are read when they are reached: 1 GET for one that lies inside the range, else its page map and 1 GET for each
        row group that has pages in the range.
        """
        if high is not None and high <= low:
            return iter(())
        blocks: list[Iterable[BlockEntry]] = [run.blocks(self.shelf, low, high) for run in self.runs]
        if member is not None:
            blocks = self._with_member(blocks, member)
        return merge_rows([self._scan_run(run, low, high) for run in blocks])

    def blocks(self, low: bytes = b"", high: bytes | None = None) -> Iterator[BlockEntry]:
        """The blocks that may have keys in a range, run by run, newest first. 1 GET a page of the list, if not kept."""
        for run in self.runs:
            yield from run.blocks(self.shelf, low, high)

    def trashed(self) -> Iterator[bytes]:
        """The keys of rows that were put into the trash, in any order; a newer row may have taken them out again.

        1 GET for each block that has such rows, and for each page of the list that names some, if it is not kept.
        """
        for run in self.runs:
            for part in run.parts:
                if not part.trashed:
                    continue
                listed = (part,) if isinstance(part, BlockEntry) else self.shelf.listed([part])[part.name]
                for key, row in self._scan_run((block for block in listed if block.trashed), b"", None):
                    if row.trash is not None:
                        yield key

    def names(self, block: BlockEntry) -> bool:
        """Whether this list has a block. 1 GET for a page of the list, if its run is long and it is not kept."""
        runs = (run for run in self.runs if run.through == block.run)
        near = (entry for run in runs for entry in run.blocks(self.shelf, block.key_first, block.key_first + b"\0"))
        return any(entry.name == block.name for entry in near)

    def scan_newest(self, count: int) -> Iterator[tuple[bytes, Row]]:
        """The rows of the newest `count` runs, merged. 1 GET a block, when it is reached."""
        return merge_rows([self._scan_run(run.blocks(self.shelf), b"", None) for run in self.runs[:count]])

    # --- look-ups ---

    def _candidates(self, keys: Sequence[bytes]) -> dict[bytes, list[BlockEntry]]:
        """For each key the blocks whose ranges have it, newest first."""
        parts = {key: [part for run in self.runs if (part := run.part_for(key)) is not None] for key in keys}
        listed = self.shelf.listed(part for own in parts.values() for part in own if isinstance(part, BlockPageRef))
        found: dict[bytes, list[BlockEntry]] = {}
        for key, own in parts.items():
            near = [find_part(listed[part.name], key) if isinstance(part, BlockPageRef) else part for part in own]
            found[key] = [block for block in near if isinstance(block, BlockEntry)]
        return found

    def _wanted(
        self, waiting: dict[bytes, list[BlockEntry]], member: bytes | None
    ) -> tuple[list[BlockEntry], list[BlockEntry]]:
        """Of which blocks to read the page map, and of which the filter.

        A document is most likely in the oldest run, which is the largest; so that one's map is read along with the
        filters above it. Its own filter is worth reading only if it may save several pages.
        """
        oldest = {key: blocks[-1] for key, blocks in waiting.items()}
        if not self.keyed and member is None:
            return list(oldest.values()), []
        times = Counter(block.name for block in oldest.values())
        filters = [block for blocks in waiting.values() for block in blocks[:-1]]
        filters += [block for block in oldest.values() if times[block.name] > 1 or self.shelf.was_vain(block)]
        return list(oldest.values()), filters

    def _may_have(
        self, block: BlockEntry, filters: dict[str, MembershipFilter], sought: bytes, member: bytes | None
    ) -> bool:
        if not self.keyed and member is None:
            return True
        membership = filters.get(block.name) or self.shelf.known_filter(block)
        return membership is None or membership.might_contain(sought)

    def _look_up(self, waiting: dict[bytes, list[BlockEntry]], maps: dict[str, PageMap]) -> dict[bytes, Row]:
        """The rows that the newest candidates have."""
        found: dict[bytes, Row] = {}
        sought: dict[str, tuple[BlockEntry, list[bytes]]] = {}
        for key, (block, *_) in waiting.items():
            row = self.shelf.find_row(block, key)  # rows that are kept are not worth a thread
            if row is None:
                sought.setdefault(block.name, (block, []))[1].append(key)
            else:
                found[key] = row

        def look(one: tuple[BlockEntry, list[bytes]]) -> dict[bytes, Row]:
            block, keys = one
            rows = rows_by_key(self.shelf, block, maps[block.name], keys)
            if len(rows) < len(keys):
                self.shelf.note_vain(block)
            return rows

        for rows in self.shelf.side_by_side(look, list(sought.values())):
            found |= rows
        return found

    # --- scans ---

    def _scan_run(self, blocks: Iterable[BlockEntry], low: bytes, high: bytes | None) -> Iterator[tuple[bytes, Row]]:
        for block in blocks:
            yield from rows_between(self.shelf, block, low, high)

    def _with_member(self, runs: Sequence[Iterable[BlockEntry]], member: bytes) -> list[Iterable[BlockEntry]]:
        chosen = [list(run) for run in runs]
        _, filters = self.shelf.learn((), [block for run in chosen for block in run])
        return [[block for block in run if filters[block.name].might_contain(member)] for run in chosen]


def merge_rows(runs: Sequence[Iterator[tuple[bytes, Row]]]) -> Iterator[tuple[bytes, Row]]:
    """Several runs in order of key as one, newest first: of equal keys the newest run's is kept."""
    if len(runs) == 1:
        yield from runs[0]
        return
    last: bytes | None = None
    # No two items have the same key and age, so rows are never compared.
    for key, _, row in heapq.merge(*(_aged(run, age) for age, run in enumerate(runs))):
        if key != last:
            yield key, row
        last = key


def _aged(run: Iterator[tuple[bytes, Row]], age: int) -> Iterator[tuple[bytes, int, Row]]:
    return ((key, age, row) for key, row in run)


def held_of(row: Row) -> StoredVersion:
    """A row of a block as the engine holds it."""
    return StoredVersion(json.encode(row.id), row.rev, row.seq, row.document, row.trash)


def row_of(held: StoredVersion) -> Row:
    """What the engine holds as a row of a block."""
    return Row(json.decode(held.id, name="document id"), held.rev, held.seq, held.document, held.trash)


class _HeldRows:
    """The rows of runs as views want them."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def get(self, key: bytes) -> StoredVersion | None:
        """What is under an id's key. Costs as `Runs.get`: 1 GET, and 1 more the first time a block is asked."""
        runs = self.runs
        row = (runs.find_kept(key) if runs.keyed else None) or runs.get(key)
        return None if row is None else held_of(row)

    def trashed(self) -> Iterator[bytes]:
        """The keys of ids that may be in the trash. Costs as `Runs.trashed`."""
        return self.runs.trashed()

    def prepare(self, keys: Iterable[bytes]) -> None:
        """Read what look-ups of these ids' keys need before their pages. Costs as `Runs.prepare`."""
        self.runs.prepare(keys)

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, StoredVersion]:
        """What is under several ids' keys, by key, where there is something. Costs as `Runs.get_many`."""
        return {key: held_of(row) for key, row in self.runs.get_many(keys).items()}

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        """Everything with a key from `low` up to but not including `high`, in order of key: the newest of each.

        1 GET a block, when it is reached; at the ends of a range as `Runs.scan` says.
        """
        return ((key, held_of(row)) for key, row in self.runs.scan(low, high))


def data_runs(place: Place, shelf: Shelf | None = None) -> Runs:
    """The documents of a root, as they are in its state, whatever version of the model they were written in.

    Every read of documents of blocks comes this way; `shelf` is of `place.paths.data`. No requests.
    """
    shelf = shelf or Shelf(place.store, place.pool, place.paths.data)
    return Runs(shelf.showing(Upgrades.of(place.root.versions)), place.root.blocks, place.root.block_pages)


class RunBase(_HeldRows):
    """The documents of a root's blocks, as the base of a view. Thread-safe. Raises what `Runs` does."""

    def __init__(self, place: Place, shelf: Shelf | None = None) -> None:
        """`shelf` is of `place.paths.data`; one that is given on from root to root keeps what it knows. No requests."""
        super().__init__(data_runs(place, shelf))
        self._place = place

    @property
    def place(self) -> Place:
        """The root and where its objects are."""
        return self._place


class AttachedBase(_HeldRows):
    """The documents of the blocks that a job attached by entry `number`, which no root has yet. As `RunBase`."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        paths: EnginePaths,
        blocks: Iterable[BlockEntry],
        number: LogNumber,
        shelf: Shelf | None = None,
    ) -> None:
        """`shelf` as for `RunBase`. No requests."""
        run = [msgspec.structs.replace(block, run=number).shaped(number) for block in blocks]
        super().__init__(Runs(shelf or Shelf(store, pool, paths.data), run))

    @property
    def place(self) -> None:
        """It is of no root."""
        return
