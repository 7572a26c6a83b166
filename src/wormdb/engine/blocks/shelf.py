"""One folder of blocks: their keys, and what is kept unpacked of them, so that nothing is read or unpacked twice.

`Shelf(store, pool, paths.data)` or `Shelf(store, pool, paths.history)`. Every object in the folder is immutable, and no
name is used twice; so a shelf may be shared by all roots of a collection, and what it keeps never grows old: pages of
the list, page maps and filters.

All collections of a database share one `ColumnCache`, its part of the setting `cache_bytes`, for columns and rows: of
blocks, and of one state until there is another.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from wormdb.engine.state.upgrade import NO_UPGRADES, Upgrades
from wormdb.engine.tree.nodes import fetch_object, gone_is_old
from wormdb.format.blocklist import BlockEntry, BlockPageRef, ColumnStats, decode_block_page
from wormdb.format.blockread import Block, open_block
from wormdb.format.frame import corrupt
from wormdb.format.sidecar import PageMap, decode_filter, decode_page_map
from wormdb.settings import KIB, SHELF_BYTES_MAX
from wormdb.storage.store import ByteRange, KeepingStore, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.format.block import Row
    from wormdb.format.membership import MembershipFilter
    from wormdb.storage.pool import Pool


__all__ = ["NEVER_CHANGES", "ROW_KIND", "BoundedCache", "ColumnCache", "Label", "Shelf", "State"]

# --- columns and rows that stay decoded ---

_LABELED_MEMORY: Final = 1_000  # of the objects around a thing that is kept by a label, about


ROW_KIND: Final = "row"
"""The kind of a label of a row."""


class State(NamedTuple):
    """Which state of a collection something is true of."""

    overlay: int
    """The serial of the tail that it is made of."""
    number: int
    revision: int
    """Of the root below; 0 without one."""


NEVER_CHANGES: Final = State(0, 0, 0)
"""For what is true of every state."""


class Label(msgspec.Struct, frozen=True):
    """What a thing is kept by."""

    key: str
    """Of the block, or the folder of the tail."""
    kind: str
    column: str | bytes = ""
    """Or the key of a row."""


class ColumnCache:
    """Things by label, up to a number of bytes; those used longest ago go first. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        """Empty; with 0 it stays so."""
        self.bytes_max = bytes_max
        self._bytes = 0
        self._held: OrderedDict[Label, tuple[State, Any, int]] = OrderedDict()
        self._rows: Counter[str] = Counter()
        """Of each folder how many rows are kept."""
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many things are kept."""
        return len(self._held)

    def count_rows(self, folder: str) -> int:
        """How many rows of the blocks of a folder are kept."""
        return self._rows[folder]

    @property
    def bytes_held(self) -> int:
        """What everything in it takes, about."""
        return self._bytes

    def find(self, label: Label, state: State = NEVER_CHANGES) -> Any:
        """What is kept; None if that is nothing, or of another state."""
        with self._lock:
            held = self._held.get(label)
            if held is None or held[0] != state:
                return None
            self._held.move_to_end(label)
            return held[1]

    def keep(self, label: Label, thing: Any, cost: int, state: State = NEVER_CHANGES) -> None:
        """Keep a thing of about `cost` bytes, in the place of what was there of another state."""
        cost += _LABELED_MEMORY
        with self._lock:
            if label in self._held:
                self._forgotten(label, self._held.pop(label)[2])
            if cost > self.bytes_max:
                return
            self._held[label] = state, thing, cost
            self._bytes += cost
            if label.kind == ROW_KIND:
                self._rows[_folder_of(label)] += 1
            while self._bytes > self.bytes_max:
                oldest, (_, _, dropped) = self._held.popitem(last=False)
                self._forgotten(oldest, dropped)

    def _forgotten(self, label: Label, cost: int) -> None:
        self._bytes -= cost
        if label.kind == ROW_KIND:
            self._rows[_folder_of(label)] -= 1


def _folder_of(label: Label) -> str:
    """The folder of the block that a thing is of."""
    return label.key[: label.key.rfind("/") + 1]


# --- one folder ---


T = TypeVar("T")
R = TypeVar("R")

SIDECAR_WHOLE_BYTES: Final = 16 * KIB
"""A sidecar up to this size is read whole, even if half of it is wanted."""
_ITEM_MEMORY: Final = 500  # of the objects around a thing that is kept, about
_PAGE_MEMORY: Final = 300  # of what is unpacked for one page of a block, about


class BoundedCache(Generic[T]):
    """Things by name, up to a number of bytes; those used longest ago go first. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        """Empty."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: str) -> T | None:
        """What is kept under a name."""
        with self._lock:
            held = self._held.get(name)
            if held is None:
                return None
            self._held.move_to_end(name)
            return held[0]

    def keep(self, name: str, thing: T, cost: int) -> None:
        """Keep a thing of about `cost` bytes."""
        with self._lock:
            if name in self._held:
                return
            self._held[name] = thing, cost + _ITEM_MEMORY
            self._bytes += cost + _ITEM_MEMORY
            while self._bytes > self._bytes_max:
                _, (_, dropped) = self._held.popitem(last=False)
                self._bytes -= dropped


class Shelf:
    """Reads the objects of one folder. Thread-safe.

    All reads raise SnapshotTooOldError naming the object if it is gone, and CorruptionError if it is damaged.
    """

    def __init__(
        self,
        store: Store,
        pool: Pool,
        folder: str,
        *,
        memory_bytes_max: int = SHELF_BYTES_MAX,
        columns: ColumnCache | None = None,
    ) -> None:
        """`folder` ends with /; `memory_bytes_max` is for each of three kinds of things. No requests.

        Without `columns` no column stays decoded.
        """
        assert folder.endswith("/"), folder
        self._store = store
        self._keeping = store if isinstance(store, KeepingStore) else None
        self._pool = pool
        self.folder = folder
        self.columns = columns or ColumnCache(0)
        self._pages: BoundedCache[tuple[BlockEntry, ...]] = BoundedCache(memory_bytes_max)
        self._maps: BoundedCache[PageMap] = BoundedCache(memory_bytes_max)
        self._filters: BoundedCache[MembershipFilter] = BoundedCache(memory_bytes_max)
        self._vain: BoundedCache[bool] = BoundedCache(memory_bytes_max // 16)
        self.upgrades = NO_UPGRADES
        """What is done to rows before they are shown; without any they are as they were written."""

    def showing(self, upgrades: Upgrades) -> Shelf:
        """The same shelf, with documents as they are after some mappings: all that is kept is shared. No requests."""
        if upgrades is self.upgrades:
            return self
        shelf = copy.copy(self)
        shelf.upgrades = upgrades
        return shelf

    def stats(self, entry: BlockEntry) -> tuple[ColumnStats, ...]:
        """The columns of a block that can be read as they are. No requests."""
        return self.upgrades.stats(entry)

    # --- keys ---

    def block_key(self, name: str) -> str:
        """The object key of a block."""
        return f"{self.folder}{name}.parquet"

    def sidecar_key(self, name: str) -> str:
        """The object key of a sidecar."""
        return f"{self.folder}{name}.map"

    def label(self, entry: BlockEntry) -> str:
        """What decoded parts of a block are kept by: the key, and which mapping was done last if any had to be."""
        key, upgrades = f"{self.folder}{entry.name}.parquet", self.upgrades
        return f"{key}@{upgrades.newest}" if upgrades.steps and upgrades.is_old(entry) else key

    def page_key(self, name: str) -> str:
        """The object key of a page of the block list."""
        return f"{self.folder}{name}.list"

    # --- reading ---

    def side_by_side(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """A function over items: several through the pool, one in the caller's thread."""
        return [function(item) for item in items] if len(items) < 2 else list(self._pool.map(function, items))

    def begin(self, function: Callable[[T], R], item: T) -> Iterator[R]:
        """A function of one item through the pool; `next` waits for the result, or raises what it raised."""
        return self._pool.map(function, [item])

    def listed(self, refs: Iterable[BlockPageRef]) -> dict[str, tuple[BlockEntry, ...]]:
        """The entries in pages of the list, by the page's name. 1 GET for each that is not kept, side by side."""
        wanted = {ref.name: ref for ref in refs}
        found = {name: page for name in wanted if (page := self._pages.find(name)) is not None}
        missing = [ref for name, ref in wanted.items() if name not in found]
        return found | dict(zip([ref.name for ref in missing], self.side_by_side(self._list, missing), strict=True))

    def known_map(self, entry: BlockEntry) -> PageMap | None:
        """The page map of a block, if it is kept. No requests."""
        return self._maps.find(entry.name)

    def known_filter(self, entry: BlockEntry) -> MembershipFilter | None:
        """The filter of a block, if it is kept. No requests."""
        return self._filters.find(entry.name)

    def note_vain(self, entry: BlockEntry) -> None:
        """Remember that a page of a block was read for a key that is not there."""
        self._vain.keep(entry.name, thing=True, cost=0)

    def was_vain(self, entry: BlockEntry) -> bool:
        """Whether that happened before: then its filter is worth reading. No requests."""
        return self._vain.find(entry.name) is not None

    @property
    def held_bytes(self) -> int:
        """Bytes of objects that the store below keeps as they are, of any folder. No requests."""
        return 0 if self._keeping is None else self._keeping.bytes_held

    def held_of(self, entry: BlockEntry) -> int:
        """Those of one block, about. No requests."""
        return 0 if self._keeping is None else self._keeping.held_of(self.block_key(entry.name))

    def find_row(self, entry: BlockEntry, key: bytes) -> Row | None:
        """A row of a block, if it is kept. No requests."""
        upgrades = self.upgrades
        is_plain = not upgrades.steps or not upgrades.is_old(entry)
        label = f"{self.folder}{entry.name}.parquet" if is_plain else self.label(entry)
        row: Row | None = self.columns.find(Label(label, ROW_KIND, key))
        return row

    def keep_row(self, entry: BlockEntry, key: bytes, row: Row) -> None:
        """Keep a row of a block, beside the columns that stay decoded."""
        cost = len(row.document or b"") + len(row.trash or b"")
        self.columns.keep(Label(self.label(entry), ROW_KIND, key), row, cost)

    def learn(
        self, maps: Iterable[BlockEntry], filters: Iterable[BlockEntry] = ()
    ) -> tuple[dict[str, PageMap], dict[str, MembershipFilter]]:
        """Page maps of some blocks and filters of some, by the blocks' names.

        1 GET for each block of which not all is kept, all side by side: of the sidecar, or of the half that is wanted.
        """
        mapped = {entry.name: entry for entry in maps}
        filtered = {entry.name: entry for entry in filters}
        known = {name: found for name in mapped if (found := self._maps.find(name)) is not None}
        denying = {name: kept for name in filtered if (kept := self._filters.find(name)) is not None}
        wanted = [
            (entry, name in mapped and name not in known, name in filtered and name not in denying)
            for name, entry in (mapped | filtered).items()
        ]
        missing = [want for want in wanted if want[1] or want[2]]
        read = self.side_by_side(self._sidecar, missing)
        for (entry, map_wanted, filter_wanted), (page_map, membership) in zip(missing, read, strict=True):
            if map_wanted and page_map is not None:
                known[entry.name] = page_map
            if filter_wanted and membership is not None:
                denying[entry.name] = membership
        return known, denying

    def whole(self, entry: BlockEntry) -> Block:
        """A whole block, checked. 1 GET."""
        key = self.block_key(entry.name)
        with gone_is_old(key):
            body = self._store.get(key).body
        return open_block(body, name=key, sha256=entry.sha256)

    def ranges(self, entry: BlockEntry, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Parts of a block, not checked. 1 GET for each span of `coalesce(spans)`."""
        return self._ranges(self.block_key(entry.name), spans)

    def _list(self, ref: BlockPageRef) -> tuple[BlockEntry, ...]:
        key = self.page_key(ref.name)
        entries = decode_block_page(fetch_object(self._store, key, ref.sha256), name=key, identity=ref.name).blocks
        if len(entries) != ref.blocks or any(entry.run != ref.run for entry in entries):
            corrupt(key, "it does not hold the blocks that the root says")
        cost = sum(_ITEM_MEMORY + _PAGE_MEMORY * len(entry.columns) for entry in entries)
        self._pages.keep(ref.name, entries, cost)
        return entries

    def _sidecar(self, want: tuple[BlockEntry, bool, bool]) -> tuple[PageMap | None, MembershipFilter | None]:
        entry, map_wanted, filter_wanted = want
        ref = entry.sidecar
        whole = (map_wanted and filter_wanted) or ref.length <= SIDECAR_WHOLE_BYTES
        start = 0 if whole or map_wanted else ref.map_bytes
        stop = ref.length if whole or filter_wanted else ref.map_bytes
        key = self.sidecar_key(ref.name)
        (data,) = self._ranges(key, [ByteRange(start, stop - start)])
        cut = ref.map_bytes - start
        page_map = self._unpack_map(data[:cut], entry, key) if cut else None
        membership = self._unpack_filter(data[cut:], entry, key) if stop > ref.map_bytes else None
        return page_map, membership

    def _unpack_map(self, data: bytes, entry: BlockEntry, key: str) -> PageMap:
        name = entry.name
        page_map = decode_page_map(data, name=key, identity=entry.sha256.hex(), block=self.block_key(name))
        planes = len(page_map.versions.revs.planes) + len(page_map.versions.seqs.planes)
        cost = page_map.rows * planes + len(page_map.versions.deleted) + _PAGE_MEMORY * page_map.page_count
        self._maps.keep(name, page_map, cost)
        return page_map

    def _unpack_filter(self, data: bytes, entry: BlockEntry, key: str) -> MembershipFilter:
        membership = decode_filter(data, name=key, identity=entry.sha256.hex())
        self._filters.keep(entry.name, membership, 8 * len(membership))
        return membership

    def _ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        with gone_is_old(key):
            return self._store.get_ranges(key, spans)
