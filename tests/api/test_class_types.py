"""Types that JSON does not have in classes of every kind: what an instance holds comes back equal."""

from __future__ import annotations

import re
import sys
from collections import deque
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Interface
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64Str,
    BaseModel,
    ByteSize,
    ConfigDict,
    EmailStr,
    HttpUrl,
    Json,
    NaiveDatetime,
    RootModel,
    SecretBytes,
    SecretStr,
    create_model,
    field_serializer,
    field_validator,
)
from pydantic_core import core_schema

import wormdb

if TYPE_CHECKING:
    from collections.abc import Callable

MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0, fold=0))
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = st.text("abcxyz-_", min_size=1, max_size=6)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Permission(Flag):
    READ = 1
    WRITE = 2


class Shade:
    """A type of another package: it tells pydantic how it is read and written, and no JSON schema."""

    def __init__(self, red: int) -> None:
        self.red = red

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shade) and self.red == other.red

    __hash__ = None  # type: ignore[assignment] # values are compared only

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: Any) -> Any:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Shade) else Shade(int(str(value).removeprefix("#"), 16)),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda shade: f"#{shade.red:02x}"),
        )


SHARED: dict[Any, st.SearchStrategy[Any]] = {
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    tuple[int, str]: st.tuples(st.integers(0, 9), TEXTS),
    list[UUID]: st.lists(st.uuids(), max_size=3),
    dict[str, Decimal]: st.dictionaries(NAMES, st.decimals(0, 9, places=2), max_size=3),
    date: st.dates(),
    time: st.times(timezones=st.none() | ZONES).map(lambda moment: moment.replace(fold=0)),
    timedelta: st.timedeltas(),
    datetime: MOMENTS,
    UUID: st.uuids(),
    IPv4Address: st.ip_addresses(v=4),
    IPv6Address: st.ip_addresses(v=6),
    IPv4Network: st.ip_addresses(v=4).map(lambda address: IPv4Network(f"{address}/32")),
    IPv6Interface: st.ip_addresses(v=6).map(lambda address: IPv6Interface(f"{address}/64")),
    Path: st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: Path(*parts)),
    PurePosixPath: st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: PurePosixPath("/", *parts)),
    set[int]: st.sets(st.integers(-(2**63), 2**63 - 1), max_size=5),
    set[date]: st.sets(st.dates(), max_size=4),
    frozenset[str]: st.frozensets(TEXTS, max_size=5),
    list[timedelta]: st.lists(st.timedeltas(), max_size=3),
    dict[str, set[int]]: st.dictionaries(NAMES, st.sets(st.integers(0, 9), max_size=3), max_size=3),
    str: TEXTS,
    bytes: st.binary(max_size=8),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
}
URLS = NAMES.map(lambda name: f"https://example.com/{name}?q={name}")
PYDANTIC: dict[Any, st.SearchStrategy[Any]] = {
    EmailStr: st.text("abc", min_size=1, max_size=5).map(lambda name: f"{name}@example.com"),
    HttpUrl: URLS.map(HttpUrl),
    AnyUrl: URLS.map(AnyUrl),
    list[HttpUrl]: st.lists(URLS.map(HttpUrl), max_size=3),
    AwareDatetime: MOMENTS,
    NaiveDatetime: st.datetimes().map(lambda moment: moment.replace(fold=0)),
    ByteSize: st.integers(0, 2**40).map(ByteSize),
    Json[list[int]]: st.lists(st.integers(0, 9), max_size=3),
    re.Pattern[str]: st.sampled_from(["a+", "[a-z]{2}"]).map(re.compile),
    dict[int, str]: st.dictionaries(st.integers(-9, 9), TEXTS, max_size=3),
    deque[int]: st.lists(st.integers(0, 9), max_size=3).map(deque),
    complex: st.complex_numbers(allow_nan=False, allow_infinity=False),
    Fraction: st.fractions(),
    Permission: st.sampled_from([Permission.READ, Permission.WRITE, Permission.READ | Permission.WRITE, Permission(0)]),
    list[Permission]: st.lists(st.just(Permission.READ | Permission.WRITE), max_size=2),
    Shade: st.integers(0, 255).map(Shade),
    list[Shade]: st.lists(st.integers(0, 255).map(Shade), max_size=2),
}


