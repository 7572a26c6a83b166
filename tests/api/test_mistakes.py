"""What people get wrong when they begin: each mistake is one typed error with its fix, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.system.clock import SystemChance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def schema(*names: str) -> dict[str, Any]:
    models = {
        name: {
            "path": f"#shop/@{name.lower()}s/(id:string)",
            "fields": {"name": {"type": "string"}},
            "indexes": {"byName": {"field": "name", "unique": True}},
        }
        for name in names
    }
    return {"schemaVersion": "1.0", "sourceOfTruth": "remote", "models": models}


@pytest.fixture
def url() -> str:
    return f"memory://{SystemChance().token(8).hex()}"


@pytest.fixture
def db(url: str) -> Iterator[wormdb.Database]:
    with wormdb.connect(url) as database:
        yield database


@pytest.mark.parametrize("place", [None, 5, b"x", ["a"]])
def test_only_text_or_a_path_is_a_place(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """connect(os.environ.get("DATABASE")) must not make a folder called None."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wormdb.InvalidRequestError, match="name a folder"):
        wormdb.connect(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"schema": 5},
        {"schema": ""},
        {"schema": "nowhere.json"},
        {"schema": "nul\0"},
        {"schema": {}},
        {"settings": {"commit_seconds": 1}},
        {"hook": 5},
        {"actor": ""},
        {"apply": True},
    ],
)
def test_wrong_options_are_refused_before_anything_is_opened(options: dict[str, Any], url: str) -> None:
    with pytest.raises(wormdb.InvalidRequestError) as caught:
        wormdb.connect(url, **options)
    assert caught.value.fix


def test_in_asks_for_an_id(db: wormdb.Database) -> None:
    notes = db["notes"]
    notes.insert({"id": "a"})
    assert "a" in notes
    assert "b" not in notes
    with pytest.raises(wormdb.InvalidRequestError, match="cannot be an id"):
        assert {"id": "a"} in notes


def test_insert_many_needs_many(db: wormdb.Database) -> None:
    nothing: Any = None
    with pytest.raises(wormdb.InvalidRequestError, match="give a list"):
        db["notes"].insert_many(nothing)


@pytest.mark.parametrize("mark", [1.5, None, True, -1, "x", "1.2.3"])
def test_only_numbers_and_marks_resume_a_feed(mark: Any, db: wormdb.Database) -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="resume"):
        db["notes"].watch(mark)


def test_what_people_print_says_what_it_is(url: str, db: wormdb.Database) -> None:
    assert repr(db) == f"Database('{url}')"
    assert repr(db["notes"]) == f"Collection('{url}/notes/')"


def test_a_name_that_is_too_long_is_to_be_shortened(db: wormdb.Database) -> None:
    with pytest.raises(wormdb.LimitExceededError, match="shorter"):
        db["n" * 300].count()


def test_applying_less_says_which_models_go(url: str) -> None:
    with wormdb.connect(url, schema=schema("Customer", "Order"), apply=True) as db:
        db.model("Order").insert({"id": "1"})
    with wormdb.connect(url, schema=schema("Customer")) as db:
        changes = db.schema_changes()
        assert {name: [change.kind for change in found] for name, found in changes.items()} == {"Order": ["removed"]}
        assert db.apply_schema() == changes
        assert db.apply_schema() == {}
        assert db["shop/orders"].count() == 1


def test_applying_replaces_a_published_schema_that_nobody_can_read(url: str) -> None:
    with wormdb.connect(url, schema=schema("Customer")) as db:
        db.store.put(".worm.schema.json", b"{")
        db.apply_schema()
    with wormdb.connect(url) as db:
        assert db.model("Customer").count() == 0


@dataclass
class Customer:
    name: str
    id: str = ""


@pytest.mark.parametrize("given", [True, False], ids=["given", "published"])
def test_a_class_with_the_name_of_a_model_is_a_view_of_it(given: bool, url: str) -> None:
    """Two collections of one name, one with and one without the unique key, would be a trap."""
    with wormdb.connect(url, schema=schema("Customer"), apply=True) as db:
        db.model("Customer").insert({"id": "a", "name": "Ada"})
    with wormdb.connect(url, schema=schema("Customer") if given else None) as db:
        customers = db.model(Customer)
        assert customers.prefix == "shop/customers/"
        assert customers.find_by_id("a") == Customer("Ada", "a")
        with pytest.raises(wormdb.UniqueViolationError):
            customers.insert(Customer("Ada", "b"))


def test_a_class_is_looked_up_once(db: wormdb.Database) -> None:
    first = db.model(Customer)
    assert first.prefix == "customer/"
    asked = db.cost().gets
    assert db.model(Customer).prefix == "customer/"
    assert db.cost().gets == asked


def test_the_first_write_of_a_new_model_publishes_it_beside_the_others(url: str) -> None:
    def schema(*names: str) -> dict[str, Any]:
        models = {name: {"path": f"@{name.lower()}/(id:string)"} for name in names}
        return {"schemaVersion": "1.0", "sourceOfTruth": "remote", "models": models}

    with wormdb.connect(url, schema=schema("One")) as database:
        database.model("One").insert({"id": "a"})
    with wormdb.connect(url, schema=schema("Two")) as database:
        database.model("Two").insert({"id": "b"})
    with wormdb.connect(url) as database:
        assert (database.model("One").count(), database.model("Two").count()) == (1, 1)
