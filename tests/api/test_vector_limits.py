"""What a vector may be, as a value and as a question, and what is refused: always by a typed error, and first."""

from __future__ import annotations

import re
from array import array
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped] # it ships no type information
import pytest
from bson.binary import Binary as BsonBinary
from bson.binary import BinaryVectorDtype

import wormdb
from wormdb.engine.lists.centroids import LISTS_MAX, count_lists
from wormdb.errors import InvalidRequestError, LimitExceededError, WormError
from wormdb.settings import NEAR_ROWS_MAX, VECTOR_DIMENSIONS_MAX
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

NUMBERS = [1, 0, -3, 2]
FLOATS = [float(number) for number in NUMBERS]
STORED = {
    "whole numbers": NUMBERS,
    "floats": FLOATS,
    "a tuple": tuple(NUMBERS),
    "decimals": [Decimal(number) for number in NUMBERS],
    "BSON float32": BsonBinary.from_vector(FLOATS, BinaryVectorDtype.FLOAT32),
    "BSON int8": BsonBinary.from_vector(NUMBERS, BinaryVectorDtype.INT8),
}
"""What a document may have."""
ASKED = {name: value for name, value in STORED.items() if name != "decimals"} | {
    "numpy float32": np.array(NUMBERS, np.float32),
    "numpy float64": np.array(NUMBERS, np.float64),
    "numpy float16": np.array(NUMBERS, np.float16),
    "numpy int64": np.array(NUMBERS),
    "numpy int8": np.array(NUMBERS, np.int8),
    "numpy of the other byte order": np.array(NUMBERS, ">f4"),
    "numpy, every second number": np.repeat(np.array(NUMBERS, np.float32), 2)[::2],
    "a column of pandas": pd.Series(NUMBERS, dtype="float32"),
    "a list of numpy's numbers": [np.float32(number) for number in NUMBERS],
    "array f": array("f", NUMBERS),
    "array d": array("d", NUMBERS),
    "array b": array("b", NUMBERS),
}
"""What a question may have."""
NEITHER = {
    "NaN": ([float("nan"), 0, 0, 1], "number 0 must be finite, not nan"),
    "infinity": ([0, float("-inf"), 0, 1], "number 1 must be finite, not -inf"),
    "beyond float32": ([0, 0, 1e39, 1], "number 2 is beyond float32: 1e+39"),
    "zeros": ([0, 0.0, -0.0, 1e-46], "a vector of zeros has no direction"),
    "a truth": ([True, 0, 0, 1], "number 0 must be a number, not bool"),
    "null": ([1, None, 0, 1], "number 1 must be a number, not NoneType"),
    "a text": ("1 0 -3 2", "it must be an array of numbers, not str"),
    "bytes": (b"1234", "it must be an array of numbers, not bytes"),
    "arrays": ([NUMBERS], "number 0 must be a number, not list"),
    "single bits": (BsonBinary.from_vector([129], BinaryVectorDtype.PACKED_BIT), "its numbers must be float32 or int8"),
}
"""What is no vector of four numbers, and why."""


@pytest.fixture(params=["tail", "lists"])
def things(request: pytest.FixtureRequest) -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore(), settings=wormdb.Settings(forward="manual")) as database:
        made = database["things"]
        made.insert({"id": "known", "v": NUMBERS})
        made.create_vector_index("v", dimensions=4)
        if request.param == "lists":
            made.forward()
        yield made


def ask(made: Collection[Document], vector: Any, field: str = "v", **options: Any) -> list[tuple[str, float]]:
    found = made.find(near={field: {"vector": vector, **options}})
    return [(row["id"], score) for row, score in found.scored()]


@pytest.mark.parametrize("name", STORED)
def test_every_form_of_a_value_is_the_same_vector(things: Collection[Document], name: str) -> None:
    things.insert({"id": "other", "v": STORED[name]})
    for _ in range(2):
        (first, best), (second, score) = ask(things, NUMBERS)
        assert ((first, second), best) == (("known", "other"), score)
        things.forward()


@pytest.mark.parametrize("name", ASKED)
def test_every_form_of_a_question_is_the_same_vector(things: Collection[Document], name: str) -> None:
    assert ask(things, ASKED[name]) == ask(things, NUMBERS)
    assert ask(things, ASKED[name], exact=True) == ask(things, NUMBERS)


@pytest.mark.parametrize("name", NEITHER)
def test_what_is_no_vector_is_refused_as_value_and_as_question(things: Collection[Document], name: str) -> None:
    value, reason = NEITHER[name]
    before = things.refresh()
    with pytest.raises(InvalidRequestError) as raised:
        things.insert({"id": "new", "v": value})
    assert "'new'" in raised.value.what
    assert raised.value.reason == reason
    assert things.refresh() == before
    with pytest.raises(InvalidRequestError, match=re.escape(reason)):
        ask(things, value)


@pytest.mark.parametrize("value", [np.array(NUMBERS, np.float32), array("f", NUMBERS), np.float32(1)])
def test_arrays_of_programs_are_no_values_of_documents(things: Collection[Document], value: Any) -> None:
    """A document holds types of BSON, so that what is read is what was written."""
    with pytest.raises(InvalidRequestError, match="cannot be stored: BSON has no such type"):
        things.insert({"id": "new", "v": value})


