"""The same orders from mongomock and montydb, apart from their known faults."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bql.others import MONTY, mongomock
from tests.bql.test_differential import VALUES
from tests.bql.written import parts
from wormdb.bql.sorting import parse_sort, sort_key

NUMBERS = count()


def ours(documents: list[dict[str, Any]], written: str) -> list[int]:
    return [document["_id"] for document in sorted(documents, key=sort_key(parse_sort(written)))]


def theirs(collection: Any, documents: list[dict[str, Any]], written: str) -> list[int]:
    direction = -1 if written.startswith("-") else 1
    collection.insert_many([dict(document) for document in documents])
    found = collection.find({}).sort([(written.removeprefix("-"), direction), ("_id", direction)])
    return [document["_id"] for document in found]


def mock(documents: list[dict[str, Any]], written: str) -> list[int]:
    return theirs(mongomock.MongoClient().db.documents, documents, written)


def monty(documents: list[dict[str, Any]], written: str) -> list[int]:
    return theirs(MONTY.db[f"c{next(NUMBERS)}"], documents, written)


FAULTS: dict[str, tuple[Any, list[Any], str, list[int]]] = {
    "mock: an array sorts by its first element": (mock, [[1], [2, 0]], "a", [1, 0]),
    "mock: null in an array is not the least": (mock, [[1, None], 0], "a", [0, 1]),
    "monty: an element without the field is no null": (monty, [[{"b": 2}, {"c": 1}], None], "a.b", [0, 1]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_known_fault_of_theirs(name: str) -> None:
    sorter, values, written, expected = FAULTS[name]
    documents = [{"_id": number, "a": value} for number, value in enumerate(values)]
    assert ours(documents, written) == expected
    assert sorter(documents, written) != expected


FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional={"a": VALUES})
DOCUMENTS = st.lists(FIELDS, min_size=2, max_size=3).map(
    lambda found: [{"_id": number} | document for number, document in enumerate(found)]
)


def has_no_array(documents: list[dict[str, Any]]) -> bool:
    return not any(isinstance(part, list) for document in documents for part in parts(document))


@settings(max_examples=2 * settings().max_examples)
@given(documents=DOCUMENTS.filter(has_no_array), written=st.sampled_from(["a", "-a", "a.b", "-a.b", "a.0"]))
def test_mongomock_sorts_the_same(documents: list[dict[str, Any]], written: str) -> None:
    assert ours(documents, written) == mock(documents, written)


@settings(max_examples=2 * settings().max_examples)
@given(documents=DOCUMENTS, written=st.sampled_from(["a", "-a"]))
def test_montydb_sorts_the_same(documents: list[dict[str, Any]], written: str) -> None:
    assert ours(documents, written) == monty(documents, written)
