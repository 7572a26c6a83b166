"""How many lists of vectors are read for a share of the true answer."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Final

__all__ = ["RECALL", "count_probes"]

RECALL: Final = 0.95
"""The share of the true answer that is found on average, if a query asks for no other."""
_PROBES: Final = 2.4
"""Lists that are read for RECALL, as a multiple of the root of their number: measured on embeddings of texts."""
_STEEPNESS: Final = 0.7
"""How the number of lists grows with the share that may be missed: also measured."""
_SURE: Final = 0.9995
"""From this share on all lists are read."""


def count_probes(lists: int, recall: float | None) -> int | None:
    """How many lists are read to find a share of the true answer; None for all. No requests."""
    wanted = RECALL if recall is None else recall
    if wanted >= _SURE:
        return None
    more: float = pow((1.0 - RECALL) / (1.0 - wanted), _STEEPNESS)
    probes = ceil(_PROBES * sqrt(lists) * more)
    return None if probes >= lists else probes
