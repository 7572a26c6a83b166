"""The nearest vectors, as callers ask for them: exact, without an index."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wormdb
from wormdb.bql.nearest import Near, nearest
from wormdb.errors import InvalidRequestError
from wormdb.format.vector import pack_vector
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

VECTORS = np.random.default_rng(7).normal(size=(200, 4)).astype(np.float32)
OWN = [0.5, -1.0, 0.25, 2.0]
NEAR = {"embedding": {"vector": OWN, "k": 5, "exact": True}}


@pytest.fixture
def products() -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore(), settings=wormdb.Settings(forward="manual")) as database:
        made = database["products"]
        made.insert_many([{"id": f"p{n:03}", "shelf": n % 4, "embedding": VECTORS[n].tolist()} for n in range(150)])
        made.forward()
        made.insert_many(
            [
                {"id": f"p{n:03}", "shelf": n % 4, "embedding": pack_vector(array("f", VECTORS[n].tolist()))}
                for n in range(150, 200)
            ]
        )
        made.insert_many([{"id": "without"}, {"id": "none", "embedding": None}, {"id": "short", "embedding": [1.0]}])
        yield made


def truth(rows: range, **options: Any) -> list[tuple[str, float]]:
    near = Near(("embedding",), tuple(OWN), **{"k": 5, "distance": "cosine", **options})
    found = nearest(near, [{"_id": f"p{n:03}", "embedding": VECTORS[n].tolist()} for n in rows])
    return [(each["_id"], score) for score, each in found]


def told(found: Any) -> list[tuple[str, float]]:
    return [(row["id"], score) for row, score in found.scored()]


def test_the_nearest_of_blocks_and_tail_come_first_with_their_scores(products: Collection[Document]) -> None:
    assert told(products.find(near=NEAR)) == truth(range(200))
    assert told(products.find({"shelf": 3}, near=NEAR)) == truth(range(3, 200, 4))
    assert [row.id for row in products.find(near=NEAR)] == [identity for identity, _ in truth(range(200))]


def test_a_change_is_seen_at_once(products: Collection[Document]) -> None:
    products.insert({"id": "same", "embedding": OWN})
    assert products.find(near=NEAR).first() == products.find_by_id("same")
    products.update_one({"_id": "same"}, {"$unset": {"embedding": 1}})
    assert told(products.find(near=NEAR)) == truth(range(200))


def test_vectors_may_be_lists_arrays_of_numpy_and_packed(products: Collection[Document]) -> None:
    for vector in (OWN, tuple(OWN), np.array(OWN), np.array(OWN, np.float32), pack_vector(array("f", OWN))):
        assert told(products.query().near("embedding", vector, k=5, exact=True).find()) == truth(range(200))


def test_distance_least_score_and_parts_are_chosen(products: Collection[Document]) -> None:
    query = products.query().near("embedding", OWN, k=9, exact=True, distance="euclidean", min_score=0.45)
    expected = truth(range(200), k=9, distance="euclidean", min_score=0.45)
    assert told(query.find()) == expected
    assert told(query.limit(2).offset(1).find()) == expected[1:3]
    assert query.count() == len(expected) < 9
    assert told(query.select("shelf").find()) == expected
    assert all(set(row) == {"id", "shelf"} for row in query.select("shelf"))


def test_scores_are_a_column_of_tables(products: Collection[Document]) -> None:
    for table in (products.find(near=NEAR).to_arrow(), products.find(near=NEAR, select=["shelf"]).to_arrow()):
        assert table.column_names[-1] == "_score"
        assert list(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True)) == truth(range(200))


def test_of_another_moment_every_match_is_scored(products: Collection[Document]) -> None:
    number = products.refresh()
    products.delete_many({"shelf": {"$lt": 4}})
    products.forward()
    assert told(products.find(near=NEAR)) == []
    past = products.find(near={"embedding": {"vector": OWN, "k": 5}}, as_of=number)
    assert told(past) == truth(range(200))
    assert past.explain().reason.startswith("exact, every match is scored")


def test_explain_shows_what_is_ranked(products: Collection[Document]) -> None:
    explained = products.explain({"shelf": 1}, near=NEAR, analyze=True)
    assert explained.plan.name == "Rank"
    assert explained.plan.detail == "embedding, cosine, first 5"
    assert explained.rows == 5


def test_without_an_index_an_exact_answer_must_be_asked_for(products: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="no vector index on embedding is ready") as raised:
        products.find(near={"embedding": {"vector": OWN}}).to_list()
    assert "exact=True" in raised.value.fix


@pytest.mark.parametrize(
    "ask",
    [
        lambda made: made.find(near=NEAR, sort="shelf"),
        lambda made: made.find(near=NEAR, page="x"),
        lambda made: made.find(near=NEAR).sort("shelf"),
        lambda made: made.query().near("embedding", OWN).sort("shelf").find(),
        lambda made: made.query().near("embedding", OWN).aggregate(count=True),
        lambda made: made.query().near("embedding", OWN, k=0),
        lambda made: made.find(near={"embedding": {"vector": [0.0], "exact": True}}).to_list(),
        lambda made: made.find().scored(),
    ],
)
def test_what_does_not_go_with_it_is_refused(products: Collection[Document], ask: Any) -> None:
    with pytest.raises(InvalidRequestError):
        ask(products)


def test_there_are_no_pages(products: Collection[Document]) -> None:
    assert products.find(near=NEAR, limit=2).next_page is None


def test_a_transaction_sees_its_own_vectors() -> None:
    with wormdb.connect(MemoryStore()) as database:
        database["products"].insert({"id": "a", "embedding": [0.0, 1.0, 0.0, 0.0]})
        with database.transaction() as transaction:
            inner = transaction["products"]
            inner.insert({"id": "b", "embedding": OWN})
            assert [row["id"] for row in inner.find(near=NEAR)] == ["b", "a"]
