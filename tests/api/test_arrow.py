"""Collections as tables, and scans of some fields."""

from __future__ import annotations

import builtins
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

import wormdb
from tests.api.shop import SHOP
from wormdb.errors import InvalidRequestError, MissingExtraError, SnapshotTooOldError
from wormdb.settings import Settings
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

TINY = Settings(block_bytes=400, stage_bytes=2_000)


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://", schema=SHOP, clock=ManualClock(), settings=TINY) as database:
        yield database


@pytest.fixture
def things(db: Database) -> Collection[Document]:
    return db["things"]


ROME: dict[str, Any] = {
    "id": "a",
    "n": 1,
    "address": {"city": "Rome", "zip": 7},
    "items": [{"p": 1, "q": 2}, {"q": 3}, 4],
}
BARE: dict[str, Any] = {"id": "b", "n": 2.5, "items": {"p": 9}}


# --- tables ---


def test_without_a_model_a_table_has_the_id_frequent_paths_and_the_document(things: Collection[Document]) -> None:
    things.insert({"id": "b", "n": 1})
    things.insert({"n": 2, "id": "a", "at": {"x": [1.5]}})
    table = things.to_arrow()
    assert table.to_pylist() == [
        {"id": "a", "n": 2, "at.x": [1.5], "doc": '{"_id":"a","n":2,"at":{"x":[1.5]}}'},
        {"id": "b", "n": 1, "at.x": None, "doc": '{"_id":"b","n":1}'},
    ]
    types = {"id": pa.string(), "n": pa.int64(), "at.x": pa.list_(pa.float64()), "doc": pa.large_string()}
    assert table.schema == pa.schema(types)
    assert things.find().to_arrow().equals(table)
    assert things.find("n=2").to_pandas()["at.x"].tolist() == [[1.5]]
    assert things.to_polars()["n"].to_list() == [2, 1]


def test_values_of_several_types_keys_of_maps_and_long_texts_without_a_model(things: Collection[Document]) -> None:
    rows = [{"id": f"{n:02}", "n": n if n % 10 else "x", "map": {f"k{n}": n}, "long": "x" * 1_000} for n in range(50)]
    things.insert_many(rows)
    table = things.to_arrow()
    assert table.column_names == ["id", "n", "doc"]
    assert table.column("n").to_pylist() == [str(n) if n % 10 else '"x"' for n in range(50)]
    things.forward()
    assert things.to_arrow().equals(table)


def test_a_table_of_a_model_has_its_columns_in_their_types(db: Database) -> None:
    customers = db.model("Customer")
    customers.insert({"id": "0" * 8 + "-0000-4000-8000-" + "0" * 12, "name": "Ada", "tags": ["x"]})
    table = customers.to_arrow()
    time = pa.timestamp("ms", tz="UTC")
    types = {"id": pa.string(), "name": pa.string(), "email": pa.string(), "status": pa.string(), "born": time}
    assert table.schema == pa.schema({**types, "tags": pa.list_(pa.string()), "createdAt": time, "updatedAt": time})
    assert table.column("status").to_pylist() == ["new"]


def test_an_empty_collection_is_a_table_without_rows(db: Database, things: Collection[Document]) -> None:
    assert things.to_arrow().num_rows == 0
    assert things.to_arrow(["id", "x"]).column_names == ["id", "x"]
    empty = db.model("Customer").to_arrow()
    assert empty.num_rows == 0
    assert empty.schema.field("tags").type == pa.list_(pa.string())
    assert empty.schema.field("born").type == pa.timestamp("ms", tz="UTC")


def test_columns_come_as_they_are_named(things: Collection[Document]) -> None:
    things.insert_many([ROME, BARE])
    table = things.to_arrow(["n", "address.city", "items.p", "id", "absent"])
    assert table.to_pydict() == {
        "n": [1.0, 2.5],
        "address.city": ["Rome", None],
        "items.p": ["[1]", "9"],
        "id": ["a", "b"],
        "absent": [None, None],
    }


def test_a_field_called_doc_is_a_field(things: Collection[Document]) -> None:
    things.insert({"id": "a", "doc": 5})
    assert things.to_arrow(["doc"]).to_pydict() == {"doc": [5]}
    assert things.to_arrow().to_pydict() == {"id": ["a"], "doc": ['{"_id":"a","doc":5}']}


