"""Models that are classes: what is read are their instances, and types know it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, assert_type
from uuid import UUID

import msgspec
import pytest

import wormdb
from wormdb.api.document import Document
from wormdb.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, ValidationError

if TYPE_CHECKING:
    from wormdb.api.database import Database


@dataclass
class Person:
    """A model that is a dataclass."""

    name: str
    age: int = 0
    tags: list[str] = field(default_factory=list)
    id: str = ""


class Movie(TypedDict, total=False):
    """A model that is a TypedDict."""

    id: str
    title: str
    year: int


class Book(msgspec.Struct, dict=True):
    """A model that is a Struct."""

    title: str
    id: str = ""
    pages: int | None = None


def test_reads_of_a_dataclass_are_its_instances(db: Database) -> None:
    people = db.model(Person)
    assert people.prefix == "person/"
    ada = people.insert(Person("Ada", age=36))
    assert_type(ada, Person)
    assert isinstance(ada, Person)
    assert str(UUID(ada.id)) == ada.id
    found = people.find_by_id(ada.id)
    assert_type(found, Person | None)
    assert found == ada == Person("Ada", 36, [], ada.id)
    assert list(people) == [ada]
    ada.age = 37
    assert people.save(ada) == ada
    assert people.modify(ada.id, lambda person: Person(person.name, person.age + 1, id=person.id)).age == 38

    def rename(person: Person) -> None:
        person.name = "Countess"

    assert people.modify(ada.id, rename).name == "Countess"
    assert people.modify(ada.id, rename).name == "Countess", "no change, no write"
    assert len(list(people.watch())) == 4
    assert people.count() == 1
    assert people.delete(people.find_by_id(ada.id)) is True
    assert people.count() == 0


def test_the_time_of_creation_survives_a_class_that_does_not_have_it(db: Database) -> None:
    people = db.model(Person)
    ada = people.insert(Person("Ada"))
    people.modify(ada.id, lambda person: Person("Countess", id=person.id))
    first, second = (change.after for change in people.watch())
    assert first is not None
    assert second is not None
    assert second["createdAt"] == first["createdAt"]


def test_a_dataclass_can_be_created_inserted_many_times_and_batched(db: Database) -> None:
    people = db.model(Person)
    created = people.create({"name": "Ada"}, age=1)
    assert isinstance(created, Person)
    assert people.insert(created).id == created.id
    with pytest.raises(AlreadyExistsError):
        people.insert(created)
    ids = people.insert_many([Person("Eve"), {"name": "Bob"}])
    with people.batch() as batch:
        batch.insert(Person("Joe"))
        batch.update({"id": ids[0], "name": "Eve", "age": 9})
        batch.delete(created)
    assert sorted((person.name, person.age) for person in people) == [("Bob", 0), ("Eve", 9), ("Joe", 0)]


@pytest.mark.parametrize("bad", [5, "Ada", None, Book("x"), Person, ["x"]])
def test_what_is_no_instance_is_refused(db: Database, bad: Any) -> None:
    people = db.model(Person)
    before = db.cost().requests
    for call in (people.insert, people.save, people.batch().insert):
        with pytest.raises(InvalidRequestError, match="neither a Person nor a mapping"):
            call(bad)
    assert db.cost().requests == before


def test_an_instance_whose_values_do_not_fit_is_refused(db: Database) -> None:
    people = db.model(Person)
    with pytest.raises(ValidationError):
        people.insert(Person(name=5))  # type: ignore[arg-type] # on purpose
    with pytest.raises(ValidationError):
        people.insert({"age": 1})
    with pytest.raises(InvalidRequestError):
        people.delete(Person("nobody"))


def test_a_typed_dict_is_a_document_too(db: Database) -> None:
    movies = db.model(Movie)
    saved = movies.insert({"title": "Metropolis", "year": 1927})
    assert_type(saved, Movie)
    assert isinstance(saved, Document)
    assert saved["title"] == "Metropolis"
    saved["year"] = 1928
    movies.save(saved)
    assert [movie["year"] for movie in movies] == [1928]
    with pytest.raises(ValidationError):
        movies.insert({"title": 5})


def test_a_struct_is_a_model_too(db: Database) -> None:
    books = db.model(Book)
    saved = books.insert(Book("Notes"))
    assert_type(saved, Book)
    assert saved == Book("Notes", saved.id)
    saved.pages = 66
    books.save(saved)
    assert list(books) == [Book("Notes", saved.id, 66)]


def test_a_class_that_is_no_model_is_refused(db: Database) -> None:
    class Plain:
        """Has no fields."""

    every: list[Any] = [Plain, int, 5, None]
    for bad in every:
        with pytest.raises(InvalidRequestError):
            db.model(bad)
    assert db.cost().requests == 0


def test_a_class_and_a_name_of_one_model_share_the_collection(url: str) -> None:
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Person": {"path": "@person/(id:uuid)"}}}
    with wormdb.connect(url, schema=schema) as database:
        plain, typed = database.model("Person"), database.model(Person)
        assert plain.prefix == typed.prefix
        saved = plain.insert({"name": "Ada"})
        assert typed.find_by_id(saved.id) == Person("Ada", id=saved.id)


def test_reading_what_does_not_fit_the_class_says_which_document(url: str) -> None:
    with wormdb.connect(url) as database:
        database.model(Person).insert(Person("Ada"))

    @dataclass
    class Other:
        """Has a field that was never stored."""

        surname: str
        id: str = ""

    Other.__name__ = "Person"
    with wormdb.connect(url) as database, pytest.raises(InvalidRequestError):
        list(database.model(Other))


def test_modify_of_what_is_not_there(db: Database) -> None:
    with pytest.raises(NotFoundError):
        db.model(Person).modify("6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28", lambda person: person)
