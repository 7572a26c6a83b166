"""Changes by filter of documents that have a model: checks, defaults, times, trash, modes, classes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.shop import SHOP
from wormdb.errors import (
    InvalidRequestError,
    PermissionDeniedError,
    UniqueViolationError,
    ValidationError,
)
from wormdb.format.wrappers import moment
from wormdb.schema.path import SINGLETON_ID
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database

START = 1_700_000_000_000
ADA = "0190a0a0-0000-7000-8000-000000000001"
BOB = "0190a0a0-0000-7000-8000-000000000002"

SCHEMA: dict[str, Any] = {
    **SHOP,
    "models": {
        **SHOP["models"],
        "Soft": {"path": "#org/@soft/(id:string)", "softDelete": {"enabled": True, "ttl": 1}},
    },
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def shop(url: str, clock: ManualClock) -> Iterator[Database]:
    with wormdb.connect(url, schema=SCHEMA, clock=clock) as database:
        customers = database.model("Customer")
        customers.insert({"id": ADA, "name": "Ada", "email": "ada@x", "tags": ["vip"]})
        customers.insert({"id": BOB, "name": "Bob", "email": "bob@x"})
        yield database


def test_values_are_converted_and_times_are_stamped(shop: Database, clock: ManualClock) -> None:
    customers = shop.model("Customer")
    created = customers.find_by_id(ADA)["createdAt"]  # type: ignore[index] # it is there
    clock.advance(1)
    assert customers.update_one({"name": "Ada"}, {"$set": {"born": "1815-12-10T00:00:00Z"}}).modified == 1
    ada = customers.find_by_id(ADA)
    assert ada is not None
    assert ada["born"].year == 1815
    assert ada["createdAt"] == created
    assert created + timedelta(seconds=1) <= ada["updatedAt"] <= moment(clock.now_ms())
    clock.advance(1)
    assert customers.update_one({"name": "Ada"}, {"$set": {"born": "1815-12-10T00:00:00Z"}}).modified == 0
    assert customers.find_by_id(ADA) == ada


def test_what_does_not_fit_names_the_document_and_nothing_is_written(shop: Database) -> None:
    customers = shop.model("Customer")
    with pytest.raises(ValidationError, match=f"document '{ADA}' in Customer cannot be changed.*status") as caught:
        customers.update_many({}, {"$set": {"status": "asleep"}})
    assert [problem.path for problem in caught.value.problems] == ["status"]
    with pytest.raises(ValidationError, match=f"document '{BOB}'.*name"):
        customers.update_one({"email": "bob@x"}, {"$unset": {"name": ""}})
    with pytest.raises(ValidationError, match=f"document '{BOB}'.*name"):
        customers.replace_one({"email": "bob@x"}, {"email": "bob@y"})
    assert [document["status"] for document in customers] == ["new", "new"]


def test_a_replacement_has_defaults_and_keeps_when_it_was_made(shop: Database, clock: ManualClock) -> None:
    customers = shop.model("Customer")
    before = customers.find_one_and_update({"id": ADA}, {"$set": {"status": "active"}}, return_document="after")
    clock.advance(1)
    after = customers.find_one_and_replace({"id": ADA}, {"name": "Ada L"}, return_document="after")
    assert before is not None
    assert after is not None
    times = {"createdAt": before["createdAt"], "updatedAt": after["updatedAt"]}
    assert after == {"id": ADA, "name": "Ada L", "status": "new"} | times
    assert after["updatedAt"] > before["updatedAt"]
    clock.advance(1)
    assert customers.replace_one({"id": ADA}, {"name": "Ada L"}).modified == 0


def test_when_it_was_made_cannot_be_taken_away(shop: Database) -> None:
    customers = shop.model("Customer")
    before = [document["createdAt"] for document in customers]
    customers.update_many({}, {"$unset": {"createdAt": "", "updatedAt": ""}})
    assert [document["createdAt"] for document in customers] == before
    assert all("updatedAt" in document for document in customers)


def test_an_upsert_makes_a_document_of_the_model(shop: Database) -> None:
    customers = shop.model("Customer")
    made = customers.update_one({"email": "eve@x"}, {"$set": {"name": "Eve"}}, upsert=True)
    eve = customers.find_by_id(made.upserted_id)
    assert eve is not None
    assert (eve["status"], eve["email"], eve["createdAt"]) == ("new", "eve@x", eve["updatedAt"])
    with pytest.raises(ValidationError, match="name"):
        customers.update_one({"email": "new@x"}, {"$set": {"status": "new"}}, upsert=True)
    with pytest.raises(InvalidRequestError, match="id"):
        customers.update_one({"id": "no uuid"}, {"$set": {"name": "x"}}, upsert=True)
    with pytest.raises(UniqueViolationError):
        customers.update_one({"name": "Zoe"}, {"$set": {"email": "eve@x"}}, upsert=True)
    assert customers.count() == 3


def test_an_upsert_gets_the_next_number_or_needs_an_id(shop: Database) -> None:
    invoices, countries = shop.model("Invoice"), shop.model("Country")
    assert invoices.update_one({"total": 5}, {"$set": {"paid": False}}, upsert=True).upserted_id == "0000000001"
    assert invoices.find_by_id("0000000001", as_of=None) is not None
    with pytest.raises(InvalidRequestError, match="it has no id"):
        countries.update_one({"name": "France"}, {"$set": {"n": 1}}, upsert=True)
    assert countries.update_one({"id": "fr"}, {"$set": {"n": 1}}, upsert=True).upserted_id == "fr"


def test_a_singleton(shop: Database) -> None:
    settings = shop.model("OrgSettings")
    assert settings.update_one({}, {"$set": {"n": 1}}, upsert=True).upserted_id == SINGLETON_ID
    assert settings.update_one({}, {"$inc": {"n": 1}}, upsert=True).matched == 1
    found = settings.find_one_and_replace({}, {"theme": "light"}, return_document="after")
    assert found is not None
    assert found["theme"] == "light"
    assert settings.count() == 1


def test_deletes_go_to_the_trash(shop: Database) -> None:
    soft = shop.model("Soft")
    soft.insert_many([{"id": name, "n": number} for number, name in enumerate("abc")])
    assert soft.delete_many({"n": {"$lt": 2}}, actor="ada").deleted == 2
    assert [(trashed.id, trashed.deleted_by) for trashed in soft.list_trashed()] == [("a", "ada"), ("b", "ada")]
    assert soft.update_many({}, {"$inc": {"n": 1}}).matched == 1, "what is in the trash is not found"
    assert soft.restore("a")["n"] == 0
    assert soft.update_one({"id": "b"}, {"$set": {"n": 9}}, upsert=True).upserted_id == "b"
    gone = soft.find_one_and_delete({"id": "b"})
    assert gone is not None
    assert gone["n"] == 9


def test_modes(shop: Database) -> None:
    audit, feed = shop.model("AuditLog"), shop.model("ExternalFeed")
    made = audit.update_one({"what": "login"}, {"$set": {"n": 1}}, upsert=True).upserted_id
    assert audit.update_one({"id": made}, {"$set": {"n": 1}}) == wormdb.UpdateResult(1, 0, None, 1)
    with pytest.raises(PermissionDeniedError, match="append-only"):
        audit.update_one({"id": made}, {"$set": {"n": 2}})
    with pytest.raises(PermissionDeniedError, match="append-only"):
        audit.delete_many({})
    before = shop.cost().requests
    with pytest.raises(PermissionDeniedError, match="read-only"):
        feed.update_many({}, {"$set": {"n": 2}})
    with pytest.raises(PermissionDeniedError, match="read-only"):
        feed.find_one_and_delete({})
    assert shop.cost().requests == before


@dataclass
class Account:
    owner: str
    balance: int = 0
    id: str = ""


def test_instances_of_a_class(db: Database) -> None:
    accounts = db.model(Account)
    made = accounts.insert(Account("ada", 5))
    before = accounts.find_one_and_update({"owner": "ada"}, {"$inc": {"balance": 1}})
    after = accounts.find_one_and_replace({"owner": "ada"}, Account("eve", 9), return_document="after")
    assert (before, after) == (Account("ada", 5, made.id), Account("eve", 9, made.id))
    assert accounts.replace_one({"id": made.id}, Account("bob", id=made.id)).modified == 1
    assert accounts.find_one_and_update({"id": made.id}, {"$inc": {"balance": 1}}, select=["owner"]) == {
        "id": made.id,
        "owner": "bob",
    }
    with pytest.raises(ValidationError, match="balance"):
        accounts.update_one({}, {"$set": {"balance": "much"}})
    new = accounts.replace_one({"owner": "zoe"}, Account("zoe", 1), upsert=True)
    assert accounts.find_by_id(new.upserted_id) == Account("zoe", 1, new.upserted_id)
    assert accounts.find_one_and_delete({"owner": "bob"}) == Account("bob", 1, made.id)


def test_a_writer_without_the_model_is_held_to_it(shop: Database, url: str) -> None:
    with wormdb.connect(url) as other:
        customers = other["org/customers"]
        with pytest.raises(ValidationError, match=f"document '{ADA}'.*status"):
            customers.update_many({}, {"$set": {"status": "asleep"}})
        with pytest.raises(ValidationError, match=f"document '{ADA}': it does not fit the model Customer.*converts it"):
            customers.update_one({"id": ADA}, {"$set": {"born": "1815-12-10T00:00:00Z"}})
        assert customers.update_one({"id": ADA}, {"$set": {"status": "active"}}).modified == 1
