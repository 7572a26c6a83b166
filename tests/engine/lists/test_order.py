"""Scores come in parts, the best first: whatever ties there are, and however few are wanted at once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.engine.lists.nearest import _best_first

np = pytest.importorskip("numpy")

few = st.lists(st.sampled_from([-float("inf"), -1.0, 0.0, 0.5, 1.0]), max_size=300)
many = st.integers(0, 1 << 32).flatmap(
    lambda seed: st.integers(0, 2_000).map(lambda count: np.random.default_rng(seed).integers(-50, 50, count).tolist())
)


@settings(max_examples=200)
@given(few | many, st.integers(1, 40), st.sampled_from(["float32", "float64"]))
def test_every_score_that_counts_comes_once_and_equal_ones_together(given: list[float], size: int, kind: str) -> None:
    scores = np.array(given, kind)
    parts = [(places.tolist(), values.tolist()) for places, values in _best_first(scores, size)]
    places = [place for some, _ in parts for place in some]
    assert sorted(places) == np.flatnonzero(scores > -np.inf).tolist()
    assert all(values == scores[some].tolist() for some, values in parts)
    filled = [values for _, values in parts if values]
    assert all(min(better) > max(worse) for better, worse in pairwise(filled))
    assert not filled or len(filled[0]) >= min(size, len(places))
