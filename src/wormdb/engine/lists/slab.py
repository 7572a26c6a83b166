"""The lists of an index of vectors as arrays, ready to be multiplied: what a process keeps of them.

What an object has of a list never changes, so it stays when runs are added; which entries count is of one head. Lists
that lie side by side make a segment. Those that are asked for often are moved into one array: then a range of lists is
a slice of it, and is multiplied at once.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from wormdb.engine.blocks.shelf import Label
from wormdb.engine.lists.centroids import LISTS_MAX
from wormdb.engine.lists.codes import load_numpy
from wormdb.engine.lists.vector_kind import ONLY_LIST, list_key
from wormdb.engine.state.view import id_key, id_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.engine.lists.codes import Codes, Singles
    from wormdb.engine.lists.read import ListReader, RunList
    from wormdb.format.list_part import StoredList, TextArray
    from wormdb.format.list_run import ListHead

__all__ = [
    "ONLY_RANGE",
    "ListRange",
    "PickedPiece",
    "VectorBlock",
    "VectorIds",
    "VectorPiece",
    "VectorSlab",
    "keep_slab",
    "open_slab",
]

ListRange: TypeAlias = tuple[int, int]
"""Lists by their numbers, from a first one through a last one."""
ONLY_RANGE: Final[ListRange] = (LISTS_MAX, LISTS_MAX)
"""The list of all vectors, where there are too few for more."""
SEGMENT_LISTS: Final = 256
"""Lists of which the codes are moved into one array together: several MB, so that none of it takes long, and systems
give it large pages of memory."""
PACK_AFTER: Final = SEGMENT_LISTS
"""Pieces of a segment that are taken one by one until they are moved: that takes about as long."""
GONE_SHARE_MAX: Final = 0.25
"""Of the rows of an array that may be of objects which a newer head does not have: more are not worth multiplying."""
_SLAB_KIND: Final = "vectors"
_CACHE_SHARE: Final = 0.5
"""Of the cache for columns that the lists of one index may take."""
_PIECE_MEMORY: Final = 1_500
"""Bytes of the objects around the entries of a list, about …"""
_ID_MEMORY: Final = 32
"""… and of an id."""
_TABLE_AFTER: Final = 8
"""Questions for few ids after which a table of all is made: that takes as long as so many of them without it."""
_KEYS_MAX: Final = 1_024
"""Keys that are kept of a segment."""

_Place: TypeAlias = "tuple[str, bytes]"
"""An object and the key of a list."""


class VectorBlock(msgspec.Struct, frozen=True, eq=False):
    """Entries of which the codes lie in one array."""

    codes: Any
    """A row of int8 for each, as it is stored."""
    factors: Any
    """What their scores are made of besides, as `VectorKind.make_factors` has it: a column for each.

    NaN for entries that do not count.
    """
    ids: VectorIds


class VectorPiece(msgspec.Struct, frozen=True, eq=False):
    """Entries of one list or several that lie side by side: rows of a block."""

    block: VectorBlock
    start: int
    stop: int
    has_hidden: bool = False
    """Whether some may not count."""

    def rows_of(self) -> tuple[Any, Any]:
        """A row of int8 for each, and their factors, as `VectorBlock` has them."""
        block, rows = self.block, slice(self.start, self.stop)
        return block.codes[rows], block.factors[:, rows]

    def key(self, row: int) -> bytes:
        """The key of the id of an entry."""
        return self.block.ids.key(self.start + row)

    def pick(self, hashes: Any) -> VectorPiece | PickedPiece | None:
        """Its entries whose keys may have one of some hashes, or all of them; None if there is none."""
        places = self.block.ids.find(hashes)
        if places is None:
            return self
        rows = places[(places >= self.start) & (places < self.stop)]
        return PickedPiece(self.block, rows, self.has_hidden) if len(rows) else None


class PickedPiece(msgspec.Struct, frozen=True, eq=False):
    """Some entries of a block, by an array of its rows."""

    block: VectorBlock
    rows: Any
    has_hidden: bool = False

    def rows_of(self) -> tuple[Any, Any]:
        """As `VectorPiece`."""
        return self.block.codes.take(self.rows, axis=0), self.block.factors.take(self.rows, axis=1)

    def key(self, row: int) -> bytes:
        """As `VectorPiece`."""
        return self.block.ids.key(int(self.rows[row]))


class VectorIds:
    """The ids of some entries, one array after the other: those of entries that are near to much are kept as keys."""

    __slots__ = ("_arrays", "_asked", "_keys", "_starts", "_table")

    def __init__(self, arrays: Sequence[Sequence[bytes] | TextArray]) -> None:
        """Of ids as JSON. No requests."""
        self._arrays = arrays
        self._starts = list(accumulate(map(len, arrays), initial=0))
        self._keys: dict[int, bytes] = {}
        self._table: tuple[Any, Any] | None = None
        """Hashes of all keys in order, and the place of each."""
        self._asked = 0

    def find(self, hashes: Any) -> Any:
        """The places of all ids whose keys may have one of some hashes, in order; None while it is not worth it.

        A table of all hashes is made when places were asked for often.
        """
        numpy = load_numpy()
        self._asked += 1
        if self._table is None:
            if self._asked < _TABLE_AFTER:
                return None
            keys = (key for some in self._arrays for key in id_keys(list(some)))
            made = numpy.fromiter(map(hash, keys), "int64", self._starts[-1])
            order = made.argsort(kind="stable")
            self._table = made[order], order
        known, places = self._table
        first, last = known.searchsorted(hashes, "left"), known.searchsorted(hashes, "right")
        return numpy.sort(places[_between(first, last)])

    def key(self, place: int) -> bytes:
        """The key of an id."""
        known = self._keys.get(place)
        if known is None:
            number = bisect_right(self._starts, place) - 1
            if len(self._keys) >= _KEYS_MAX:
                self._keys.clear()
            known = self._keys[place] = id_key(self._arrays[number][place - self._starts[number]])
        return known


@dataclass(frozen=True, slots=True, eq=False)
class _PackedLists:
    """What objects have of the lists of a segment, in one array: of any head."""

    codes: Codes
    factors: Singles
    ids: VectorIds
    spans: dict[_Place, tuple[int, int]]
    """Which rows are of an object and a list."""
    starts: list[int]
    """Where the rows of each list begin, and last where they end."""


@dataclass(slots=True, eq=False)
class _Segment:
    """What is kept of some lists that lie side by side, and which of their entries count for one head."""

    stored: dict[_Place, StoredList | None] = field(default_factory=dict)
    """Also of lists that an object does not have."""
    packed: _PackedLists | None = None
    block: VectorBlock | None = None
    """The rows of `packed`, and which of them count."""
    starts: Sequence[int] = ()
    """Those of `packed`."""
    loose: dict[int, tuple[VectorPiece, ...]] = field(default_factory=dict)
    """By the place of each list that was read for the head: what of it is not packed."""
    hidden: dict[_Place, Any] = field(default_factory=dict)
    """The rows of a list that do not count, of those that have any."""
    whole: bytearray = field(default_factory=lambda: bytearray(SEGMENT_LISTS))
    """By place 1 for a list that was read for the head and of which nothing is loose."""
    has_hidden: bool = False
    """Whether there is anything in `hidden`."""
    taken: int = 0
    """How many pieces were taken one by one."""
    size: int = 0

    def slice(self, low: int, high: int) -> VectorPiece | None:
        """The packed rows of the lists from one place up to below another; None if there are none."""
        if self.block is None:
            return None
        start, stop = self.starts[low], self.starts[high]
        return None if start == stop else VectorPiece(self.block, start, stop, self.has_hidden)


class VectorSlab:
    """The lists of one head that were read so far. Thread-safe: what it keeps may be made twice."""

    def __init__(self, head: ListHead, bytes_max: int) -> None:
        """Without lists; those of other heads are taken over by `follow`. No requests."""
        self.head = head
        self.size = 0
        """Bytes of what it keeps, about."""
        self._bytes_max = bytes_max
        self._names = [[part.name for part in run.parts] for run in head.runs]
        """Of the objects of each run."""
        self._segments: dict[int, _Segment] = {}
        self._lock = Lock()

    def follow(self, head: ListHead) -> VectorSlab:
        """What is kept of a newer head, or of an older one: all that objects of both have. No requests."""
        slab = VectorSlab(head, self._bytes_max)
        names = {name for some in slab._names for name in some}
        with self._lock:
            for number, segment in self._segments.items():
                stored = {place: found for place, found in segment.stored.items() if place[0] in names}
                packed, gone = segment.packed, {}
                if packed is not None:
                    gone = {
                        place: range(stop - start)
                        for place, (start, stop) in packed.spans.items()
                        if place[0] not in names
                    }
                    if sum(map(len, gone.values())) > GONE_SHARE_MAX * packed.starts[-1]:
                        packed, gone = None, {}
                if stored:
                    slab._segments[number] = _opened(stored, packed, gone)
        slab.size = sum(segment.size for segment in slab._segments.values())
        return slab

    def read(self, reader: ListReader, ranges: Sequence[ListRange]) -> list[VectorPiece]:
        """The entries of some lists, of all runs. What is not kept costs as `ListReader.read`."""
        found: list[VectorPiece] = []
        segments, count = self._segments, SEGMENT_LISTS
        for first, last in ranges:
            number = first // count
            segment, low, high = segments.get(number), first - number * count, last - number * count + 1
            if segment is None or high > count or segment.whole.find(0, low, high) >= 0:
                return self._read_some(reader, _cut(ranges))
            if segment.block is not None:
                start, stop = segment.starts[low], segment.starts[high]
                if start < stop:
                    found.append(VectorPiece(segment.block, start, stop, segment.has_hidden))
        return found

    def _read_some(self, reader: ListReader, cuts: Sequence[tuple[int, int, int]]) -> list[VectorPiece]:
        """As `read`, where not all lists are kept, or not all of them are packed."""
        segments = {number: self._segments.get(number) for number, _, _ in cuts}
        missing = [
            (number, place)
            for number, low, high in cuts
            for place in range(low, high)
            if (held := segments[number]) is None or place not in held.loose
        ]
        loaded = self._load(reader, missing)
        found: list[VectorPiece | None] = []
        for number, low, high in cuts:
            segment = segments[number]
            if segment is not None and segment.whole.find(0, low, high) < 0:
                found.append(segment.slice(low, high))
                continue
            for place in range(low, high):
                pieces = loaded.get((number, place))
                if pieces is None:
                    assert segment is not None, "it was there, or it was loaded"
                    pieces = _pieces_of(segment, place)
                    segment.taken += len(pieces)
                found += pieces
        for number, segment in segments.items():
            if segment is not None and segment.taken >= PACK_AFTER:
                self._pack(number, segment)
        return [piece for piece in found if piece is not None]

    def _load(
        self, reader: ListReader, missing: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[VectorPiece, ...]]:
        """Some lists, which are kept from now on as far as there is room."""
        if not missing:
            return {}
        keys = {_key(*at): at for at in missing}
        held: dict[_Place, StoredList | None] = {}
        with self._lock:
            for key, (number, _) in keys.items():
                known = self._segments.get(number)
                places = ((name, key) for names in self._names for name in names)
                held |= {place: known.stored[place] for place in places if place in known.stored} if known else {}
        lists = reader.read(keys, held)
        made: dict[tuple[int, int], tuple[VectorPiece, ...]] = {}
        with self._lock:
            for key, at in keys.items():
                segment = self._segments.setdefault(at[0], _Segment())
                for names in self._names:
                    # What another thread has packed meanwhile stays as it is.
                    new = {place: held[place] for name in names if (place := (name, key)) in held}
                    segment.stored = {**new, **segment.stored}
                self._show(segment, at[1], [(self._name(found, held), found) for found in lists.get(key, ())])
                made[at] = _pieces_of(segment, at[1])
            for number in {number for number, _ in missing}:
                segment = self._segments[number]
                self.size -= segment.size
                segment.size = sum(map(_size, segment.stored.values()))
                self.size += segment.size
            while self.size > self._bytes_max and self._segments:
                self.size -= self._segments.pop(next(iter(self._segments))).size
        return made

    def _name(self, found: RunList, held: Mapping[_Place, StoredList | None]) -> str:
        """The object that has what a run has of a list."""
        return next(name for name in self._names[found.run] if held.get((name, found.key)) is found.entries)

    def _show(self, segment: _Segment, at: int, lists: Iterable[tuple[str, RunList]]) -> None:
        """Note which entries of a list count, and what of it is loose."""
        numpy = load_numpy()
        loose: list[VectorPiece] = []
        for name, found in lists:
            place = name, found.key
            span = None if segment.packed is None else segment.packed.spans.get(place)
            hidden = numpy.array(sorted(found.hidden), "int64") if found.hidden else None
            if hidden is not None:
                segment.hidden[place], segment.has_hidden = hidden, True
            if span is None and found.entries.count:
                loose.append(_piece(found.entries, hidden))
            elif span is not None and hidden is not None:
                assert segment.block is not None, "what is packed has rows"
                segment.block.factors[:, span[0] + hidden] = numpy.nan
        segment.loose[at] = tuple(loose)
        segment.whole[at] = not loose

    def _pack(self, number: int, segment: _Segment) -> None:
        """Move all codes of a segment into one array."""
        with self._lock:
            if self._segments.get(number) is not segment:
                return  # another thread did, or it is no longer kept
            packed, stored = _packed(number, segment.stored, [name for names in self._names for name in names])
            made = _opened(stored, packed, segment.hidden)
            for place in segment.loose:
                made.loose[place], made.whole[place] = (), 1
            self._segments[number] = made


def open_slab(reader: ListReader) -> VectorSlab:
    """What is kept of the lists of a reader, from now on for its head. No requests."""
    if reader.folder is None:
        return VectorSlab(reader.head, 0)
    cache = reader.folder.shelf.pages
    held: VectorSlab | None = cache.find(Label(reader.folder.folder, _SLAB_KIND))
    if held is not None and (held.head is reader.head or held.head == reader.head):
        return held
    opened = VectorSlab(reader.head, int(cache.bytes_max * _CACHE_SHARE)) if held is None else held.follow(reader.head)
    keep_slab(reader, opened)
    return opened


def keep_slab(reader: ListReader, slab: VectorSlab) -> None:
    """Keep it for others, as far as the cache has room. No requests."""
    if reader.folder is not None:
        reader.folder.shelf.pages.keep(Label(reader.folder.folder, _SLAB_KIND), slab, slab.size)


def _cut(ranges: Iterable[ListRange]) -> list[tuple[int, int, int]]:
    """Ranges of lists by segment: its number, the place of the first, and the one behind the last."""
    cuts = []
    for first, last in ranges:
        number, low = divmod(first, SEGMENT_LISTS)
        high = last - number * SEGMENT_LISTS + 1
        while high > SEGMENT_LISTS:
            cuts.append((number, low, SEGMENT_LISTS))
            number, low, high = number + 1, 0, high - SEGMENT_LISTS
        cuts.append((number, low, high))
    return cuts


def _between(first: Any, last: Any) -> Any:
    """All numbers from each of some first ones up to below the last one that belongs to it."""
    numpy = load_numpy()
    counts = last - first
    ends = counts.cumsum()
    return numpy.arange(ends[-1] if len(ends) else 0) + numpy.repeat(first - ends + counts, counts)


def _key(number: int, place: int) -> bytes:
    one = number * SEGMENT_LISTS + place
    return ONLY_LIST if one == ONLY_RANGE[0] else list_key(one)


def _opened(
    stored: dict[_Place, StoredList | None], packed: _PackedLists | None, hidden: dict[_Place, Any]
) -> _Segment:
    """A segment of which no list was read for its head."""
    size = sum(map(_size, stored.values()))
    made = _Segment(stored, packed, hidden=hidden, has_hidden=bool(hidden), size=size)
    if packed is not None:
        factors = packed.factors.copy()
        for place, rows in hidden.items():
            if place in packed.spans:
                factors[:, packed.spans[place][0] + load_numpy().asarray(rows)] = load_numpy().nan
        made.block, made.starts = VectorBlock(packed.codes, factors, packed.ids), packed.starts
    return made


def _pieces_of(segment: _Segment, place: int) -> tuple[VectorPiece, ...]:
    packed = segment.slice(place, place + 1)
    loose = segment.loose[place]
    return loose if packed is None else (packed, *loose)


def _packed(
    number: int, stored: dict[_Place, StoredList | None], names: Sequence[str]
) -> tuple[_PackedLists, dict[_Place, StoredList | None]]:
    """One array of all codes of a segment, and the lists as parts of it: nothing is in memory twice."""
    numpy = load_numpy()
    spans: dict[_Place, tuple[int, int]] = {}
    moved: list[tuple[_Place, StoredList]] = []
    starts, end = [0], 0
    for place in range(SEGMENT_LISTS):
        # Behind the only list there is none.
        for name in names if number * SEGMENT_LISTS + place <= LISTS_MAX else ():
            at = name, _key(number, place)
            found = stored.get(at)
            if found is not None and found.count:
                spans[at] = end, end + found.count
                moved.append((at, found))
                end += found.count
        starts.append(end)
    columns = [[found.columns[column] for _, found in moved] for column in range(len(moved[0][1].columns))]
    codes = numpy.empty((end, moved[0][1].widths[0]), numpy.int8)
    for (start, stop), body in zip(spans.values(), columns[0], strict=True):
        codes[start:stop] = numpy.frombuffer(body, numpy.int8).reshape(stop - start, -1)
    factors = numpy.stack([numpy.frombuffer(b"".join(some), "<f4") for some in columns[1:]]).astype(numpy.float32)
    bodies = [
        memoryview(codes).cast("B"),
        *(memoryview(factors[row].astype("<f4")).cast("B") for row in range(len(factors))),
    ]
    made: dict[_Place, StoredList | None] = {at: found for at, found in stored.items() if at not in spans}
    for at, found in moved:
        start, stop = spans[at]
        parts = [body[start * width : stop * width] for body, width in zip(bodies, found.widths, strict=True)]
        made[at] = replace(found, columns=tuple(parts), ids=found.ids.copy(), gone=found.gone.copy())
    ids = VectorIds([found.ids for at in spans if (found := made[at]) is not None])
    return _PackedLists(codes, factors, ids, spans, starts), made


def _piece(entries: StoredList, hidden: Any) -> VectorPiece:
    numpy = load_numpy()
    codes, *columns = entries.columns
    # A copy: what is stored may lie anywhere in memory, and single numbers are fast where they are aligned.
    factors = numpy.stack([numpy.frombuffer(each, "<f4") for each in columns]).astype(numpy.float32)
    if hidden is not None:
        factors[:, hidden] = numpy.nan
    rows = numpy.frombuffer(codes, numpy.int8).reshape(entries.count, -1)
    return VectorPiece(VectorBlock(rows, factors, VectorIds([entries.ids])), 0, entries.count, hidden is not None)


def _size(found: StoredList | None) -> int:
    if found is None:
        return _PIECE_MEMORY
    return _PIECE_MEMORY + sum(map(len, found.columns)) + _ID_MEMORY * (found.count + len(found.gone))
