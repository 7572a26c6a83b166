"""Rows by the nearness of their vectors: the best of any number of them.

Every score that is shown is exact, as `wormdb.bql.nearest` has it. With numpy a whole batch is scored roughly first,
and only rows that may be among the best are scored exactly; the answer is the same without it.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from math import frexp, fsum, hypot, inf, ldexp, sqrt
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.bql.nearest import Near, make_scorer
from wormdb.format import json
from wormdb.format.path import get_direct
from wormdb.format.vector import read_vector
from wormdb.query.execute.rows import ColumnBatch, DocumentBatch, IdBatch, KeyBatch, ReadBatch, RowBatch, join_documents
from wormdb.query.plan import NearestScan
from wormdb.query.sources.source import is_nearest_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.lists.nearest import KnownRow
    from wormdb.query.execute.executor import Executor
    from wormdb.query.plan import Rank

__all__ = ["ManyScorer", "Ranking", "rank_candidates"]

Scored: TypeAlias = "tuple[float, bytes, KnownRow]"
"""A negative score, the key of the document, and this."""

_SLACK_ROWS: Final = 1_024
BLURRED_ROWS: Final = 1_024
"""Candidates that are scored by their documents at once where codes do not tell them apart."""
BLUR: Final = 4.0
"""How many times what codes are off on average documents must lie apart."""
_ROUGH_ROWS: Final = 32
"""Fewer rows are scored exactly at once."""
_ROUGH_ERROR: Final = 1e-9
"""Rough scores differ from exact ones by less: sums of 4,096 products in float64 by 1e-12 of the lengths."""


class Ranking:
    """Takes rows in any order, and gives the best `near.k` of them with their scores. `near` has a distance."""

    def __init__(self, near: Near) -> None:
        """Begins without rows."""
        self._near = near
        self._many = _make_many(near)
        self._found: list[tuple[float, bytes, int, int]] = []
        """The negative score, the key, and where the row is."""
        self._batches: list[ReadBatch] = []
        self._bound = float("-inf") if near.min_score is None else near.min_score
        """No row with a lower score is among the best."""

    def add(self, batch: ReadBatch) -> None:
        """Add some rows, which have their documents or a column of the vectors."""
        rows, scores = self._scored(self._values(batch))
        if not rows:
            return
        picked, place = batch if len(rows) == len(batch) else batch.pick(rows), len(self._batches)
        self._batches.append(picked)
        self._found += [
            (-score, key, place, row) for row, (score, key) in enumerate(zip(scores, picked.keys, strict=True))
        ]
        if len(self._found) > 2 * self._near.k + _SLACK_ROWS:
            self._settle()

    def finish(self) -> tuple[RowBatch, dict[bytes, float]]:
        """The best rows in their order, and the score of each by its key."""
        self._settle()
        scores = {key: -score for score, key, _, _ in self._found}
        wholes = list(self._wholes())
        if len(wholes) < len(self._batches) or not wholes:
            return KeyBatch(list(scores)), scores
        starts = list(accumulate(map(len, wholes), initial=0))
        return join_documents(wholes).pick([starts[place] + row for _, _, place, row in self._found]), scores

    def _values(self, batch: ReadBatch) -> Sequence[Any]:
        if isinstance(batch, ColumnBatch):
            return batch.portion.values(self._near.field)
        return [get_direct(document, self._near.path) for document in batch.documents]

    def _scored(self, values: Sequence[Any]) -> tuple[list[int], list[float]]:
        """The rows of a batch that may be among the best, and their scores."""
        length = len(self._near.vector)
        rows: list[int] = []
        vectors: list[array[float]] = []
        for row, value in enumerate(values):
            vector = read_vector(value, length)
            if not isinstance(vector, str):
                rows.append(row)
                vectors.append(vector)
        if self._many is not None and len(rows) > max(_ROUGH_ROWS, self._near.k):
            chosen = self._many.choose(vectors, self._near.k, self._bound)
            rows, vectors = [rows[place] for place in chosen], [vectors[place] for place in chosen]
        bound = self._bound
        scores = list(map(make_scorer(self._near), vectors)) if self._many is None else self._many.score(vectors)
        found = [(row, score) for row, score in zip(rows, scores, strict=True) if score is not None]
        found = [each for each in found if each[1] >= bound]
        return [row for row, _ in found], [score for _, score in found]

    def _settle(self) -> None:
        """Hold the best rows in order, and nothing else."""
        self._found.sort()
        del self._found[self._near.k :]
        if len(self._found) == self._near.k:
            self._bound = max(self._bound, -self._found[-1][0])
        chosen: dict[int, list[int]] = {}
        for _, _, place, row in self._found:
            chosen.setdefault(place, []).append(row)
        places = {place: new for new, place in enumerate(chosen)}
        numbers = {(place, row): new for place, rows in chosen.items() for new, row in enumerate(rows)}
        self._batches = [self._batches[place].pick(rows) for place, rows in chosen.items()]
        self._found = [(score, key, places[place], numbers[place, row]) for score, key, place, row in self._found]

    def _wholes(self) -> Iterator[DocumentBatch]:
        """The batches that have documents."""
        for batch in self._batches:
            if isinstance(batch, DocumentBatch):
                yield batch
            elif batch.is_whole:
                yield batch.decoded()


class ManyScorer:
    """Scores many vectors at once by numpy: roughly, to leave out those that cannot be among the best, or exactly."""

    def __init__(self, near: Near) -> None:
        """Raises ModuleNotFoundError if numpy is not installed."""
        import numpy as np

        self._np = np
        self._near = near
        given = near.vector if isinstance(near.vector, array) else array("f", near.vector)
        self._own = np.frombuffer(given, np.float32).astype(np.float64)
        self._greatest = float(np.abs(self._own).max())
        """The greatest number, without the sign."""
        self._length = 0.0
        """That of the vector, once something was scored by it."""

    def choose(self, vectors: Sequence[array[float]], k: int, bound: float) -> list[int]:
        """The places of all vectors that may be among the best `k`, and may have a score of `bound`."""
        np, own = self._np, self._own
        rows = self._matrix(vectors)
        error = _ROUGH_ERROR
        if self._near.distance == "euclidean":
            rows -= own
            scores = 1.0 / (1.0 + np.einsum("ij,ij->i", rows, rows))
        else:
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.sqrt(own @ own)
            scores = rows @ own
            if self._near.distance == "cosine":
                scores = np.divide(scores, lengths, out=np.full(len(vectors), -3.0), where=lengths > 0)
            else:
                error *= 1.0 + float(lengths.max())
            scores = (1.0 + scores) / 2.0
        least = max(float(np.partition(scores, len(scores) - k)[len(scores) - k]) - error, bound)
        places: list[int] = np.flatnonzero(scores >= least - error).tolist()
        return places

    def score(self, vectors: Sequence[array[float]]) -> list[float | None]:
        """The exact score of each, as `make_scorer` has it; None if it has none."""
        if not vectors:
            return []
        rows, lengths = self._matrix(vectors), []
        greatest = float(self._np.abs(rows).max())
        if self._near.distance == "cosine":
            lengths = list(map(sqrt, _sum_exactly(rows * rows, greatest * greatest)))
        return self._score(self._np.concatenate((rows, self._own[None])), lengths, greatest)

    def score_known(self, rows: Sequence[KnownRow]) -> list[float | None]:
        """The same of documents whose vectors are ready to be scored."""
        if not rows:
            return []
        matrix = self._np.concatenate([*[row.numbers for row in rows], self._own]).reshape(-1, len(self._own))
        return self._score(matrix, [row.length for row in rows], max([row.greatest for row in rows]))

    def _score(self, rows: Any, lengths: Sequence[float], greatest: float) -> list[float | None]:
        """The scores of rows, of which cosines need the lengths; the last row is what is asked for.

        `greatest` is the greatest number of the others, without the sign.
        """
        own, distance = self._own, self._near.distance
        if distance == "euclidean":
            rows -= own
            rows *= rows
            apart = greatest + self._greatest
            return [1.0 / (1.0 + total) for total in _sum_exactly(rows[:-1], apart * apart)]
        rows *= own
        *totals, square = _sum_exactly(rows, max(greatest, self._greatest) * self._greatest)
        length = self._length = sqrt(square)
        if distance == "dot_product":
            return [(1.0 + total) / 2.0 for total in totals]
        products = [length * other for other in lengths]
        return [
            (1.0 + max(-1.0, min(1.0, total / product))) / 2.0 if product else None
            for total, product in zip(totals, products, strict=True)
        ]

    def is_blurred(self, found: Sequence[Scored]) -> bool:
        """Whether codes cannot tell documents apart that lie as these do, which are in order."""
        # None is better than documents that are where the question is.
        is_best = self._near.distance != "dot_product" and found[-1][0] <= -1.0
        return not is_best and not self.is_beyond(found[0], found[-1])

    def is_beyond(self, one: Scored, other: Scored) -> bool:
        """Whether codes put documents like one of two before those like the other, which has a lower score."""
        near = self._far(-one[0])
        return self._far(-other[0]) - near > BLUR * self._blur(one[2], max(near, 0.0))

    def _blur(self, row: KnownRow, far: float) -> float:
        """How much the codes of a document and of the question change what `_far` gives, on average.

        A number of a code is off by the root of a twelfth of a step on average, and so is a code in any direction.
        """
        from wormdb.engine.lists.nearest import CODE_STEPS  # exact scores need no lists

        step, own = row.greatest / CODE_STEPS, self._greatest / CODE_STEPS
        length, own_length = row.length or 1.0, self._length or 1.0
        if self._near.distance == "dot_product":
            return 2.0 * hypot(own * length, step * own_length) / sqrt(12.0)
        if self._near.distance == "cosine":
            step, own = step / length, own / own_length
        off = hypot(step, own) / sqrt(12.0)
        return 2.0 * sqrt(far) * off + off * off * sqrt(len(self._own))

    def _far(self, score: float) -> float:
        """The square of a distance, or of an angle, by its score; of a dot product what grows as it falls."""
        if self._near.distance == "euclidean":
            return 1.0 / score - 1.0 if score else inf
        return 4.0 * (1.0 - score)

    def _matrix(self, vectors: Sequence[array[float]]) -> Any:
        np = self._np
        return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), len(self._own)).astype(np.float64)


def rank_candidates(executor: Executor, node: Rank, scan: NearestScan) -> Iterator[RowBatch]:
    """The best of the candidates of an index, as `Ranking` finds them: by what is kept of documents, or by these.

    Costs as the candidates, and a fetch of those that are not kept.
    """
    near, enough, taken = node.near, node.enough, 0
    assert enough is not None, "as many are scored as are likely to have the best"
    found: list[Scored] = []
    for some, count, scorer in _score_batches(executor, scan, enough):
        found, taken = found + some, taken + count
        if taken >= enough:
            found.sort()  # no two have one key
            if len(found) >= enough and scorer.is_blurred(found):
                found = _rank_blurred(executor, NearestScan(scan.index, near, None, scan.child))
            break
    least = near.min_score
    found = [each for each in sorted(found)[: near.k] if least is None or -each[0] >= least]
    if not found:
        return
    shown = executor.request.projection
    if shown is not None and shown.is_id and executor.request.search is None:
        ids = json.decode(b"[" + b",".join([row.held.id for _, _, row in found]) + b"]", name="document ids")
        yield IdBatch(ids, [-score for score, _, _ in found])
        return
    executor.scores.update({key: -score for score, key, _ in found})
    yield DocumentBatch([key for _, key, _ in found], None, [row.held for _, _, row in found])


def _rank_blurred(executor: Executor, scan: NearestScan) -> list[Scored]:
    """The best, where codes do not tell documents apart: as many are scored as may be among them, at worst all."""
    best: list[Scored] = []
    for some, _, scorer in _score_batches(executor, scan, BLURRED_ROWS):
        if len(best) == scan.near.k and some and scorer.is_beyond(best[-1], min(some)):
            break
        best = sorted(best + some)[: scan.near.k]
    return best


def _score_batches(executor: Executor, scan: NearestScan, first: int) -> Iterator[tuple[list[Scored], int, ManyScorer]]:
    """Candidates with their scores, `first` of them and then more, how many there were, and what scored them."""
    source, scorer = executor.source, None
    assert is_nearest_source(source), "candidates are of an index"
    reader, fetch = source.nearest(scan.index), executor.source.fetch
    for keys in executor.candidates(scan, first):
        scorer = scorer or ManyScorer(scan.near)  # where numpy is missing, there were no candidates
        found = reader.rows(keys, fetch)
        there = keys if None not in found else [key for key, row in zip(keys, found, strict=True) if row is not None]
        rows = [row for row in found if row is not None]
        scored = zip(scorer.score_known(rows), there, rows, strict=True)
        executor.look(0)
        yield [(-score, key, row) for score, key, row in scored if score is not None], len(rows), scorer


def _sum_exactly(rows: Any, greatest: float) -> list[float]:
    """The sum of each row, rounded once as `fsum` does, by operations on all numbers at once.

    No number is greater than `greatest`, without the sign. The leading bits of all numbers are so few that their sums
    are exact in any order. What is left is so little that the error of its sum seldom decides how the whole is rounded;
    where it may, `fsum` adds the numbers of the row.
    """
    if not greatest:
        return [0.0] * len(rows)
    count = rows.shape[1]
    # Beside it, a number keeps the bits that count at least 2**-53 of it: adding and taking it away rounds to them.
    large = ldexp(1.0, frexp(greatest)[1] + int(count + 1).bit_length())
    leading = rows + large
    leading -= large
    sums, rests = leading.sum(axis=1).tolist(), (rows - leading).sum(axis=1).tolist()
    # Each of what is left is at most 2**-53 of it, and each addition is off by 2**-53 of the sum at most; twice that.
    error = large * ldexp(float(count * count), 1 - 106)
    return [
        total + rest if total + (rest - error) == total + (rest + error) else fsum(rows[row].tolist())
        for row, (total, rest) in enumerate(zip(sums, rests, strict=True))
    ]


def _make_many(near: Near) -> ManyScorer | None:
    try:
        return ManyScorer(near)
    except ModuleNotFoundError:
        return None
