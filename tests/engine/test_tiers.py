"""The rule of merging keeps both of its promises, whatever is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.tiers import FANOUT, plan_cascade, plan_merge, runs_max, tier_of

SMALLEST = 100


def forward_all(writes: list[int]) -> tuple[list[int], int, int]:
    """Runs (newest first) after forwarding each size in turn, bytes written in all, and the most runs that stood."""
    runs: list[int] = []
    written, most = 0, 0
    for size in writes:
        joined = plan_cascade(size, runs, SMALLEST)
        merged = size + sum(runs[:joined])
        runs = [merged, *runs[joined:]]
        written += merged
        most = max(most, len(runs))
    return runs, written, most


def test_tiers_grow_by_the_fanout() -> None:
    assert [tier_of(size, SMALLEST) for size in (0, 1, 100, 101, 400, 401, 1600, 1601)] == [0, 0, 0, 1, 1, 2, 2, 3]


def test_nothing_is_merged_before_a_tier_is_full() -> None:
    assert plan_merge([90] * (FANOUT - 1), SMALLEST) == 0
    assert plan_merge([90] * FANOUT, SMALLEST) == FANOUT
    assert plan_merge([90, 90, 900, 900], SMALLEST) == 0
    assert plan_merge([90, 900, 900, 900, 900], SMALLEST) == 5


def test_a_merge_that_fills_the_next_tier_takes_it_along() -> None:
    assert plan_cascade(90, [90, 90, 90, 350, 350, 350], SMALLEST) == 6


@given(st.lists(st.integers(1, 5_000), max_size=300))
def test_runs_stay_few(writes: list[int]) -> None:
    runs, _, most = forward_all(writes)
    assert sum(runs) == sum(writes)
    assert most <= runs_max(sum(writes), SMALLEST)
    assert plan_merge(runs, SMALLEST) == 0


@given(st.lists(st.integers(50, 150), min_size=1, max_size=400))
def test_a_byte_is_written_at_most_once_a_tier(writes: list[int]) -> None:
    runs, written, _ = forward_all(writes)
    assert written <= sum(writes) * (1 + tier_of(sum(runs), SMALLEST) + 1)
