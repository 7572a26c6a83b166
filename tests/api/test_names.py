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
