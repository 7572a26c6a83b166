"""An index of vectors, from its creation to its end: what it answers lies within the state, with the right scores."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.engine.rig import HookStore
from tests.maintenance.list_wreck import PATHS, check_answers, documents_in, made_world, opened, small_objects
from wormdb.bql.match import compile_filter
from wormdb.bql.nearest import DISTANCES, Near, nearest
from wormdb.bql.parse import parse_filter
from wormdb.engine.lists import nearest as nearest_module
from wormdb.engine.lists.codes import load_numpy, rough_scores
from wormdb.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    MissingExtraError,
    NotFoundError,
    SchemaError,
    UnavailableError,
)
from wormdb.query.execute.answer import run_plan
from wormdb.query.planner.planner import candidates
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource
from wormdb.query.sources.vectors import open_nearest
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

MANUAL = wormdb.Settings(forward="manual")
NUMBERS = st.integers(-3, 3).map(float)
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3).filter(any)
CHANGES = st.lists(
    st.tuples(st.integers(0, 11), st.none() | VECTORS | st.just("delete"), st.integers(0, 2))
    | st.sampled_from(["forward", "create", "drop"]),
    max_size=25,
)


def plans(made: Collection[Document], request: QueryRequest) -> Iterator[tuple[str, list[tuple[Any, float | None]]]]:
    """The answer of every plan, by its strategy."""
    access = made._access
    source = EngineSource(access.present(), access.ledger)
    for plan in candidates(request, source.facts):
        hits = list(run_plan(plan.root, request, source))
        yield plan.strategy, [(hit.document["_id"], hit.score) for hit in hits]


@settings(max_examples=settings().max_examples // 2)
@given(changes=CHANGES, distance=st.sampled_from(DISTANCES), own=VECTORS, k=st.integers(1, 14))
def test_every_plan_gives_the_nearest_after_any_history(
    changes: list[Any], distance: Any, own: list[float], k: int
) -> None:
    state: dict[int, dict[str, Any]] = {}
    store = MemoryStore()
    has_index = False
    with wormdb.connect(store, settings=MANUAL) as one, wormdb.connect(store, settings=MANUAL) as other:
        for place, change in enumerate(changes):
            made = (one, other)[place % 2]["things"]
            if change == "forward":
                made.forward()
            elif change == "create":
                made.create_vector_index("v", dimensions=3, distance=distance)
                has_index = True
            elif change == "drop":
                if has_index:
                    made.drop_index("v")
                has_index = False
            else:
                number, vector, shelf = change
                if vector == "delete":
                    if number in state:
                        made.delete_one({"_id": number})
                    state.pop(number, None)
                else:
                    state[number] = {"_id": number, "v": vector, "shelf": shelf}
                    made.replace_one({"_id": number}, {"v": vector, "shelf": shelf}, upsert=True)
        for written in ({}, {"shelf": 1}, {"shelf": {"$lte": 1}, "v.0": {"$gte": 0}}):
            tree = parse_filter(written)
            near = Near(("v",), tuple(own), k, distance, is_exact=not has_index)
            expected = [
                (document["_id"], score)
                for score, document in nearest(near, filter(compile_filter(tree), state.values()))
            ]
            for database in (one, other):
                answers = list(plans(database["things"], QueryRequest(filter=tree, near=near)))
                assert all(found == expected for _, found in answers)
                assert ("nearest" in {strategy for strategy, _ in answers}) is has_index or not state


# --- many vectors, in learned lists ---


def clustered(rows: int, seed: int = 1) -> Any:
    chance = np.random.default_rng(seed)
    middles = chance.normal(size=(20, 8))
    return (middles[chance.integers(0, 20, rows)] + 0.5 * chance.normal(size=(rows, 8))).astype(np.float32)


VECTOR_ROWS = clustered(900)
ASKED = clustered(1_000)[-12:]
"""Of the same mixture; no document has them."""


def document(number: int, vector: Any) -> dict[str, Any]:
    return {"id": number, "shelf": number % 5, "v": vector.tolist()}


def recall_of(made: Collection[Document], state: dict[int, Any], filter: Any = None, **options: Any) -> float:  # noqa: A002 - as in find
    """The share of the true answers that is found; whatever is found has the right score and order."""
    matches = compile_filter(parse_filter(filter or {}))
    documents = [{"_id": number, "shelf": number % 5, "v": vector.tolist()} for number, vector in state.items()]
    found_rows = wanted = 0
    for own in ASKED:
        truth = {each["_id"]: score for score, each in nearest(NEAR_ALL(own), filter_(matches, documents))}
        found = [
            (row["id"], score) for row, score in made.find(filter, near={"v": {"vector": own, **options}}).scored()
        ]
        assert all(truth[identity] == score for identity, score in found)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert len({identity for identity, _ in found}) == len(found) == min(10, len(truth))
        best = set(list(truth)[:10])
        found_rows, wanted = found_rows + len(best & {identity for identity, _ in found}), wanted + len(best)
    return found_rows / wanted


def NEAR_ALL(own: Any) -> Near:  # noqa: N802 - a constant but for the vector
    return Near(("v",), tuple(own.tolist()), 1_000_000, "cosine")


def filter_(matches: Any, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in documents if matches(each)]


@pytest.fixture
def things() -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore(), settings=MANUAL) as database:
        made = database["things"]
        made.insert_many([document(number, VECTOR_ROWS[number]) for number in range(700)])
        made.forward()
        yield made


def test_lists_find_most_of_the_nearest_with_the_right_scores(things: Collection[Document]) -> None:
    things.create_vector_index("v", dimensions=8)
    state = dict(enumerate(VECTOR_ROWS[:700]))
    explained = things.explain(near={"v": {"vector": VECTOR_ROWS[0].tolist()}})
    assert explained.strategy == "nearest"
    assert explained.reason == "index v, all lists, recall about 1"
    few = things.explain(near={"v": {"vector": VECTOR_ROWS[0].tolist(), "recall": 0.5}})
    assert few.reason == "index v, 2 of 6 lists, recall about 0.92"
    assert recall_of(things, state) >= 0.95
    assert recall_of(things, state, recall=1.0) >= 0.99
    assert recall_of(things, state, exact=True) == 1.0
    for written in ({"shelf": 1}, {"shelf": {"$ne": 1}}, {"_id": {"$lt": 12}}):
        assert recall_of(things, state, written, recall=0.99) >= 0.95
    # Changes are seen at once, from the tail, and afterwards in lists.
    for step in range(2):
        for number in range(200 * step, 200 * step + 40):
            state[number] = VECTOR_ROWS[(number * 7) % 900]
        with things.batch() as batch:
            for number in range(200 * step, 200 * step + 40):
                batch.save(document(number, state[number]))
        things.delete_many({"_id": {"$in": list(range(200 * step + 100, 200 * step + 120))}})
        for number in range(200 * step + 100, 200 * step + 120):
            state.pop(number, None)
        assert recall_of(things, state, recall=0.99) >= 0.95
        things.forward()
        assert recall_of(things, state, recall=0.99) >= 0.95


def test_an_index_is_there_once_and_goes(things: Collection[Document]) -> None:
    made = things.create_vector_index("v", dimensions=8, name="byV")
    assert made.state == "ready"
    assert things.create_vector_index("v", dimensions=8, name="byV") == made
    with pytest.raises(AlreadyExistsError):
        things.create_vector_index("v", dimensions=8, distance="euclidean", name="byV")
    described = things.describe_index("byV")
    assert (described.type, described.fields, described.entries) == ("vector", ("v",), 700)
    assert described.options == {"dimensions": 8, "distance": "cosine", "field": "v"}
    things.drop_index("byV")
    with pytest.raises(InvalidRequestError, match="no vector index on v is ready"):
        things.find(near={"v": {"vector": [1.0] * 8}}).to_list()
    with pytest.raises(NotFoundError):
        things.drop_index("byV")


def test_a_document_that_is_no_vector_is_refused_and_none_is_fine(things: Collection[Document]) -> None:
    things.create_vector_index("v", dimensions=8)
    for value in ([1.0], "x", [0.0] * 8, [float("nan")] * 8, [1e39] * 8):
        with pytest.raises(InvalidRequestError, match="v is no vector of the index"):
            things.insert({"id": "new", "v": value})
    things.insert_many([{"id": "none"}, {"id": "null", "v": None}])
    assert things.describe_index("v").entries == 700


def test_a_vector_in_an_array_of_objects_is_refused_in_words(things: Collection[Document]) -> None:
    things.create_vector_index("parts.v", dimensions=2)
    things.save({"id": 1, "parts": {"v": [1.0, 2.0]}})
    with pytest.raises(InvalidRequestError, match=r"document 2: parts\.v is .*: an array stands on the way to it"):
        things.save({"id": 2, "parts": [{"v": [1.0, 2.0]}]})


def test_a_collection_with_other_values_cannot_have_the_index(things: Collection[Document]) -> None:
    things.insert({"id": "short", "v": [1.0]})
    with pytest.raises(InvalidRequestError, match="it must have 8 numbers, not 1"):
        things.create_vector_index("v", dimensions=8)
    (failed,) = [each for each in things.indexes() if each.name == "v"]
    assert failed.state == "failed"


def test_a_question_must_fit_the_index(things: Collection[Document]) -> None:
    things.create_vector_index("v", dimensions=8, distance="euclidean")
    with pytest.raises(InvalidRequestError, match="index v has 8 dimensions, the vector 2"):
        things.find(near={"v": {"vector": [1.0, 2.0]}}).to_list()
    with pytest.raises(InvalidRequestError, match="index v is by euclidean, not by cosine"):
        things.find(near={"v": {"vector": [1.0] * 8, "distance": "cosine"}}).to_list()
    by_index = things.find(near={"v": {"vector": [1.0] * 8}}).scored()
    exact = things.find(near={"v": {"vector": [1.0] * 8, "exact": True}}).scored()
    assert next(by_index) == next(exact)


def test_of_the_past_every_match_is_scored_by_the_distance_of_the_index(things: Collection[Document]) -> None:
    things.create_vector_index("v", dimensions=8, distance="euclidean")
    number = things.refresh()
    own = VECTOR_ROWS[3].tolist()
    before = list(things.find(near={"v": {"vector": own, "exact": True}}).scored())
    things.delete_many({})
    things.forward()
    past = things.find(near={"v": {"vector": own}}, as_of=number)
    assert [(row["id"], score) for row, score in past.scored()] == [(row["id"], score) for row, score in before]
    assert past.explain().reason.startswith("exact")


@pytest.mark.parametrize("change", [{"dimensions": 0}, {"dimensions": 5_000}, {"dimensions": 3, "distance": "x"}])
def test_options_that_cannot_be_are_refused(things: Collection[Document], change: Any) -> None:
    with pytest.raises(InvalidRequestError):
        things.create_vector_index("v", **change)


def test_requests_of_a_cold_search_are_few(things: Collection[Document]) -> None:
    things.create_vector_index("v", dimensions=8)
    assert replace(things.explain(near={"v": {"vector": [1.0] * 8}}), rejected=()).estimated_requests <= 6


def test_a_cold_search_reads_where_documents_are_before_it_knows_which_it_needs() -> None:
    store, told = MemoryStore(), list[str]()
    vectors = np.random.default_rng(3).normal(size=(1_500, 24)).tolist()
    # One thread does one thing after the other, so that the order is the same each time.
    one_thread = wormdb.Settings(forward="manual", pool_threads=1)
    with (
        wormdb.connect(store, settings=MANUAL) as database,
        wormdb.connect(store, settings=one_thread, hook=lambda request: told.append(request.key)) as cold,
    ):
        database["things"].insert_many([{"id": number, "v": vector} for number, vector in enumerate(vectors)])
        database["things"].forward()
        database["things"].create_vector_index("v", dimensions=24)
        found = cold["things"].find(near={"v": {"vector": vectors[7], "k": 1}})
        assert [row["id"] for row in found] == [7]
    kinds = [key.rpartition(".")[2] for key in told if "/indexes/" in key or "/data/" in key]
    assert kinds.count("map") == 1
    assert kinds.index("map") < kinds.index("trained") < kinds.index("parquet")


def test_a_process_without_the_extra_writes_and_says_what_it_lacks(
    things: Collection[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    things.create_vector_index("v", dimensions=8)
    with monkeypatch.context() as without:
        without.setattr("wormdb.engine.lists.codes.load", lacking)
        load_numpy.cache_clear()
        things.insert({"id": "new", "v": [1.0] * 8})
        with pytest.raises(MissingExtraError, match="numpy"):
            things.forward()
    things.forward()
    assert things.describe_index("v").entries == 701


def lacking(module: str, extra: str) -> Any:
    raise MissingExtraError(f"indexes of vectors needs the package {module}", fix=f"pip install {extra}")


def model_with(index: dict[str, Any]) -> dict[str, Any]:
    fields = {"v": {"type": "array"}, "w": {"type": "array"}, "a": {"type": "object"}}
    model = {"path": "@things/(id:string)", "fields": fields, "indexes": {"byV": index}}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model}}


def test_a_model_may_declare_it(tmp_path: Path) -> None:
    schema = model_with({"type": "vector", "field": "a.v", "dimensions": 2, "distance": "euclidean"})
    with wormdb.connect(tmp_path, schema=schema, settings=MANUAL) as database:
        made = database.model("Thing")
        made.insert({"id": "x", "a": {"v": [1, 2]}})
        with pytest.raises(InvalidRequestError, match=r"a\.v is no vector of the index"):
            made.insert({"id": "y", "a": {"v": [1]}})
        made.forward()
        found = made.find(near={"a.v": {"vector": [1.0, 2.0]}})
        assert [(row["id"], score) for row, score in found.scored()] == [("x", 1.0)]
        described = made.describe_index("byV")
        assert (described.type, described.declared, described.state) == ("vector", True, "ready")
        assert described.options == {"dimensions": 2, "distance": "euclidean", "field": "a.v"}
    with wormdb.connect(tmp_path, schema=schema, settings=MANUAL) as again:
        assert again.model("Thing").describe_index("byV") == described


@pytest.mark.parametrize(
    ("index", "path"),
    [
        ({"type": "vector", "field": "v"}, "dimensions"),
        ({"type": "vector", "field": "v", "dimensions": 4_097}, "dimensions"),
        ({"type": "vector", "field": "v", "dimensions": 3, "distance": "manhattan"}, "distance"),
        ({"type": "vector", "fields": ["v", "w"], "dimensions": 3}, "fields"),
        ({"type": "vector", "field": "v", "dimensions": 3, "unique": True}, "unique"),
        ({"field": "v", "dimensions": 3}, "dimensions"),
    ],
)
def test_a_model_with_mistakes_of_it_is_refused(index: dict[str, Any], path: str) -> None:
    with pytest.raises(SchemaError) as raised:
        wormdb.connect(MemoryStore(), schema=model_with(index))
    assert [problem.path for problem in raised.value.problems] == [f"models.Thing.indexes.byV.{path}"]


def test_an_index_of_no_documents_answers_in_a_process_with_an_older_root(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with wormdb.connect(url, settings=MANUAL) as one, wormdb.connect(url, settings=MANUAL) as other:
        one["things"].create_index("n")
        other["things"].create_vector_index("v", dimensions=2, distance="euclidean")
        other["things"].create_text_index("t")
        asked = {"v": {"vector": [1.0, 1.0], "k": 1}}
        assert one["things"].find(near=asked).to_list() == []
        other["things"].insert_many(
            [{"id": n, "v": [1.0, float(n)], "t": "red", "long": "x" * 200} for n in range(900)]
        )
        request = QueryRequest(near=Near(("v",), (1.0, 1.0), k=1))
        assert ("nearest", [(1, 1.0)]) in list(plans(one["things"], request))
        assert [(row["id"], score) for row, score in one["things"].find(near=asked).scored()] == [(1, 1.0)]
        assert one["things"].explain(search="red", limit=1).strategy == "index_lookup"
        assert one["things"].find(search="red").count() == 900
        # All documents of the root go, and with them what it has of the index.
        one["things"].forward()
        one["things"].delete_many({})
        other["things"].drop_index("v")
        other["things"].drop_index("text")
        other["things"].create_vector_index("v", dimensions=3, distance="dot_product", wait=False)
        other["things"].create_text_index("t^2", wait=False)
        one["things"].insert_many([{"id": n, "v": [1.0, float(n), 0.0], "t": "red"} for n in range(900)])
        request = QueryRequest(near=Near(("v",), (0.0, 1.0, 0.0), k=2))
        for things in (one["things"], other["things"]):
            assert ("nearest", [(899, 450.0), (898, 449.5)]) in list(plans(things, request))
            scores = {score for _, score in things.find(search="red").scored()}
            fields = {"query": "red", "fields": ["t^2"]}
            assert scores == {score for _, score in things.find(search=fields, strategy="full_scan").scored()}


def test_a_field_has_indexes_by_several_distances(tmp_path: Path) -> None:
    with wormdb.connect(f"file://{tmp_path}", settings=MANUAL) as database:
        things = database["things"]
        things.create_vector_index("v", dimensions=2, name="far", distance="euclidean")
        things.create_vector_index("v", dimensions=2, name="angle", distance="cosine")
        things.insert_many([{"id": 1, "v": [1.0, 2.0]}, {"id": 2, "v": [9.0, 9.0]}])

        def first(**asked: Any) -> Any:
            (row, *_) = things.find(near={"v": {"vector": [1.0, 1.0], **asked}})
            return row["id"]

        assert (first(distance="euclidean"), first(distance="cosine")) == (1, 2)
        for exact in (True, False):
            with pytest.raises(InvalidRequestError, match="indexes by cosine and by euclidean"):
                first(exact=exact)
        stage = {"path": "v", "queryVector": [1.0, 1.0], "limit": 1}
        for name, expected in (("far", 1), ("angle", 2)):
            (row,) = things.aggregate([{"$vectorSearch": {**stage, "index": name}}])
            assert row["id"] == expected
        things.drop_index("angle")
        assert first() == 1
        with pytest.raises(NotFoundError, match="known are: far"):
            things.aggregate([{"$vectorSearch": {**stage, "index": "angle"}}])


def test_the_distance_is_that_of_the_index_before_it_is_built_and_of_the_past(tmp_path: Path) -> None:
    with wormdb.connect(f"file://{tmp_path}", settings=MANUAL) as database:
        things = database["things"]
        things.insert_many([{"id": 1, "v": [1.0, 2.0]}, {"id": 2, "v": [9.0, 9.0]}])
        before = things.refresh()
        things.create_vector_index("v", dimensions=2, distance="euclidean", wait=False)
        asked = {"v": {"vector": [1.0, 1.0], "k": 1, "exact": True}}
        for _ in range(2):
            assert [row["id"] for row in things.find(near=asked)] == [1]
            assert [row["id"] for row in things.find(near=asked, as_of=before)] == [1]
            things.forward()
        # Vectors of another length came later: what was before is asked for by its own.
        things.drop_index("v")
        things.update_many({}, {"$set": {"v": [1.0, 2.0, 3.0]}})
        things.create_vector_index("v", dimensions=3, distance="euclidean")
        for _ in range(2):
            assert [row["id"] for row in things.find(near=asked, as_of=before)] == [1]
            with pytest.raises(InvalidRequestError, match="has 3 dimensions, the vector 2"):
                things.find(near=asked).first()
            things.forward()


@pytest.mark.parametrize("writes", [True, False])
def test_an_index_that_another_built_answers_whatever_was_written_since(tmp_path: Path, *, writes: bool) -> None:
    url = f"file://{tmp_path}"
    with wormdb.connect(url, settings=MANUAL) as one, wormdb.connect(url, settings=MANUAL) as other:
        one["things"].insert_many([{"id": n, "v": [1.0, float(n)]} for n in range(4)])
        other["things"].forward()
        assert other["things"].count() == 4
        one["things"].create_vector_index("v", dimensions=2)
        if writes:  # what came meanwhile is learned from the writes that lost the race
            other["things"].insert_many([{"id": 9, "v": [1.0, 1.0]}, {"id": 10, "v": [0.0, 1.0]}])
        else:  # the newest root goes further than the first entries that are read
            one["things"].save({"id": 9, "v": [1.0, 1.0]})
            one["things"].forward()
        found = other["things"].find(near={"v": {"vector": [1.0, 1.0], "k": 2}})
        assert [row["id"] for row in found] == [1, 9]
        before = other["things"].refresh()
        assert other["things"].refresh() == before


def test_numbers_near_the_end_of_float32_are_written_quietly_and_found_exactly(tmp_path: Path) -> None:
    with wormdb.connect(f"file://{tmp_path}", settings=MANUAL) as database:
        things = database["things"]
        things.create_vector_index("v", dimensions=2, distance="euclidean")
        things.insert_many([{"id": 1, "v": [3e38, -3e38]}, {"id": 2, "v": [1.0, 2.0]}])
        things.forward()  # warnings are errors here
        asked = {"vector": [3e38, -3e38], "k": 1, "exact": True}
        assert [(row["id"], score) for row, score in things.find(near={"v": asked}).scored()] == [(1, 1.0)]
        assert [row["id"] for row in things.find(near={"v": {"vector": [1.0, 2.0], "k": 1}})] == [2]


def test_an_index_that_is_ready_answers_before_any_root_has_it() -> None:
    """It was made of no documents, so no process builds it; the next forwarding gives it lists."""
    with wormdb.connect(MemoryStore(), settings=MANUAL) as database:
        made = database["things"]
        made.insert_many([{"id": f"a{number}", "v": [number, 1]} for number in range(5)])
        made.forward()
        made.delete_many({})
        made.create_vector_index("v", dimensions=2, distance="euclidean", wait=False)
        made.insert({"id": "b", "v": [1, 2]})
        assert made.describe_index("v").state == "ready"
        asked = {"v": {"vector": [1.0, 2.0]}}
        assert [(row["id"], score) for row, score in made.find(near=asked).scored()] == [("b", 1.0)]
        with pytest.raises(InvalidRequestError, match="has 2 dimensions, the vector 1"):
            made.find(near={"v": {"vector": [1.0]}}).to_list()
        made.forward()
        assert [(row["id"], score) for row, score in made.find(near=asked).scored()] == [("b", 1.0)]


def test_a_process_that_missed_the_root_of_a_build_answers_by_documents() -> None:
    with small_objects():
        world = made_world("building vectors")
        store = HookStore(world)
        reader = opened(store, 3)
        assert reader["things"].count() == 13  # it stands on a root in which the index is half built
        opened(world, 4)["things"].forward()

        def lose_the_root(verb: str, key: str) -> None:
            if key == PATHS.root:
                raise UnavailableError(verb, reason="the root cannot be read", key=key)

        store.before = lose_the_root
        for _ in range(5):  # at each index that is ready it asks for the root once
            with suppress(UnavailableError):
                reader["things"].count()
        store.before = None
        near = Near(("deep", "v"), (1.0, 2.0, 1.0), 4)
        truth = [
            (document["_id"], score) for score, document in nearest(near.by("cosine"), documents_in(world).values())
        ]
        found = [hits for _, hits in plans(reader["things"], QueryRequest(near=near))]
        assert found
        assert all(hits == truth[:4] for hits in found), "no plan reads lists that have a part of the documents"
        check_answers(reader, documents_in(world), by_lists=True)


def test_threads_that_ask_a_new_state_first_all_see_its_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may make the codes of the tail; what one of them made must not hide what another did."""
    with wormdb.connect(MemoryStore(), settings=MANUAL) as database:
        things = database["things"]
        things.create_vector_index("v", dimensions=2)
        things.insert_many([{"id": f"a{number}", "v": [1.0, number]} for number in range(20)])
        things.forward()
        things.save({"id": "b", "v": [1.0, 0.0]})
        view, ledger = things._ledger.view(), things._ledger
        near = Near(("v",), (1.0, 0.0), 2, "cosine")
        reader = open_nearest(view, "v", ledger)
        expected = list(chain.from_iterable(open_nearest(view, "v", ledger).candidates(near, None)))
        others: list[Any] = []

        def meet_another(*given: Any) -> Any:
            if not others:  # another thread comes while this one multiplies, and has not seen what this one made
                others.append(None)
                reader._tail = None
                others.append(list(chain.from_iterable(reader.candidates(near, None))))
            return rough_scores(*given)

        monkeypatch.setattr(nearest_module, "rough_scores", meet_another)
        assert list(chain.from_iterable(reader.candidates(near, None))) == expected
        assert others == [None, expected]
        assert len(expected) == 21
