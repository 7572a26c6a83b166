"""What is known of the rows that are wanted: ranges and points of keys outside of which nothing needs to be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Final

from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key

__all__ = ["NAN_KEY", "Narrowing", "overlap"]

NAN_KEY: Final = encode_key(nan)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is known of the rows that are wanted, by path."""

    ranges: dict[str, Range] = field(default_factory=dict)
    points: dict[str, frozenset[bytes]] = field(default_factory=dict)
    """Keys of which a value must have one."""
    nan_paths: frozenset[str] = frozenset()
    """Where NaN would be wanted too, though its key is not in the range."""

    def both(self, other: Narrowing) -> Narrowing:
        """What is known of rows for which both hold."""
        ranges = dict(self.ranges)
        for path, span in other.ranges.items():
            ranges[path] = overlap(ranges.get(path, Range()), span)
        points = dict(self.points)
        for path, keys in other.points.items():
            points[path] = points.get(path, keys) & keys
        return Narrowing(ranges, points, self.nan_paths | other.nan_paths)


def overlap(one: Range, other: Range) -> Range:
    """The keys that are in both ranges. No requests."""
    highs = [high for high in (one.high, other.high) if high is not None]
    return Range(max(one.low, other.low), min(highs) if highs else None)
