"""The filter of a job: BQL, applied to columns as `find_all` does, and the keys outside of which nothing is read.

In Spark it is the option `filter`. It belongs to the DataFrame, so no scan of it can meet the blocks that another scan
chose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import nan
from typing import TYPE_CHECKING, Final

from wormdb.api.options import read_filter
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key
from wormdb.query.columns.match import ColumnFilter, compile_columns
from wormdb.query.physical.terms import Conjunction, bounds_of, intersect_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.bql.tree import Filter
    from wormdb.engine.blocks.portion import Portion

__all__ = ["NAN_KEY", "RowBounds", "RowFilter", "overlap"]


NAN_KEY: Final = encode_key(nan)


@dataclass(frozen=True, slots=True)
class RowBounds:
    """What is known of the rows that are wanted, by path."""

    ranges: dict[str, Range] = field(default_factory=dict)
    points: dict[str, frozenset[bytes]] = field(default_factory=dict)
    """Keys of which a value must have one."""
    nan_paths: frozenset[str] = frozenset()
    """Where NaN would be wanted too, though its key is not in the range."""

    def both(self, other: RowBounds) -> RowBounds:
        """What is known of rows for which both hold."""
        ranges = dict(self.ranges)
        for path, span in other.ranges.items():
            ranges[path] = overlap(ranges.get(path, Range()), span)
        points = dict(self.points)
        for path, keys in other.points.items():
            points[path] = points.get(path, keys) & keys
        return RowBounds(ranges, points, self.nan_paths | other.nan_paths)


def overlap(one: Range, other: Range) -> Range:
    """The keys that are in both ranges. No requests."""
    highs = [high for high in (one.high, other.high) if high is not None]
    return Range(max(one.low, other.low), min(highs) if highs else None)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter as it was written; a value that Spark pickles."""

    text: str

    @classmethod
    def of(cls, text: str) -> RowFilter:
        """Raises InvalidRequestError for an invalid filter. No requests."""
        _read(text)
        return cls(text)

    @property
    def paths(self) -> frozenset[str]:
        """The columns that a portion must have."""
        return _compiled(self.text).paths

    def apply(self, portions: Iterator[Portion]) -> Iterator[Portion]:
        """The rows that match. No requests of its own."""
        match = _compiled(self.text)
        for portion in portions:
            found = portion.filter(match.mask(portion))
            if found.rows:
                yield found

    def narrowing(self) -> RowBounds:
        """The bounds outside of which no row can match. No requests."""
        conjunction = Conjunction.of(_read(self.text))
        ranges = bounds_of(conjunction)
        points: dict[str, frozenset[bytes]] = {}
        for path, terms in conjunction.by_field.items():
            if path == "_id":
                keys = intersect_keys(term.keys for term in terms)
                ranges[path] = Range(keys.ranges[0].low, keys.ranges[-1].high) if keys.ranges else Range(b"", b"")
                if keys.are_points:
                    points[path] = frozenset(span.low for span in keys.ranges)
                continue
            # Arrays have several values: there only one condition at a time holds for one of them.
            single = next(
                (
                    term.keys
                    for term in terms
                    if term.keys.are_points and not term.keys.takes_nothing and term.is_usable(has_arrays=True)
                ),
                None,
            )
            if single is not None:
                points[path] = frozenset(span.low for span in single.ranges)
        return RowBounds(ranges, points)


@lru_cache(maxsize=16)
def _read(text: str) -> Filter:
    return read_filter(text)


@lru_cache(maxsize=16)
def _compiled(text: str) -> ColumnFilter:
    return compile_columns(_read(text))
