"""Instances of classes: which of them remember what they were read as, and that all they hold is stored."""

from __future__ import annotations

import copy
import gc
import pickle  # noqa: TID251 - instances go to other processes by pickle; nothing is stored with it
import threading
import weakref
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

import wormdb
from wormdb.errors import ConflictError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.database import Database

ID = "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://") as database:
        yield database


@dataclass
class Person:
    name: str
    age: int = 0
    id: str = ""


@dataclass(frozen=True)
class Stone:
    name: str
    id: str = ""


@dataclass(slots=True)
class Slotted:
    name: str
    id: str = ""


class Model(BaseModel):
    name: str
    id: str = ""


class Ice(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str
    id: str = ""


class Struct(msgspec.Struct, dict=True):
    name: str
    id: str = ""


class Bare(msgspec.Struct):
    name: str
    id: str = ""


class Rigid(msgspec.Struct, frozen=True, dict=True):
    name: str
    id: str = ""


def renamed(instance: Any) -> Any:
    instance.name = "later"
    return instance


# --- what remembers ---

KEPT: list[tuple[type[Any], Callable[[Any], Any]]] = [
    (Person, lambda it: it),
    (Person, copy.copy),
    (Person, copy.deepcopy),
    (Person, lambda it: pickle.loads(pickle.dumps(it))),
    (Stone, copy.copy),
    (Stone, lambda it: pickle.loads(pickle.dumps(it))),
    (Model, copy.copy),
    (Model, copy.deepcopy),
    (Model, lambda it: it.model_copy()),
    (Model, lambda it: it.model_copy(deep=True)),
    (Model, lambda it: pickle.loads(pickle.dumps(it))),
    (Ice, lambda it: it.model_copy(update={"name": "later"})),
    (Struct, lambda it: it),
    (Rigid, lambda it: it),
]

FORGOTTEN: list[tuple[type[Any], Callable[[Any], Any]]] = [
    (Person, lambda it: replace(it, name="later")),
    (Person, lambda it: Person(**asdict(it))),
    (Stone, lambda it: replace(it, name="later")),
    (Model, lambda it: Model(**it.model_dump())),
    (Struct, copy.copy),
    (Struct, copy.deepcopy),
    (Struct, lambda it: pickle.loads(pickle.dumps(it))),
    (Struct, lambda it: msgspec.structs.replace(it, name="later")),
    (Rigid, lambda it: msgspec.structs.replace(it, name="later")),
]


@pytest.mark.parametrize("place", range(len(KEPT)))
def test_copies_that_remember_notice_a_conflict(db: Database, place: int) -> None:
    kind, duplicate = KEPT[place]
    things: Any = db.model(kind)
    saved = things.insert(kind(name="first"))
    copied = duplicate(things.find_by_id(saved.id))
    assert type(copied) is kind
    assert wormdb.rev_of(copied) == 1
    assert things.save(copied).name == copied.name
    second = duplicate(things.find_by_id(saved.id))
    things.update_one({"id": saved.id}, {"$set": {"name": "theirs"}})
    for call in (things.save, things.delete):
        with pytest.raises(ConflictError):
            call(second)
    assert things.find_by_id(saved.id).name == "theirs"


@pytest.mark.parametrize("place", range(len(FORGOTTEN)))
def test_copies_that_forget_hide_nothing(db: Database, place: int) -> None:
    kind, duplicate = FORGOTTEN[place]
    things: Any = db.model(kind)
    saved = things.insert(kind(name="first"))
    seen = things.find_by_id(saved.id)
    copied = duplicate(seen)
    assert wormdb.rev_of(copied) is None
    for save in (things.save, lambda it: things.batch().save(it).flush()):
        with pytest.raises(ConflictError, match=f"this {kind.__name__} was not read"):
            save(copied)
    for call in (things.delete, things.batch().update):
        with pytest.raises(InvalidRequestError, match="it was not read"):
            call(copied)
    assert things.find_by_id(saved.id) == saved
    assert things.save(copied, if_rev=wormdb.rev_of(seen)).name == copied.name
    things.replace_one({"id": saved.id}, copied)
    assert things.modify(saved.id, lambda _: duplicate(seen)).name == copied.name
    with pytest.raises(ConflictError):
        things.save(copied, if_rev=999)


@pytest.mark.parametrize("kind", [Slotted, Bare])
def test_a_class_without_a_dict_says_that_it_cannot_remember(db: Database, kind: Any) -> None:
    things: Any = db.model(kind)
    saved = things.insert(kind(name="first"))
    seen = things.find_by_id(saved.id)
    assert seen is not None
    with pytest.raises(InvalidRequestError, match="cannot remember"):
        wormdb.rev_of(seen)
    with pytest.raises(InvalidRequestError, match=f"a {kind.__name__} has no __dict__"):
        things.save(renamed(seen))
    assert things.find_by_id(saved.id).name == "first"
    assert things.modify(saved.id, renamed).name == "later"
    assert things.save(kind("new", ID)).id == ID, "what is new is saved"
    rev = wormdb.rev_of(db["slotted" if kind is Slotted else "bare"].find_by_id(saved.id))
    assert rev is not None
    assert things.save(kind("by revision", saved.id), if_rev=rev).name == "by revision"
    assert things.delete(saved.id) is True


@pytest.mark.parametrize("kind", [Person, Stone, Model, Ice, Struct, Rigid])
def test_the_memory_is_not_seen(db: Database, kind: Any) -> None:
    things: Any = db.model(kind)
    saved = things.insert(kind(name="first"))
    made = kind(name="first", id=saved.id)
    assert saved == made
    assert repr(saved) == repr(made)
    if kind in (Stone, Ice, Rigid):
        assert hash(saved) == hash(made)
    if issubclass(kind, BaseModel):
        assert saved.model_dump() == made.model_dump()
        assert saved.model_dump_json() == made.model_dump_json()
        assert dict(saved) == dict(made)
    elif issubclass(kind, msgspec.Struct):
        assert msgspec.json.encode(saved) == msgspec.json.encode(made)
    else:
        assert asdict(saved) == asdict(made)


def test_memory_goes_with_the_instance_and_nothing_else_keeps_it(db: Database) -> None:
    """There is no table of instances, so nothing leaks, and an address that is used again means nothing."""
    things = db.model(Person)
    saved = things.insert(Person("Ada"))
    gone = weakref.ref(saved)
    identity = saved.id
    del saved
    gc.collect()
    assert gone() is None
    for _ in range(50):
        seen = things.find_by_id(identity)
        del seen
        assert wormdb.rev_of(Person("Eve")) is None


def test_threads_that_save_their_own_copies_lose_nothing(db: Database) -> None:
    things = db.model(Person)
    identity = things.insert(Person("Ada")).id
    won = []

    def work() -> None:
        for _ in range(10):
            seen = things.find_by_id(identity)
            assert seen is not None
            seen.age += 1
            try:
                things.save(seen)
            except ConflictError:
                continue
            won.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = things.find_by_id(identity)
    assert found is not None
    assert found.age == len(won)


def test_an_instance_of_another_collection_is_inserted_or_refused(db: Database) -> None:
    with wormdb.connect("memory://") as elsewhere:
        seen = elsewhere.model(Person).insert(Person("Ada"))
    with pytest.raises(InvalidRequestError, match="it was read from"):
        db.model(Person).save(seen)
    assert db.model(Person).insert(seen).name == "Ada"


def test_an_instance_without_an_id_is_a_new_document_each_time(db: Database) -> None:
    things = db.model(Person)
    ada = Person("Ada")
    ids = {things.insert(ada).id, things.save(ada).id, *things.insert_many([ada, ada])}
    assert len(ids) == 4
    assert ada == Person("Ada"), "what is given is left alone"


def test_what_create_makes_is_saved_once(db: Database) -> None:
    for kind in (Person, Model, Struct, Slotted):
        things: Any = db.model(kind)
        made = things.create({"name": "Ada"})
        assert made.id
        assert things.save(made).id == made.id
        other: Any = kind(name="Eve", id=made.id)
        with pytest.raises((ConflictError, InvalidRequestError)):
            things.save(other)


def test_a_class_without_an_id_knows_its_document(db: Database) -> None:
    @dataclass
    class Loose:
        name: str

    things = db.model(Loose)
    saved = things.insert(Loose("Ada"))
    saved.name = "Countess"
    things.save(saved)
    assert list(things) == [Loose("Countess")]
    assert things.delete(saved) is True


def test_a_singleton_is_read_before_it_is_saved() -> None:
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {"Options": {"path": "#org/@options/[options].json"}},
    }

    @dataclass
    class Options:
        theme: str = "dark"

    with wormdb.connect("memory://", schema=schema) as database:
        options = database.model(Options)
        first = options.save(Options())
        with pytest.raises(ConflictError, match="was not read"):
            options.save(Options("light"))
        first.theme = "light"
        options.save(first)
        assert options.find_one() == Options("light")
