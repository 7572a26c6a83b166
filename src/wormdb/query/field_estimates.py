"""How many documents a condition matches, by what was once found out about the values of its field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.bql.tree import Compare, Exists, In, StartsWith
from wormdb.engine.tree.entries import Range
from wormdb.engine.tree.statistics import IndexStatistics
from wormdb.format.field_statistics import BOUND_BYTES_MAX, digest_of
from wormdb.query.physical.keys import NULL_KEY, common_keys
from wormdb.query.physical.lookup import lookup
from wormdb.query.physical.ranges import narrowing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.tree import Filter
    from wormdb.format.field_statistics import FieldStatistics
    from wormdb.query.facts import Facts

__all__ = ["share_by_statistics"]

_KNOWABLE: Final = (Compare, In, StartsWith, Exists)
"""Conditions whose share statistics tell."""
_IN_BUCKET: Final = 0.25
"""Of a bucket of a histogram: a range that lies in it."""


def share_by_statistics(conditions: Sequence[Filter], facts: Facts) -> float | None:
    """Of all documents the share that meets all of some conditions on one field, from 0 to 1; None if nobody knows.

    The state that it was known of may have had other documents: the share is taken to have stayed the same. No
    requests.
    """
    first = conditions[0]
    found = facts.fields.get(".".join(first.path)) if isinstance(first, _KNOWABLE) else None
    if found is None or not found.rows:
        return None
    if isinstance(first, Exists):
        return (found.rows - found.missing) / found.rows
    told = [lookup(each) or narrowing(each) for each in conditions]
    if None in told:
        return None
    keys = common_keys(each for each in told if each is not None)
    count = sum(_of_point(found, span.low) if keys.are_points else _of_range(found, span) for span in keys.ranges)
    return min(count / found.rows, 1.0)


def _of_point(found: FieldStatistics, key: bytes) -> float:
    """How many documents have one value: counted if it is frequent, and else as many as the others on average."""
    if key == NULL_KEY:
        return float(found.missing + found.nulls)
    digest = digest_of(key)
    counted = next((each.count for each in found.top if each.digest == digest), None)
    if counted is not None:
        return float(counted)
    if not found.low <= key or key[:BOUND_BYTES_MAX] > found.high:
        return 0.0
    rest, others = found.values - sum(each.count for each in found.top), found.distinct - len(found.top)
    return max(rest, 0) / others if others > 0 else 0.0


def _of_range(found: FieldStatistics, span: Range) -> float:
    """How many values lie in a range; of one within a bucket, a part of the bucket."""
    if span.low[:BOUND_BYTES_MAX] > found.high or (span.high is not None and span.high <= found.low):
        return 0.0
    is_open = span.high is None or span.high[:BOUND_BYTES_MAX] > found.high
    within = Range(b"" if span.low <= found.low else span.low, None if is_open else span.high)
    spread = IndexStatistics(
        entries=found.values, distinct=found.distinct, bounds=found.bounds, ranks=found.ranks
    ).estimate(within)
    return max(float(spread), found.values / (len(found.bounds) + 1) * _IN_BUCKET)
