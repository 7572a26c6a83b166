"""What is stored equals what was given, or it is refused by a typed error with nothing written: for every kind alike.

The oracle says in its own words what the documentation promises (docs/format/values.md): which values are taken, and as
what they come back. It shares no code with the database.
"""

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest
from bson import Binary, Decimal128, ObjectId
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.api.kinds import FIELDS, KINDS, SCHEMA, DataclassThing, Kind, is_part
from wormdb.errors import InvalidRequestError, LimitExceededError, WormError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import SearchStrategy

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database


class Shade(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Refused(Exception):  # noqa: N818 - it is the oracle's answer, not an error
    """Such a value is not stored."""


# --- values, fit and unfit ---


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


MOMENT: Final = datetime(2026, 2, 24, 14, 30, 1, 234567, tzinfo=timezone(timedelta(hours=2)))
SCALARS: Final[list[Any]] = [
    None,
    True,
    0,
    1,
    -1,
    2**63 - 1,
    -(2**63),
    2**63,
    10**30,
    0.0,
    -0.0,
    1.0,
    0.1,
    math.nan,
    math.inf,
    "",
    "é",
    "\0",
    "\ud800",
    b"",
    b"\xff",
    bytearray(b"a"),
    Decimal("1.50"),
    Decimal("-0"),
    Decimal("1E+40"),
    Decimal("1" * 35),
    Decimal128("2.5"),
    MOMENT,
    MOMENT.replace(tzinfo=None),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))),
    date(2026, 1, 2),
    time(1, 2),
    timedelta(seconds=1),
    UUID(int=7),
    ObjectId("65f0a1b2c3d4e5f60718293a"),
    Binary(b"ab", 128),
    Shade.RED,
    Level.LOW,
    Word.YES,
    {1, 2},
    frozenset("a"),
    object(),
    len,
    1j,
    nested(20),
    nested(97),
    nested(200),
]
NAMES: Final[list[Any]] = ["a", "b", "é", "1", "a.b", "$set", "", "\0", "\ud800", 5, None, "id", "_id", "x" * 2000]
LEAVES = st.sampled_from(SCALARS) | st.integers() | st.floats() | st.text(max_size=3) | st.datetimes()
VALUES: SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from(NAMES[:4]), inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    ),
    max_leaves=4,
)


