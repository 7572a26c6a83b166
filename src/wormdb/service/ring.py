"""Whose turn it is to look after a collection. No I/O.

Every node that sees the same live nodes and about the same time names the same one. Where they disagree for a
moment, two of them do the same work, and the root's compare-and-set lets one of them win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["turn_of", "until_next_window", "window_of"]


def window_of(now_ms: float, window_ms: int) -> int:
    """The number of the window that a moment is in, by the store's time."""
    return int(now_ms // window_ms)


def until_next_window(now_ms: float, window_ms: int) -> float:
    """Milliseconds until the next window begins; never 0."""
    return window_ms - now_ms % window_ms


def turn_of(collection: str, ring: Sequence[int], window: int) -> int:
    """The node of a sorted `ring` that looks after a collection in a window; the ring has one node at least.

    Collections begin at different places of the ring, so that all nodes have something to do in every window.
    """
    return ring[(window + crc32(collection.encode())) % len(ring)]
