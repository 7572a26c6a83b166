"""Candidates for the nearest vectors, from the lists of an index and the tail: by codes, in the order of rough scores.

The documents decide: what is found here is fetched, tested and scored exactly by the caller.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.lists.centroids import Centroids, decode_centroids
from wormdb.engine.lists.codes import encode_vectors, load_numpy, multiplier, rough_scores
from wormdb.engine.lists.vector_kind import ONLY_LIST, VectorKind, list_key
from wormdb.engine.state.view import id_key
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from wormdb.bql.nearest import Near
    from wormdb.engine.lists.codes import Codes, Floats, Singles
    from wormdb.engine.lists.read import ListReader, RunList

__all__ = ["NearestReader"]

_CHUNK: Final = 1_024
"""Entries whose ids are looked at together."""


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
        code, scales = encode_vectors(numpy.array([near.vector], numpy.float32))
        scale = float(scales[0])
        lists = self._read(code, scales, probes)
        times = multiplier(code)
        tail, tail_scores = self._score_tail(times, scale)
        scores = numpy.concatenate([self._score(lists, times, scale), tail_scores])
        starts = numpy.cumsum([0, *(found.entries.count for found in lists)])
        touched = self.reader.touched
        seen: set[bytes] = set()
        for place in self._best_first(scores):
            number = int(numpy.searchsorted(starts, place, side="right")) - 1
            row = place - int(starts[number])
            if number == len(lists):
                key = tail[row]
            else:
                key = id_key(lists[number].entries.ids[row])
                if key in touched:
                    continue
            if key not in seen and (among is None or key in among):
                seen.add(key)
                yield key

    def _best_first(self, scores: Floats) -> Iterator[int]:
        """The places of all scores that count, the best first; only as many are put in order as may be taken soon."""
        numpy = load_numpy()
        left = numpy.flatnonzero(scores > -numpy.inf)
        size = _CHUNK
        while len(left):
            if size < len(left):
                parted = numpy.argpartition(-scores[left], size)
                some, left = left[parted[:size]], left[parted[size:]]
            else:
                some, left = left, left[:0]
            # Equal scores are in order of place, so that the same lists give the same candidates.
            yield from some[numpy.lexsort((some, -scores[some]))].tolist()
            size *= 4

    def _read(self, code: Codes, scales: Singles, probes: int | None) -> list[RunList]:
        trained = self._learned()
        if trained is None:
            keys: Sequence[bytes] = (ONLY_LIST,)
        else:
            numpy = load_numpy()
            middles = _decoded(trained, self.kind.dimensions)
            rated = middles.rate(self.kind.distance, code, scales)[0]
            order = numpy.lexsort((numpy.arange(len(rated)), -rated))
            keys = list(map(list_key, order[:probes].tolist()))
        found = self.reader.read(keys)
        return [one for runs in found.values() for one in runs if one.entries.count]

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

    def _score(self, lists: Sequence[RunList], times: Callable[[Codes], Floats], scale: float) -> Floats:
        """The scores of all entries of some lists, one list behind the other."""
        numpy = load_numpy()
        if not lists:
            return numpy.empty(0)  # type: ignore[no-any-return] # numpy is loaded late
        width = self.kind.dimensions
        columns = [found.entries.columns for found in lists]
        products = numpy.concatenate(
            [times(numpy.frombuffer(each[0], numpy.int8).reshape(-1, width)) for each in columns]
        )
        joined = [numpy.frombuffer(b"".join(each), "<f4") for each in zip(*(each[1:] for each in columns), strict=True)]
        scores = rough_scores(self.kind.distance, products[:, 0], numpy.stack(joined, axis=1), scale)
        start = 0
        for found in lists:
            if found.hidden:
                scores[[start + place for place in found.hidden]] = -numpy.inf
            start += found.entries.count
        return scores

    # --- the tail ---

    def _score_tail(self, times: Callable[[Codes], Floats], scale: float) -> tuple[list[bytes], Floats]:
        numpy = load_numpy()
        held = self._tail = self._tail or self._encode_tail()
        keys, codes, factors = held
        if not keys:
            return keys, numpy.empty(0)
        return keys, rough_scores(self.kind.distance, times(codes)[:, 0], factors, scale)

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
