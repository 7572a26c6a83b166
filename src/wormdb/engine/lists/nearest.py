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

from wormdb.engine.lists.centroids import Centroids, decode_centroids
from wormdb.engine.lists.codes import encode_vector, encode_vectors, load_numpy, multiply_parts, rough_scores
from wormdb.engine.lists.slab import keep_slab, open_slab
from wormdb.engine.lists.vector_kind import ONLY_LIST, VectorKind, list_key
from wormdb.engine.state.view import id_key
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from wormdb.bql.nearest import Near
    from wormdb.engine.lists.codes import Codes, Floats, Singles
    from wormdb.engine.lists.read import ListReader
    from wormdb.engine.lists.slab import VectorPiece

__all__ = ["NearestReader"]

_CHUNK: Final = 32
"""Entries that are put in order first; then four times as many each time."""


@lru_cache(maxsize=8)
def _decoded(trained: bytes, dimensions: int) -> Centroids:
    return decode_centroids(trained, dimensions=dimensions, name="centroids")


@dataclass(eq=False)
class NearestReader:
    """The vectors of one index at one state. Thread-safe: what it keeps may be made twice."""

    reader: ListReader
    kind: VectorKind
    _tail: tuple[list[bytes], Codes, Singles] | None = field(default=None, init=False)

    def candidates(self, near: Near, probes: int | None, among: Container[bytes] | None = None) -> Iterator[bytes]:
        """Keys of ids in the order of rough scores, the best first: of the nearest `probes` lists or all, and the tail.

        With `among` only those keys. Costs 1 GET for what was learned and 1 for the directory of each object of the
        lists, in one round; then as `ListReader.read`. Raises CorruptionError, SnapshotTooOldError, MissingExtraError.
        """
        numpy = load_numpy()
        code, scales = encode_vector(numpy.frombuffer(array("f", near.vector), numpy.float32))
        scale = float(scales[0])
        pieces = self._read(code, scales, probes)
        tail, tail_codes, tail_factors = self._tail = self._tail or self._encode_tail()
        parts, factors = [piece.codes for piece in pieces], [piece.factors for piece in pieces]
        if tail:
            parts, factors = [*parts, tail_codes], [*factors, tail_factors]
        if not parts:
            return
        scores = rough_scores(self.kind.distance, multiply_parts(parts, code), numpy.concatenate(factors), scale)
        starts = list(accumulate(map(len, parts), initial=0))
        for start, piece in zip(starts, pieces, strict=False):
            if piece.hidden is not None:
                scores[start + piece.hidden] = -numpy.inf
        touched = self.reader.touched
        seen: set[bytes] = set()
        for place in _best_first(scores):
            number = bisect_right(starts, place) - 1
            row = place - starts[number]
            if number == len(pieces):
                key = tail[row]
            else:
                key = id_key(pieces[number].ids[row])
                if key in touched:
                    continue
            if key not in seen and (among is None or key in among):
                seen.add(key)
                yield key

    def prepare(self) -> None:
        """Read what `candidates` needs before its lists: 1 GET for what was learned and for each object, one round."""
        self._learned()

    def _read(self, code: Codes, scales: Singles, probes: int | None) -> list[VectorPiece]:
        trained = self._learned()
        if trained is None:
            keys: Sequence[bytes] = (ONLY_LIST,)
        else:
            middles = _decoded(trained, self.kind.dimensions)
            keys = list(map(list_key, middles.nearest(self.kind.distance, code, scales, probes)))
        slab = open_slab(self.reader)
        size = slab.size
        found = slab.read(self.reader, keys)
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

    def _encode_tail(self) -> tuple[list[bytes], Any, Any]:
        """The vectors of changed documents as codes, made once for each state."""
        numpy = load_numpy()
        texts = {id_key(held.id): held.document for held in self.reader.tail if held.document is not None}
        rows, vectors = self.kind.read_vectors(json.decode_documents(texts.values(), name="document"))
        changed = list(texts)
        keys = [changed[row] for row in rows]
        matrix = numpy.frombuffer(b"".join(vectors or [array("f")]), numpy.float32)
        codes, scales = encode_vectors(matrix.reshape(len(rows), self.kind.dimensions))
        return keys, codes, self.kind.make_factors(codes, scales)


def _best_first(scores: Floats) -> Iterator[int]:
    """The places of all scores that count, the best first; only as many are put in order as may be taken soon."""
    numpy = load_numpy()
    missing = numpy.isnan(scores)
    if missing.any():
        scores = numpy.where(missing, -numpy.inf, scores)
    size, above = _CHUNK, None
    while True:
        least = -numpy.inf
        if 8 * size < len(scores):
            # As many scores as there are groups with one are at least as good as the worst of the best of these.
            best = numpy.maximum.reduceat(scores, numpy.arange(0, len(scores), len(scores) // (4 * size)))
            least = numpy.partition(best, len(best) - size)[len(best) - size]
        is_next = scores >= least if least > -numpy.inf else scores > least
        if above is not None:
            is_next &= scores < above
        some = numpy.flatnonzero(is_next)
        # Equal scores are in order of place, so that the same lists give the same candidates.
        yield from some[numpy.lexsort((some, -scores[some]))].tolist()
        if least == -numpy.inf:
            return
        size, above = 4 * size, least
