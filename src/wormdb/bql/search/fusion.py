"""Two rankings as one, by reciprocal ranks: what a query with `near` and `search` must agree with.

    score = 1 / (60 + place among the nearest) + weight / (60 + place among what the search finds)

Places count from 1, and a row that is in one ranking only has no part of the other. So scores of different kinds need
not be compared, and a row that both find comes before those that one of them finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FUSION_PLACES", "fuse"]

FUSION_PLACES: Final = 60
"""How little it matters which of two rows near the top comes first."""


def fuse(nearest: Sequence[bytes], searched: Sequence[bytes], weight: float) -> list[tuple[bytes, float]]:
    """The rows of both rankings by their keys, each with its score, the best first and ties in order of key.

    `weight` is how much the search counts, where the nearest count 1. No requests.
    """
    scores: dict[bytes, float] = {}
    for factor, keys in ((1.0, nearest), (weight, searched)):
        for place, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + factor / (FUSION_PLACES + place)
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))
