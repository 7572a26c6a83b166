"""Sets of values as spans of keys: ascending, apart from each other, each from its first key up to its second.

The keys are those of `wormdb.format.key`, so the order is that of MongoDB. A bracket of types reaches up to the tag of
the next one: together the brackets leave no gap.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

from wormdb.format.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ALL", "NONE", "Spans", "bracket", "has_all", "has_any", "is_apart", "is_within", "joined", "shared"]

Spans: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Pairs (first key, first key after)."""

_TAG_STEP: Final = 8

NONE: Final[Spans] = ()
ALL: Final[Spans] = ((bytes((Kind.MINKEY,)), bytes((Kind.MAXKEY + _TAG_STEP,))),)
"""Every value, and missing."""


def bracket(kind: Kind) -> tuple[bytes, bytes]:
    """The span of all values of one bracket."""
    return bytes((kind,)), bytes((kind + _TAG_STEP,))


def joined(spans: Iterable[tuple[bytes, bytes]]) -> Spans:
    """What any of them holds; they may come in any order, overlap, and be empty."""
    found: list[tuple[bytes, bytes]] = []
    for low, high in sorted(spans):
        if low >= high:
            continue
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def shared(a: Spans, b: Spans) -> Spans:
    """What both hold."""
    if b is ALL:
        return a
    found = []
    left = right = 0
    while left < len(a) and right < len(b):
        low, high = max(a[left][0], b[right][0]), min(a[left][1], b[right][1])
        if low < high:
            found.append((low, high))
        if a[left][1] <= b[right][1]:
            left += 1
        else:
            right += 1
    return tuple(found)


def is_apart(a: Spans, b: Spans) -> bool:
    """Whether they have nothing in common."""
    return not shared(a, b)


def is_within(a: Spans, b: Spans) -> bool:
    """Whether `b` holds all of `a`."""
    place = 0
    for low, high in a:
        while place < len(b) and b[place][1] < high:
            place += 1
        if place == len(b) or low < b[place][0]:
            return False
    return True


def has_any(spans: Spans, span: tuple[bytes, bytes]) -> bool:
    """Whether some of one span is held."""
    place = bisect_right(spans, span)
    return (place > 0 and spans[place - 1][1] > span[0]) or (place < len(spans) and spans[place][0] < span[1])


def has_all(spans: Spans, span: tuple[bytes, bytes]) -> bool:
    """Whether the whole of one span is held."""
    place = bisect_right(spans, (span[0], b"\xff"))  # no span ends there
    return place > 0 and spans[place - 1][1] >= span[1]
