"""In how many files a table lies, and where each begins. Pure.

Tables stay in one file up to a threshold of entries, and come back to one only well below it, so that a collection near
the threshold does not go to and fro. Entries are ordered by two texts: of a manifest the id's and nothing, of an index
the value's and the id's.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BEGINNING", "Place", "has_parts", "is_uneven", "lows_of", "part_of", "parts_of"]

Place = tuple[str, str]
"""Where an entry stands in a table."""

BEGINNING: Final[Place] = ("", "")
"""Before every entry."""

_SHRINK: Final = 0.8
"""Below this part of the threshold a table comes back to one file."""
_UNEVEN: Final = 3
"""How many times larger than it should be a part may grow before all are cut anew."""


def parts_of(count: int, threshold: int, maximum: int) -> int:
    """In how many parts `count` entries lie: so that no part has more than the threshold, while the maximum allows."""
    return max(1, min(maximum, -(-count // max(threshold, 1))))


def has_parts(count: int, threshold: int, *, is_parted: bool) -> bool:
    """Whether a table of `count` entries lies in parts, given whether it does so now."""
    return count >= threshold * _SHRINK if is_parted and count <= threshold else count > threshold


def is_uneven(counts: Sequence[int], threshold: int, maximum: int) -> bool:
    """Whether a part has grown so much beyond the others that all should be cut anew."""
    total = sum(counts)
    wanted = parts_of(total, threshold, maximum)
    return len(counts) > maximum or (wanted > 1 and max(counts) > _UNEVEN * max(threshold, -(-total // wanted)))


def lows_of(places: Sequence[Place], parts: int) -> list[Place]:
    """Where each of up to `parts` equal parts of some places, which ascend, begins; the first one at the beginning."""
    cuts = [places[len(places) * number // parts] for number in range(1, parts)] if places else []
    return [BEGINNING, *sorted({cut for cut in cuts if cut > BEGINNING})]


def part_of(lows: Sequence[Place], place: Place) -> int:
    """In which of the parts that begin at `lows` a place is."""
    return bisect_right(lows, place) - 1
