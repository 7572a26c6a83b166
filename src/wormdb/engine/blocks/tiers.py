"""When runs are merged: the rule, as a pure function.

Runs are kept in tiers of size, newest first; a run counts for the highest tier that it or a newer one has. A new run
takes in the newest runs that are smaller than itself, and then, as soon as FANOUT runs have gathered in a tier, all
through that tier; what is merged may do the same in turn, and all of it is written in one pass. So, where T is
`tier_of` everything that was ever written:

- a read looks at no more than `runs_max` = (FANOUT - 1) x (T + 1) runs;
- whatever is merged rises by a tier or more, except in the lowest one. So if all keys are distinct, a byte is written
  at most 1 + T times, and beside that a forwarding writes no more than `smallest` bytes a second time;
- where newer versions replace older ones, a merge may stay in its tier: its FANOUT - 1 newer runs then pay for it. A
  byte pays at most 1 + 1 + FANOUT / (FANOUT - 1) times a tier: `written_max` bounds all of it.

A new run's size is guessed before it is written, and an attached one is not rewritten. Either may stand above smaller
runs; the bound on reads holds all the same, and it costs no more than writing that run once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FANOUT", "plan_adopt", "plan_cascade", "plan_merge", "runs_max", "tier_of", "written_max"]

FANOUT = 4


def tier_of(size: int, smallest: int) -> int:
    """The tier of a run of `size` bytes: 0 up to `smallest`, then one more for each factor of FANOUT."""
    tier, bound = 0, max(smallest, 1)
    while size > bound:
        tier, bound = tier + 1, bound * FANOUT
    return tier


def runs_max(total: int, smallest: int) -> int:
    """The most runs that stand when the largest is of `total` bytes or less."""
    return (FANOUT - 1) * (tier_of(total, smallest) + 1)


def written_max(total: int, forwards: int, smallest: int) -> int:
    """The most bytes that are written for `total` bytes of new rows, brought by this many forwardings."""
    per_tier = 1 + FANOUT / (FANOUT - 1)
    return int(total * (1 + per_tier * tier_of(total, smallest))) + forwards * smallest


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
    """How many of the newest runs a new one of `size` bytes is written together with."""
    joined = 0
    while True:
        smaller = joined < len(sizes) and tier_of(sizes[joined], smallest) < tier_of(size, smallest)
        more = 1 if smaller else plan_merge([size, *sizes[joined:]], smallest) - 1
        if more < 1:
            return joined
        size += sum(sizes[joined : joined + more])
        joined += more


def plan_adopt(size: int, sizes: Sequence[int], smallest: int) -> int:
    """How many of the newest runs are merged with each other when one of `size` bytes is put before them as it is."""
    joined, merged = 0, 0
    while True:
        standing = [size, merged, *sizes[joined:]] if joined else [size, *sizes]
        more = plan_merge(standing, smallest) - (2 if joined else 1)
        if more < 1:
            return joined
        merged += sum(sizes[joined : joined + more])
        joined += more
