"""Rows as JSON: what a document shows, written as it is stored, whichever plan found it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.query.execute.faces import raw_of
from wormdb.errors import InvalidRequestError
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb import Collection, Document

SCHEMA: dict[str, Any] = {
    "models": {
        "Thing": {
            "path": "@things/(id:any)",
            "fields": {"n": {"type": "integer"}, "owner": {"type": "string", "ref": "Owner"}},
            "manifest": {"enabled": True, "fields": ["n"]},
            "indexes": {"byN": {"field": "n"}},
        },
        "Owner": {"path": "@owners/(id:string)", "fields": {"name": {"type": "string"}}},
    }
}


@pytest.fixture
def things(tmp_path: Path) -> Iterator[Collection[Document]]:
    """Documents in blocks, some of them changed in the tail; with dates, letters and an id that is no text."""
    with wormdb.connect(f"memory://{tmp_path.name}", schema=SCHEMA) as database:
        database.model("Owner").insert({"id": "o1", "name": "Ann"})
        things = database.model("Thing")
        rows: list[dict[str, Any]] = [{"id": f"t{row}", "n": row % 4, "note": "ä\n"} for row in range(20)]
        rows.append(
            {"id": 7, "n": 1, "at": datetime(2026, 1, 2, tzinfo=UTC), "inner": {"_id": 1, "id": 2}, "owner": "o1"}
        )
        things.insert_many(rows)
        database.forward()
        things.update_many({"n": 3}, {"$set": {"note": "newer"}})
        things.insert({"id": "last", "n": 2})
        yield things


FILTERS: list[dict[str, Any]] = [
    {},
    {"n": 1},
    {"n": {"$gte": 2}},
    {"note": "newer"},
    {"id": "t3"},
    {"id": 7},
    {"n": 99},
]


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("sort", [None, "n", ["-note", "n"], "-id"])
def test_every_plan_gives_the_json_of_its_documents(things: Collection[Document], filter: Any, sort: Any) -> None:  # noqa: A002 - as it is called
    for strategy in (None, *STRATEGIES):
        try:
            documents = things.find_all(filter, sort=sort, strategy=strategy)
        except InvalidRequestError:
            continue
        assert things.find_all(filter, sort=sort, strategy=strategy, raw=True) == list(map(raw_of, documents))


def test_parts_and_refs_are_honoured(things: Collection[Document]) -> None:
    selected = things.find_all({"n": 1}, select=["n", "at"])
    assert things.find_all({"n": 1}, select=["n", "at"], raw=True) == list(map(raw_of, selected))
    populated = things.find_all({"id": 7}, populate="owner")
    assert things.find_all({"id": 7}, populate="owner", raw=True) == list(map(raw_of, populated))
    assert b'"name":"Ann"' in things.find({"id": 7}, populate="owner", raw=True).to_list()[0]


def test_one_row(things: Collection[Document]) -> None:
    for identity in ("t3", 7, "last"):
        document = things.find_by_id(identity)
        assert document is not None
        assert things.find_by_id(identity, raw=True) == raw_of(document)
        assert things.find_one({"id": identity}, raw=True) == raw_of(document)
    assert things.find_by_id("none", raw=True) is None
    assert things.find_one({"n": 99}, raw=True) is None


def test_states_of_the_past(things: Collection[Document]) -> None:
    number = things.find({"id": "t3"}).to_list()[0].rev
    things.update_many({}, {"$set": {"n": 0}})
    for moment in (number, number - 1):
        documents = things.find_all({}, as_of=moment)
        assert things.find_all({}, as_of=moment, raw=True) == list(map(raw_of, documents))
        past = things.find_by_id("t3", as_of=moment)
        assert things.find_by_id("t3", as_of=moment, raw=True) == (None if past is None else raw_of(past))
    assert things.find_by_id("none", as_of=number, raw=True) is None


def test_cursors_and_pages(things: Collection[Document]) -> None:
    expected = list(map(raw_of, things.find(sort="n")))
    cursor = things.cursor(sort="n", batch_size=4, raw=True)
    found = cursor.next_batch()
    assert [*found, *things.resume(cursor.token)] == expected
    pages, page = [], None
    while True:
        some = things.find(sort="n", limit=5, page=page, raw=True)
        pages += some.to_list()
        page = some.next_page
        if page is None:
            break
    assert pages == expected


def test_other_faces_of_the_same_rows(things: Collection[Document]) -> None:
    raw = things.find({"n": 1}, raw=True)
    assert raw.count() == len(raw.to_list())
    assert raw.to_arrow() == things.find({"n": 1}).to_arrow()
    assert repr(raw) == repr(things.find({"n": 1}))
    assert raw.first() == raw.to_list()[0]


@pytest.mark.parametrize("raw", [1, "yes"])
def test_mistakes(things: Collection[Document], raw: Any) -> None:
    with pytest.raises(InvalidRequestError, match="raw must be true or false"):
        things.find({}, raw=raw)
