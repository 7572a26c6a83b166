from __future__ import annotations

import copy
import math
import re
import subprocess
import sys
from collections import OrderedDict, UserDict, namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from bson import SON, Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.values import MISSING, Kind, Missing, equal, kind_of, normalize, normalize_document
from wormdb.settings import DOCUMENT_DEPTH_MAX, DOCUMENT_KEYS_MAX, FIELD_NAME_BYTES_MAX, INT_MAX, INT_MIN
from wormdb.testing.strategies import documents, values

if TYPE_CHECKING:
    from pathlib import Path


class Colour(IntEnum):
    RED = 1


class Word(StrEnum):
    YES = "yes"


class Plain(Enum):
    ONE = 1


class Text(str):
    __slots__ = ()


Pair = namedtuple("Pair", "x y")  # noqa: PYI024 - a plain one, as callers have them
NAIVE = datetime(2020, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001 - callers have such dates
UTC_PLUS_2 = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (None, None),
        (True, True),
        (Int64(7), 7),
        (Colour.RED, 1),
        (Word.YES, "yes"),
        (Text("é"), "é"),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (Decimal("1.50"), Decimal128("1.50")),
        (Decimal("-0"), Decimal128("-0")),
        (Decimal128(Decimal("sNaN")), Decimal128("NaN")),
        (Decimal128(Decimal("-NaN")), Decimal128("NaN")),
        (UUID(int=5), Binary(bytes(15) + b"\5", 4)),
        (Binary(b"x", 0), b"x"),
        (Binary(b"x", 9), Binary(b"x", 9)),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (datetime(2020, 1, 2, 1, tzinfo=UTC_PLUS_2), datetime(2020, 1, 1, 23, tzinfo=UTC)),
        (
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
        ),
        (re.compile("a", re.IGNORECASE), Regex("a", re.IGNORECASE | re.UNICODE)),
        (SON([("b", 1), ("a", 2)]), {"b": 1, "a": 2}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (UserDict({"a": 1}), {"a": 1}),
        ({Text("a"): 1, Word.YES: 2}, {"a": 1, "yes": 2}),
        (Timestamp(1, 2), Timestamp(1, 2)),
    ],
)
def test_normalize_gives_the_plain_type(given_value: Any, expected: Any) -> None:
    actual = normalize(given_value)
    assert equal(expected, actual), actual
    if isinstance(actual, dict):
        assert {type(name) for name in actual} == {str}


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_floats_stay_as_they_are(special: float) -> None:
    assert equal(special, normalize(special))


def test_float_subclasses_become_floats() -> None:
    class Celsius(float):
        __slots__ = ()

    assert type(normalize(Celsius(1.5))) is float


@given(values())
def test_normal_values_are_fixed_points(value: Any) -> None:
    assert equal(value, normalize(value))


