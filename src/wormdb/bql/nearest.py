"""The documents whose vectors are nearest to a given one: what every plan with `near` must agree with.

A score is exact: products of float32 are exact in float64, and `fsum` rounds their sum once. So the same vectors have
the same score in every process and by every plan, and ties, which are broken by id, are ties everywhere.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from heapq import nsmallest
from math import fsum, inf, isfinite, nan, sqrt
from operator import mul
from typing import Any, Final, Literal, TypeAlias, get_args

from wormdb.bql.mistakes import Mistakes
from wormdb.errors import InvalidRequestError
from wormdb.format.key import encode_key
from wormdb.format.kinds import Binary, Document
from wormdb.format.path import Path, get_direct, parse_path
from wormdb.format.vector import read_vector
from wormdb.schema.problems import did_you_mean
from wormdb.settings import NEAR_ROWS_MAX, VECTOR_DIMENSIONS_MAX

__all__ = ["DISTANCES", "Distance", "Near", "WrittenNear", "make_scorer", "nearest", "parse_near", "read_given_vector"]

Distance: TypeAlias = Literal["cosine", "euclidean", "dot_product"]
"""How far two vectors are from each other."""

DISTANCES: Final[tuple[Distance, ...]] = get_args(Distance)
WrittenNear: TypeAlias = "Mapping[str, Any] | Near"
"""{"embedding": {"vector": [0.1, …], "k": 10}}; also recall, exact, min_score, distance."""

_ROWS: Final = 10
_SINGLE: Final = "<f4" if sys.byteorder == "little" else ">f4"
"""What numpy calls float32 of this machine."""
_NUMBERS: Final = frozenset({int, float})
_PLAIN: Final = {"vector", "k"}
_KNOWN: Final = ("vector", "k", "recall", "exact", "min_score", "distance")


@dataclass(frozen=True, slots=True)
class Near:
    """What `near` asks for: the `k` documents with the best scores."""

    path: Path
    vector: Sequence[float]
    """Each is a float32: a tuple, or an array of these, which is not changed."""
    k: int = _ROWS
    distance: Distance | None = None
    """None for the distance of the index."""
    recall: float | None = None
    """The share of the true answer that an index must find on average; None for its default."""
    is_exact: bool = False
    """Whether every document that matches is scored, with an index or without."""
    min_score: float | None = None
    is_past: bool = False
    """Whether a moment of the past is asked for, when vectors may have had another length than the index has now."""

    @property
    def field(self) -> str:
        """The path as text."""
        return ".".join(self.path)

    def by(self, distance: Distance) -> Near:
        """The same by one distance; raises InvalidRequestError for a vector that has none to others. No requests."""
        if distance == "cosine" and not any(self.vector):
            raise InvalidRequestError(
                f"near {self.field}",
                reason="a vector of zeros has no direction, so it has no cosine with another",
                fix="give another vector, or use distance euclidean",
            )
        if self.distance == distance:
            return self
        how = (distance, self.recall, self.is_exact, self.min_score, self.is_past)
        return Near(self.path, self.vector, self.k, *how)

    def __repr__(self) -> str:
        return f"Near({self.field}, {len(self.vector)} dimensions, k={self.k})"


# --- the truth ---


def make_scorer(near: Near) -> Callable[[Sequence[float]], float | None]:
    """What scores a vector of as many numbers as the one that is asked for; None if it has no score. No requests.

    Cosine gives (1 + cos) / 2, dot product (1 + dot) / 2, euclidean 1 / (1 + d²): more is nearer.
    """
    own = near.vector
    if near.distance == "euclidean":
        return lambda other: 1.0 / (1.0 + fsum([(a - b) * (a - b) for a, b in zip(own, other, strict=True)]))
    if near.distance == "dot_product":
        return lambda other: (1.0 + fsum(map(mul, own, other))) / 2.0
    length = sqrt(fsum(map(mul, own, own)))

    def cosine(other: Sequence[float]) -> float | None:
        product = length * sqrt(fsum(map(mul, other, other)))
        if not product:
            return None
        return (1.0 + max(-1.0, min(1.0, fsum(map(mul, own, other)) / product))) / 2.0

    return cosine


def nearest(near: Near, documents: Iterable[Document]) -> list[tuple[float, Document]]:
    """The documents with the best scores, the best first and ties in order of id, each with its score. No requests.

    Documents without a vector of the same length at the path are left out. `near` has a distance.
    """
    score, length = make_scorer(near), len(near.vector)
    found = []
    for document in documents:
        vector = read_vector(get_direct(document, near.path), length)
        value = None if isinstance(vector, str) else score(vector)
        if value is not None and (near.min_score is None or value >= near.min_score):
            found.append((-value, encode_key(document["_id"]), document))
    return [(-value, document) for value, _, document in nsmallest(near.k, found, key=lambda row: row[:2])]


# --- what callers write ---


def parse_near(written: WrittenNear) -> Near:
    """What `near` asks for. Raises InvalidRequestError with all mistakes. No requests."""
    if isinstance(written, Near):
        return written
    return _plain_near(written) or _checked_near(written)


def _plain_near(written: Mapping[str, Any]) -> Near | None:
    """What most callers write, an array of numpy and how many; None for anything else, and for what may be wrong."""
    if type(written) is not dict or len(written) != 1:
        return None
    ((name, options),) = written.items()
    if type(options) is not dict or not options.keys() <= _PLAIN or type(name) is not str or not name.isidentifier():
        return None
    vector: Any = options.get("vector")
    k = options.get("k", _ROWS)
    if type(k) is not int or not 1 <= k <= NEAR_ROWS_MAX or not _is_plain_array(vector):
        return None
    return Near(parse_path(name), array("f", vector.tobytes()), k)


def _checked_near(written: WrittenNear) -> Near:
    """As `parse_near`, of anything."""
    what = "near"
    name, options = _only_item(written)
    if not isinstance(name, str) or not isinstance(options, Mapping):
        raise InvalidRequestError(
            what,
            reason="it must name one field, and what is asked of it",
            fix='write {"embedding": {"vector": [0.1, 0.2], "k": 10}}',
        )
    mistakes = Mistakes()
    path = mistakes.collect(name, lambda: parse_path(name))
    for other in options:
        if other not in _KNOWN:
            mistakes.add(f"{name}.{other}", "there is no such option", did_you_mean(str(other), _KNOWN))
    vector = mistakes.collect(f"{name}.vector", lambda: read_given_vector(options.get("vector")))
    k = _whole(options.get("k"), f"{name}.k", mistakes)
    recall = _share(options.get("recall"), f"{name}.recall", mistakes)
    min_score = _number(options.get("min_score"), f"{name}.min_score", mistakes)
    exact = options.get("exact")
    is_exact = False if exact is None else exact if isinstance(exact, bool) else _scalar(exact)
    if not isinstance(is_exact, bool):
        mistakes.add(f"{name}.exact", f"it must be true or false, not {is_exact!r:.40}", "leave it out")
    distance = options.get("distance")
    if distance is not None and distance not in DISTANCES:
        mistakes.add(f"{name}.distance", f"there is no distance {distance!r:.40}", f"write {' or '.join(DISTANCES)}")
    mistakes.settle(what)
    return Near(path, vector, k, distance, recall, is_exact, min_score)


def _only_item(written: Any) -> tuple[Any, Any]:
    """The one pair of a mapping; nothing if it is none, or has others."""
    return next(iter(written.items())) if isinstance(written, Mapping) and len(written) == 1 else (None, None)


def read_given_vector(value: Any) -> array[float]:
    """The vector that a caller gives: a list, an array of numpy or of Python, or a packed one.

    Raises InvalidRequestError. No requests.
    """
    if not isinstance(value, list | Binary):
        if _is_plain_array(value):
            return array("f", value.tobytes())
        # Arrays of numpy and of Python tell their numbers as plain lists.
        value = value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value
    if type(value) is list and not _NUMBERS.issuperset(map(type, value)):
        value = list(map(_plain_number, value))
    found = read_vector(value)
    if isinstance(found, str):
        raise InvalidRequestError("the vector", reason=found, fix="give a list of numbers, or an array of numpy")
    return found


def _plain_number(value: Any) -> Any:
    """A number of numpy, of BSON or a Decimal as one of Python; anything else as it is."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Decimal):
        return nan if value.is_nan() else float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if isinstance(value, int) else float(value)
    return value