def _documents(values: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    parts = st.fixed_dictionaries({}, optional={"city": st.text(max_size=3) | values, "more": values})
    fitting: dict[str, SearchStrategy[Any]] = {
        "title": st.text(max_size=3),
        "count": st.integers(-9, 9),
        "ratio": st.floats(),
        "flag": st.booleans(),
        "at": st.none() | st.just(MOMENT),
        "price": st.none() | st.just(Decimal("1.50")),
        "raw": st.binary(max_size=3),
        "tags": st.lists(st.text(max_size=2), max_size=2),
        "part": st.none() | parts,
        "more": values,
    }
    odd = st.tuples(st.sampled_from(FIELDS), values).map(lambda pair: dict([pair]))
    return st.builds(lambda one, two: {**one, **two}, st.fixed_dictionaries({}, optional=fitting), st.just({}) | odd)


# --- what the documentation promises ---


def expected(value: Any, *, in_class: bool, level: int = 1) -> Any:
    """What a value comes back as; raises Refused."""
    if level > 100 and isinstance(value, dict | list | tuple):
        raise Refused
    if isinstance(value, dict):
        return {_name(name): expected(each, in_class=in_class, level=level + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [expected(each, in_class=in_class, level=level + 1) for each in value]
    return _scalar(value, in_class=in_class)


def _name(name: Any) -> str:
    is_good = isinstance(name, str) and name and not name.startswith("$") and "." not in name and "\0" not in name
    if not is_good or "\ud800" in name or len(name) > 1024:
        raise Refused
    assert isinstance(name, str)
    return name


def _scalar(value: Any, *, in_class: bool) -> Any:
    if isinstance(value, enum.Enum):
        if not in_class and not isinstance(value, int | str):
            raise Refused
        value = value.value
    if not _is_stored(value):
        raise Refused
    if isinstance(value, UUID):
        return str(value) if in_class else Binary(value.bytes, 4)
    if isinstance(value, datetime):
        moment = value.astimezone(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if isinstance(value, Decimal):
        return Decimal128(value)
    return bytes(value) if isinstance(value, bytearray) else value


def _is_stored(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None and (value.year < 9999 or value.utcoffset() == timedelta(0))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, Decimal):
        return len(value.as_tuple().digits) <= 34
    return value is None or isinstance(value, float | bytes | bytearray | Decimal128 | ObjectId | UUID)


FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "title": lambda it: isinstance(it, str),
    "count": lambda it: (
        _is_number(it) and (isinstance(it, int) or (math.isfinite(it) and it == int(it) and abs(it) < 2**63))
    ),
    "ratio": lambda it: _is_number(it) or isinstance(it, Decimal128),
    "flag": lambda it: isinstance(it, bool),
    "at": lambda it: isinstance(it, datetime),
    "price": lambda it: isinstance(it, Decimal128) or (isinstance(it, int) and not isinstance(it, bool)),
    "raw": lambda it: isinstance(it, bytes),
    "tags": lambda it: isinstance(it, list) and all(each is None or isinstance(each, str) for each in it),
    "part": lambda it: isinstance(it, dict),
}
"""What a model takes for each declared field, null apart; text that stands for other types is not tried here."""


NULLABLE: Final = {"at", "price", "part", "more"}
"""Attributes of classes that may be None."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def promise(kind: Kind, values: dict[str, Any]) -> dict[str, Any] | None:
    """What comes back of a document; None if it has to be refused."""
    try:
        found = expected(values, in_class=kind.is_class)
    except Refused:
        return None
    assert isinstance(found, dict)
    if not kind.has_model:
        return found
    for name, value in found.items():
        if value is None and kind.is_class and name not in NULLABLE:
            return None
        if name in FITS and value is not None and not FITS[name](value):
            return None
    part = found.get("part")
    if kind.is_class and part is not None and not isinstance(part.get("city", ""), str):
        return None
    if kind.is_class and is_part(part):
        found["part"] = {"city": "", "more": None, **part}
    if isinstance(found.get("price"), int):
        found["price"] = Decimal128(str(found["price"]))
    return found


def same(a: Any, b: Any) -> bool:
    """Equal with types, but for numbers of one value; NaN is itself."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b) and (isinstance(a, bytes) == isinstance(b, bytes))


# --- every way in ---


def _modified(things: Collection[Any], document: Any, identity: str) -> None:
    # Of another title: an instance that is what its class shows of the document changes nothing.
    things.insert({"id": identity, "title": "before it was modified"})
    things.modify(identity, lambda _: document)


def _replaced(things: Collection[Any], document: Any, identity: str) -> None:
    things.insert({"id": identity})
    things.replace_one({"id": identity}, document)


WAYS: Final[dict[str, Callable[[Collection[Any], Any, str], Any]]] = {
    "insert": lambda things, it, _: things.insert(it),
    "insert_many": lambda things, it, _: things.insert_many([it]),
    "insert_many of two": lambda things, it, identity: things.insert_many([it, {"id": f"beside {identity}"}]),
    "save": lambda things, it, _: things.save(it),
    "batch insert": lambda things, it, _: things.batch().insert(it).flush(),
    "batch save": lambda things, it, _: things.batch().save(it).flush(),
    "upsert": lambda things, it, identity: things.replace_one({"id": identity}, it, upsert=True),
    "modify": _modified,
    "replace": _replaced,
}


class Bench:
    """A collection of one kind, and the same without its class: what is stored."""

    def __init__(self, kind: Kind, database: Database) -> None:
        self.kind = kind
        self.things = kind.open(database)
        self.raw = database[self.things.prefix.rstrip("/")]
        self._count = 0

    def check(self, way: str, values: dict[str, Any]) -> None:
        """Give a document in one way, and hold what became of it against the promise."""
        self._count += 1
        identity = f"x{self._count}"
        wanted = promise(self.kind, values)
        document = self.kind.make({**values, "id": identity})
        refused: WormError | None = None
        try:
            WAYS[way](self.things, document, identity)
        except WormError as error:
            refused = error
        assert (refused is None) == (wanted is not None), f"{way} of {values!r}: {refused}"
        if wanted is None:
            left = self.raw.find_by_id(identity)
            assert (left is not None and left.seq == 1) if way in {"modify", "replace"} else left is None
            return
        stored = self.raw.find_by_id(identity)
        assert stored is not None
        assert same({name: value for name, value in stored.items() if name in wanted}, wanted), (way, stored, wanted)
        if self._count % 3 == 0:  # the others cost more time than they tell
            self._check_reads(identity, wanted)

    def _check_reads(self, identity: str, wanted: dict[str, Any]) -> None:
        """Every way out shows the same."""
        kind, things = self.kind, self.things
        found = things.find_by_id(identity)
        entry = things.get_history(identity)[-1]
        others = [things.find_one({"id": identity}), things.find_by_id(identity, as_of=entry.rev)]
        assert entry.snapshot is None or same({n: v for n, v in entry.snapshot.items() if n in wanted}, wanted)
        for name, value in wanted.items():
            assert len({repr(kind.get(each, name)) for each in (found, *others)}) == 1
            if name in {"title", "count", "flag", "at", "tags"} and value is not None:
                assert same(kind.get(found, name), value)


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, Bench]]:
    """For examples that are made one after the other."""
    with wormdb.connect("memory://", schema=SCHEMA) as database:
        yield {kind.name: Bench(kind, database) for kind in KINDS}


@pytest.fixture
def benches() -> Iterator[dict[str, Bench]]:
    with wormdb.connect("memory://", schema=SCHEMA) as database:
        yield {kind.name: Bench(kind, database) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_value_in_every_field(benches: dict[str, Bench], kind: Kind) -> None:
    for value in SCALARS:
        for name in FIELDS:
            benches[kind.name].check("insert", {name: value})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_value_in_every_way(benches: dict[str, Bench], kind: Kind) -> None:
    for way in WAYS:
        for value in SCALARS[:: 3 if way != "insert_many of two" else 1]:
            benches[kind.name].check(way, {"title": "a", "more": {"inner": [value]}})
        for name in NAMES:
            benches[kind.name].check(way, {"more": {name: 1}})


@given(kind=st.sampled_from(KINDS), way=st.sampled_from(sorted(WAYS)), values=_documents(VALUES))
def test_what_is_stored_is_what_was_given(
    shared: dict[str, Bench], kind: Kind, way: str, values: dict[str, Any]
) -> None:
    shared[kind.name].check(way, values)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_has_no_end_is_refused(benches: dict[str, Bench], kind: Kind) -> None:
    endless: list[Any] = []
    endless.append(endless)
    things = benches[kind.name].things
    for place, value in enumerate((endless, nested(5_000))):
        for way in ("insert", "insert_many of two", "modify"):
            with pytest.raises(LimitExceededError):
                WAYS[way](things, kind.make({"id": f"e{way}{place}", "more": value}), f"e{way}{place}")


def test_shared_parts_of_an_instance_cannot_blow_up(benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.format.values._VALUES_MAX", 10_000)
    wide: Any = 1
    for _ in range(40):
        wide = [wide, wide]
    with pytest.raises(LimitExceededError, match="too many values"):
        benches["dataclass"].things.insert(DataclassThing(more=wide))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("identity", [None, ""])
@pytest.mark.parametrize("name", ["id", "_id"])
def test_an_id_that_is_none_is_refused(benches: dict[str, Bench], way: str, identity: Any, name: str) -> None:
    for kind in KINDS:
        things = benches[kind.name].things
        with pytest.raises(InvalidRequestError, match="must not be"):
            WAYS[way](things, {name: identity, "title": "a"}, "there")
        assert things.count({"title": "a"}) == 0


def test_an_upsert_without_an_id_is_refused(benches: dict[str, Bench]) -> None:
    for kind in KINDS:
        things = benches[kind.name].things
        for query in ({"_id": None, "title": "never"}, {"id": None, "title": "never"}):
            with pytest.raises(InvalidRequestError, match="must not be"):
                things.update_one(query, {"$set": {"count": 1}}, upsert=True)
        with pytest.raises(InvalidRequestError, match="must not be"):
            things.update_one({"title": "never"}, {"$setOnInsert": {"_id": None}}, upsert=True)
        assert things.count({"title": "never"}) == 0


def test_an_import_of_an_id_that_is_none_rejects_the_record(benches: dict[str, Bench]) -> None:
    for kind in KINDS:
        things = benches[kind.name].things
        rejected: list[wormdb.Rejection] = []
        records: list[dict[str, Any]] = [
            {"id": None, "title": "i"},
            {"_id": None, "title": "i"},
            {"id": "", "title": "i"},
            {"title": "made"},
        ]
        for source in (None, b"a file"):
            done = things.import_records(records, rejected=rejected.append, source=source)
            assert (done.inserted, done.rejected) == (1, 3)
        assert things.count({"title": "i"}) == 0
        done = things.import_records([{"sku": None, "title": "i"}], id_field="sku", rejected=rejected.append)
        assert (done.inserted, done.rejected) == (0, 1)
        assert all("must not be" in each.reason or "must not be" in str(each.problems) for each in rejected)