def values_of(types: dict[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, tuple[Any, Any]]]:
    """Fields by name: the annotation, sometimes `… | None`, and a value of it."""

    def field_of(kind: Any) -> st.SearchStrategy[tuple[Any, Any]]:
        return types[kind].map(lambda value: (kind, value)) | (st.none() | types[kind]).map(
            lambda value: (kind | None, value)
        )

    fields = st.sampled_from(list(types)).flatmap(field_of)
    return st.dictionaries(st.sampled_from([f"f{n}" for n in range(6)]), fields, min_size=1, max_size=6)


def assert_returns(cls: Any, values: dict[str, Any]) -> None:
    """Insert an instance, read it and save it unchanged: it is equal, and nothing was written by the save."""
    with wormdb.connect("memory://") as db:
        collection = db.model(cls)
        given_ = cls(**values)
        made = collection.insert(given_)
        identity = made["id"] if isinstance(made, dict) else made.id
        found: Any = collection.find_by_id(identity)
        for name, value in values.items():
            held = found[name] if isinstance(found, dict) else getattr(found, name)
            assert held == value
            assert type(held) is type(value)
        before = list(collection.watch())
        collection.save(found)
        assert list(collection.watch()) == before


@given(values_of(SHARED | PYDANTIC))
def test_instances_of_generated_pydantic_classes_come_back_equal(fields: dict[str, tuple[Any, Any]]) -> None:
    definition: dict[str, Any] = {name: (kind, ...) for name, (kind, _) in fields.items()}
    cls = create_model("Made", id=(str, ""), **definition)
    with wormdb.connect("memory://") as db:
        collection = db.model(cls)
        raw = {
            name: "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) and "Json" in repr(kind) else value
            for name, (kind, value) in fields.items()
        }
        instance = cls(**raw)
        found: Any = collection.find_by_id(collection.insert(instance).id)
        for name, (_, value) in fields.items():
            assert getattr(found, name) == value
        before = list(collection.watch())
        collection.save(found)
        assert list(collection.watch()) == before


@given(values_of(SHARED))
def test_instances_of_generated_dataclasses_come_back_equal(fields: dict[str, tuple[Any, Any]]) -> None:
    cls = make_dataclass(
        "Made", [*((name, kind) for name, (kind, _) in fields.items()), ("id", str, field(default=""))]
    )
    assert_returns(cls, {name: value for name, (_, value) in fields.items()})


@given(values_of(SHARED))
def test_instances_of_generated_structs_come_back_equal(fields: dict[str, tuple[Any, Any]]) -> None:
    cls = msgspec.defstruct(
        "Made", [*((name, kind) for name, (kind, _) in fields.items()), ("id", str, "")], kw_only=True, dict=True
    )
    assert_returns(cls, {name: value for name, (_, value) in fields.items()})


@given(values_of(SHARED))
def test_documents_of_generated_typed_dicts_come_back_equal(fields: dict[str, tuple[Any, Any]]) -> None:
    cls: Any = TypedDict("cls", {name: kind for name, (kind, _) in fields.items()})  # type: ignore[misc] # made here
    sys.modules[__name__].__dict__["Made"] = cls
    assert_returns(cls, {name: value for name, (_, value) in fields.items()})


@dataclass
class Visit:
    """A dataclass with types of pydantic in it."""

    page: HttpUrl
    mail: EmailStr
    at: AwareDatetime
    days: set[date] = field(default_factory=set)
    id: str = ""


def test_a_dataclass_may_hold_types_of_pydantic() -> None:
    with wormdb.connect("memory://") as db:
        visits = db.model(Visit)
        moment = datetime(2026, 2, 24, 14, 30, tzinfo=UTC)
        made = visits.insert(Visit(HttpUrl("https://example.com/a"), "ada@example.com", moment, {date(2026, 1, 2)}))
        assert visits.find_by_id(made.id) == made
        assert visits.find_by_id(made.id, raw=True) is not None
        found = db["visit"].find_one({"days": "2026-01-02", "page": "https://example.com/a"})
        assert found is not None
        assert (found["at"], found["days"]) == (moment, ["2026-01-02"])


