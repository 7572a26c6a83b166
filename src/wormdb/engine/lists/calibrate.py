"""Measure an index of vectors: how much of the true answer is found by how many lists.

Stored vectors are asked for, each against all others, by one pass over all codes. Of each of the true nearest its
list is noted: so one pass tells the recall of every number of lists. The vectors are
chosen at equal distances in the order of lists, so that each region has its share.

Where vectors are stored many times, nearly equal, a stored one finds its likes in its own list, and what will be asked
for has none. So the likes are left out of the true nearest: those before the widest gap between two neighbours in the
order of scores. Where there are no likes, that leaves out one or two, which changes little.

What is stored lies a little nearer to the lists than what will be asked for, so the recall is overstated:
`wormdb.engine.lists.probes` allows for that.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.engine.lists.centroids import choose_lists, decode_centroids
from wormdb.engine.lists.codes import load_numpy, multiplier
from wormdb.engine.lists.probes import share_needed
from wormdb.engine.state.view import id_key
from wormdb.format.list_run import Calibration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.lists.centroids import Centroids
    from wormdb.engine.lists.codes import Codes, Floats, Singles
    from wormdb.engine.lists.shelf import ListFolder
    from wormdb.engine.lists.vector_kind import VectorKind
    from wormdb.format.list_part import StoredList
    from wormdb.format.list_run import ListHead, ListRun

__all__ = ["calibrate"]

ASKED: Final = 200
"""Stored vectors that are asked for."""
NEAREST: Final = 10
"""Of the true nearest that are looked for."""
LIKES: Final = 64
"""Vectors before them that may be left out, as nearly equal to what is asked for."""
PARTS: Final = 10_000
"""Shares are stored as parts of this."""
_STEP: Final = 1.15
"""From one number of lists that is stored to the next."""
_ROWS: Final = 4_096
"""Vectors that are scored together."""


def calibrate(folder: ListFolder, head: ListHead, kind: VectorKind, *, changes: int) -> Calibration | None:
    """What the lists of an index find; None if there are no lists, or too few vectors. `changes` as `Root.changes`.

    Costs twice as `ListFolder.stream_lists` of every run, and 1 GET for what was learned. In memory are some MiB, and
    for each list 4 KB. Raises CorruptionError, SnapshotTooOldError, UnavailableError, MissingExtraError.
    """
    trained = folder.trained(head.trained)
    if trained is None or head.entries <= NEAREST:
        return None
    middles = decode_centroids(trained, dimensions=kind.dimensions, name="centroids")
    asked, lengths = _choose(folder, head, kind, middles.count)
    total = int(lengths.sum())
    if total <= NEAREST:
        return None
    points = _measure(_order(middles, kind, asked), _find_lists(folder, head, kind, asked), lengths)
    made = Calibration(changes=changes, entries=total, lists=middles.count, longest=int(lengths.max()), points=points)
    known = head.calibration
    if known is None:
        first = round(share_needed(made) * PARTS)
        return msgspec.structs.replace(made, first=first, learned=changes, learned_from=total)
    return msgspec.structs.replace(made, first=known.first, learned=known.learned, learned_from=known.learned_from)


def _measure(order: Any, lists: Any, lengths: Any) -> tuple[tuple[int, int, int], ...]:
    """By numbers of nearest lists what is found in those that are read for them, and which share of vectors they have.

    `lists` has those of the true nearest of what is asked for.
    """
    numpy = load_numpy()
    count, total = len(lengths), int(lengths.sum())
    points, before = [], 0
    for number in _ladder(count):
        found = rows = 0
        for nearest, wanted in zip(order, lists, strict=True):
            is_read = numpy.zeros(count, bool)
            is_read[choose_lists(nearest[:number])] = True
            found += int(is_read[wanted].sum())
            rows += int(lengths[is_read].sum())
        before = max(before, found * PARTS // max(lists.size, 1))
        points.append((number, before, round(rows * PARTS / (len(order) * total))))
    return tuple(points)


def _ladder(lists: int) -> list[int]:
    """The numbers of lists that are stored: close together at first."""
    found, number = [], 1
    while number < lists:
        found.append(number)
        number = max(number + 1, int(number * _STEP))
    return [*found, lists]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The vectors that are asked for."""

    codes: Codes
    factors: Singles
    places: dict[int, list[tuple[int, int]]]
    """By list: the place in it and the number of each vector that is asked for."""

    def scales(self, kind: VectorKind) -> Singles:
        """Of codes; only where distances depend on them."""
        numpy = load_numpy()
        scales: Singles = self.factors[:, 0] if kind.distance == "euclidean" else numpy.ones(len(self.codes), "<f4")
        return scales


# --- all codes, list by list ---


def _lists(folder: ListFolder, head: ListHead, kind: VectorKind) -> Iterator[tuple[int, Codes, Singles]]:
    """Each list that counts: its number, the codes of its vectors and what scores are made of besides."""
    streams = [_aged(folder, run, kind, age) for age, run in enumerate(head.runs)]
    numpy = load_numpy()
    for key, same in groupby(heapq.merge(*streams, key=itemgetter(0, 1)), key=itemgetter(0)):
        gone: set[bytes] = set()
        codes, factors = [], []
        for _, _, stored in same:
            if stored.count:
                code, factor = _matrices(stored, kind)
                if gone:
                    kept = [place for place, identity in enumerate(stored.ids) if id_key(identity) not in gone]
                    code, factor = code[kept], factor[kept]
                codes.append(code)
                factors.append(factor)
            gone.update(map(id_key, stored.gone))
        if any(map(len, codes)):
            yield int.from_bytes(key, "big"), numpy.concatenate(codes), numpy.concatenate(factors)