@given(documents())
def test_normalize_shares_nothing_mutable(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    fresh = normalize_document(document)
    _deface(fresh)
    assert equal(before, document)


def _deface(value: Any) -> None:
    """Change every mutable part of `value`."""
    if isinstance(value, dict):
        for item in value.values():
            _deface(item)
        value["defaced"] = True
    elif isinstance(value, list):
        for item in value:
            _deface(item)
        value.append("defaced")
    elif isinstance(value, Regex):
        value.pattern = "defaced"


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset(),
        object(),
        Plain.ONE,
        1j,
        date(2020, 1, 1),
        timedelta(1),
        Code("x"),
        DBRef("a", 1),
        DatetimeMS(5),
        MISSING,
        range(3),
        (n for n in "ab"),
        "\ud800",
        "ok\udfff",
        Decimal("1E+7000"),
        Decimal("1" * 35),
        Decimal128.from_bid(b"\xff" * 14 + b"\x41\x30"),
        Regex("a\0b"),
        Regex(b"a"),
        Regex("a", re.ASCII),
        re.compile(b"a"),
        Regex("\ud800"),
        NAIVE,
        datetime.min.replace(tzinfo=UTC_PLUS_2),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=2))),
    ],
)
def test_what_bson_cannot_hold_is_refused_with_its_path(value: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        normalize_document({"a": [{"b": value}]})
    assert "a.0.b" in str(caught.value)
    assert caught.value.reason
    assert caught.value.fix


@pytest.mark.parametrize(
    "name", ["", "$", "$set", "a.b", ".", "a\0", "\ud800", 1, True, None, b"a", (1,), pytest.param(10**5000, id="huge")]
)
def test_bad_field_names_are_refused_with_their_path(name: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        normalize_document({"outer": [{name: 1}]})
    assert "outer.0" in str(caught.value)
    assert caught.value.fix


def test_a_name_found_good_once_does_not_let_an_equal_subclass_through() -> None:
    normalize_document({"yes": 1})
    assert [type(name) for name in normalize_document({Word.YES: 1})] == [str]


def test_more_names_than_the_name_cache_holds() -> None:
    for start in range(0, 20_000, 5_000):
        document = {f"n{number}": number for number in range(start, start + 5_000)}
        assert equal(document, normalize_document(document))


def test_a_document_is_a_mapping() -> None:
    for value in ([], None, "x", [("a", 1)]):
        with pytest.raises(InvalidRequestError, match="mapping"):
            normalize_document(value)  # type: ignore[arg-type]  # callers without types do this


def test_the_given_path_is_named() -> None:
    with pytest.raises(InvalidRequestError, match=r"at price\.net cannot"):
        normalize({"net": object()}, path="price")


class _Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (date(2024, 5, 6), "use a datetime, or text"),
        (timedelta(seconds=1), "store text, or a number of seconds"),
        (_Colour.RED, "store its value"),
        (object(), "convert it to a type of BSON first"),
    ],
)
def test_the_fix_fits_the_type(value: object, fix: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        normalize({"a": value})
    assert caught.value.fix == fix


def test_numpy_knows_the_way() -> None:
    number = type("int64", (), {"__module__": "numpy"})()
    with pytest.raises(InvalidRequestError) as caught:
        normalize({"a": number})
    assert caught.value.fix == "call .item() or .tolist() on it"


@pytest.mark.parametrize(
    ("key", "shown"), [(1, "int 1"), pytest.param(10**5000, "int a number of 16610 bits", id="huge")]
)
def test_numbers_in_messages_stay_short(key: Any, shown: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"{shown} at a cannot"):
        normalize({"a": {key: 1}})


# --- limits: n - 1, n, n + 1 ---


@pytest.mark.parametrize(
    "number", [INT_MIN - 1, INT_MIN, INT_MIN + 1, INT_MAX - 1, INT_MAX, INT_MAX + 1, pytest.param(10**5000, id="huge")]
)
def test_integers_have_64_bits(number: int) -> None:
    if INT_MIN <= number <= INT_MAX:
        assert normalize([number]) == [number]
    else:
        with pytest.raises(LimitExceededError, match=r"64 bits at 0: (-?\d{19}|a number of 16610 bits) is not"):
            normalize([number])


def _nested(levels: int, *, arrays: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if arrays else {"a": value}
    return value


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize("step", [-1, 0, 1, 100_000])
def test_depth_is_limited_before_recursion(step: int, arrays: bool) -> None:
    value = _nested(DOCUMENT_DEPTH_MAX + step, arrays=arrays)
    if step <= 0:
        assert equal(value, normalize(value))
    else:
        with pytest.raises(LimitExceededError, match="too deep"):
            normalize(value)


def test_the_document_itself_is_level_one() -> None:
    normalize_document(_nested(DOCUMENT_DEPTH_MAX, arrays=False))
    with pytest.raises(LimitExceededError, match="too deep"):
        normalize_document(_nested(DOCUMENT_DEPTH_MAX + 1, arrays=False))


def test_values_that_hold_themselves_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    ring: dict[str, Any] = {}
    ring["a"] = {"b": [ring]}
    for value in (loop, ring):
        with pytest.raises(LimitExceededError, match="too deep"):
            normalize({"x": value})


def test_shared_parts_cannot_blow_up() -> None:
    bomb: Any = "x"
    for _ in range(DOCUMENT_DEPTH_MAX - 1):
        bomb = [bomb] * 1000
    with pytest.raises(LimitExceededError, match="too many values"):
        normalize(bomb)


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_fields_on_one_level_are_limited(step: int) -> None:
    document = {f"f{number}": 0 for number in range(DOCUMENT_KEYS_MAX + step)}
    if step <= 0:
        assert len(normalize_document({"a": document})["a"]) == len(document)
    else:
        with pytest.raises(LimitExceededError, match="at a"):
            normalize_document({"a": document})


@pytest.mark.parametrize("letter", ["a", "é"])
@pytest.mark.parametrize("step", [-1, 0, 1])
def test_field_names_are_limited_in_bytes(step: int, letter: str) -> None:
    size = len(letter.encode())
    name = letter * ((FIELD_NAME_BYTES_MAX // size) + step)
    if step <= 0:
        assert list(normalize_document({name: 1})) == [name]
    else:
        with pytest.raises(LimitExceededError, match="FIELD_NAME_BYTES_MAX"):
            normalize_document({name: 1})


# --- kinds, MISSING, equal ---


def test_kinds_stand_in_the_documented_order() -> None:
    in_order = [
        MinKey(), MISSING, None, 1, "x", {}, [], b"", ObjectId(b"a" * 12), True,
        datetime(2020, 1, 1, tzinfo=UTC), Timestamp(1, 1), Regex("a"), MaxKey(),
    ]  # fmt: skip
    kinds = [kind_of(value) for value in in_order]
    assert kinds == sorted(kinds) == list(Kind)
    assert {kind_of(number) for number in (1, 1.5, Decimal128("1"))} == {Kind.NUMBER}
    assert kind_of(Binary(b"", 4)) is Kind.BINARY


def test_true_is_not_one() -> None:
    assert kind_of(True) is Kind.BOOLEAN
    assert not equal(True, 1)
    assert not equal({"a": True}, {"a": 1})


def test_kind_of_refuses_what_is_not_normal() -> None:
    for value in ((1,), Int64(1), Decimal(1), object()):
        with pytest.raises(InvalidRequestError, match="normalize"):
            kind_of(value)


def test_missing_is_one_falsy_thing() -> None:
    assert not MISSING
    assert repr(MISSING) == str(MISSING) == "MISSING"
    assert copy.deepcopy(MISSING) is copy.copy(MISSING) is MISSING
    assert isinstance(MISSING, Missing)
    pickled = "import pickle, sys; from wormdb.format.values import MISSING; "
    check = pickled + "sys.exit(pickle.loads(pickle.dumps([MISSING]))[0] is not MISSING)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        (0.0, -0.0),
        (Decimal128("1.0"), Decimal128("1.00")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (b"x", Binary(b"x", 5)),
        (Binary(b"x", 5), Binary(b"x", 6)),
        (None, MISSING),
        ([1], [1, 1]),
        ({"a": 1}, {"a": 1, "b": 1}),
        (Regex("a", "i"), Regex("a")),
        (Timestamp(1, 2), Timestamp(2, 1)),
        (1.0, math.nan),
        ("a", "b"),
        (MinKey(), MaxKey()),
    ],
)
def test_equal_sees_every_difference(a: Any, b: Any) -> None:
    assert not equal(a, b)
    assert not equal([{"x": a}], [{"x": b}])
    assert equal([{"x": a}], [{"x": copy.deepcopy(a)}])


def test_equal_takes_nan_as_itself() -> None:
    assert equal([math.nan], [float("nan")])


def test_the_other_bson_package_gives_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "bson.py").write_text("class ObjectId: ...\n")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import wormdb.format.values"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "WormError" in run.stderr
    assert "pip uninstall -y bson pymongo && pip install pymongo" in run.stderr
