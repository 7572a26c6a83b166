"""What a warm read costs in calls of Python functions: the bars are promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.python_calls import count_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb import Collection, Document

ROWS = 4_000
FIND_BY_INDEX = 150
FIND_BY_ID = 60
SEARCH_IDS = 140
NEAREST_IDS = 252
CURSOR_ROW = 15


@pytest.fixture(scope="module")
def things() -> Iterator[Collection[Document]]:
    """A collection with an index, its log brought forward, of which everything is kept in memory."""
    with wormdb.connect("memory://warm-calls") as database:
        things = database["things"]
        things.insert_many(
            {"id": f"t{row:05}", "code": f"c{row:05}", "state": row % 7, "note": "as it is " * 12}
            for row in range(ROWS)
        )
        things.create_index("code")
        things.forward()
        for row in range(20):
            assert things.find_by_id(f"t{row:05}") is not None
            assert len(things.find({"code": f"c{row:05}"}).to_list()) == 1
        yield things


def requests_of(things: Collection[Document], work: object) -> int:
    """How many requests some work makes."""
    usage = things._access.home.usage
    before = usage()
    work()  # type: ignore[operator] # any function
    return (usage() - before).requests


def test_an_equality_by_index_of_one_row(things: Collection[Document]) -> None:
    """The filter, the plan, the entry, the row and the document, with everything around them but the store."""

    def find() -> None:
        (found,) = things.find({"code": "c00007"}).to_list()
        assert found["id"] == "t00007"

    assert requests_of(things, find) == 1
    assert things.explain({"code": "c00007"}).strategy == "index_lookup"
    assert count_calls(find) <= FIND_BY_INDEX


def test_a_search_for_ids_and_scores() -> None:
    """The words, the plan, their lists, the best and the rows; one row more is one call more at most."""
    with wormdb.connect("memory://warm-search") as database:
        texts = database["texts"]
        texts.insert_many({"id": f"t{row:05}", "note": f"as it is {row % 50}"} for row in range(ROWS))
        texts.forward()
        texts.create_text_index(["note"], language="english")

        def search(limit: int) -> None:
            found = texts.find(search="is it", limit=limit, select=["_id"])
            assert len([(row["id"], score) for row, score in found.scored()]) == limit

        for limit in (1, 10, 1, 10):
            search(limit)
        assert requests_of(texts, lambda: search(10)) == 1
        one, ten = count_calls(lambda: search(1)), count_calls(lambda: search(10))
        assert ten <= SEARCH_IDS
        assert ten - one <= 9


def test_a_search_for_the_ids_of_the_nearest() -> None:
    """The vector, the plan, the lists, the documents of candidates, exact scores and the rows."""
    with wormdb.connect("memory://warm-nearest") as database:
        glosses = database["glosses"]
        glosses.insert_many(
            {"id": f"g{row:05}", "embedding": [row % 31 - 15.0, row % 37 - 18.0, row % 41 - 20.0, 1.0]}
            for row in range(ROWS)
        )
        glosses.forward()
        glosses.create_vector_index("embedding", dimensions=4)

        def search() -> None:
            found = glosses.find(near={"embedding": {"vector": [3.0, 1.0, -2.0, 0.5], "k": 10}}, select=["_id"])
            assert len([(row["id"], score) for row, score in found.scored()]) == 10

        for _ in range(3):
            search()
        assert requests_of(glosses, search) == 1
        assert count_calls(search) <= NEAREST_IDS


def test_other_conditions_beside_the_one_that_the_index_has(things: Collection[Document]) -> None:
    """A residual is tested on the document, within the same bar and a compiled filter."""

    def find() -> None:
        assert len(things.find({"code": "c00007", "state": 0}).to_list()) == 1

    find()
    assert count_calls(find) <= FIND_BY_INDEX + 60


def test_the_same_as_stored_json(things: Collection[Document]) -> None:
    """Nothing is decoded, so it is no more than the documents cost."""

    def find() -> None:
        (found,) = things.find({"code": "c00007"}, raw=True).to_list()
        assert found.startswith(b'{"id":"t00007",')

    find()
    assert count_calls(find) <= FIND_BY_INDEX


def test_a_document_by_its_id(things: Collection[Document]) -> None:
    """One that is kept."""

    def find() -> None:
        assert things.find_by_id("t00007") is not None

    assert requests_of(things, find) == 1
    assert count_calls(find) <= FIND_BY_ID


def test_a_row_of_a_cursor(things: Collection[Document]) -> None:
    """All rows, 100 at a time, the first batch and opening the cursor included."""

    def read() -> None:
        with things.cursor(batch_size=100) as cursor:
            assert sum(1 for _ in iter(cursor.next_batch, [])) == ROWS // 100

    read()
    assert requests_of(things, read) == 1
    assert count_calls(read) <= CURSOR_ROW * ROWS


def test_calls_are_counted_exactly() -> None:
    """Functions, properties, comprehensions and each step of a generator; nothing in C, nothing of the stores."""

    def three() -> Iterator[int]:
        yield from range(2)

    assert count_calls(lambda: sorted([3, 1, 2])) == 0
    assert count_calls(lambda: list(three())) == 3
