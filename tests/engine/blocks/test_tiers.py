"""The rule of merging keeps both of its promises, whatever is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.blocks.tiers import FANOUT, plan_adopt, plan_cascade, plan_merge, runs_max, tier_of, written_max

SMALLEST = 100
SIZES = st.integers(1, 300) | st.integers(1, 20_000)


def test_tiers_grow_by_the_fanout() -> None:
    assert [tier_of(size, SMALLEST) for size in (0, 1, 100, 101, 400, 401, 1600, 1601)] == [0, 0, 0, 1, 1, 2, 2, 3]


def test_nothing_is_merged_before_a_tier_is_full() -> None:
    assert plan_merge([90] * (FANOUT - 1), SMALLEST) == 0
    assert plan_merge([90] * FANOUT, SMALLEST) == FANOUT
    assert plan_merge([90, 90, 900, 900], SMALLEST) == 0
    assert plan_merge([90, 900, 900, 900, 900], SMALLEST) == 5


def test_a_merge_that_fills_the_next_tier_takes_it_along() -> None:
    assert plan_cascade(90, [90, 90, 90, 350, 350, 350], SMALLEST) == 6


def test_a_new_run_takes_in_the_smaller_ones_before_it() -> None:
    assert plan_cascade(210, [90, 90, 350, 90], SMALLEST) == 2
    assert plan_cascade(90, [90, 350, 90], SMALLEST) == 0
    assert plan_cascade(390, [90, 390, 1_500], SMALLEST) == 2, "what it has become takes in the next one"


def test_an_attached_run_stays_alone_and_those_below_are_merged_when_too_many_stand() -> None:
    assert plan_adopt(5_000, [90, 90], SMALLEST) == 0
    assert plan_adopt(5_000, [90, 90, 90], SMALLEST) == 3
    assert plan_adopt(5_000, [5_000, 5_000, 5_000, 90_000], SMALLEST) == 3
    assert plan_adopt(90, [90, 90, 90, 300, 300, 300], SMALLEST) == 6, "merged ones fill the next tier in turn"


@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=200))
def test_runs_stay_few_whoever_brings_them(writes: list[tuple[int, bool]]) -> None:
    runs: list[int] = []
    for size, is_attached in writes:
        if is_attached:
            joined = plan_adopt(size, runs, SMALLEST)
            runs = [size, *([sum(runs[:joined])] if joined else []), *runs[joined:]]
        else:
            joined = plan_cascade(size, runs, SMALLEST)
            runs = [size + sum(runs[:joined]), *runs[joined:]]
        assert plan_merge(runs, SMALLEST) == 0
        assert len(runs) <= runs_max(max(runs), SMALLEST)
    assert sum(runs) == sum(size for size, _ in writes)


@given(st.lists(SIZES, min_size=1, max_size=200), st.sampled_from([0.5, 1, 2]))
def test_a_byte_is_written_once_a_tier_if_keys_are_distinct(writes: list[int], guess: float) -> None:
    """Runs are tuples of (size, writes): how often the byte of theirs that was written most often was written."""
    runs: list[tuple[int, int]] = []
    written = 0
    for size in writes:
        joined = plan_cascade(int(guess * size), [run[0] for run in runs], SMALLEST)
        merged = size + sum(run[0] for run in runs[:joined])
        above = [times for other, times in runs[:joined] if tier_of(other, SMALLEST)]
        runs = [(merged, 1 + max(above, default=0)), *runs[joined:]]
        written += merged
    total = sum(writes)
    assert written <= written_max(total, len(writes), SMALLEST)
    if guess == 1:
        assert max(times for _, times in runs) <= 1 + tier_of(total, SMALLEST)
        assert written <= total * (1 + tier_of(total, SMALLEST)) + len(writes) * SMALLEST


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 400)), min_size=1, max_size=120), st.integers(1, 40))
def test_newer_versions_that_replace_older_ones_are_within_the_bound(
    writes: list[tuple[int, int]], smallest: int
) -> None:
    runs: list[frozenset[int]] = []
    written = total = 0
    for start, count in writes:
        new = frozenset((start + 7 * step) % 400 for step in range(count))
        joined = plan_cascade(len(new), [len(run) for run in runs], smallest)
        runs = [new.union(*runs[:joined]), *runs[joined:]]
        written, total = written + len(runs[0]), total + len(new)
        assert len(runs) <= runs_max(max(map(len, runs)), smallest)
    assert written <= written_max(total, len(writes), smallest)
