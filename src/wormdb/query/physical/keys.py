"""Where the values stand that a condition asks for: ranges of the keys of single values.

What an entry of an index says about a document, and what it does not, decides how far ranges can be trusted:

- Every document that meets the condition has an entry in the ranges, unless a sparse index leaves it out. It does so
  only with null, missing fields and empty arrays, so ranges that `takes_nothing` may not find them there.
- The other way round holds only where it is said: `is_exact` for fields without arrays, `is_exact_in_arrays` for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NOWHERE", "NULL_KEY", "Keys", "common_keys", "intersected", "joined", "points"]

NULL_KEY: Final = encode_key(None)
_NOTHING_KEYS: Final = (NULL_KEY, encode_key(MISSING))


@dataclass(frozen=True, slots=True)
class Keys:
    """Ranges of keys, ascending and apart from each other; a key is in one or out, with whatever follows it."""

    ranges: tuple[Range, ...]
    are_points: bool = False
    """Whether each range is that of one key, which is its `low`."""
    is_exact: bool = False
    """Whether a document without arrays on the way meets the condition if its value is in the ranges."""
    is_exact_in_arrays: bool = False
    """Whether any document does of which one value is in the ranges."""
    is_for_plain: bool = False
    """Whether they are right only for a field without arrays."""
    is_for_elements: bool = False
    """Whether they are right only for a field whose texts are all elements of arrays."""

    @property
    def point(self) -> bytes | None:
        """The one key, if it is one."""
        return self.ranges[0].low if self.are_points and len(self.ranges) == 1 else None

    @property
    def takes_nothing(self) -> bool:
        """Whether null, a missing field or an empty array may be in them."""
        return any(key in span for span in self.ranges for key in _NOTHING_KEYS)


NOWHERE: Final = Keys((), are_points=True, is_exact=True, is_exact_in_arrays=True)
"""Those of a condition that nothing meets."""


def points(keys: Iterable[bytes], *, is_exact: bool = True, is_exact_in_arrays: bool = True) -> Keys:
    """Some single keys."""
    ranges = tuple([Range.prefix(key) for key in sorted(set(keys))])
    return Keys(ranges, are_points=True, is_exact=is_exact, is_exact_in_arrays=is_exact_in_arrays)


def common_keys(all_keys: Iterable[Keys]) -> Keys:
    """The keys of several conditions that are about the same single value; at least one."""
    first, *others = all_keys
    for other in others:
        ranges = intersected(first.ranges, other.ranges)
        first = Keys(
            ranges,
            are_points=first.are_points or other.are_points,
            is_exact=first.is_exact and other.is_exact,
            is_for_elements=first.is_for_elements or other.is_for_elements,
        )
    return first


def intersected(some: tuple[Range, ...], others: tuple[Range, ...]) -> tuple[Range, ...]:
    """What lies in a range of both."""
    found = []
    place = other = 0
    while place < len(some) and other < len(others):
        left, right = some[place], others[other]
        high = right.high if left.high is None else left.high if right.high is None else min(left.high, right.high)
        span = Range(max(left.low, right.low), high)
        if not span.empty:
            found.append(span)
        if high == left.high:
            place += 1
        else:
            other += 1
    return tuple(found)


def joined(spans: Iterable[Range]) -> tuple[Range, ...]:
    """The same keys in ranges that ascend and do not touch."""
    found: list[Range] = []
    for span in sorted((span for span in spans if not span.empty), key=lambda span: span.low):
        last = found[-1] if found else None
        if last is None or (last.high is not None and last.high < span.low):
            found.append(span)
        elif last.high is not None and (span.high is None or span.high > last.high):
            found[-1] = Range(last.low, span.high)
    return tuple(found)
