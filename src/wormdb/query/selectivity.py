"""Which share of the documents a filter matches, by the sample; and how many entries ranges of an index have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.tree import And, Compare, Everything, In, Not, Nothing, Or
from wormdb.format.key import encode_key, prefix_end
from wormdb.index.entries import Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.tree import Filter
    from wormdb.query.facts import Facts

__all__ = ["Selectivity"]

EQUAL_SHARE: Final = 0.02
"""Of an equality that nobody knows anything about."""
NARROW_SHARE: Final = 0.2
"""Of a range, or of anything else."""
LEAST_SHARE: Final = 0.1
"""Of one document of the sample: the share of a filter that matches none of them."""
BUCKET_SHARE: Final = 0.25
"""Of a bucket of a histogram: a range that lies in it."""
_WHOLE: Final = Range()


class Selectivity:
    """Estimates for one state; what was estimated once is kept while a plan is made."""

    def __init__(self, facts: Facts) -> None:
        """Over these facts. No requests."""
        self._facts = facts
        self._shares: dict[Filter, float] = {}

    def share(self, tree: Filter) -> float:
        """Of all documents the share that matches, above 0 but for a filter that matches nothing."""
        if isinstance(tree, Everything):
            return 1.0
        if isinstance(tree, Nothing):
            return 0.0
        known = self._shares.get(tree)
        if known is None:
            known = self._shares[tree] = self._sampled(tree) if self._facts.sample else _guess(tree)
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
            share = EQUAL_SHARE * len(spans) if all(map(_is_point, spans)) else NARROW_SHARE
            return self._facts.rows * (1.0 if spans == (_WHOLE,) else min(share, 1.0))
        statistics = found.statistics
        one = 1.0 if found.index.unique else max(statistics.entries_per_value, 1.0)
        # A histogram tells nothing of a range within a bucket, except that it is a part of it.
        part = max(statistics.entries / (len(statistics.bounds) + 1) * BUCKET_SHARE, one)
        total = sum(max(float(statistics.estimate(span)), one if _is_point(span) else part) for span in spans)
        return min(total, float(max(statistics.entries, self._facts.tail_rows, 1)))

    def _sampled(self, tree: Filter) -> float:
        sample = self._facts.sample
        hits = sum(map(compile_filter(tree), sample))
        return max(hits, LEAST_SHARE) / len(sample)


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
        case Nothing():
            return 0.0
        case _:
            return NARROW_SHARE


def _is_point(span: Range) -> bool:
    """Whether it is the range of one key, or of one beginning."""
    return span.high == prefix_end(span.low)
