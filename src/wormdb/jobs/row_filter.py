"""The option `filter`: a filter of BQL that the source itself applies, exactly as `find_all` does.

It narrows what is read as Spark's own filters do, and more: it belongs to the DataFrame, so no scan of it can meet the
blocks that another one chose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from wormdb.api.options import read_filter
from wormdb.engine.tree.entries import Range
from wormdb.jobs.narrowing import Narrowing
from wormdb.query.columns.match import compile_columns
from wormdb.query.physical.terms import Conjunction, bounds_of, intersect_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.bql.tree import Filter
    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.columns.match import ColumnFilter

__all__ = ["RowFilter"]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter as it was written; a value that Spark pickles."""

    text: str

    @classmethod
    def of(cls, text: str) -> RowFilter:
        """Raises InvalidRequestError for what is no filter. No requests."""
        _read(text)
        return cls(text)

    @property
    def paths(self) -> frozenset[str]:
        """What portions must have to be asked."""
        return _compiled(self.text).paths

    def apply(self, portions: Iterator[Portion]) -> Iterator[Portion]:
        """The rows that match. No requests of its own."""
        match = _compiled(self.text)
        for portion in portions:
            found = portion.filter(match.mask(portion))
            if found.rows:
                yield found

    def narrowing(self) -> Narrowing:
        """Outside of what no row can match. No requests."""
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
        return Narrowing(ranges, points)


@lru_cache(maxsize=16)
def _read(text: str) -> Filter:
    return read_filter(text)


@lru_cache(maxsize=16)
def _compiled(text: str) -> ColumnFilter:
    return compile_columns(_read(text))
