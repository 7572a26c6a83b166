"""The middles of lists: learned from a sample, and the list of a code among them.

Lists are learned in two levels: first a few groups, then the lists of each group. Then they are put in an order in
which those that are read together lie side by side, because they are stored so: then few requests read them. Learning
is in integers too: vectors are rounded to one scale, their sums are exact, and the middle of a list is their sum
divided once. So the same sample gives the same bytes everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from operator import sub
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.lists.codes import encode_vectors, find_kernel, load_numpy, multiplier, squares
from wormdb.engine.lists.probes import count_probes, count_ranges
from wormdb.format.frame import corrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.bql.nearest import Distance
    from wormdb.engine.lists.codes import Codes, Floats, Singles

__all__ = [
    "LISTS_MAX",
    "LIST_ROWS",
    "SAMPLE_ROWS",
    "Centroids",
    "choose_lists",
    "choose_ranges",
    "count_lists",
    "decode_centroids",
    "learn",
]

LIST_ROWS: Final = 128
"""Vectors of a list, about, when it is learned."""
LISTS_MAX: Final = 65_536
SAMPLE_ROWS: Final = 64
"""Vectors for each list that lists are learned from."""
_LEAST: Final = 512
"""Of fewer vectors there is one list."""
_ROUNDS: Final = 8
_WINDOW: Final = 2_048
"""Lists that are put in order together."""
_MAGIC: Final = b"VC1\0"
_STEPS: Final = 64
"""Parts of the nearest lists of which some are left out, where they lie in too many places."""
_UNIT: Final = 4_095
"""The greatest number of a vector when it is rounded for a sum."""


@dataclass(frozen=True, eq=False)
class Centroids:
    """The middles of lists, as codes with their scales."""

    codes: Codes
    scales: Singles
    squares: Floats

    @property
    def count(self) -> int:
        """How many lists there are."""
        return len(self.codes)

    def cut(self, start: int, stop: int) -> Centroids:
        """Those from one number up to below another. No requests."""
        return Centroids(self.codes[start:stop], self.scales[start:stop], self.squares[start:stop])

    def rate(self, distance: Distance, codes: Codes, scales: Singles) -> Floats:
        """How near each code is to each middle: more is nearer. Exact operations of float64 only. No requests."""
        numpy = load_numpy()
        products = self._times(codes)
        if distance == "euclidean":
            own = self.scales.astype(numpy.float64)
            near: Floats = (2.0 * own) * (scales.astype(numpy.float64)[:, None] * products) - own * own * self.squares
            return near
        lengths = self._lengths
        if self._has_zeros:
            return numpy.divide(products, lengths, out=numpy.full(products.shape, -numpy.inf), where=lengths > 0)  # type: ignore[no-any-return] # numpy is loaded late
        rated: Floats = products / lengths
        return rated

    def nearest_ranges(
        self, distance: Distance, code: Codes, scales: Singles, count: int | None
    ) -> list[tuple[int, int]]:
        """The lists that are read for one code, or all, as ranges from a first number through a last one. No requests.

        These are the nearest, of equally near ones the first, and what `choose_ranges` makes of them.
        """
        if count is None or count >= self.count:
            return [(0, self.count - 1)]
        rated = self.rate(distance, code, scales)[0]
        least = rated.copy()
        least.partition(self.count - count)
        some = (rated >= least[self.count - count]).nonzero()[0]
        # The sort is stable: of equally near ones the first comes first.
        return choose_ranges(some[(-rated[some]).argsort(kind="stable")[:count]])

    def _times(self, codes: Codes) -> Floats:
        """As `multiply` with the middles; what is made of these is made once for each kernel."""
        kernel = find_kernel()
        held = self._multipliers.get(kernel is None)
        if held is None:
            held = self._multipliers[kernel is None] = multiplier(self.codes)
        return held(codes)

    @cached_property
    def _multipliers(self) -> dict[bool, Callable[[Codes], Floats]]:
        return {}

    @cached_property
    def _lengths(self) -> Floats:
        lengths: Floats = load_numpy().sqrt(self.squares)
        return lengths

    @cached_property
    def _has_zeros(self) -> bool:
        return not self.squares.all()

    def assign(self, distance: Distance, codes: Codes, scales: Singles) -> Any:
        """The number of the list of each code: the nearest, of equally near ones the first. No requests."""
        numpy = load_numpy()
        found = numpy.empty(len(codes), numpy.int64)
        step = max(1, (1 << 22) // max(self.count, 1))
        for start in range(0, len(codes), step):
            part = slice(start, start + step)
            found[part] = self.rate(distance, codes[part], scales[part]).argmax(axis=1)
        return found

    def encode(self) -> bytes:
        """As it is stored. No requests."""
        count, dimensions = self.codes.shape
        head = _MAGIC + count.to_bytes(4, "little") + dimensions.to_bytes(4, "little")
        return b"".join((head, self.scales.astype("<f4").tobytes(), self.codes.tobytes()))


def choose_lists(nearest: Any) -> list[int]:
    """The numbers of the lists of `choose_ranges`, in order. No requests."""
    return [number for first, last in choose_ranges(nearest) for number in range(first, last + 1)]


def choose_ranges(nearest: Any) -> list[tuple[int, int]]:
    """The lists that are read, as ranges in order, by the numbers of the nearest ones, an array with the nearest first.

    They are at least as many, and in `count_ranges` places at most: the smallest gaps between the nearest are filled,
    and for that the farthest of these are left out. No requests.
    """
    ranked = nearest.tolist()
    count = len(ranked)
    ranges = count_ranges(count)

    def is_enough(part: int) -> bool:
        taken = count * part // _STEPS
        filled = taken - ranges
        if filled <= 0:
            return taken >= count
        places = sorted(ranked[:taken])
        between: int = sum(sorted(map(sub, places[1:], places))[:filled]) - filled
        return taken + between >= count

    # More of the nearest never need fewer lists between: so the fewest that make enough are found by halves.
    least = bisect_left(range(_STEPS), x=True, lo=_STEPS // 4, key=is_enough) if count > ranges else _STEPS
    places = sorted(ranked[: count * least // _STEPS])
    gaps = list(map(sub, places[1:], places))
    # The widest gaps stay; the sort is stable: of equally wide ones the first.
    apart = sorted(range(len(gaps)), key=gaps.__getitem__, reverse=True)[: ranges - 1]
    ends = [place for place in sorted(apart) if gaps[place] > 1]
    firsts, lasts = [places[place + 1] for place in ends], [places[place] for place in ends]
    return list(zip([places[0], *firsts], [*lasts, places[-1]], strict=True))


def decode_centroids(data: bytes, *, dimensions: int, name: str) -> Centroids:
    """What `Centroids.encode` wrote into object `name`. No requests; raises CorruptionError."""
    numpy = load_numpy()
    count = int.from_bytes(data[4:8], "little")
    is_whole = data[:4] == _MAGIC and int.from_bytes(data[8:12], "little") == dimensions
    if not is_whole or not 1 <= count <= LISTS_MAX or len(data) != 12 + count * (4 + dimensions):
        corrupt(name, "it has no middles of lists of this index")
    scales = numpy.frombuffer(data, "<f4", count, 12).astype(numpy.float32)
    codes = numpy.frombuffer(data, numpy.int8, offset=12 + 4 * count).reshape(count, dimensions)
    return Centroids(codes, scales, squares(codes))


def count_lists(vectors: int) -> int:
    """How many lists this number of vectors gets. No requests."""
    return 1 if vectors < _LEAST else min(ceil(vectors / LIST_ROWS), LISTS_MAX)


def learn(distance: Distance, vectors: Singles, lists: int) -> Centroids | None:
    """About `lists` middles of some vectors; None if there is nothing to tell apart. No requests."""
    numpy = load_numpy()
    codes, scales = encode_vectors(vectors)
    kept = squares(codes) > 0
    codes, scales = codes[kept], scales[kept]
    lists = min(lists, len(codes) // 2)
    if lists < 2:
        return None
    rounded = _round(distance, codes, scales)
    sample = _Sample(distance, codes, scales, rounded)
    groups = sample.split(numpy.arange(len(codes)), max(1, round(sqrt(lists))))
    middles = []
    for group in groups:
        share = max(1, round(lists * len(group) / len(codes)))
        middles += [sample.middle(part) for part in sample.split(group, share)]
    return _in_order(distance, _centroids(numpy.concatenate(middles)))


def _in_order(distance: Distance, middles: Centroids) -> Centroids:
    """The same middles, those that are near to the same ones side by side."""
    numpy = load_numpy()
    order = numpy.concatenate(
        [start + _chain(distance, middles.cut(start, start + _WINDOW)) for start in range(0, middles.count, _WINDOW)]
    )
    return Centroids(middles.codes[order], middles.scales[order], middles.squares[order])


def _chain(distance: Distance, middles: Centroids) -> Any:
    """Some middles in order: behind each the one, of those that are left, with which it has most neighbours in common.

    As many neighbours count as lists are read at once.
    """
    numpy = load_numpy()
    count = middles.count
    rated = middles.rate(distance, middles.codes, middles.scales)
    near = numpy.argsort(-rated, axis=1, kind="stable")[:, : count_probes(count, None) or count]
    is_near = numpy.zeros((count, count), numpy.float32)
    numpy.put_along_axis(is_near, near, 1.0, axis=1)
    common = is_near.T @ is_near  # whole numbers below 2^24: exact
    order = numpy.zeros(count, numpy.int64)
    for place in range(1, count):
        common[:, order[place - 1]] = -1.0
        order[place] = common[order[place - 1]].argmax()
    return order


def _round(distance: Distance, codes: Codes, scales: Singles) -> Any:
    """Vectors as integers of one scale, whose sums are exact: of directions only, but for euclidean distances."""
    numpy = load_numpy()
    wide = codes.astype(numpy.float64)
    if distance == "euclidean":
        factors = scales.astype(numpy.float64) / (float(scales.max()) * 127) * _UNIT
    else:
        factors = _UNIT / numpy.sqrt(squares(codes))
    return numpy.rint(wide * factors[:, None]).astype(numpy.int32)


def _centroids(sums: Floats) -> Centroids:
    numpy = load_numpy()
    codes, scales = encode_vectors(sums.astype(numpy.float32))
    return Centroids(codes, scales, squares(codes))


@dataclass(frozen=True, eq=False)
class _Sample:
    distance: Distance
    codes: Codes
    scales: Singles
    rounded: Any

    def split(self, rows: Any, parts: int) -> list[Any]:
        """Some rows in about this number of parts, of rows that are near each other; none is empty."""
        numpy = load_numpy()
        if parts <= 1 or len(rows) <= parts:
            return [rows]
        # The sample is fair, so rows at equal distances in it are a fair beginning.
        begin = rows[(numpy.arange(parts) * len(rows)) // parts]
        middles = _centroids(self._scaled(self.rounded[begin].astype(numpy.float64)))
        lists = middles.assign(self.distance, self.codes[rows], self.scales[rows])
        for _ in range(_ROUNDS):
            known = [rows[lists == number] for number in numpy.unique(lists)]
            middles = _centroids(numpy.concatenate([self.middle(part) for part in known]))
            following = middles.assign(self.distance, self.codes[rows], self.scales[rows])
            if (following == lists).all():
                break
            lists = following
        return [rows[lists == number] for number in numpy.unique(lists)]

    def middle(self, rows: Any) -> Floats:
        """The middle of some rows, as one row."""
        numpy = load_numpy()
        total = self.rounded[rows].sum(axis=0, dtype=numpy.int64).astype(numpy.float64)
        return self._scaled(total / len(rows))[None, :]

    def _scaled(self, rounded: Floats) -> Floats:
        """Rounded numbers as they were before."""
        if self.distance == "euclidean":
            return rounded * (float(self.scales.max()) * 127 / _UNIT)
        return rounded / _UNIT
