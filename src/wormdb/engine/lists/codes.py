"""Vectors as codes of one byte a number, and products of codes: exact integers, the same on every machine.

A code is the vector divided by its scale and rounded to -127 … 127; its scale is the greatest number divided by 127.
Products of two codes are sums of integers below 2^24 for up to 1,040 dimensions, so float32 has them exactly in
whatever order they are added; longer ones are added in float64. What is made of products (a cosine, a distance) is made
by single operations of float64, which IEEE 754 fixes. So the list of a code is a function of the code alone.

With the package numkong products are made of the bytes as they are; without it numpy makes the same ones, more slowly.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wormdb.bql.nearest import Distance

    Floats: TypeAlias = "NDArray[np.float64]"
    Singles: TypeAlias = "NDArray[np.float32]"
    Codes: TypeAlias = "NDArray[np.int8]"

__all__ = [
    "CODE_STEPS",
    "encode_vector",
    "encode_vectors",
    "find_kernel",
    "load_numpy",
    "multiplier",
    "multiply",
    "multiply_parts",
    "rough_scores",
    "squares",
]

CODE_STEPS: Final = 127
"""Of a number of a code, on each side of 0."""
_EXACT_DIMENSIONS: Final = 1_040
"""127 * 127 * 1,040 is below 2^24: sums of that many products are exact in float32."""
_PLAIN_LEAST: Final = 1e-30
"""Vectors whose greatest number is above have scales with all bits of float32."""
_FARTHEST: Final = -1e300
_MANY_ROWS: Final = 256
"""Rows that are multiplied at once, so that their float32 stay near the processor."""


@cache
def load_numpy() -> Any:
    """The package numpy, looked for once; raises MissingExtraError naming the extra."""
    return load("numpy", "vector")


def encode_vectors(vectors: Singles) -> tuple[Codes, Singles]:
    """The codes of vectors, one a row, and their scales. No requests."""
    numpy = load_numpy()
    greatest = numpy.abs(vectors).max(axis=1, initial=0.0).astype(numpy.float64)
    scales = (greatest / CODE_STEPS).astype(numpy.float32)
    # The least numbers of float32 divided by 127 are zero: such vectors have codes of zeros.
    divisors = numpy.where(scales > 0, scales, numpy.float32(1)).astype(numpy.float64)
    codes = numpy.rint(vectors.astype(numpy.float64) / divisors[:, None])
    return numpy.clip(codes, -CODE_STEPS, CODE_STEPS).astype(numpy.int8), scales


def encode_vector(vector: Singles) -> tuple[Codes, Singles]:
    """As `encode_vectors`, of one vector: a row, and its scale. No requests."""
    numpy = load_numpy()
    greatest = float(numpy.abs(vector).max(initial=0.0))
    if greatest <= _PLAIN_LEAST:
        return encode_vectors(vector[None])
    scales = numpy.array((greatest / CODE_STEPS,), numpy.float32)
    # A scale of so many bits is off by so little that no number is rounded to more than 127.
    codes = numpy.rint(vector[None] / scales.astype(numpy.float64))
    return codes.astype(numpy.int8), scales


def multiply(rows: Codes, others: Codes) -> Floats:
    """The product of each row with each of the others, as exact integers in float64. No requests."""
    return multiplier(others)(rows)


def multiplier(others: Codes) -> Callable[[Codes], Floats]:
    """What gives the product of each of any rows with each of the others, as `multiply`. No requests.

    What is made of the others is made once, not for each call.
    """
    numpy = load_numpy()
    kernel = find_kernel()
    if kernel is not None:
        packed = kernel.dots_pack(numpy.ascontiguousarray(others))

        def by_kernel(rows: Codes) -> Floats:
            exact: Floats = numpy.asarray(kernel.dots_packed(numpy.ascontiguousarray(rows), packed), numpy.float64)
            return exact

        return by_kernel
    kind = numpy.float32 if others.shape[1] <= _EXACT_DIMENSIONS else numpy.float64
    right = others.astype(kind).T

    def by_numpy(rows: Codes) -> Floats:
        made: Floats = numpy.empty((len(rows), len(others)), numpy.float64)
        for start in range(0, len(rows), _MANY_ROWS):
            made[start : start + _MANY_ROWS] = rows[start : start + _MANY_ROWS].astype(kind) @ right
        return made

    return by_numpy


def multiply_parts(parts: Sequence[Codes], code: Codes) -> Floats | Singles:
    """The products of all rows of some arrays with one code, one behind the other: exact integers. No requests.

    They are float32 where these have all of them.
    """
    numpy = load_numpy()
    kernel = find_kernel()
    kind = numpy.float32 if code.shape[1] <= _EXACT_DIMENSIONS else numpy.float64
    if kernel is not None:
        times, start = kernel.cdist, 0
        exact = numpy.empty((1, sum(map(len, parts))), kind)
        for rows in parts:
            stop = start + len(rows)
            times(code, rows, "dot", out=exact[:, start:stop])
            start = stop
        return exact[0]  # type: ignore[no-any-return] # numpy is loaded late
    right = code[0].astype(kind)
    made = numpy.empty(sum(map(len, parts)), kind)
    wide = numpy.empty((_MANY_ROWS, len(right)), kind)
    start = 0
    for rows in parts:
        for first in range(0, len(rows), _MANY_ROWS):
            some = rows[first : first + _MANY_ROWS]
            near, stop = wide[: len(some)], start + len(some)
            numpy.copyto(near, some)
            numpy.dot(near, right, out=made[start:stop])
            start = stop
    return made  # type: ignore[no-any-return] # numpy is loaded late


def squares(codes: Codes) -> Floats:
    """The product of each row with itself, an exact integer. No requests."""
    numpy = load_numpy()
    wide = codes.astype(numpy.int32)
    exact: Floats = numpy.einsum("ij,ij->i", wide, wide).astype(numpy.float64)
    return exact


def rough_scores(distance: Distance, products: Floats | Singles, factors: Singles, scale: float) -> Floats | Singles:
    """What orders rows as scores do, of products with one code: more is nearer. No requests.

    `factors` are one or two for each row, as payloads have them: all first ones, then all second ones. `scale` is that
    of the other code.
    """
    if distance == "cosine":
        near: Floats | Singles = products * factors[0]  # numbers that are small enough for float32
        return near
    wide = factors.astype("float64")
    if distance == "dot_product":
        return products * wide[0]  # type: ignore[no-any-return] # numpy is loaded late
    # d² = |a|² - 2ab + |b|², of which |b|² is the same for all.
    far = 2.0 * scale * wide[0] * products - wide[1]
    # The square of a long vector may be beyond float32: it is the farthest, and counts all the same.
    kept: Floats = load_numpy().maximum(far, _FARTHEST)
    return kept


@cache
def find_kernel() -> Any:
    """The package numkong; None if it is not installed. No requests."""
    try:
        return import_module("numkong")
    except ImportError:
        return None
