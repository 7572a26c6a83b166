"""A typo in a question about a declared model is told."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

import wormdb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.settings import UnknownFieldChoice

SCHEMA: dict[str, Any] = {
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:string)",
            "fields": {
                "status": {"type": "string"},
                "email": {"type": "string"},
                "address": {"type": "object", "properties": {"city": {"type": "string"}, "street": {"type": "string"}}},
                "lines": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"product": {"type": "string"}, "n": {"type": "number"}}},
                },
            },
        }
    }
}


def opened(choice: UnknownFieldChoice = "warn") -> wormdb.Database:
    settings = wormdb.Settings(unknown_fields=choice)
    return wormdb.connect("memory://", schema=SCHEMA, apply=True, settings=settings)


@pytest.fixture
def database() -> Iterator[wormdb.Database]:
    with opened() as found:
        yield found


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"filter": {"statsu": "a"}}, "status"),
        ({"filter": {"Status": "a"}}, "status"),
        ({"filter": {"$or": [{"status": "a"}, {"$nor": [{"emial": "a"}]}]}}, "email"),
        ({"filter": {"address.ciy": "Rome"}}, "address.city"),
        ({"filter": {"adress.city": "Rome"}}, "address.city"),
        ({"filter": {"lines.prodct": "ink"}}, "lines.product"),
        ({"filter": {"lines.0.prodct": "ink"}}, "lines.0.product"),
        ({"filter": {"lines": {"$elemMatch": {"produkt": "ink"}}}}, "lines.product"),
        ({"sort": "-statuss"}, "status"),
        ({"select": ["emal"]}, "email"),
        ({"filter": {"createdat": None}}, "createdAt"),
        ({"filter": "statsu=a"}, "status"),
    ],
)
def test_a_name_that_is_nearly_a_declared_one_is_told(
    database: wormdb.Database, options: dict[str, Any], meant: str
) -> None:
    with pytest.warns(wormdb.UnknownFieldWarning, match=f"did you mean '{meant}'") as caught:
        database.model("Customer").find(**options)
    assert caught[0].filename == __file__, "it points to the caller"
    with opened("raise") as strict, pytest.raises(wormdb.InvalidRequestError, match=f"did you mean '{meant}'"):
        strict.model("Customer").find(**options)
    with opened("ignore") as silent:
        assert silent.model("Customer").find_all(**options) == []


@pytest.mark.parametrize(
    "options",
    [
        {"filter": {"status": "a", "email": "b"}},
        {"filter": {"id": 1}},
        {"filter": {"_id": 1}},
        {"filter": {"whatever": 1}},
        {"filter": {"address.city": "x", "address": {"city": "x"}}},
        {"filter": {"lines.0.product": "x", "lines.n": 1}},
        {"sort": ["-createdAt", "status"]},
        {"select": {"lines.product": 1}},
    ],
)
def test_names_that_may_be_meant_are_not(database: wormdb.Database, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert database.model("Customer").find_all(**options) == []


def test_a_collection_without_a_model_has_no_typos(database: wormdb.Database) -> None:
    database["notes"].insert({"id": 1, "status": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert database["notes"].find_all({"statsu": 1}) == []


CALLS: dict[str, Any] = {
    "find": lambda it: it.find({"statsu": "a"}),
    "count": lambda it: it.count({"statsu": "a"}),
    "cursor": lambda it: it.cursor({"statsu": "a"}),
    "update_one": lambda it: it.update_one({"statsu": "a"}, {"$set": {"email": "x"}}),
    "update_many": lambda it: it.update_many({}, {"$set": {"email": "x"}}, sort="statsu", limit=1),
    "replace_one": lambda it: it.replace_one({"statsu": "a"}, {}),
    "delete_one": lambda it: it.delete_one({"statsu": "a"}),
    "delete_many": lambda it: it.delete_many({"statsu": {"$ne": "a"}}),
    "find_one_and_update": lambda it: it.find_one_and_update({"statsu": "a"}, {"$set": {"email": "x"}}),
    "find_one_and_delete": lambda it: it.find_one_and_delete({}, sort="statsu"),
    "distinct": lambda it: it.distinct("statsu"),
    "group_by": lambda it: it.aggregate(group_by="statsu", count=True),
    "sum": lambda it: it.aggregate(sum="statsu"),
    "$match": lambda it: it.aggregate([{"$match": {"statsu": "a"}}]),
    "$group": lambda it: it.aggregate([{"$group": {"_id": "$statsu", "n": {"$sum": 1}}}]),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_tells_of_a_typo_at_the_line_of_its_caller(name: str) -> None:
    with opened() as database:
        customers = database.model("Customer")
        with pytest.warns(wormdb.UnknownFieldWarning, match="did you mean 'status'") as told:
            CALLS[name](customers)
        assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize("name", CALLS)
def test_every_call_refuses_a_typo_if_that_is_set_and_writes_nothing(name: str) -> None:
    with opened("raise") as database:
        customers = database.model("Customer")
        customers.insert({"id": "ada", "status": "new", "email": "ada@example.com"})
        before = customers.find_all()
        with pytest.raises(wormdb.InvalidRequestError, match="did you mean 'status'"):
            CALLS[name](customers)
        assert customers.find_all() == before
