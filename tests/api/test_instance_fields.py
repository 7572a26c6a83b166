"""Instances of classes: all that they hold is stored, and what their class does not have stays as it is."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from datetime import datetime  # noqa: TC003 - annotations are resolved at run time
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, RootModel, computed_field

import wormdb
from wormdb.api.document import merge_changes
from wormdb.errors import InvalidRequestError, SchemaError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.database import Database

ID = "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://") as database:
        yield database


# --- what is stored ---


class Part(BaseModel):
    city: str = ""


class LargePart(Part):
    street: str = ""


class Names(RootModel[list[str]]):
    pass


class Rich(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = ""
    secret: str = Field("nothing", exclude=True)
    plain_alias: int = Field(0, alias="plainAlias")
    read_by: int = Field(0, validation_alias="readBy")
    written_as: int = Field(0, serialization_alias="writtenAs")
    part: Part | None = None
    names: Names = Names([])
    stamp: float = Field(default_factory=lambda: 1.5)
    _hidden: int = PrivateAttr(0)
    kind: ClassVar[str] = "rich"

    @computed_field  # type: ignore[prop-decorator] # so pydantic's documentation says
    @property
    def double(self) -> int:
        return 2 * self.plain_alias


def test_every_field_of_a_pydantic_class_is_stored(db: Database) -> None:
    things = db.model(Rich)
    given = Rich(secret="s", plainAlias=1, readBy=2, written_as=3, part=LargePart(city="a", street="b"))  # type: ignore[call-arg] # the name that it is read by
    given.names.root.append("n")
    saved = things.insert(given)
    stored = db["rich"].find_by_id(saved.id)
    assert stored is not None
    assert {name: stored[name] for name in stored if name not in {"id", "createdAt", "updatedAt"}} == {
        "secret": "s",
        "plainAlias": 1,
        "readBy": 2,
        "written_as": 3,
        "part": {"city": "a", "street": "b"},
        "names": ["n"],
        "stamp": 1.5,
    }
    assert (saved.secret, saved.plain_alias, saved.read_by, saved.written_as) == ("s", 1, 2, 3)
    saved.secret = "t"
    things.save(saved)
    stored = db["rich"].find_by_id(saved.id)
    assert stored is not None
    assert stored["secret"] == "t"
    assert stored["part"] == {"city": "a", "street": "b"}, "the field of the subclass stays"


def test_a_pydantic_class_that_is_read_by_several_names_is_refused(db: Database) -> None:
    class Several(BaseModel):
        id: str = ""
        name: str = Field("", validation_alias=AliasChoices("a", "b"))

    class Root(RootModel[list[int]]):
        pass

    with pytest.raises(SchemaError, match="give it one alias"):
        db.model(Several)
    with pytest.raises(InvalidRequestError):
        db.model(Root)


def test_what_a_class_keeps_beside_its_fields_is_stored(db: Database) -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        id: str = ""

    things = db.model(Open)
    saved = things.insert(Open(colour="red", size=1))  # type: ignore[call-arg] # any name is allowed
    found: Any = things.find_by_id(saved.id)
    assert (found.colour, found.size) == ("red", 1)
    del found.colour
    things.save(found)
    again: Any = things.find_by_id(saved.id)
    assert not hasattr(again, "colour")
    assert again.size == 1


def test_tags_of_structs_are_stored(db: Database) -> None:
    things = db.model(Owner)
    saved = things.insert(Owner([Cat("Tom"), Dog("Rex", 3)]))
    found = things.find_by_id(saved.id)
    assert found is not None
    assert found.pets == [Cat("Tom"), Dog("Rex", 3)]


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str
    age: int = 0


class Owner(msgspec.Struct, dict=True):
    pets: list[Cat | Dog]
    id: str = ""


class Strict(msgspec.Struct, dict=True, forbid_unknown_fields=True):
    name: str
    id: str = ""


@dataclass
class Odd:
    given: str = ""
    id: str = ""
    later: int = field(default=3, init=False)
    made: list[int] = field(default_factory=lambda: [1, 2])
    start: InitVar[int] = 7

    def __post_init__(self, start: int) -> None:
        self.later = start


def test_a_class_that_forbids_other_names_takes_the_times_of_a_model(db: Database) -> None:
    things = db.model(Strict)
    assert things.insert(Strict("a")).name == "a"
    assert next(iter(things)).name == "a"


def test_a_class_that_needs_more_than_its_fields_is_refused_before_anything_is_written(db: Database) -> None:
    with pytest.raises(SchemaError, match="class Odd cannot be a model: dataclasses with `InitVar`"):
        db.model(Odd)
    assert db["odd"].count() == 0


@dataclass
class Post:
    id: str = ""
    n: int = 0
    later: int = field(default=3, init=False)


def test_fields_that_are_not_given_to_the_constructor_are_stored(db: Database) -> None:
    things = db.model(Post)
    post = Post(n=1)
    post.later = 9
    saved = things.insert(post)
    assert saved.later == 9
    assert next(iter(db["post"]))["later"] == 9


@dataclass
class Loud:
    age: Annotated[int, msgspec.Meta(ge=0)] = 0
    pair: tuple[int, str] = (1, "a")
    id: str = ""


class Positive(BaseModel):
    age: int = Field(0, ge=0)
    id: str = ""


UNFIT: list[Callable[[Any, dict[str, Any], Any], Any]] = [
    lambda things, bad, _: things.insert(bad),
    lambda things, bad, _: things.insert_many([bad, {}]),
    lambda things, bad, _: things.save({"id": ID, **bad}),
    lambda things, bad, _: things.batch().insert(bad),
    lambda things, _, unfit: things.save(unfit),
    lambda things, bad, unfit: things.update_one({"id": unfit.id}, {"$set": bad}),
    lambda things, bad, unfit: things.replace_one({"id": unfit.id}, bad),
    lambda things, bad, _: things.update_one({"id": ID}, {"$set": bad}, upsert=True),
]


def test_what_the_class_could_not_read_is_not_written(db: Database) -> None:
    """A value that is of the declared type, and that the class would not take back."""
    cases: list[tuple[type[Any], dict[str, Any]]] = [
        (Loud, {"age": -1}),
        (Loud, {"pair": [1]}),
        (Positive, {"age": -1}),
    ]
    for kind, bad in cases:
        things: Any = db.model(kind)
        good = things.insert(kind())
        unfit = things.find_by_id(good.id)
        for name, value in bad.items():
            setattr(unfit, name, value)
        before = len(list(things.watch()))
        for write in UNFIT:
            with pytest.raises(ValidationError):
                write(things, bad, unfit)
        assert len(list(things.watch())) == before
        assert things.find_by_id(good.id) == good


def test_an_old_version_that_the_class_could_not_read_does_not_come_back() -> None:
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {"Positive": {"path": "@positive/(id:string)", "softDelete": True, "snapshots": {"enabled": True}}},
    }
    with wormdb.connect("memory://", schema=schema) as database:
        plain, typed = database.model("Positive"), database.model(Positive)
        plain.insert({"id": "a", "age": -1})
        shot = plain.snapshot("a")
        plain.save({"id": "a", "age": 1})
        plain.insert({"id": "b", "age": -1})
        plain.delete("b")
        before = len(list(plain.watch()))
        with pytest.raises(ValidationError):
            typed.rollback("a", to_seq=1)
        with pytest.raises(ValidationError):
            typed.restore_snapshot("a", shot.ts)
        with pytest.raises(ValidationError):
            typed.restore("b")
        assert len(list(plain.watch())) == before
        assert typed.find_by_id("a") == Positive(age=1, id="a")


def test_an_update_adds_nothing_that_it_was_not_asked_for(db: Database) -> None:
    holders = db.model(Holder)
    holders.insert(Holder())
    db["holder"].insert({"id": ID, "n": 1})
    holders.update_one({"id": ID}, {"$set": {"n": 2}})
    found = db["holder"].find_by_id(ID)
    assert found is not None
    assert "made" not in found


@dataclass
class Holder:
    id: str = ""
    n: int = 0
    made: list[int] = field(default_factory=lambda: [1, 2])


def test_what_an_instance_has_by_default_is_stored_once(db: Database) -> None:
    """A default that is made anew each time would differ whenever the document is read."""
    count = iter(range(100))

    @dataclass
    class Ticket:
        id: str = ""
        number: int = field(default_factory=lambda: next(count))

    things = db.model(Ticket)
    ids = [things.insert({}).id, *things.insert_many([{}, {}, Ticket()]), things.save({"id": ID}).id]
    first = [things.find_by_id(each) for each in ids]
    assert first == [things.find_by_id(each) for each in ids]
    assert len({each.number for each in first if each is not None}) == len(ids)


# --- fields that the class does not have ---


@dataclass
class Line:
    sku: str
    amount: int = 1


@dataclass
class Place:
    city: str = ""
    inner: dict[str, Any] = field(default_factory=dict)


@dataclass
class Order:
    name: str = ""
    place: Place | None = None
    lines: list[Line] = field(default_factory=list)
    when: datetime | None = None
    score: float = 0.0
    id: str = ""


ORDER: dict[str, Any] = {
    "id": ID,
    "name": "a",
    "colour": "red",
    "place": {"city": "Bonn", "lat": 50.7, "inner": {"x": 1}},
    "lines": [{"sku": "p", "amount": 1, "note": "n1"}, {"sku": "q", "amount": 2, "note": "n2"}],
    "score": 2,
}


def edited(edit: Callable[[Order], Any]) -> dict[str, Any]:
    """What is stored after an edit by a class that has not all fields."""
    with wormdb.connect("memory://") as database:
        raw, orders = database["order"], database.model(Order)
        orders.insert(ORDER)
        order = orders.find_by_id(ID)
        assert order is not None
        edit(order)
        orders.save(order)
        found = raw.find_by_id(ID)
        assert found is not None
        return {name: value for name, value in found.items() if name not in {"createdAt", "updatedAt"}}


def test_fields_that_a_class_does_not_have_stay() -> None:
    assert edited(lambda order: None) == ORDER
    assert edited(lambda order: setattr(order, "name", "b")) == {**ORDER, "name": "b", "when": None}
    moved = edited(lambda order: setattr(order.place, "city", "Ulm"))
    assert moved["place"] == {"city": "Ulm", "lat": 50.7, "inner": {"x": 1}}
    assert (moved["colour"], moved["score"]) == ("red", 2)
    emptied = edited(lambda order: setattr(order, "place", None))
    assert emptied["place"] is None
    cleared = edited(lambda order: order.place.inner.clear() if order.place else None)
    assert cleared["place"] == {"city": "Bonn", "lat": 50.7, "inner": {}}


def test_elements_of_arrays_keep_what_a_class_does_not_have() -> None:
    assert edited(lambda order: setattr(order.lines[0], "amount", 5))["lines"] == [
        {"sku": "p", "amount": 5, "note": "n1"},
        {"sku": "q", "amount": 2, "note": "n2"},
    ]
    assert edited(lambda order: order.lines.reverse())["lines"] == ORDER["lines"][::-1]
    assert edited(lambda order: order.lines.pop(0))["lines"] == ORDER["lines"][1:]
    assert edited(lambda order: order.lines.insert(0, Line("r")))["lines"] == [
        {"sku": "r", "amount": 1},
        *ORDER["lines"],
    ]


def test_the_past_of_an_instance_keeps_them_too(db: Database) -> None:
    orders = db.model(Order)
    orders.insert(ORDER)
    orders.modify(ID, lambda order: setattr(order, "name", "b"))
    old = orders.find_by_id(ID, as_of=1)
    assert old is not None
    orders.save(old)
    found = db["order"].find_by_id(ID)
    assert found is not None
    assert (found["name"], found["colour"]) == ("a", "red")


VALUES = st.recursive(
    st.integers(0, 3) | st.booleans() | st.none() | st.sampled_from(["a", "b"]) | st.sampled_from([0.0, 1.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def narrowed(value: Any) -> Any:
    """What a class shows that does not know the field `c`, whatever holds it."""
    if isinstance(value, dict):
        return {name: narrowed(each) for name, each in value.items() if name != "c"}
    return [narrowed(each) for each in value] if isinstance(value, list) else value


@given(stored=st.dictionaries(st.sampled_from("abc"), VALUES), given=st.dictionaries(st.sampled_from("ab"), VALUES))
def test_what_is_shown_of_a_replacement_is_what_was_given(stored: dict[str, Any], given: dict[str, Any]) -> None:
    seen, wanted = narrowed(stored), narrowed(given)
    result = merge_changes(stored, seen, wanted)
    assert repr(_sorted(narrowed(result))) == repr(_sorted(wanted)), (
        "nothing that was given is lost, nothing else shown"
    )
    assert ("c" in stored) == ("c" in result)
    assert merge_changes(stored, seen, seen) is stored


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
