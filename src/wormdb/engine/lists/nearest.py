"""Candidates for the nearest vectors, from the lists of an index and the tail: by codes, in the order of rough scores.

The documents decide: what is found here is fetched, tested and scored exactly by the caller.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.shelf import Label
from wormdb.engine.lists.centroids import Centroids, decode_centroids
from wormdb.engine.lists.codes import (
    CODE_STEPS,
    encode_vector,
    encode_vectors,
    load_numpy,
    multiply_parts,
    rough_scores,
)
from wormdb.engine.lists.known import Fetch, KnownRow, KnownRows
from wormdb.engine.lists.slab import ONLY_RANGE, VectorBlock, VectorIds, VectorPiece, keep_slab, open_slab
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.bql.nearest import Near
    from wormdb.engine.lists.codes import Codes, Floats, Singles
    from wormdb.engine.lists.read import ListReader
    from wormdb.engine.lists.slab import PickedPiece
    from wormdb.engine.lists.vector_kind import VectorKind
    from wormdb.engine.state.view import StoredVersion

__all__ = ["CODE_STEPS", "Fetch", "KnownRow", "NearestReader"]

_ROWS_KIND: Final = "near"
_ROWS_SHARE: Final = 0.125
"""Of the cache for columns that documents which were found may take."""
_FEW_SHARE: Final = 20
"""Where a filter leaves one of so many entries or fewer, they are looked up: others meet enough of them in order."""
_NO_VECTOR: Final = -1
"""In place of the row of a document."""
_CHUNK: Final = 32
"""Entries that are looked at first if a caller does not say; then four times as many each time."""


@lru_cache(maxsize=8)
def _decoded(trained: bytes, dimensions: int) -> Centroids:
    return decode_centroids(trained, dimensions=dimensions, name="centroids")


@dataclass(frozen=True, slots=True, eq=False)
class _TailCodes:
    """What was made of changed documents, and the row of each of them in it."""

    block: VectorBlock
    rows: Mapping[StoredVersion, int]


@dataclass(eq=False)
class NearestReader:
    """The vectors of one index at one state. Thread-safe: what it keeps may be made twice."""

    reader: ListReader
    kind: VectorKind
    before: NearestReader | None = None
    """That of another state: its codes of documents that are the same are taken over."""
    is_asked: bool = field(default=False, init=False)
    """Whether it was asked before: then what a first question needs is likely kept."""
    _tail: _TailCodes | None = field(default=None, init=False)
    _middles: Centroids | None = field(default=None, init=False)

    def candidates(
        self, near: Near, probes: int | None, among: AbstractSet[bytes] | None = None, *, first: int = _CHUNK
    ) -> Iterator[list[bytes]]:
        """Keys of ids in the order of rough scores, the best first: of the nearest `probes` lists or all, and the tail.

        They come in parts, the first of at least `first` entries. With `among` only those keys. Costs 1 GET for what
        was learned and 1 for the directory of each object of the lists, in one round; then as `ListReader.read`. Raises
        CorruptionError, SnapshotTooOldError, MissingExtraError.
        """
        # Another thread may make the tail anew meanwhile: this one goes by its own.
        self._tail = made = self._tail or self._encode_tail()
        tail, touched = made.block, self.reader.touched
        pieces, starts, scores = self._scored(near, probes, among, tail)
        seen: set[bytes] = set()
        for places, values in _best_first(scores, first):
            found: list[tuple[float, bytes]] = []
            for place, score in zip(places.tolist(), values.tolist(), strict=True):
                number = bisect_right(starts, place) - 1
                piece = pieces[number]
                key = piece.key(place - starts[number])
                # The tail says what is true of those that it has.
                if (key not in touched or piece.block is tail) and key not in seen and (among is None or key in among):
                    found.append((-score, key))
            # Equal ones are in order of key, so that they come in the same order wherever they lie.
            found.sort()
            keys = list(dict.fromkeys([key for _, key in found]))
            seen.update(keys)
            yield keys

    def _scored(
        self, near: Near, probes: int | None, among: AbstractSet[bytes] | None, tail: VectorBlock
    ) -> tuple[list[VectorPiece | PickedPiece], list[int], Floats | Singles]:
        """The entries of the lists that are read and of the tail, where those of each piece begin, and rough scores.

        These are minus infinity for entries that do not count.
        """
        numpy = load_numpy()
        given = near.vector if isinstance(near.vector, array) else array("f", near.vector)
        code, scales = encode_vector(numpy.frombuffer(given, numpy.float32))
        self.is_asked = True
        read = self._read(code, scales, probes)
        pieces: list[VectorPiece | PickedPiece] = [*read]
        if among is not None and len(among) * _FEW_SHARE <= sum([piece.stop - piece.start for piece in read]):
            hashes = numpy.fromiter(map(hash, among), "int64", len(among))
            pieces = [piece for piece in [piece.pick(hashes) for piece in read] if piece is not None]
        if len(tail.codes):
            pieces.append(VectorPiece(tail, 0, len(tail.codes)))
        if not pieces:
            return pieces, [0], numpy.empty(0)
        parts, factors = zip(*[piece.rows_of() for piece in pieces], strict=True)
        products = multiply_parts(parts, code)
        joined = numpy.concatenate(factors, axis=1)
        scores = rough_scores(self.kind.distance, products, joined, float(scales[0]))
        if True in [piece.has_hidden for piece in pieces]:
            scores = numpy.where(numpy.isnan(scores), -numpy.inf, scores)
        return pieces, list(accumulate(map(len, parts), initial=0)), scores

    def prepare(self) -> None:
        """Read what `candidates` needs before its lists: 1 GET for what was learned and for each object, one round."""
        self._learned()

    def rows(self, keys: Sequence[bytes], fetch: Fetch) -> list[KnownRow | None]:
        """The documents of some keys, which are as `fetch` gives them. What is not kept costs as that."""
        if self.reader.folder is None:
            return KnownRows(self.kind.path, self.kind.dimensions, 0).find(keys, fetch)
        cache, label = self.reader.folder.shelf.pages, Label(self.reader.folder.folder, _ROWS_KIND)
        held: tuple[NearestReader, KnownRows] | None = cache.find(label)
        if held is not None and held[0] is self:
            known = held[1]
        else:
            before = None if held is None else held[1]
            known = KnownRows(self.kind.path, self.kind.dimensions, int(cache.bytes_max * _ROWS_SHARE), before)
        size = known.size
        found = known.find(keys, fetch)
        if known.size != size:
            cache.keep(label, (self, known), known.size + known.size_before)
        return found

    def _read(self, code: Codes, scales: Singles, probes: int | None) -> list[VectorPiece]:
        middles = self._middles
        if middles is None and (trained := self._learned()) is not None:
            middles = self._middles = _decoded(trained, self.kind.dimensions)
        ranges = [ONLY_RANGE]
        if middles is not None:
            ranges = middles.nearest_ranges(self.kind.distance, code, scales, probes)
        slab = open_slab(self.reader)
        size = slab.size
        found = slab.read(self.reader, ranges)
        if slab.size != size:
            keep_slab(self.reader, slab)
        return found

    def _learned(self) -> bytes | None:
        """What was learned; the directories of objects are read at the same time, so that they cost no round more."""
        reader = self.reader
        if reader.folder is None or reader.head.trained is None:
            return None
        if reader.folder.shelf.trained.find(reader.folder.key(reader.head.trained.name)) is not None:
            return reader.trained()
        learned = reader.folder.shelf.pool.map(lambda _: reader.trained(), (None,))
        reader.prepare()
        (trained,) = learned
        return trained

    # --- the tail ---

    def _encode_tail(self) -> _TailCodes:
        """The vectors of changed documents as codes, made once for each document."""
        numpy = load_numpy()
        before, self.before = self.before, None  # else each would keep all that were before
        older = None if before is None else before.newest_tail()
        known = {} if older is None else older.rows
        new = [each for each in self.reader.tail if each not in known]
        texts = [each.document or b"" for each in new]
        rows, vectors = self.kind.read_vectors(json.decode_documents(texts, name="document"))
        matrix = numpy.frombuffer(b"".join(vectors or [array("f")]), numpy.float32)
        codes, scales = encode_vectors(matrix.reshape(len(rows), self.kind.dimensions))
        factors = self.kind.make_factors(codes, scales).T
        kept = [each for each in self.reader.tail if known.get(each, _NO_VECTOR) != _NO_VECTOR]
        if older is not None and kept:
            places = [known[each] for each in kept]
            codes = numpy.concatenate((older.block.codes[places], codes))
            factors = numpy.concatenate((older.block.factors[:, places], factors), axis=1)
        versions = [*kept, *(new[row] for row in rows)]
        made = VectorBlock(codes, factors, VectorIds([[each.id for each in versions]]))
        return _TailCodes(
            made, dict.fromkeys(self.reader.tail, _NO_VECTOR) | {each: row for row, each in enumerate(versions)}
        )

    def newest_tail(self) -> _TailCodes | None:
        """What was made of the tail; None while nothing was asked. No requests."""
        return self._tail


def _best_first(scores: Floats | Singles, size: int) -> Iterator[tuple[Any, Any]]:
    """The places of all scores that count and these, in parts: `size` or more of the best, then more each time.

    A part is in any order; equal scores are in one.
    """
    numpy = load_numpy()
    above, least = numpy.inf, numpy.inf
    while least > -numpy.inf:
        least = -numpy.inf
        if 8 * size < len(scores):
            # As many scores as there are groups with one are at least as good as the worst of the best of these.
            width = len(scores) // (4 * size)
            groups = scores[: 4 * size * width].reshape(4 * size, width)
            least = sorted(numpy.maximum.reduce(groups, axis=1).tolist())[-size]
        is_next = scores >= least if least > -numpy.inf else scores > least
        if above < numpy.inf:
            is_next &= scores < above
        some = is_next.nonzero()[0]
        found = scores[some]
        if len(found) > size:
            # Near ones lie side by side, so that few groups have most of them.
            least = sorted(found.tolist())[-size]
            is_best = found >= least
            some, found = some[is_best], found[is_best]
        yield some, found
        size, above = 4 * size, least