def _aged(folder: ListFolder, run: ListRun, kind: VectorKind, age: int) -> Iterator[tuple[bytes, int, StoredList]]:
    return ((key, age, stored) for key, stored in folder.stream_lists(run.parts, kind))


def _matrices(stored: StoredList, kind: VectorKind) -> tuple[Any, Any]:
    numpy = load_numpy()
    codes = numpy.frombuffer(stored.columns[0], numpy.int8).reshape(-1, kind.dimensions)
    others = [numpy.frombuffer(column, "<f4") for column in stored.columns[1:]]
    return codes, numpy.stack(others, axis=1)


# --- what is asked for ---


def _choose(folder: ListFolder, head: ListHead, kind: VectorKind, lists: int) -> tuple[_Asked, Any]:
    """Vectors at equal distances in the order of lists, and how many vectors each list has."""
    numpy = load_numpy()
    count = min(ASKED, head.entries)
    wanted = iter([*((2 * number + 1) * head.entries // (2 * count) for number in range(count)), -1])
    following, at = next(wanted), 0
    lengths = numpy.zeros(lists, numpy.int64)
    codes: list[Any] = []
    factors: list[Any] = []
    places: dict[int, list[tuple[int, int]]] = {}
    for number, code, factor in _lists(folder, head, kind):
        lengths[number] = len(code)
        while at <= following < at + len(code):
            place = following - at
            places.setdefault(number, []).append((place, len(codes)))
            codes.append(code[place])
            factors.append(factor[place])
            following = next(wanted)
        at += len(code)
    return _Asked(numpy.array(codes), numpy.array(factors), places), lengths


def _order(middles: Centroids, kind: VectorKind, asked: _Asked) -> Any:
    """For each vector that is asked for the lists in the order in which they are read."""
    numpy = load_numpy()
    scales = asked.scales(kind)
    order = numpy.empty((len(asked.codes), middles.count), numpy.int32)
    for row in range(len(order)):
        rated = middles.rate(kind.distance, asked.codes[row : row + 1], scales[row : row + 1])[0]
        order[row] = numpy.lexsort((numpy.arange(len(rated)), -rated))
    return order


def _find_lists(folder: ListFolder, head: ListHead, kind: VectorKind, asked: _Asked) -> Any:
    """The lists of the true nearest of what is asked for, a row for each."""
    numpy = load_numpy()
    best = _Best.none(len(asked.codes))
    times = multiplier(asked.codes)
    scales = asked.scales(kind)
    waiting: list[tuple[int, Any]] = []
    for number, codes, factors in _lists(folder, head, kind):
        scores = _score(kind, times(codes), factors, scales).T
        for place, row in asked.places.get(number, ()):
            scores[row, place] = -numpy.inf  # it is not asked for itself
        waiting.append((number, scores))
        if sum(part.shape[1] for _, part in waiting) >= _ROWS:
            best, waiting = best.join(waiting), []
    if waiting:
        best = best.join(waiting)
    return best.behind_likes()


@dataclass(frozen=True, slots=True, eq=False)
class _Best:
    """The best scores of what is asked for, a row for each, and the lists of those vectors; in any order."""

    scores: Any
    lists: Any

    @staticmethod
    def none(asked: int) -> _Best:
        numpy = load_numpy()
        shape = asked, LIKES + NEAREST
        return _Best(numpy.full(shape, -numpy.inf), numpy.zeros(shape, numpy.int32))

    def join(self, parts: Sequence[tuple[int, Any]]) -> _Best:
        """The best of these and of the vectors of some lists."""
        numpy = load_numpy()
        count, kept = self.scores.shape
        scores = numpy.concatenate([self.scores, *(part for _, part in parts)], axis=1)
        own = numpy.concatenate([numpy.full(part.shape[1], number, numpy.int32) for number, part in parts])
        lists = numpy.concatenate([self.lists, numpy.broadcast_to(own, (count, len(own)))], axis=1)
        chosen = numpy.argpartition(-scores, kept - 1, axis=1)[:, :kept]
        return _Best(numpy.take_along_axis(scores, chosen, axis=1), numpy.take_along_axis(lists, chosen, axis=1))

    def behind_likes(self) -> Any:
        """The lists of the true nearest of each, without those that are nearly equal to it."""
        numpy = load_numpy()
        order = numpy.argsort(-self.scores, axis=1, kind="stable")
        scores, lists = (numpy.take_along_axis(each, order, axis=1) for each in (self.scores, self.lists))
        # As many as are looked for must be left behind the gap.
        is_there = scores[:, NEAREST:] > -numpy.inf
        gaps = numpy.subtract(
            scores[:, :LIKES], scores[:, 1 : LIKES + 1], out=numpy.zeros(is_there.shape), where=is_there
        )
        likes = numpy.where(gaps.max(axis=1) > 0, gaps.argmax(axis=1) + 1, 0)
        taken = likes[:, None] + numpy.arange(NEAREST)[None, :]
        return numpy.take_along_axis(lists, taken, axis=1)


def _score(kind: VectorKind, products: Floats, factors: Singles, scales: Singles) -> Floats:
    """What orders rows as scores do: a row for each vector of a list, a column for each that is asked for."""
    first = factors[:, :1].astype(products.dtype)
    if kind.distance == "euclidean":
        return 2.0 * scales.astype(products.dtype)[None, :] * first * products - factors[:, 1:].astype(products.dtype)
    return products * first
