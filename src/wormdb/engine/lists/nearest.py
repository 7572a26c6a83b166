"""Candidates for the nearest vectors, from the lists of an index and the tail: by codes, in the order of rough scores.

The documents decide: what is found here is fetched, tested and scored exactly by the caller.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.lists.centroids import Centroids, decode_centroids
from wormdb.engine.lists.codes import encode_vectors, load_numpy, multiply, rough_scores
from wormdb.engine.lists.vector_kind import ONLY_LIST, VectorKind, list_key
from wormdb.engine.state.view import id_key
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

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
        scored = [self._score(found, code, scale) for found in lists]
        tail, tail_scores = self._score_tail(code, scale)
        every = [*scored, tail_scores]
        starts = numpy.cumsum([0, *map(len, every)])
        scores = numpy.concatenate(every)
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

    def _score(self, found: RunList, code: Codes, scale: float) -> Floats:
        numpy = load_numpy()
        entries = found.entries
        codes = numpy.frombuffer(entries.columns[0], numpy.int8).reshape(entries.count, self.kind.dimensions)
        factors = numpy.stack([numpy.frombuffer(column, "<f4") for column in entries.columns[1:]], axis=1)
        scores = rough_scores(self.kind.distance, multiply(codes, code)[:, 0], factors, scale)
        if found.hidden:
            scores[list(found.hidden)] = -numpy.inf
        return scores

    # --- the tail ---

    def _score_tail(self, code: Codes, scale: float) -> tuple[list[bytes], Floats]:
        numpy = load_numpy()
        held = self._tail = self._tail or self._encode_tail()
        keys, codes, factors = held
        if not keys:
            return keys, numpy.empty(0)
        return keys, rough_scores(self.kind.distance, multiply(codes, code)[:, 0], factors, scale)

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