def test_a_whole_number_without_end_is_refused(things: Collection[Document]) -> None:
    with pytest.raises(LimitExceededError):
        things.insert({"id": "new", "v": [1, 0, 0, 10**400]})
    with pytest.raises(InvalidRequestError, match="number 3 is beyond float32: a whole number of 1,329 bits"):
        ask(things, [1, 0, 0, 10**400])


def test_missing_and_null_are_not_indexed(things: Collection[Document]) -> None:
    things.insert_many([{"id": "none"}, {"id": "null", "v": None}])
    assert [name for name, _ in ask(things, NUMBERS)] == ["known"]


def test_lengths_must_be_equal(things: Collection[Document]) -> None:
    for length in (1, 3, 5):
        with pytest.raises(InvalidRequestError, match=f"it must have 4 numbers, not {length}"):
            things.insert({"id": "new", "v": [1.0] * length})
        with pytest.raises(InvalidRequestError, match=f"index v has 4 dimensions, the vector {length}"):
            ask(things, [1.0] * length)


def test_how_many_are_asked_for_has_a_limit(things: Collection[Document]) -> None:
    for k in (0, -1, NEAR_ROWS_MAX + 1, 2.0, True, "3"):
        with pytest.raises(InvalidRequestError, match=f"a whole number from 1 to {NEAR_ROWS_MAX:,}"):
            ask(things, NUMBERS, k=k)
    assert len(ask(things, NUMBERS, k=NEAR_ROWS_MAX)) == 1
    assert ask(things, NUMBERS, k=1) == ask(things, NUMBERS)


def test_a_field_without_an_index_is_named(things: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="no vector index on w is ready"):
        ask(things, NUMBERS, "w")
    assert ask(things, NUMBERS, "w", exact=True) == []
    stages = [{"$vectorSearch": {"index": "byW", "path": "v", "queryVector": NUMBERS, "limit": 1}}]
    with pytest.raises(WormError, match="byW"):
        things.aggregate(stages)


def test_an_index_that_is_not_ready_answers_exactly_or_not_at_all(things: Collection[Document]) -> None:
    things.insert({"id": "third", "w": NUMBERS})
    things.forward()
    made = things.create_vector_index("w", dimensions=4, wait=False)
    assert made.state == "waiting"
    with pytest.raises(InvalidRequestError, match="no vector index on w is ready"):
        ask(things, NUMBERS, "w")
    assert [name for name, _ in ask(things, NUMBERS, "w", exact=True)] == ["third"]
    things.build_index("w")
    assert [name for name, _ in ask(things, NUMBERS, "w")] == ["third"]


def test_dimensions_and_lists_have_limits(things: Collection[Document]) -> None:
    for dimensions in (0, VECTOR_DIMENSIONS_MAX + 1):
        with pytest.raises(InvalidRequestError, match=f"from 1 to {VECTOR_DIMENSIONS_MAX:,}"):
            things.create_vector_index("u", dimensions=dimensions)
    things.create_vector_index("u", dimensions=VECTOR_DIMENSIONS_MAX)
    things.insert({"id": "long", "u": [1.0] * VECTOR_DIMENSIONS_MAX})
    things.forward()
    assert ask(things, [1.0] * VECTOR_DIMENSIONS_MAX, "u") == [("long", 1.0)]
    assert count_lists(10**9) == LISTS_MAX == 65_536


@pytest.mark.parametrize("is_forwarded", [True, False])
def test_of_equal_vectors_the_first_ids_are_found_wherever_they_lie(is_forwarded: bool) -> None:
    """The index has half of them in its lists, the tail the others, or both halves came by runs of their own."""
    with wormdb.connect("memory://", settings=wormdb.Settings(forward="manual")) as database:
        things = database["things"]
        things.create_vector_index("v", dimensions=2)
        for half in (0, 1):
            things.insert_many({"id": f"t{each:03}", "v": [1.0, 2.0]} for each in range(half, 200, 2))
            if half == 0 or is_forwarded:
                things.forward()
        found = things.find(near={"v": {"vector": [2.0, 1.0], "k": 10}}, select=["_id"]).to_list()
        assert [row["id"] for row in found] == [f"t{each:03}" for each in range(10)]


def test_a_vector_whose_square_is_beyond_float32_is_found_last() -> None:
    with wormdb.connect("memory://", settings=wormdb.Settings(forward="manual")) as database:
        things = database["things"]
        things.create_vector_index("v", dimensions=2, distance="euclidean")
        things.insert_many([{"id": "far", "v": [3e30, -3e30]}, {"id": "near", "v": [1.0, 2.0]}])
        things.forward()
        found = things.find(near={"v": {"vector": [2.0, 1.0], "k": 10}}, select=["_id"]).to_list()
        assert [row["id"] for row in found] == ["near", "far"]


@pytest.mark.parametrize("question", [np.full(4, 3e38, np.float32), np.full(8, 3e38, np.float32)[::2]])
def test_a_question_whose_square_is_beyond_float32_is_asked_without_a_warning(question: Any) -> None:
    with wormdb.connect(MemoryStore()) as database:
        things = database["things"]
        things.create_vector_index("v", dimensions=4, distance="euclidean")
        things.insert_many([{"id": number, "v": [number * 1e38] * 4} for number in range(4)])
        found = things.find(near={"v": {"vector": question, "k": 2}}, select=["_id"])
        assert [row["id"] for row in found] == [3, 2]