def test_equal_sets_are_stored_alike() -> None:
    with wormdb.connect("memory://") as db:
        visits = db.model(Visit)
        days = [date(2026, 1, day) for day in range(1, 28)]
        moment = datetime(2026, 2, 24, tzinfo=UTC)
        one, other = (
            visits.insert(Visit(HttpUrl("https://a.example"), "a@example.com", moment, set(some)))
            for some in (days, days[::-1])
        )
        stored = [db["visit"].find_by_id(each.id) for each in (one, other)]
        assert stored[0] is not None
        assert stored[1] is not None
        assert stored[0]["days"] == stored[1]["days"] == sorted(day.isoformat() for day in days)


def test_values_may_come_in_a_mapping_too() -> None:
    with wormdb.connect("memory://") as db:
        made = db.model(Visit).insert(
            {
                "page": "https://example.com/",
                "mail": "a@example.com",
                "at": datetime(2026, 1, 1, tzinfo=UTC),
                "days": {date(2026, 3, 4)},
            }
        )
        assert made.days == {date(2026, 3, 4)}


class Trip(TypedDict):
    start: date
    stops: list[date]


@dataclass
class Plan:
    """A class with a TypedDict in it, whose values are plain dicts."""

    trip: Trip
    title: str = ""
    extra: Any = None
    id: str = ""


class Days(RootModel[set[date]]):
    pass


class Calendar(BaseModel):
    days: Days
    id: str = ""


def test_types_inside_a_typed_dict_and_a_root_model_come_back() -> None:
    with wormdb.connect("memory://") as db:
        trip: Trip = {"start": date(2026, 1, 2), "stops": [date(2026, 1, 3)]}
        plan = db.model(Plan).insert(Plan(trip))
        assert db.model(Plan).find_by_id(plan.id) == Plan(trip, id=plan.id)
        calendar = db.model(Calendar).insert(Calendar(days=Days({date(2026, 1, 2), date(2025, 1, 2)})))
        assert db.model(Calendar).find_by_id(calendar.id) == calendar


@pytest.mark.parametrize("field", ["title", "extra"])
@pytest.mark.parametrize("value", [date(2026, 1, 2), {1, 2}, Path("a"), HttpUrl("https://example.com")])
def test_a_field_that_does_not_declare_such_a_type_refuses_it(field: str, value: Any) -> None:
    """It could not come back as what was given."""
    trip: Trip = {"start": date(2026, 1, 2), "stops": []}
    with wormdb.connect("memory://") as db:
        with pytest.raises(wormdb.InvalidRequestError):
            db.model(Plan).insert(Plan(trip, **{field: value}))
        assert db.model(Plan).count() == 0


# --- secrets ---


class Account(BaseModel):
    name: str
    password: SecretStr | None = None


class Vault(BaseModel):
    key: Annotated[SecretStr, wormdb.PLAIN_TEXT]
    more: list[Annotated[SecretBytes, wormdb.PLAIN_TEXT]] = []
    id: str = ""


class Keyring(BaseModel):
    keys: dict[int, Account]


class Open(BaseModel):
    extra: Any = None


@pytest.mark.parametrize("cls", [Account, Keyring])
def test_a_secret_is_refused_with_the_reason_and_the_way_to_store_it(cls: Any) -> None:
    with wormdb.connect("memory://") as db, pytest.raises(wormdb.SchemaError) as caught:
        db.model(cls)
    (problem,) = caught.value.problems
    assert "is a secret, and would be readable in the bucket" in problem.reason
    assert "wormdb.PLAIN_TEXT" in problem.fix


def test_a_secret_that_is_asked_for_is_stored_and_comes_back() -> None:
    with wormdb.connect("memory://") as db:
        vaults = db.model(Vault)
        made = vaults.insert(Vault(key=SecretStr("open sesame"), more=[SecretBytes(b"\xff\x00")]))
        assert vaults.find_by_id(made.id) == made
        stored = db["vault"].find_by_id(made.id)
        assert stored is not None
        assert (stored["key"], stored["more"]) == ("open sesame", [b"\xff\x00"])