def _is_plain_array(value: Any) -> bool:
    """Whether it is an array of numpy with finite float32 of one row, as most embeddings are."""
    if getattr(getattr(value, "dtype", None), "str", None) != _SINGLE or getattr(value, "ndim", None) != 1:
        return False
    if not hasattr(value, "tobytes"):  # a column of pandas, say
        return False
    # A single one that is not finite makes the sum so too; that of as many finite ones is finite in float64.
    return 1 <= len(value) <= VECTOR_DIMENSIONS_MAX and isfinite(value.sum(dtype="d"))


def _scalar(value: Any) -> Any:
    """A single value of numpy as one of Python; anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _whole(value: Any, place: str, mistakes: Mistakes) -> int:
    if value is None:
        return _ROWS
    value = value if type(value) is int else _scalar(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= NEAR_ROWS_MAX:
        reason = f"it must be a whole number from 1 to {NEAR_ROWS_MAX:,}, not {value!r:.40}"
        mistakes.add(place, reason, f"leave it out for {_ROWS}")
        return _ROWS
    return value


def _number(value: Any, place: str, mistakes: Mistakes) -> float | None:
    if value is None:
        return None
    value = value if type(value) is float else _scalar(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - not NaN
        mistakes.add(place, f"it must be a number, not {value!r:.40}", "leave it out")
        return None
    try:
        return float(value)
    except OverflowError:  # of a whole number, which has no end in Python
        return inf if value > 0 else -inf


def _share(value: object, place: str, mistakes: Mistakes) -> float | None:
    found = _number(value, place, mistakes)
    if found is not None and not 0.0 < found <= 1.0:
        mistakes.add(place, f"it must be above 0 and at most 1, not {value!r:.40}", "leave it out, or write 0.99")
    return found
