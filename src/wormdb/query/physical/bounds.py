"""Which values every row of an answer has, for leaving out blocks by the least and greatest values of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.tree.entries import Range
from wormdb.query.physical.keys import common_keys

if TYPE_CHECKING:
    from wormdb.query.physical.terms import Conjunction

__all__ = ["bounds_of"]


def bounds_of(conjunction: Conjunction) -> dict[str, Range]:
    """By path a range: each row of the answer has a value in it, or an array at the path or on the way. No requests.

    Of a path that leads to no array all conditions hold for one value, so what is left of all ranges is taken.
    """
    found: dict[str, Range] = {}
    for path, terms in conjunction.by_field.items():
        if path == "_id":
            continue  # a scan has a range of ids
        keys = [term.keys for term in terms if not term.keys.is_for_elements]
        if keys:
            ranges = common_keys(keys).ranges
            found[path] = Range(ranges[0].low, ranges[-1].high) if ranges else Range(b"", b"")
    return found