def test_a_secret_in_a_field_of_any_type_is_refused_before_it_is_written() -> None:
    with wormdb.connect("memory://") as db:
        with pytest.raises(wormdb.InvalidRequestError, match="is a secret"):
            db.model(Open).insert(Open(extra=SecretStr("x")))
        assert db.model(Open).count() == 0


# --- types of others ---


class Point:
    """A class that knows nothing of JSON."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    __hash__ = None  # type: ignore[assignment] # not needed


class Place(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    at: Point
    id: str = ""

    @field_serializer("at")
    def _written(self, value: Point) -> list[int]:
        return [value.x, value.y]

    @field_validator("at", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return Point(*value) if isinstance(value, list) else value


class Unwritten(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    at: Point


def test_a_type_that_its_class_writes_and_reads_comes_back() -> None:
    with wormdb.connect("memory://") as db:
        places = db.model(Place)
        made = places.insert(Place(at=Point(1, 2)))
        assert places.find_by_id(made.id) == made
        assert db["place"].find_one({"at": [1, 2]}) is not None


class Encoded(BaseModel):
    data: Base64Bytes
    text: Base64Str | None = None
    id: str = ""


def test_what_pydantic_decodes_is_stored_encoded_and_comes_back() -> None:
    with wormdb.connect("memory://") as db:
        made = db.model(Encoded).insert(Encoded(data=b"aGVsbG8=", text="aGVsbG8="))
        assert (made.data, made.text) == (b"hello", "hello")
        assert db.model(Encoded).find_by_id(made.id) == made
        assert db["encoded"].find_one({"data": "aGVsbG8="}) is not None
        assert db.model(Encoded).save(made) == made


@dataclass
class Meow:
    lives: int = 9


@dataclass
class Bark:
    loud: bool = True


@dataclass
class Sound:
    made: Meow | Bark
    id: str = ""


def test_a_class_that_no_document_could_be_read_as_is_refused_as_a_model() -> None:
    with wormdb.connect("memory://") as db:
        with pytest.raises(wormdb.SchemaError, match="unions may not contain more than one") as raised:
            db.model(Sound)
        assert "tag" in raised.value.fix
        with pytest.raises(wormdb.SchemaError, match="unions may not contain more than one"):
            db.model(Zoo)


class Zoo(TypedDict):
    heard: list[Meow | Bark]


class Owner(TypedDict):
    name: str
    sounds: list[Meow]


class Day(TypedDict):
    id: str
    on: date


def test_a_document_that_a_typed_dict_cannot_show_is_refused_before_it_is_written() -> None:
    with wormdb.connect("memory://") as db:
        days = db.model(Day)
        wrong: Any = {"id": "wrong", "on": "not a date"}
        days.insert({"id": "right", "on": date(2026, 1, 2)})
        before = db["day"].find_all()
        writes: list[Callable[[], object]] = [
            lambda: days.insert(wrong),
            lambda: days.insert_one(wrong),
            lambda: days.insert_many([wrong]),
            lambda: days.save(wrong),
            lambda: days.replace_one({"_id": "right"}, {"on": "not a date"}),
            lambda: days.update_one({"_id": "right"}, {"$set": {"on": "not a date"}}),
            lambda: days.modify("right", lambda day: {**day, "on": "not a date"}),
        ]
        for write in writes:
            with pytest.raises(wormdb.ValidationError, match="does not fit Day"):
                write()
            assert db["day"].find_all() == before
        assert days.update_one({"_id": "right"}, {"$set": {"on": "2026-03-04"}}).modified_count == 1
        assert days.find_one({"on": "2026-03-04"}) is not None


def test_a_typed_dict_may_hold_classes() -> None:
    with wormdb.connect("memory://") as db:
        given_: Owner = {"name": "Ada", "sounds": [Meow(3)]}
        made = db.model(Owner).insert(given_)
        found: Any = db.model(Owner).find_one({"sounds.lives": 3})
        assert (found["name"], found["sounds"]) == ("Ada", [Meow(3)])
        assert made is not None


def test_a_type_that_pydantic_cannot_write_is_refused() -> None:
    with wormdb.connect("memory://") as db, pytest.raises(wormdb.SchemaError, match="pydantic does not know it"):
        db.model(Unwritten)
