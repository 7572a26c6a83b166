"""Vectors as a kind of list index: a document is in the list whose middle its vector is nearest to.

A list has the code of each vector, a byte for each number, and what its score is made of besides. Scores of codes
choose candidates; the documents of these decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.nearest import DISTANCES, Distance
from wormdb.engine.lists.centroids import SAMPLE_ROWS, count_lists, decode_centroids, learn
from wormdb.engine.lists.codes import encode_vectors, load_numpy, squares
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import TRAVERSED, Path, get_direct, parse_path
from wormdb.format.vector import read_vector
from wormdb.settings import VECTOR_DIMENSIONS_MAX

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from wormdb.engine.lists.codes import Codes, Singles
    from wormdb.engine.lists.kind import Lister

__all__ = ["ONLY_LIST", "VectorKind", "list_key", "make_vector_kind"]

ONLY_LIST: Final = b""
"""The key of the list of all vectors, where there are too few for more."""
_KNOWN: Final = ("field", "dimensions", "distance")


@dataclass(frozen=True)
class VectorKind:
    """An index of the vectors at one path."""

    field: str
    dimensions: int
    distance: Distance = "cosine"

    name = "vector"
    is_shared = False
    is_packed = False

    @property
    def options(self) -> Mapping[str, Any]:
        """As `ListKind`."""
        return {"field": self.field, "dimensions": self.dimensions, "distance": self.distance}

    @property
    def fields(self) -> tuple[str, ...]:
        """As `ListKind`."""
        return (self.field,)

    @cached_property
    def path(self) -> Path:
        """The path of the vectors."""
        return parse_path(self.field)

    @property
    def columns(self) -> tuple[int, ...]:
        """As `ListKind`: the code, and one float32 or two, of which its score is made."""
        return (self.dimensions, 4, 4) if self.distance == "euclidean" else (self.dimensions, 4)

    def check(self, document: Document) -> None:
        """As `ListKind`. Missing and null are not indexed."""
        reason = self._fault(get_direct(document, self.path))
        if reason is not None:
            raise InvalidRequestError(
                f"document {document.get('_id')!r:.80}: {self.field} is no vector of the index",
                reason=reason,
                fix=f"write {self.dimensions} numbers, or leave the field out",
            )

    def lister(self, trained: bytes | None) -> Lister:
        """As `ListKind`."""
        numpy = load_numpy()
        lists = None if trained is None else decode_centroids(trained, dimensions=self.dimensions, name="centroids")

        def put(documents: Sequence[Document]) -> Sequence[Mapping[bytes, bytes]]:
            found: list[Mapping[bytes, bytes]] = [{} for _ in documents]
            rows, vectors = self.read_vectors(documents)
            if not rows:
                return found
            matrix = numpy.frombuffer(b"".join(vectors), numpy.float32).reshape(len(rows), self.dimensions)
            codes, scales = encode_vectors(matrix)
            keys = [ONLY_LIST] * len(rows)
            if lists is not None:
                keys = list(map(list_key, lists.assign(self.distance, codes, scales).tolist()))
            factors = self.make_factors(codes, scales)
            for row, key, code, factor in zip(rows, keys, codes, factors, strict=True):
                found[row] = {key: code.tobytes() + factor.tobytes()}
            return found

        return put

    def tally(self, document: Document) -> tuple[int, ...]:
        """As `ListKind`."""
        value = get_direct(document, self.path)
        return (0,) if isinstance(read_vector(value, self.dimensions), str) else (1,)

    def sample_size(self, documents: int) -> int:
        """As `ListKind`."""
        lists = count_lists(documents)
        return 0 if lists == 1 else min(lists * SAMPLE_ROWS, documents)

    def train(self, sample: Sequence[Document], documents: int) -> bytes | None:
        """As `ListKind`: the middles of lists."""
        numpy = load_numpy()
        rows, vectors = self.read_vectors(sample)
        if not rows:
            return None
        matrix = numpy.frombuffer(b"".join(vectors), numpy.float32).reshape(len(rows), self.dimensions)
        # Documents without a vector are in no list.
        learned = learn(self.distance, matrix, count_lists(documents * len(rows) // len(sample)))
        return None if learned is None else learned.encode()

    def read_vectors(self, documents: Sequence[Document]) -> tuple[list[int], list[array[float]]]:
        """The rows that have a vector, and their vectors."""
        rows, vectors = [], []
        for row, document in enumerate(documents):
            vector = read_vector(get_direct(document, self.path), self.dimensions)
            if not isinstance(vector, str):
                rows.append(row)
                vectors.append(vector)
        return rows, vectors

    def make_factors(self, codes: Codes, scales: Singles) -> Singles:
        """What scores are made of besides products, one row a vector, as little-endian float32."""
        numpy = load_numpy()
        if self.distance == "dot_product":
            made: Any = scales[:, None]
        elif self.distance == "euclidean":
            wide = scales.astype(numpy.float64)
            made = numpy.stack([wide, wide * wide * squares(codes)], axis=1)
        else:
            lengths = numpy.sqrt(squares(codes))
            made = numpy.divide(1.0, lengths, out=numpy.zeros(len(codes)), where=lengths > 0)[:, None]
        with numpy.errstate(over="ignore"):  # squares of long vectors are beyond float32: these are the farthest
            factors: Singles = made.astype("<f4")
        return factors

    def _fault(self, value: Any) -> str | None:
        """Why a value cannot be indexed; None if it can, or there is none."""
        if value is None or value is MISSING:
            return None
        if value is TRAVERSED:
            return "an array stands on the way to it, and a document has one vector"
        vector = read_vector(value, self.dimensions)
        if isinstance(vector, str):
            return vector
        if self.distance == "cosine" and not any(vector):
            return "a vector of zeros has no direction"
        return None


def make_vector_kind(options: Mapping[str, Any]) -> VectorKind:
    """The kind of some options; raises InvalidRequestError. No requests."""
    what = "a vector index"
    others = [name for name in options if name not in _KNOWN]
    if others:
        raise InvalidRequestError(what, reason=f"there is no option {others[0]!r}", fix=f"give {', '.join(_KNOWN)}")
    field, dimensions, distance = (options.get(name) for name in _KNOWN)
    if not isinstance(field, str):
        raise InvalidRequestError(what, reason="it must name one field", fix='write "embedding"')
    parse_path(field)
    what = f"a vector index on {field}"
    if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 1 <= dimensions <= VECTOR_DIMENSIONS_MAX:
        reason = f"dimensions must be a whole number from 1 to {VECTOR_DIMENSIONS_MAX:,}, not {dimensions!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix="write how many numbers a vector has")
    distance = "cosine" if distance is None else distance
    if distance not in DISTANCES:
        reason = f"there is no distance {distance!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix=f"write {' or '.join(DISTANCES)}")
    return VectorKind(field, dimensions, distance)


def list_key(number: int) -> bytes:
    """The key of a list by its number. No requests."""
    return number.to_bytes(2, "big")
