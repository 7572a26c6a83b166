"""Models: what they accept, how they show it, who may write; from schema.json and from classes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import wormdb
from tests.api.shop import SHOP
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    PermissionDeniedError,
    UniqueViolationError,
    ValidationError,
)
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.engine.state.view import View


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shop(url: str, clock: ManualClock) -> Iterator[Database]:
    with wormdb.connect(url, schema=SHOP, clock=clock) as database:
        yield database


@pytest.fixture
def customers(shop: Database) -> Collection[Document]:
    return shop.model("Customer")


# --- create ---


def test_create_applies_defaults_makes_an_id_and_validates_without_a_request(
    shop: Database, customers: Collection[Document]
) -> None:
    ada = customers.create({"name": "Ada"})
    assert (ada["name"], ada["status"]) == ("Ada", "new")
    assert str(UUID(ada.id)) == ada.id
    assert ada.rev == 0
    assert customers.create({"name": "Ada", "status": "active"}, email="x")["status"] == "active"
    with pytest.raises(ValidationError) as caught:
        customers.create({"status": "odd", "tags": [1], "born": "yesterday"})
    assert {problem.path for problem in caught.value.problems} == {"name", "status", "tags.0", "born"}
    assert shop.cost().requests == 0


def test_a_saved_document_has_its_times(customers: Collection[Document], clock: ManualClock) -> None:
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    ada = customers.save(customers.create({"name": "Ada"}))
    assert ada["createdAt"] == ada["updatedAt"] == now
    clock.advance(60)
    ada["status"] = "active"
    customers.save(ada)
    assert ada["createdAt"] == now
    assert timedelta(seconds=60) <= ada["updatedAt"] - now < timedelta(seconds=61)
    found = customers.find_by_id(ada.id)
    assert found == ada


def test_a_save_that_changes_nothing_leaves_the_times_alone(
    shop: Database, customers: Collection[Document], clock: ManualClock
) -> None:
    ada = customers.insert({"name": "Ada"})
    clock.advance(60)
    before = shop.cost().puts
    assert customers.save(ada).rev == 1
    assert shop.cost().puts == before
    assert customers.find_by_id(ada.id) == ada


def test_values_come_back_in_their_declared_type(customers: Collection[Document]) -> None:
    born = datetime(1815, 12, 10, tzinfo=UTC)
    ada = customers.insert({"name": "Ada", "born": "1815-12-10T00:00:00.000Z", "tags": ["a"], "more": {"x": 1}})
    assert ada["born"] == born
    found = customers.find_by_id(ada.id)
    assert found is not None
    assert (found["born"], found["tags"], found["more"]) == (born, ["a"], {"x": 1})


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, "name"),
        ({"name": 5}, "name"),
        ({"name": "Ada", "status": "odd"}, "status"),
        ({"name": "Ada", "tags": "a"}, "tags"),
        ({"name": "Ada", "born": 5}, "born"),
        ({"name": "Ada", "id": "no uuid"}, "_id"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_request(
    shop: Database, customers: Collection[Document], document: dict[str, Any], path: str
) -> None:
    calls: list[Callable[[Any], object]] = [
        customers.insert,
        customers.save,
        lambda given: customers.insert_many([{"name": "fine"}, given]),
        customers.batch().insert,
        customers.batch().save,
    ]
    for call in calls:
        with pytest.raises(ValidationError, match="the document does not fit the model Customer") as caught:
            call(document)
        assert [problem.path for problem in caught.value.problems] == [path]
        assert all(problem.reason for problem in caught.value.problems)
    assert shop.cost().requests == 0


def test_a_loaded_document_is_validated_too(customers: Collection[Document]) -> None:
    ada = customers.insert({"name": "Ada"})
    ada["name"] = None
    with pytest.raises(ValidationError):
        customers.save(ada)
    with pytest.raises(ValidationError):
        customers.modify(ada.id, lambda document: document | {"status": "odd"})
    found = customers.find_by_id(ada.id)
    assert found is not None
    assert found["name"] == "Ada"


@pytest.mark.parametrize("bad", ["no uuid", 5, None, ""])
def test_an_id_must_fit_the_path(shop: Database, customers: Collection[Document], bad: Any) -> None:
    for call in (customers.find_by_id, customers.exists, customers.delete):
        with pytest.raises(InvalidRequestError):
            call(bad)
    assert shop.cost().requests == 0


# --- unique ---


def test_a_value_that_is_taken_is_refused_with_the_seeds_message(customers: Collection[Document]) -> None:
    ada = customers.insert({"name": "Ada", "email": "ada@x"})
    eve = customers.insert({"name": "Eve", "email": "eve@x"})
    message = f"Unique constraint violation: email='ada@x' already exists on entity '{ada.id}'"
    calls: list[Callable[[], object]] = [
        lambda: customers.insert({"name": "Bob", "email": "ada@x"}),
        lambda: customers.save(eve | {"email": "ada@x"}),
        lambda: customers.modify(eve.id, lambda document: document | {"email": "ada@x"}),
        lambda: customers.insert_many([{"name": "Bob"}, {"name": "Bob", "email": "ada@x"}]),
    ]
    for call in calls:
        with pytest.raises(UniqueViolationError) as caught:
            call()
        assert str(caught.value) == message
        assert (caught.value.field, caught.value.value, caught.value.owner) == ("email", "ada@x", ada.id)
    assert customers.count() == 2


def test_unique_counts_from_the_first_entry_on(customers: Collection[Document]) -> None:
    with pytest.raises(UniqueViolationError):
        customers.insert_many([{"name": "Ada", "email": "x"}, {"name": "Eve", "email": "x"}])
    assert customers.count() == 0


def test_two_documents_trade_values_in_one_batch(customers: Collection[Document]) -> None:
    ada = customers.insert({"name": "Ada", "email": "1"})
    eve = customers.insert({"name": "Eve", "email": "2"})
    with customers.batch() as batch:
        batch.save(ada | {"email": "2"})
        batch.save(eve | {"email": "1"})
    assert sorted((document["name"], document["email"]) for document in customers) == [("Ada", "2"), ("Eve", "1")]


def test_a_value_is_free_again_after_a_delete_and_behind_a_forwarding(customers: Collection[Document]) -> None:
    ada = customers.insert({"name": "Ada", "email": "x"})
    customers.forward()
    customers.delete(ada)
    eve = customers.insert({"name": "Eve", "email": "x"})
    customers.forward()
    with pytest.raises(UniqueViolationError) as caught:
        customers.insert({"name": "Bob", "email": "x"})
    assert caught.value.owner == eve.id
    customers.insert({"name": "Bob"})
    customers.insert({"name": "Bob", "email": None})


# --- a writer without the schema is bound by it as well ---


def test_the_collection_of_a_model_refuses_what_does_not_fit_whoever_writes(
    shop: Database, customers: Collection[Document]
) -> None:
    ada = customers.insert({"name": "Ada", "email": "x"})
    plain = shop["org/customers"]
    assert plain.count() == 1
    with pytest.raises(ValidationError, match="the document does not fit the model Customer"):
        plain.insert({"nothing": 1})
    with pytest.raises(ValidationError, match="the document does not fit the model Customer"):
        plain.insert({"id": "no uuid", "name": "Eve"})
    with pytest.raises(ValidationError, match=r"write through db.model\('Customer'\)"):
        plain.save({"id": ada.id, "name": "Ada", "born": "1815-12-10T00:00:00Z"})
    with pytest.raises(UniqueViolationError):
        plain.insert({"id": "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28", "name": "Eve", "email": "x"})
    plain.save({"id": ada.id, "name": "Ada II"})
    found = customers.find_by_id(ada.id)
    assert found is not None
    assert found["name"] == "Ada II"


# --- outer segments, singletons, id strategies ---


def test_outer_parts_of_a_path_make_collections_of_their_own(shop: Database) -> None:
    acme, zeta = shop.model("User", tenant="acme"), shop.model("User", tenant="zeta")
    assert (acme.prefix, zeta.prefix) == ("org/acme/users/", "org/zeta/users/")
    acme.insert({"id": "ada"})
    zeta.insert({"id": "ada"})
    zeta.insert({"id": "eve"})
    assert (acme.count(), zeta.count()) == (1, 2)
    for bad in ({}, {"tenant": "A B"}, {"tenant": "acme", "more": 1}, {"tenent": "acme"}):
        with pytest.raises(InvalidRequestError):
            shop.model("User", **bad)
    with pytest.raises(InvalidRequestError):
        shop.model("Customer", tenant="acme")


def test_a_singleton_is_one_document_whatever_id_is_asked_for(shop: Database) -> None:
    settings = shop.model("OrgSettings")
    assert settings.find_by_id("anything") is None
    first = settings.save({})
    assert first["theme"] == "dark"
    assert settings.save({"theme": "light"}).seq == 2
    assert [change.op for change in settings.watch()] == ["create", "update"]
    assert settings.count() == 1
    for identity in (None, "anything", 5, first.id):
        found = settings.find_by_id(identity)
        assert found is not None
        assert found["theme"] == "light"
        assert settings.exists(identity)
    with pytest.raises(AlreadyExistsError):
        settings.insert({})
    with pytest.raises(ConflictError):
        settings.save(first | {"theme": "old"})
    assert settings.modify(None, lambda document: document | {"theme": "new"})["theme"] == "new"
    assert settings.create()["theme"] == "dark"
    assert settings.delete(None) is True
    assert settings.count() == 0
    assert settings.insert({}).seq == 5


def test_ids_that_have_to_be_given_are_asked_for(shop: Database) -> None:
    countries = shop.model("Country")
    assert countries.insert({"id": "fr"}).id == "fr"
    for call in (countries.insert, countries.save, countries.batch().insert):
        with pytest.raises(InvalidRequestError, match="it has no id"):
            call({"name": "France"})
    assert countries.create({"name": "France"}).id is None


def test_numbered_ids_follow_each_other(shop: Database) -> None:
    invoices = shop.model("Invoice")
    assert [invoices.insert({"n": number}).id for number in range(2)] == ["0000000001", "0000000002"]
    assert invoices.insert_many([{}, {}]) == ["0000000003", "0000000004"]
    invoices.delete("0000000004")
    created = invoices.create({"n": 9})
    assert "id" not in created
    invoices.save(created)
    assert created["id"] == "0000000005"
    created["n"] = 10
    assert invoices.save(created).seq == 2
    assert invoices.count() == 4


def test_several_writers_number_without_gaps_or_repeats(url: str) -> None:
    databases = [wormdb.connect(url, schema=SHOP) for _ in range(3)]
    for number in range(9):
        databases[number % 3].model("Invoice").insert({"n": number})
    found = [(document.id, document["n"]) for document in databases[0].model("Invoice")]
    assert found == [(f"{number + 1:010d}", number) for number in range(9)]
    for database in databases:
        database.close()


# --- modes ---


def test_a_readonly_model_refuses_every_write_without_a_request(shop: Database) -> None:
    feed = shop.model("ExternalFeed")
    assert feed.mode == "readonly"
    writes: list[Callable[[], object]] = [
        lambda: feed.insert({"id": "a"}),
        lambda: feed.save({"id": "a"}),
        lambda: feed.delete("a"),
        lambda: feed.insert_many([{"id": "a"}]),
        lambda: feed.batch().insert({"id": "a"}).flush(),
    ]
    for write in writes:
        with pytest.raises(PermissionDeniedError, match=r"^ExternalFeed is read-only"):
            write()
    assert shop.cost().requests == 0
    assert feed.count() == 0
    assert feed.find_by_id("a") is None
    assert list(feed) == []


TWICE = "01HV5Q8ZJ4N7XKTR2MDWE9GYBC"


def test_an_append_model_takes_new_documents_only(shop: Database) -> None:
    audit = shop.model("AuditLog")
    assert audit.mode == "append"
    entry = audit.insert({"what": "login"})
    saved = audit.save(audit.create({"what": "logout"}))
    audit.batch().insert({"what": "more"}).save({"what": "and more"}).flush()
    audit.insert_many([{"what": "x"}])
    assert audit.count() == 5
    entry["what"] = "nothing"
    writes: list[Callable[[], object]] = [
        lambda: audit.save(entry),
        lambda: audit.save({"id": saved.id, "what": "x"}),
        lambda: audit.delete(entry),
        lambda: audit.delete(saved.id),
        lambda: audit.modify(entry.id, lambda document: document | {"what": "x"}),
        lambda: audit.batch().insert({"what": "fine"}).update(entry).flush(),
        lambda: audit.batch().insert({"what": "fine"}).delete(saved.id).flush(),
        lambda: (
            audit.batch().save({"id": "01HV5Q8ZJ4N7XKTR2MDWE9GYBC"}).save({"id": "01HV5Q8ZJ4N7XKTR2MDWE9GYBC"}).flush()
        ),
    ]
    for write in writes:
        with pytest.raises(PermissionDeniedError, match=r"^AuditLog is append-only"):
            write()
    with pytest.raises(AlreadyExistsError):
        audit.insert({"id": saved.id})
    assert audit.count() == 5
    assert {change.op for change in audit.watch()} == {"create"}


def test_the_mode_binds_a_writer_without_the_schema_too(shop: Database) -> None:
    audit = shop.model("AuditLog")
    entry = audit.insert({"what": "login"})
    with pytest.raises(PermissionDeniedError, match="append-only"):
        shop["org/audit"].delete(entry.id)


def test_a_readonly_mode_binds_a_writer_without_the_schema_too(url: str) -> None:
    models = {"Feed": {"path": "@feed/(id:string)"}}
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": models}
    with wormdb.connect(url, schema=schema) as database:
        database.model("Feed").insert({"id": "a"})
    closed = {**schema, "models": {"Feed": {**models["Feed"], "mode": "readonly"}}}
    with wormdb.connect(url, schema=closed, apply=True) as database:
        for write in (database["feed"].insert, database["feed"].save):
            with pytest.raises(PermissionDeniedError, match="feed is read-only"):
                write({"id": "b"})
        assert database["feed"].count() == 1


def test_numbered_documents_can_be_appended(url: str) -> None:
    models = {"Event": {"path": "@events/(id:seq)", "mode": "append"}}
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": models}
    with wormdb.connect(url, schema=schema) as database:
        events = database.model("Event")
        assert events.insert_many([{}, {}]) == ["0000000001", "0000000002"]
        assert events.save({}).id == "0000000003"
        with pytest.raises(PermissionDeniedError, match="append-only"):
            events.delete("0000000001")


def test_a_collection_that_is_emptied_while_a_model_is_written_is_a_conflict(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer saw documents without a schema, so it brings none; now nobody has."""
    plain, customers = shop["org/customers"], shop.model("Customer")
    document = plain.insert({"anything": 1})
    known = customers._ledger.known

    def known_before() -> View:
        view = known()
        monkeypatch.undo()
        plain.delete(document)
        return view

    monkeypatch.setattr(customers._ledger, "known", known_before)
    with pytest.raises(ConflictError, match="it was emptied meanwhile"):
        customers.insert({"name": "Ada"})
    customers.insert({"name": "Ada"})
