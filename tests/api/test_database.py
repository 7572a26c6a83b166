"""Opening, models, schemas, closing."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.faulty import faulty
from tests.api.shop import SHOP
from wormdb.errors import (
    ClosedError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SchemaError,
    SchemaMismatchError,
    UniqueViolationError,
)
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.testing.fault_store import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.database import Database
    from wormdb.storage.meter import MeteredRequest

PUBLISHED_SCHEMA = ".worm.schema.json"


def without(schema: dict[str, Any], model: str, **keys: Any) -> dict[str, Any]:
    """The schema with other keys in one model."""
    return {**schema, "models": {**schema["models"], model: {**schema["models"][model], **keys}}}


# --- opening ---


def test_connecting_costs_no_request_and_makes_nothing(url: str) -> None:
    with wormdb.connect(url, schema=SHOP, actor="ada", settings=Settings()) as database:
        database.model("Customer")
        _ = database["things"]
        assert database.cost().requests == 0
        assert repr(database) == f"Database({database.url!r})"
        assert [info for page in database.store.list() for info in page.objects] == []


def test_a_path_is_a_place_too(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path / "data") as database:
        database["things"].insert({"id": "a"})
    with wormdb.connect(str(tmp_path / "data")) as database:
        assert database["things"].count() == 1


@pytest.mark.parametrize("bad", [None, 5, "", "ftp://x", "s3://"])
def test_what_is_no_place_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidRequestError):
        wormdb.connect(bad)


@pytest.mark.parametrize("bad", [5, "", b"x", "\ud800"])
def test_an_actor_is_text(bad: Any) -> None:
    """Anything else would be written into the log, and no reader could read it."""
    with pytest.raises(InvalidRequestError, match="actor"):
        wormdb.connect("memory://", actor=bad)


def test_a_hook_hears_of_every_request(url: str) -> None:
    heard: list[MeteredRequest] = []
    with wormdb.connect(url, hook=heard.append) as database:
        database["things"].insert({"id": "a"})
        assert len(heard) == database.cost().requests
        assert "things/.worm.db/committed/00000000000000000001" in [
            request.key for request in heard if request.kind == "put"
        ]


# --- collections without a schema ---


@pytest.mark.parametrize(
    "name", ["", "/", "a/", "/a", "a//b", ".worm", "a/.hidden", "..", "a/../b", "a\\b", "a\nb", 5, None, ("a",), str]
)
def test_what_cannot_be_a_folder_is_no_collection(db: Database, name: Any) -> None:
    with pytest.raises(InvalidRequestError, match="collection"):
        db[name]
    assert db.cost().requests == 0


def test_a_name_has_a_bound(db: Database) -> None:
    with pytest.raises(LimitExceededError, match="collection"):
        db["x" * 300]
    with pytest.raises(LimitExceededError, match="collection"):
        db["/".join(["x" * 200] * 6)]


def test_collections_of_one_name_share_what_is_known(db: Database) -> None:
    db["things"].insert({"id": "a"})
    db["things"].count()  # a folder had no time before it was written to, so the root is asked once more
    before = db.cost().gets
    assert db["things"].count() == 1
    assert db.cost().gets == before + 1


# --- schemas ---


def test_a_schema_may_be_a_mapping_a_text_a_path_or_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SHOP))
    for schema in (SHOP, json.dumps(SHOP), path, str(path), load_schema(SHOP)):
        with wormdb.connect("memory://", schema=schema) as database:
            assert database.model("Customer").prefix == "org/customers/"


def test_every_mistake_of_a_schema_is_told_at_once(tmp_path: Path) -> None:
    wrong = without(SHOP, "Customer", path="customers", mode="rw", indexs={})
    with pytest.raises(SchemaError) as caught:
        wormdb.connect("memory://", schema=wrong)
    assert len([problem for problem in caught.value.problems if problem.severity == "error"]) >= 2
    with pytest.raises(InvalidRequestError, match="No such file"):
        wormdb.connect("memory://", schema=tmp_path / "none.json")
    for bad in (5, ["x"], b"\xff"):
        with pytest.raises(InvalidRequestError):
            wormdb.connect("memory://", schema=bad)  # type: ignore[arg-type] # on purpose


def test_an_unknown_model_is_told_with_the_one_that_was_meant(url: str) -> None:
    meant = pytest.raises(NotFoundError, match=r"Unknown model: Custmer \(did you mean 'Customer'")
    with wormdb.connect(url, schema=SHOP) as database, meant:
        database.model("Custmer")
    with wormdb.connect(url) as database, pytest.raises(NotFoundError, match="has no published schema"):
        database.model("Customer")


def test_the_first_write_publishes_the_schema_for_those_who_bring_none(url: str) -> None:
    with wormdb.connect(url, schema=SHOP) as database:
        database.model("Customer").insert({"name": "Ada", "email": "ada@x"})
    with wormdb.connect(url) as database:
        assert database.schema is not None
        customers = database.model("Customer")
        assert [document["name"] for document in customers] == ["Ada"]
        with pytest.raises(UniqueViolationError):
            customers.insert({"name": "Eve", "email": "ada@x"})


def test_a_schema_that_cannot_be_published_does_not_stop_the_write() -> None:
    """Somebody may have the right to write into the collection only."""
    database, _ = faulty({})
    database._declared.schema = load_schema(SHOP)
    real = database._store.put

    def deny(key: str, *arguments: Any, **options: Any) -> Any:
        if key == PUBLISHED_SCHEMA:
            raise PermissionDeniedError(f"put {key}")
        return real(key, *arguments, **options)

    database._store.put = deny  # type: ignore[method-assign] # a store with rights on one folder
    assert database.model("Customer").insert({"name": "Ada"}).rev == 1


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE_503, Fault.ANSWER_LOST, Fault.LANDS_LATE])
def test_a_schema_whose_publishing_fails_fails_before_anything_else_is_written(fault: Fault) -> None:
    clean, trace = faulty({})
    clean._declared.schema = load_schema(SHOP)
    clean.model("Customer").insert({"name": "Ada"})
    publishing = next(each.number for each in trace.trace if (each.verb, each.key) == ("put", PUBLISHED_SCHEMA))
    database, _ = faulty({publishing: fault}, commit_seconds=0)
    database._declared.schema = load_schema(SHOP)
    customers = database.model("Customer")
    with pytest.raises(wormdb.UnavailableError):
        customers.insert({"name": "Ada"})
    assert customers.count() == 0
    assert customers.insert({"name": "Ada"}).rev == 1


def test_another_definition_than_the_databases_is_a_mismatch_with_the_difference(url: str) -> None:
    with wormdb.connect(url, schema=SHOP) as database:
        database.model("Customer").insert({"name": "Ada"})
    changed = without(SHOP, "Customer", indexes={})
    with wormdb.connect(url, schema=changed) as database:
        customers = database.model("Customer")
        uses: list[Any] = [
            customers.count,
            lambda: customers.find_by_id("6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"),
            lambda: list(customers),
            lambda: customers.insert({"name": "Eve"}),
            lambda: customers.batch().insert({"name": "Eve"}).flush(),
        ]
        for use in uses:
            with pytest.raises(SchemaMismatchError, match="worm schema apply") as caught:
                use()
            assert "indexes" in str(caught.value)
        assert database.model("OrgSettings").find_by_id(None) is None, "other models are not concerned"
    with wormdb.connect(url, schema=SHOP) as database:
        assert database.model("Customer").count() == 1


def test_a_model_cannot_take_over_a_collection_without_a_schema(url: str) -> None:
    with wormdb.connect(url, schema=SHOP) as database:
        database["org/customers"].insert({"anything": 1})
        with pytest.raises(SchemaMismatchError, match="made without a schema"):
            database.model("Customer").count()
        with pytest.raises(SchemaMismatchError):
            database.model("Customer").insert({"name": "Ada"})


def test_a_model_takes_over_a_collection_that_was_emptied(url: str) -> None:
    with wormdb.connect(url, schema=SHOP) as database:
        document = database["org/customers"].insert({"anything": 1})
        database["org/customers"].delete(document)
        database.model("Customer").insert({"name": "Ada", "email": "x"})
        with pytest.raises(UniqueViolationError):
            database.model("Customer").insert({"name": "Eve", "email": "x"})


def test_a_mismatch_is_not_told_from_what_was_known_long_ago(url: str) -> None:
    changed = without(SHOP, "Customer", indexes={})
    with wormdb.connect(url, schema=changed) as late, wormdb.connect(url, schema=SHOP) as first:
        first.model("Customer").insert({"name": "Ada"})
        with pytest.raises(SchemaMismatchError):
            late.model("Customer").insert({"name": "Eve"})
        late.apply_schema()
        stale = first.model("Customer")
        with pytest.raises(SchemaMismatchError):
            stale.insert({"name": "Bob"})
        assert late.model("Customer").insert({"name": "Eve"}).rev > 0


def test_first_writers_of_one_model_agree(url: str) -> None:
    """They race for the first entry, each with the definition; one of them brings it."""
    databases = [wormdb.connect(url, schema=SHOP) for _ in range(4)]
    errors: list[Exception] = []

    def write(database: Database, number: int) -> None:
        try:
            database.model("Customer").insert({"name": f"{number}", "email": "same"})
        except UniqueViolationError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=each) for each in zip(databases, range(4), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [database.model("Customer").count() for database in databases] == [1] * 4
    assert len(errors) == 3
    for database in databases:
        database.close()


# --- closing ---


def test_a_closed_database_says_so(url: str) -> None:
    database = wormdb.connect(url)
    things = database["things"]
    things.insert({"id": "a"})
    things.insert({"id": "b"})
    database.close()
    database.close()
    uses: list[Any] = [
        lambda: things.find_by_id("a"),
        lambda: things.exists("a"),
        things.count,
        lambda: list(things),
        lambda: things.insert({}),
        lambda: things.save({"id": "a"}),
        lambda: things.delete("a"),
        lambda: things.modify("a", lambda document: document),
        lambda: things.insert_many([{}]),
        lambda: things.batch().insert({}).flush(),
        lambda: list(things.watch()),
        things.forward,
    ]
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    assert database.cost().requests > 0, "what it cost can still be asked"


def test_a_block_closes_the_database_also_when_it_raised(url: str) -> None:
    with pytest.raises(ZeroDivisionError), wormdb.connect(url) as database:
        raise ZeroDivisionError
    with pytest.raises(ClosedError):
        database["things"].count()


def test_what_was_written_is_there_for_whoever_opens_it_next(url: str) -> None:
    for number in range(5):
        with wormdb.connect(url) as database:
            things = database["things"]
            assert things.count() == number
            things.insert({"id": number})
            if number % 2:
                things.forward()


def test_the_tail_is_brought_forward_as_the_settings_say(url: str) -> None:
    with wormdb.connect(url, settings=Settings(forward_entries=3, forward_interval_ms=0)) as database:
        for number in range(7):
            database["things"].insert({"id": number})
    with wormdb.connect(url) as database:
        assert database["things"].count() == 7
        assert database.cost().gets <= 2 + 3


def test_changes_by_threads_of_one_process_are_all_there(url: str) -> None:
    with wormdb.connect(url) as database:
        things = database["things"]
        things.insert({"id": "shared", "n": 0})

        def work(name: int) -> None:
            for number in range(5):
                things.insert({"id": f"{name}-{number}"})
                things.modify("shared", lambda document: document | {"n": document["n"] + 1})

        threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert things.count() == 31
        shared = things.find_by_id("shared")
        assert shared is not None
        assert (shared["n"], shared.seq) == (30, 31)
