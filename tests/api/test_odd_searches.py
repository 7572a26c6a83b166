"""What people write by mistake when they search by vectors and words: a clear error, or the right answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wormdb
from wormdb.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

V = [1.0, 0.0]
NAN = float("nan")
NEAR: dict[str, Any] = {"v": {"vector": V, "k": 3}}


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection[Document]]:
    """In a folder, with indexes; the last documents are in the tail."""
    with wormdb.connect(tmp_path_factory.mktemp("odd") / "bucket") as db:
        made = db["things"]
        made.insert_many([{"id": n, "n": n, "v": [1.0, n], "a": {"v": [n, 1.0]}, "t": f"red {n}"} for n in range(5)])
        made.create_vector_index("v", dimensions=2)
        made.create_vector_index("a.v", dimensions=2)
        made.create_text_index(["t^3", "more"], language="english", stop_words=True)
        made.insert({"id": 5, "n": 5, "v": [1.0, 5], "a": {"v": [5, 1.0]}, "t": "red 5"})
        yield made


def refused(call: Any) -> str:
    with pytest.raises((InvalidRequestError, LimitExceededError)) as raised:
        call()
    assert raised.value.fix or any(problem.fix for problem in getattr(raised.value, "problems", ()))
    return str(raised.value)


# --- near ---


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("k", 0, "a whole number from 1 to 1,000, not 0"),
        ("k", 1_001, "not 1001"),
        ("k", -1, "not -1"),
        ("k", 2.5, "not 2.5"),
        ("k", True, "not True"),
        ("k", "3", "not '3'"),
        ("k", NAN, "not nan"),
        ("k", np.float64(3), "not 3.0"),
        ("k", np.int64(0), "not 0"),
        ("k", np.array([3]), "a whole number"),
        ("recall", 0, "above 0 and at most 1"),
        ("recall", np.float32(1.5), "above 0 and at most 1"),
        ("recall", NAN, "must be a number"),
        ("min_score", NAN, "must be a number"),
        ("min_score", np.float32("nan"), "must be a number"),
        ("min_score", "0.5", "must be a number"),
        ("exact", 1, "true or false"),
        ("exact", np.int64(1), "true or false"),
        ("distance", "cos", "write cosine or euclidean or dot_product"),
        ("distance", "euclidean", "is by cosine, not by euclidean"),
        ("vector", None, "an array of numbers, not NoneType"),
        ("vector", [], "1 to 4,096 numbers, not 0"),
        ("vector", [1.0], "index v has 2 dimensions, the vector 1"),
        ("vector", [1.0, 2.0, 3.0], "index v has 2 dimensions, the vector 3"),
        ("vector", [0.0] * 4_097, "not 4,097"),
        ("vector", [NAN, 1.0], "must be finite"),
        ("vector", np.array([math.inf, 1.0]), "must be finite"),
        ("vector", [True, False], "not bool"),
        ("vector", np.array([True, False]), "not bool"),
        ("vector", np.array([[1.0, 0.0]]), "not list"),
        ("vector", ["1", "0"], "not str"),
        ("vector", "1,0", "an array of numbers, not str"),
        ("vector", [0, 0], "a vector of zeros has no direction"),
        ("vector", [1e39, 0], "beyond float32"),
        ("kk", 3, "there is no such option"),
    ],
)
def test_a_wrong_option_of_near_is_told(things: Collection[Document], option: str, value: Any, words: str) -> None:
    asked = {"v": {"vector": V} | {option: value}}
    assert words in refused(lambda: things.find(near=asked).to_list())
    assert words in refused(lambda: things.find(near=asked, search="red").to_list())


@pytest.mark.parametrize(
    ("near", "words"),
    [
        ({}, "it must name one field"),
        ([], "it must name one field"),
        ({"v": V}, "it must name one field"),
        ({"v": {"vector": V}, "a.v": {"vector": V}}, "it must name one field"),
        ({3: {"vector": V}}, "it must name one field"),
        ({"": {"vector": V}}, "a segment is empty"),
        ({"v.": {"vector": V}}, "a segment is empty"),
        ({"$v": {"vector": V}}, "starts with $"),
        ({"a": {"vector": V}}, "no vector index on a is ready"),
        ({"nope": {"vector": V}}, "no vector index on nope is ready"),
    ],
)
def test_a_wrong_field_of_near_is_told(things: Collection[Document], near: Any, words: str) -> None:
    assert words in refused(lambda: things.find(near=near).to_list())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sort": "n"}, "near and sort together"),
        ({"page": "x"}, "near and page together"),
        ({"limit": 0}, "limit must be a whole number of 1 or more"),
        ({"offset": -1}, "offset must be a whole number of 0 or more"),
        ({"populate": ["n"]}, "a collection without a model has no refs"),
        ({"strategy": "x"}, "there is no strategy 'x'"),
        ({"as_of": 10**9}, "ask for an entry up to"),
        ({"select": {"s": {"$meta": "vectorSearchScore"}}}, "use scored() of what is found"),
        ({"sort": [("s", {"$meta": "vectorSearchScore"})]}, "the nearest and the best come first"),
    ],
)
def test_what_does_not_go_with_near_is_told(things: Collection[Document], options: Any, words: str) -> None:
    assert words in refused(lambda: things.find(near=NEAR, **options).to_list())


def test_what_goes_with_near_is_answered(things: Collection[Document]) -> None:
    def ids(**options: Any) -> list[Any]:
        return [row["id"] for row in things.find(**{"near": NEAR, **options})]

    assert ids() == [0, 1, 2]
    assert ids(offset=1, limit=1) == [1]
    assert ids(limit=10**30) == [0, 1, 2]
    assert ids(offset=10) == []
    for k in (np.int64(2), np.uint8(2), np.array(2)):
        assert ids(near={"v": {"vector": np.array([1, 0]), "k": k}}) == [0, 1]
    assert ids(near={"v": {"vector": V, "min_score": np.float32(0.9), "exact": np.bool_(True)}}) == [0]
    assert ids(near={"v": {"vector": V, "recall": np.float32(0.5), "k": None}}) == [0, 1, 2, 3, 4, 5]
    assert ids(near={"a.v": {"vector": (1, 0), "k": 1}}) == [5]
    assert ids(near={"t": {"vector": V, "exact": True}}) == []
    assert things.find(near=NEAR).count() == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"field": "id"}, "ids are strings, numbers and ObjectIds, and no vectors"),
        ({"field": "_id.v"}, "ids are strings, numbers and ObjectIds, and no vectors"),
        ({"field": 3}, "it must name one field"),
        ({"dimensions": 0}, "from 1 to 4,096"),
        ({"dimensions": 4_097}, "from 1 to 4,096"),
        ({"dimensions": True}, "from 1 to 4,096"),
        ({"distance": "cos"}, "there is no distance 'cos'"),
        ({"name": 3}, "3 is no name of an index"),
        ({"name": ["w"]}, "is no name of an index"),
        ({"name": "a/b"}, "is no name of an index"),
    ],
)
def test_a_wrong_vector_index_is_told(things: Collection[Document], given: Any, words: str) -> None:
    asked: dict[str, Any] = {"field": "w", "dimensions": 2, **given}
    assert words in refused(lambda: things.create_vector_index(asked.pop("field"), **asked))


@pytest.mark.parametrize("name", [3, None, ["v"], {"v": 1}, b"v"])
def test_an_index_is_named_by_a_string(things: Collection[Document], name: Any) -> None:
    calls: list[Any] = [things.describe_index, things.analyze_index, things.build_index]
    for call in calls[: 2 if name is None else 3]:  # without a name all are built
        assert "an index is named by a string" in refused(lambda call=call: call(name))
    if not isinstance(name, list | dict):  # pairs of fields and orders
        refused(lambda: things.drop_index(name))
        refused(lambda: things.create_index(name))
    if name is not None:
        assert "is no name of an index" in refused(lambda: things.create_text_index(["more"], name=name))
        assert "is no name of an index" in refused(lambda: things.create_index("n", name=name))


def test_a_mistake_in_a_vector_search_is_told_by_the_names_of_mongodb(things: Collection[Document]) -> None:
    for vector in ([], [NAN, 1], [True, False], None):
        asked = {"$vectorSearch": {"path": "v", "queryVector": vector, "limit": 2}}
        with pytest.raises(InvalidRequestError) as raised:
            things.aggregate([asked])
        assert [problem.path for problem in raised.value.problems] == ["[0].$vectorSearch.queryVector"]


# --- search ---


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (3, "it must be text, or a mapping with query, not int"),
        (["red"], "it must be text, or a mapping with query, not list"),
        ({}, "it must be text, not NoneType"),
        ("", "no word that can be found"),
        (" ", "no word that can be found"),
        ("the of and", "stop words are not indexed"),
        ('"the"', "stop words are not indexed"),
        ("💥", "no word that can be found"),
        ("\ud800", "no word that can be found"),
        ('"red', "a quote is not closed"),
        ('red "', "a quote is not closed"),
        ("(red", "a bracket is not closed"),
        ("red)", "a bracket is closed that was not opened"),
        ("-red", "only says which words to leave out"),
        ("OR", "nothing stands before OR"),
        ("*", "a word is missing before *"),
        ("nope:red", "'nope' is not one of the fields"),
        ("t: red", "nothing follows t:"),
        ("t:" * 600 + "red", "lie more than 50 deep"),
        ("(" * 2_000 + "red" + ")" * 2_000, "lie more than 50 deep"),
        ("x" * 10_000, "SEARCH_CHARS_MAX is 4,096"),
        ("red OR " * 500 + "red", "SEARCH_WORDS_MAX is 100"),
        ({"query": "red", "index": "nope"}, "there is no text index 'nope'"),
        ({"query": "red", "fields": []}, "a list of 1 to 16 fields"),
        ({"query": "red", "fields": ["t^0"]}, "a weight must be a number above 0"),
        ({"query": "red", "fields": ["t^nan"]}, "a weight must be a number above 0"),
        ({"query": "red", "fields": ["a..t"]}, "a segment is empty"),
        ({"query": "red", "fields": ["t"], "language": "klingon"}, "there is no language 'klingon'"),
        ({"query": "red", "language": "english"}, "language and stop_words belong to fields"),
        ({"query": "red", "weight": 0}, "it must be a number above 0"),
        ({"query": "red", "weight": NAN}, "it must be a number above 0"),
        ({"query": "red", "weight": math.inf}, "it must be a number above 0"),
        ({"query": "red", "weight": True}, "it must be a number above 0"),
    ],
)
def test_a_wrong_search_is_told(things: Collection[Document], search: Any, words: str) -> None:
    assert words in refused(lambda: things.find(search=search).to_list())
    assert words in refused(lambda: things.find(near=NEAR, search=search).to_list())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"page": "x"}, "search and page together"),
        ({"limit": 0}, "limit must be a whole number of 1 or more"),
        ({"strategy": "manifest_scan"}, "not available"),
        ({"near": NEAR, "sort": "n"}, "near and sort together"),
        ({"near": {"v": {"vector": V, "k": 0}}}, "from 1 to 1,000"),
    ],
)
def test_what_does_not_go_with_a_search_is_told(things: Collection[Document], options: Any, words: str) -> None:
    assert words in refused(lambda: things.find(search="red", **options).to_list())


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("red", 6),
        ("the red", 6),
        ("red -", 6),
        ("-" * 4_000 + "red", 6),
        ("red -(3 OR 4)", 4),
        ('"red 3"', 1),
        ('-the "red 3"', 1),
        ("t:3", 1),
        ("more:3", 0),
        ("re*", 6),
        ("x" * 4_096, 0),
        ("red\x00\n\t3", 1),
        ({"query": "red", "fields": ["a.b.c"]}, 0),
    ],
)
def test_an_odd_search_is_answered(things: Collection[Document], search: Any, expected: int) -> None:
    assert len(things.find(search=search).to_list()) == expected
    assert things.find(search=search).count() == expected


def test_a_score_is_selected_of_a_text_search_only(things: Collection[Document]) -> None:
    score: Any = {"s": {"$meta": "textScore"}}
    assert "only a text search shows its score" in refused(lambda: things.find({}, score).to_list())
    assert "only a text search sorts by its score" in refused(lambda: things.find({}, sort=score).to_list())
