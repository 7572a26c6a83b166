"""Which share of the documents a filter matches, and how many entries ranges of an index have.

Shares are those of the sample, which is always of the newest root. Where the sample has too few documents, the
statistics of fields tell, if there are any; as they may be old, the sample still limits what they say.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.tree import And, Compare, Exists, Filter, In, MatchAll, MatchNone, Not, Or, StartsWith
from wormdb.engine.tree.entries import Range
from wormdb.engine.tree.statistics import IndexStatistics
from wormdb.format.field_statistics import BOUND_BYTES_MAX, FieldStatistics, digest_of
from wormdb.format.key import encode_key, prefix_end
from wormdb.query.physical.terms import NULL_KEY, find_keys, intersect_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.format.path import Path
    from wormdb.query.sources.source import Facts

__all__ = ["Selectivity", "is_point", "share_by_statistics"]


# --- How many documents a condition matches, by what was once found out about the values of its field.

_KNOWABLE: Final = (Compare, In, StartsWith, Exists)
"""Conditions whose share statistics tell."""
_IN_BUCKET: Final = 0.25
"""The part of a bucket of a histogram that a range within it takes."""


def share_by_statistics(conditions: Sequence[Filter], facts: Facts) -> float | None:
    """The share of all documents that meet all of some conditions on one field, from 0 to 1; None if unknown.

    The statistics may be of an older state: the share is taken to have stayed the same. No requests.
    """
    first = conditions[0]
    found = facts.fields.get(".".join(first.path)) if isinstance(first, _KNOWABLE) else None
    if found is None or not found.rows:
        return None
    if isinstance(first, Exists):
        return (found.rows - found.missing) / found.rows
    told = [find_keys(each) for each in conditions]
    if None in told:
        return None
    keys = intersect_keys(each for each in told if each is not None)
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


EQUAL_SHARE: Final = 0.02
"""The share of an equality without a sample or statistics."""
NARROW_SHARE: Final = 0.2
"""The share of any other condition without them."""
LEAST_SHARE: Final = 0.1
"""Documents of the sample that a filter counts as matching if it matches none."""
HITS_ENOUGH: Final = 10
"""Documents of the sample that tell the share of a filter well enough."""
HITS_TIMES: Final = 4
"""The true number of hits may be this many times the sampled one, or the sampled one divided by it …"""
HITS_MORE: Final = 3
"""… and this many hits more."""
BUCKET_SHARE: Final = 0.25
"""The part of a bucket of a histogram that a range within it takes."""
_WHOLE: Final = Range()


class Selectivity:
    """Estimates for one state; what was estimated once is kept while a plan is made."""

    def __init__(self, facts: Facts) -> None:
        """Estimate by these facts. No requests."""
        self._facts = facts
        self._shares: dict[Filter, float] = {}
        self._told: dict[Filter, float | None] = {}
        self.rows_kept = 0.0
        """The greatest share of kept documents that a way to the rows has shown so far."""

    def share(self, tree: Filter) -> float:
        """The share of all documents that match: above 0, except for a filter that matches nothing."""
        if isinstance(tree, MatchAll):
            return 1.0
        if isinstance(tree, MatchNone):
            return 0.0
        known = self._shares.get(tree)
        if known is None:
            known = self._shares[tree] = self._estimated(tree)
        return known

    def share_of_ids(self, span: Range) -> float:
        """The share of documents whose ids are in a range."""
        if span.low == b"" and span.high is None:
            return 1.0
        sample = self._facts.sample
        if not sample:
            return NARROW_SHARE
        hits = sum(encode_key(document["_id"]) in span for document in sample if "_id" in document)
        return max(hits, LEAST_SHARE) / len(sample)

    def entries(self, name: str, spans: Sequence[Range]) -> float:
        """How many entries of an index are in ranges, about."""
        found = self._facts.find_index(name)
        if found is None:
            return float(self._facts.rows)
        if found.statistics is None:
            share = EQUAL_SHARE * len(spans) if all(map(is_point, spans)) else NARROW_SHARE
            return self._facts.rows * (1.0 if spans == (_WHOLE,) else min(share, 1.0))
        statistics = found.statistics
        one = 1.0 if found.index.unique else max(statistics.entries_per_value, 1.0)
        # Of a range within a bucket, a histogram says only that it is a part of the bucket.
        part = max(statistics.entries / (len(statistics.bounds) + 1) * BUCKET_SHARE, one)
        total = sum(max(float(statistics.estimate(span)), one if is_point(span) else part) for span in spans)
        return min(total, float(max(statistics.entries, self._facts.tail_rows, 1)))

    def _estimated(self, tree: Filter) -> float:
        sample = self._facts.sample
        hits = sum(map(compile_filter(tree), sample))
        known = self._known(tree) if hits < HITS_ENOUGH and (self._facts.fields or self._facts.indexes) else None
        if not sample:
            return _guess(tree) if known is None else self._above_nothing(known)
        if known is None:
            return max(hits, LEAST_SHARE) / len(sample)
        least, most = hits / HITS_TIMES, hits * HITS_TIMES + HITS_MORE
        return self._above_nothing(min(max(known, least / len(sample)), most / len(sample)))

    def _known(self, tree: Filter) -> float | None:
        """By the statistics of fields; None if those that it is about have none."""
        if tree not in self._told:
            self._told[tree] = self._told_by_fields(tree)
        return self._told[tree]

    def _told_by_fields(self, tree: Filter) -> float | None:
        match tree:
            case And(filters) | Or(filters) if all(self._known(each) is None for each in filters):
                return None
            case And(filters):
                return self._of_all(filters)
            case Or(filters):
                return min(sum(map(self.share, filters)), 1.0)
            case Not(child):
                known = self._known(child)
                return None if known is None else 1.0 - known
            case _:
                known = share_by_statistics([tree], self._facts)
                return self._told_by_index(tree) if known is None else known

    def _told_by_index(self, tree: Filter) -> float | None:
        """By the entries that an index of the field has in the ranges of a condition; None if there is none."""
        if not isinstance(tree, Compare | In | StartsWith):
            return None
        path, keys = ".".join(tree.path), find_keys(tree)
        found = next((each for each in self._facts.indexes if each.index.fields[0] == path and each.statistics), None)
        if found is None or keys is None or not keys.ranges:
            return None
        return min(self.entries(found.index.name, keys.ranges) / max(self._facts.rows, 1), 1.0)

    def _of_all(self, filters: Sequence[Filter]) -> float:
        """What several filters match, as if fields had nothing to do with each other; both ends of a range are one."""
        ranges: dict[Path, list[Filter]] = {}
        for each in filters:
            if isinstance(each, Compare):
                ranges.setdefault(each.path, []).append(each)
        joint = {path: share_by_statistics(some, self._facts) for path, some in ranges.items() if len(some) > 1}
        known = {path: share for path, share in joint.items() if share is not None}
        others = (each for each in filters if not (isinstance(each, Compare) and each.path in known))
        return prod(map(self.share, others)) * prod(known.values())

    def _above_nothing(self, share: float) -> float:
        return max(share, LEAST_SHARE / max(self._facts.rows, 1))


def _guess(tree: Filter) -> float:
    """Without a sample: by the kinds of conditions alone."""
    match tree:
        case Compare(_, "eq", _) | In():
            return EQUAL_SHARE * (len(tree.values) if isinstance(tree, In) else 1)
        case And(filters):
            return max(min(map(_guess, filters)) / len(filters), EQUAL_SHARE / 2)
        case Or(filters):
            return min(sum(map(_guess, filters)), 1.0)
        case Not(child):
            return max(1.0 - _guess(child), NARROW_SHARE)
        case MatchNone():
            return 0.0
        case _:
            return NARROW_SHARE


def is_point(span: Range) -> bool:
    """Whether the range holds one key, or the keys with one prefix."""
    return span.high == prefix_end(span.low)
