"""What an analysis knows of a field, as the root keeps it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.format.field_statistics import (
    BOUND_BYTES_MAX,
    BUCKETS,
    TEXT_CHARS_MAX,
    TOP_MAX,
    FieldStatistics,
    FrequentValue,
)
from wormdb.format.key import encode_key, encode_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.jobs.field_tally import FieldTally

__all__ = ["Seen", "statistics_of"]


@dataclass(frozen=True, slots=True)
class Seen:
    """The state that was looked at."""

    number: int
    misc: int
    """When."""
    rows: int
    changes: int
    scale: float
    """For how many documents one of the sample stands."""


def statistics_of(path: str, tally: FieldTally, sampled: Sequence[Any], seen: Seen) -> FieldStatistics:
    """The statistics of one field; `sampled` are values of it in their order. No requests."""
    total = round(len(sampled) * seen.scale) if tally.total is None else tally.total
    low, high = tally.low.result(), tally.high.result()
    bounds = _bounds(encode_keys(sampled), total)
    return FieldStatistics(
        path=path,
        number=seen.number,
        misc=seen.misc,
        rows=seen.rows,
        changes=seen.changes,
        missing=tally.missing,
        nulls=tally.kinds.get("null", 0),
        values=total,
        distinct=tally.distinct,
        low=b"" if low is None else encode_key(low)[:BOUND_BYTES_MAX],
        high=b"" if high is None else encode_key(high)[:BOUND_BYTES_MAX],
        top=tuple(
            FrequentValue(digest, text[:TEXT_CHARS_MAX], count) for digest, text, count in tally.frequent(TOP_MAX)
        ),
        bounds=tuple(bounds),
        ranks=tuple(bounds.values()),
    )


def _bounds(keys: Sequence[bytes], total: int) -> dict[bytes, int]:
    """The ends of buckets of equal depth, each with how many of all values are below it."""
    found: dict[bytes, int] = {}
    for bucket in range(1, BUCKETS if keys else 1):
        # A value that fills buckets begins where it begins, not where a bucket ends.
        place = bisect_left(keys, keys[len(keys) * bucket // BUCKETS])
        if place:
            found.setdefault(keys[place][:BOUND_BYTES_MAX], round(total * place / len(keys)))
    return found
