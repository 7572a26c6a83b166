"""Functions that embed texts, as users write them; easy to foresee."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["of_rows", "of_texts", "of_two_lengths", "too_few", "vector_of", "wrong"]


def vector_of(text: Any) -> list[float]:
    """The length of a text and its first letters."""
    return [float(len(str(text))), *(float(ord(letter)) for letter in f"{text}  "[:2])]


def of_texts(texts: Sequence[Any]) -> list[list[float]]:
    return [vector_of(text) for text in texts]


def of_rows(rows: Sequence[dict[str, Any]]) -> list[array[float]]:
    return [array("f", vector_of(f"{row['title']} {row['body']}")) for row in rows]


def too_few(texts: Sequence[Any]) -> list[list[float]]:
    return of_texts(texts)[1:]


def of_two_lengths(texts: Sequence[Any]) -> list[list[float]]:
    return [[1.0] * (1 + place % 2) for place, _ in enumerate(texts)]


def wrong(texts: Sequence[Any]) -> list[list[float]]:
    raise ValueError(f"{len(texts)} are too many")


number = 3