def test_a_range_of_ids(things: Collection[Document]) -> None:
    things.insert_many([{"id": number, "n": number} for number in range(50)])
    things.forward()
    things.insert({"id": 50, "n": 50})
    assert things.to_arrow(["n"], start=10, stop=13).to_pydict() == {"n": [10, 11, 12]}
    assert things.to_arrow(["n"], start=49).to_pydict() == {"n": [49, 50]}
    assert things.to_arrow(["n"], stop=1).to_pydict() == {"n": [0]}
    assert things.to_arrow(["n"], start=3, stop=3).num_rows == 0
    assert [row["n"] for row in things.scan(48, columns=["n"])] == [48, 49, 50]


def test_a_table_is_the_same_before_and_after_forwarding_and_merging(things: Collection[Document]) -> None:
    seen: list[pa.Table] = []
    for step in range(8):
        things.insert_many([{"id": f"{n}-{step}", "n": n, "x": [n, "x"] if n % 7 else 1.5} for n in range(20)])
        things.delete(f"3-{step}")
        things.save({"id": f"4-{step}", "n": "now text"})
        before = [things.to_arrow(), things.to_arrow(["id", "n", "x"])]
        things.forward()
        after = [things.to_arrow(), things.to_arrow(["id", "n", "x"])]
        assert before == after
        seen.append(after[0])
    assert [table.num_rows for table in seen] == [19 * step for step in range(1, 9)]


def test_the_past_as_a_table(things: Collection[Document]) -> None:
    first = things.insert({"id": "a", "n": 1})
    things.save({"id": "a", "n": 2})
    tail = things.to_arrow(["n"], as_of=first.rev)
    things.forward()
    things.save({"id": "a", "n": 3})
    past = things.to_arrow(["n"], as_of=first.rev)
    assert tail.to_pydict() == past.to_pydict() == {"n": [1]}
    assert things.to_arrow(["n"]).to_pydict() == {"n": [3]}
    assert list(things.scan(columns=["n"], as_of=first.rev)) == [{"id": "a", "n": 1}]
    with pytest.raises(InvalidRequestError, match="newest entry"):
        things.to_arrow(["n"], as_of=99)


# --- other packages ---


