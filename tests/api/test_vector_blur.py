"""Vectors that differ by less than a step of their codes: the index finds them all the same."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wormdb
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.bql.nearest import Distance

MANUAL = wormdb.Settings(forward="manual")
K = 10
CASES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "points of a town": lambda chance, count: np.stack(
        [chance.normal(48, 0.2, count), chance.normal(16, 0.2, count)], 1
    ),
    "numbers around 1,000": lambda chance, count: 1000 + chance.normal(0, 1, (count, 32)),
    "features of unequal scale": lambda chance, count: chance.uniform(0, 1, (count, 4)) * [10_000, 100, 1, 0.01],
    "points of the earth": lambda chance, count: np.stack(
        [chance.uniform(-60, 70, count), chance.uniform(-180, 180, count)], 1
    ),
}


@pytest.mark.parametrize("count", [300, 2_000])
@pytest.mark.parametrize("distance", ["euclidean", "cosine", "dot_product"])
@pytest.mark.parametrize("case", CASES)
def test_the_nearest_are_found(case: str, distance: Distance, count: int) -> None:
    chance = np.random.default_rng(4)
    stored, questions = CASES[case](chance, count), CASES[case](chance, 12)
    with wormdb.connect(MemoryStore(), settings=MANUAL) as database:
        things = database["things"]
        things.insert_many([{"id": row, "v": each.tolist(), "n": row % 3} for row, each in enumerate(stored)])
        things.create_vector_index("v", dimensions=stored.shape[1], distance=distance)
        things.forward()

        def ids(question: Any, where: dict[str, Any], **options: Any) -> set[int]:
            asked = {"vector": question.tolist(), "k": K, **options}
            return {row["id"] for row in things.find(where, near={"v": asked}, select=["_id"])}

        shares = []
        for question in questions:
            truth = ids(question, {}, exact=True)
            shares.append(len(truth & ids(question, {})) / K)
        assert fmean(shares) >= 0.95


def test_of_equal_vectors_no_more_are_read_than_usual() -> None:
    """They all have the best score there is: codes cannot tell them apart, and need not."""
    with wormdb.connect(MemoryStore(), settings=MANUAL) as database:
        things = database["things"]
        things.insert_many([{"id": f"t{row:04}", "v": [3.0, 4.0]} for row in range(3_000)])
        things.create_vector_index("v", dimensions=2, distance="euclidean")
        things.forward()
        found = things.find(near={"v": {"vector": [3.0, 4.0], "k": 2}}, select=["_id"], max_scanned=20)
        assert [row["id"] for row in found] == ["t0000", "t0001"]


def test_a_least_score_holds_for_them_too() -> None:
    chance = np.random.default_rng(4)
    stored = CASES["points of a town"](chance, 500)
    with wormdb.connect(MemoryStore(), settings=MANUAL) as database:
        things = database["things"]
        things.insert_many([{"id": row, "v": each.tolist()} for row, each in enumerate(stored)])
        things.create_vector_index("v", dimensions=2, distance="euclidean")
        things.forward()
        asked: dict[str, Any] = {"vector": [48.0, 16.0], "k": 50}
        scored = [score for _, score in things.find(near={"v": {**asked, "exact": True}}).scored()]
        for least in (scored[5], scored[20]):
            found = things.find(near={"v": {**asked, "min_score": least}}).scored()
            assert [score for _, score in found] == [score for score in scored if score >= least]
