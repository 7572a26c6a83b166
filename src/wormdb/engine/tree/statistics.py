"""What a planner needs to know of an index: how many entries, how many values, and how they are spread."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.tree.entries import Entry, Range, value_key_of
from wormdb.format.frame import Count, decode_message, encode_message
from wormdb.settings import KIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.tree.tree import TreeReader
    from wormdb.format.node import Child, Inner, Leaf

__all__ = ["IndexStatistics", "decode_statistics", "encode_statistics", "measure"]

BUCKETS: Final = 32
LEAVES_SAMPLED: Final = 8
BOUND_BYTES_MAX: Final = 64
"""A bound is cut to this length: the statistics of all indexes are part of the root."""
_STATISTICS_BYTES_MAX: Final = 64 * KIB


class IndexStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about one state of an index; all but `entries` are estimates.

    `ranks[i]` entries have keys below `bounds[i]`, about: an equi-depth histogram. `arrays` says for each field
    whether a document ever had an array there; empty if that is not known, and then it must be assumed.
    """

    entries: Count = msgspec.field(name="e")
    distinct: Count = msgspec.field(name="d")
    bounds: tuple[bytes, ...] = msgspec.field(name="b", default=())
    ranks: tuple[Count, ...] = msgspec.field(name="r", default=())
    arrays: tuple[bool, ...] = msgspec.field(name="a", default=())

    def estimate(self, span: Range) -> int:
        """About how many entries a range has: right to one bucket at each end. No requests."""
        ranks = []
        # Every query asks this at least once, so both ends are looked up here and not by a function for each.
        for key in (span.low, span.high):
            place = 0 if key is None else bisect_right(self.bounds, key)
            rank = self.ranks[place - 1] if place else 0
            if key is None:
                rank = self.entries
            elif key and (not place or self.bounds[place - 1] != key):
                # In the middle of its bucket, unless it is a bound or below all keys.
                rank = (rank + (self.ranks[place] if place < len(self.ranks) else self.entries)) // 2
            ranks.append(rank)
        return max(ranks[1] - ranks[0], 0)

    @property
    def entries_per_value(self) -> float:
        """How many entries a value has on average."""
        return self.entries / self.distinct if self.distinct else 0.0


_DECODER: Final = msgspec.msgpack.Decoder(IndexStatistics)


def encode_statistics(statistics: IndexStatistics) -> bytes:
    """As bytes for the root."""
    return encode_message(
        statistics, what="statistics of an index", bytes_max=_STATISTICS_BYTES_MAX, fix="shorten keys"
    )


def decode_statistics(data: bytes, *, name: str) -> IndexStatistics:
    """The statistics in the root stored as object `name`; raises CorruptionError."""
    return decode_message(_DECODER, data, name=name)


def measure(
    reader: TreeReader, *, arrays: Sequence[bool] = (), value_key: Callable[[Entry], bytes] = value_key_of
) -> IndexStatistics:
    """Statistics of a tree without reading all of it.

    Reads 8 leaves and those beside them, the nodes above, and 32 inner nodes at most. The histogram is made of
    separators, so a tree of few leaves has few bounds.
    """
    entries = reader.tree.entries
    bounds: dict[bytes, int] = {}
    for key, rank in _picked(_edges(reader), entries):
        bounds.setdefault(key[:BOUND_BYTES_MAX], rank)
    return IndexStatistics(
        entries=entries,
        distinct=_distinct(reader, value_key),
        bounds=tuple(bounds),
        ranks=tuple(bounds.values()),
        arrays=tuple(arrays),
    )


def _edges(reader: TreeReader) -> list[tuple[bytes, int]]:
    """Separators and the entries below each, from the highest level that has enough of them."""
    top = reader.tree.top
    if top is None:
        return []
    if reader.tree.height == 1:
        (leaf,) = reader.nodes.leaves([top])
        return [(key, rank) for rank, key in enumerate(leaf.keys)][1:]
    children, lows = [top], [b""]
    for _ in range(reader.tree.height - 1):
        if len(children) > BUCKETS:
            break
        inners = reader.nodes.inners(children)
        lows = [low for first, inner in zip(lows, inners, strict=True) for low in (first, *inner.keys)]
        children = [child for inner in inners for child in inner.children]
    ranks = [0, *accumulate(child.count for child in children)]
    return list(zip(lows, ranks[:-1], strict=True))[1:]


def _picked(edges: Sequence[tuple[bytes, int]], entries: int) -> list[tuple[bytes, int]]:
    """Those next to the ends of 32 buckets of equal depth."""
    ranks = [rank for _, rank in edges]
    places = {bisect_left(ranks, entries * bucket // BUCKETS) for bucket in range(1, BUCKETS)}
    return [edges[place] for place in sorted(places) if place < len(edges)]


def _distinct(reader: TreeReader, value_key: Callable[[Entry], bytes]) -> int:
    """How many values there are: the mean of entries / (entries of the same value) over a sample of entries.

    That mean is right on average however the values are spread. A value in the middle of a leaf has all its entries
    there; those at the ends of a leaf are counted in the tree.
    """
    sampled = 0
    shares = 0.0  # of a value, summed over the entries of the sample
    ends: list[tuple[bytes, int]] = []
    for leaf in _sample(reader):
        runs = Counter(map(value_key, zip(leaf.keys, leaf.values, strict=True)))
        sampled += len(leaf.keys)
        outer = {0, len(runs) - 1}
        shares += len(runs) - len(outer)
        ends += [run for place, run in enumerate(runs.items()) if place in outer]
    counts = reader.count_many([Range.prefix(value) for value, _ in ends])
    shares += sum(inside / count for (_, inside), count in zip(ends, counts, strict=True))
    return round(shares / sampled * reader.tree.entries) if sampled else 0


def _sample(reader: TreeReader) -> list[Leaf]:
    """Leaves at equal distances, found by the counts above them; all if there are few."""
    top = reader.tree.top
    if top is None:
        return []
    step = reader.tree.entries / LEAVES_SAMPLED
    wanted: list[tuple[Child, int]] = [(top, int(step * (number + 0.5))) for number in range(LEAVES_SAMPLED)]
    for _ in range(reader.tree.height - 1):
        inners = reader.nodes.inners([child for child, _ in wanted])
        wanted = [_at_rank(inner, rank) for inner, (_, rank) in zip(inners, wanted, strict=True)]
    chosen = {child.name: child for child, _ in wanted}
    return reader.nodes.leaves(list(chosen.values()))


def _at_rank(inner: Inner, rank: int) -> tuple[Child, int]:
    """The child that holds the entry of that rank, and the rank within it."""
    ends = list(accumulate(child.count for child in inner.children))
    place = bisect_right(ends, rank)
    return inner.children[place], rank - (ends[place - 1] if place else 0)