def test_a_table_for_pandas_and_polars(things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 1, "at": datetime(2020, 1, 1, tzinfo=UTC)})
    assert things.to_pandas(["id", "n"]).to_dict("list") == {"id": ["a"], "n": [1]}
    assert things.to_polars(["id", "n"]).equals(pl.DataFrame({"id": ["a"], "n": [1]}))
    assert things.to_polars(["at"], stop="a").is_empty()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_missing_is_named(
    things: Collection[Document], db: Database, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == package:
            raise ModuleNotFoundError(name)
        return found(name, *rest, **more)

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(builtins, "__import__", absent)
    before = db.cost().requests
    with pytest.raises(MissingExtraError, match=package) as caught:
        getattr(things, f"to_{package}")()
    assert caught.value.fix == f"pip install {package}"
    assert db.cost().requests == before


# --- scans of some fields ---


@pytest.mark.parametrize("forwarded", [False, True])
def test_a_scan_of_columns_gives_these_fields(things: Collection[Document], forwarded: bool) -> None:
    things.insert_many([ROME, BARE])
    if forwarded:
        things.forward()
    assert list(things.scan(columns=["n"])) == [{"id": "a", "n": 1}, {"id": "b", "n": 2.5}]
    assert list(things.scan(columns=["id"])) == [{"id": "a"}, {"id": "b"}]
    assert list(things.scan(columns=["items", "address.city"])) == [
        {"id": "a", "items": ROME["items"], "address": {"city": "Rome"}},
        {"id": "b", "items": {"p": 9}},
    ]
    # Through arrays as in MongoDB: documents in them stay, other elements do not.
    assert list(things.scan(columns=["items.p", "n"])) == [
        {"id": "a", "items": [{"p": 1}, {}], "n": 1},
        {"id": "b", "items": {"p": 9}, "n": 2.5},
    ]
    assert list(things.scan("b", columns=["address.zip", "address.city"])) == [{"id": "b"}]
    assert next(iter(things.scan(columns=["address.zip", "address.city"])))["address"] == {"zip": 7, "city": "Rome"}


@pytest.mark.parametrize(
    ("document", "columns", "found"),
    [
        (
            {"a": [{"b": {"c": 1, "d": 2}}, {"b": 5}, [{"b": {"c": 3}}]]},
            ["a.b.c"],
            {"a": [{"b": {"c": 1}}, {}, [{"b": {"c": 3}}]]},
        ),
        ({"a": {"x": [{"p": 1}], "y": {"z": 1, "w": 2}}}, ["a.x.p", "a.y.z"], {"a": {"x": [{"p": 1}], "y": {"z": 1}}}),
        ({"a": {"x": [{"p": 1}], "y": {"z": 1}}}, ["a.y.z", "a.x.p"], {"a": {"y": {"z": 1}, "x": [{"p": 1}]}}),
        ({"a": {"x": [{"p": 1}]}}, ["a.q.r", "a.x.p"], {"a": {"x": [{"p": 1}]}}),
        ({"a": []}, ["a.b"], {"a": []}),
        ({"a": [1, 2]}, ["a.b"], {"a": []}),
        ({"a": 5}, ["a.b"], {}),
        ({"a": None}, ["a"], {"a": None}),
        ({"a": {"b": None}}, ["a.b"], {"a": {"b": None}}),
        ({"a": {"c": 1}}, ["a.b"], {}),
        ({"a": {"b": {}}}, ["a.b"], {"a": {"b": {}}}),
        ({"a": {"0": "x"}}, ["a.0"], {"a": {"0": "x"}}),
    ],
)
def test_the_shape_of_chosen_fields(
    things: Collection[Document], document: dict[str, Any], columns: list[str], found: dict[str, Any]
) -> None:
    things.insert({"id": 1} | document)
    assert list(things.scan(columns=columns)) == [{"id": 1} | found]
    things.forward()
    assert list(things.scan(columns=columns)) == [{"id": 1} | found]


# --- bad input ---


@pytest.mark.parametrize(
    "columns", ["name", [], 5, b"x", {"name": 1}, [1], ["a", None], ["a", "a"], ["a..b"], [""], ["$x"], [["a"]]]
)
def test_what_is_no_list_of_columns_is_refused_before_any_request(
    db: Database, things: Collection[Document], columns: Any
) -> None:
    before = db.cost().requests
    for call in (things.to_arrow, things.to_pandas, things.to_polars, lambda c: things.scan(columns=c)):
        with pytest.raises(InvalidRequestError) as caught:
            call(columns)
        assert caught.value.fix
    assert db.cost().requests == before


def test_a_column_that_a_model_does_not_have_is_refused_with_what_was_meant(db: Database) -> None:
    customers = db.model("Customer")
    before = db.cost().requests
    for call in (customers.to_arrow, lambda c: customers.scan(columns=c)):
        with pytest.raises(InvalidRequestError, match="emial") as caught:
            call(["id", "emial"])
        assert caught.value.fix == "did you mean 'email'?"
    assert db.cost().requests == before
    with pytest.raises(InvalidRequestError, match="no column"):
        customers.to_arrow(["name.first"])


def test_the_model_of_the_database_counts_for_who_did_not_bring_one(db: Database) -> None:
    db.model("Customer").insert({"name": "Ada"})
    untyped = db["org/customers"]
    assert untyped.to_arrow(["name"]).to_pydict() == {"name": ["Ada"]}
    with pytest.raises(InvalidRequestError, match="nmae"):
        untyped.to_arrow(["nmae"])


def test_a_column_within_another_one_is_refused(things: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="part of 'a'"):
        things.scan(columns=["a.b", "a"])
    assert things.to_arrow(["a.b", "a"]).column_names == ["a.b", "a"]


def test_a_moment_before_history_is_refused(things: Collection[Document]) -> None:
    things.insert({"id": 1})
    with pytest.raises(SnapshotTooOldError):
        things.to_arrow(as_of=datetime(1999, 1, 1, tzinfo=UTC))
