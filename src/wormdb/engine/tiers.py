"""When runs are merged: the rule, as a pure function.

Runs are kept in tiers of size. When FANOUT runs have gathered that are all no larger than the next tier allows, the
newest of them that lie side by side are merged into one. With n runs' worth of data written in pieces of at
least one forwarding:

- a byte is rewritten at most once a tier, so write amplification is at most 1 + tiers(total);
- a read looks at no more than (FANOUT - 1) runs a tier, plus the one being filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FANOUT", "plan_cascade", "plan_merge", "runs_max", "tier_of"]

FANOUT = 4


def tier_of(size: int, smallest: int) -> int:
    """The tier of a run of `size` bytes: 0 up to `smallest`, then one more for each factor of FANOUT."""
    tier, bound = 0, max(smallest, 1)
    while size > bound:
        tier, bound = tier + 1, bound * FANOUT
    return tier


def runs_max(total: int, smallest: int) -> int:
    """The most runs that `plan_merge` lets stand for `total` bytes."""
    return (FANOUT - 1) * (tier_of(total, smallest) + 1) + 1


def plan_merge(sizes: Sequence[int], smallest: int) -> int:
    """How many of the newest runs (`sizes` newest first) to merge into one; 0 if none need be."""
    chosen = 0
    count, reached = 0, 0
    for place, size in enumerate(sizes, 1):
        tier = tier_of(size, smallest)
        if tier > reached:
            count, reached = 0, tier
        count += 1
        if count >= FANOUT:
            chosen = place
    return chosen


def plan_cascade(size: int, sizes: Sequence[int], smallest: int) -> int:
    """How many of the newest runs a new one of `size` bytes is written together with.

    A merged run may complete the next tier in turn; all of that is written in one pass.
    """
    joined = 0
    while count := plan_merge([size, *sizes[joined:]], smallest):
        size += sum(sizes[joined : joined + count - 1])
        joined += count - 1
    return joined
