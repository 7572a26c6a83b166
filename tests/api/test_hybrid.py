"""`near` and `search` together: places in both rankings decide."""

from __future__ import annotations

import pytest

import wormdb
from wormdb.errors import InvalidRequestError
from wormdb.storage.memory import MemoryStore

ROWS = [{"id": n, "v": [float(n), 1.0], "text": "red shoe " * (1 + n % 3) if n % 2 else "blue"} for n in range(30)]
NEAR = {"v": {"vector": [1.0, 1.0], "k": 6, "exact": True, "distance": "euclidean"}}
SEARCH = {"query": "red", "fields": ["text"]}


@pytest.mark.parametrize("weight", [1.0, 0.25, 3.0])
@pytest.mark.parametrize("condition", [{}, {"_id": {"$gt": 4}}])
def test_rows_of_both_rankings_are_joined_by_their_places(weight: float, condition: dict[str, object]) -> None:
    with wormdb.connect(MemoryStore()) as database:
        things = database["things"]
        things.insert_many(ROWS)
        nearest = [row["id"] for row in things.find(condition, near=NEAR)]
        searched = [row["id"] for row in things.find(condition, search=SEARCH, limit=6)]
        assert set(nearest) & set(searched)
        assert set(nearest) - set(searched)
        expected = {}
        for key in {*nearest, *searched}:
            score = 1.0 / (61 + nearest.index(key)) if key in nearest else 0.0
            expected[key] = score + (weight / (61 + searched.index(key)) if key in searched else 0.0)
        wanted = sorted(expected.items(), key=lambda each: (-each[1], each[0]))
        found = things.find(condition, near=NEAR, search={**SEARCH, "weight": weight})
        assert [(row["id"], score) for row, score in found.scored()] == wanted
        assert [row["id"] for row in found.skip(1).limit(3)] == [key for key, _ in wanted][1:4]
        assert found.count() == len(wanted)
        assert found.to_arrow()["_score"].to_pylist() == [score for _, score in wanted]
        explained = found.explain(analyze=True)
        assert explained.plan.name == "Fused"
        assert explained.rows == len(wanted)
        assert [marks[0].field for row, marks in found.highlights() if row["id"] in searched] == ["text"] * len(
            searched
        )


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), 10**400])
def test_a_weight_is_a_number_above_0(weight: float) -> None:
    with wormdb.connect(MemoryStore()) as database, pytest.raises(InvalidRequestError, match="above 0"):
        database["things"].find(search={**SEARCH, "weight": weight})
