from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.segment import check_id, decode_segment, encode_segment
from wormdb.format.values import MISSING, equal
from wormdb.settings import ID_BYTES_MAX, SEGMENT_BYTES_MAX
from wormdb.testing.strategies import ids

SAFE_NAME = re.compile(r"[A-Za-z0-9_@%-]([A-Za-z0-9_.@%-]*[A-Za-z0-9_@%-])?", re.ASCII)
WINDOWS_NAMES = {"CON", "PRN", "AUX", "NUL", *(f"{name}{digit}" for name in ("COM", "LPT") for digit in range(10))}


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("ada", "ada"),
        ("Ada_1-2.b", "Ada_1-2.b"),
        ("ada@example.org", "ada@example.org"),
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("../x", "%2E.%2Fx"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        (".worm", "%2Eworm"),
        ("a.", "a%2E"),
        ("a\0b", "a%00b"),
        ("a\\b", "a%5Cb"),
        ("%", "%25"),
        ("%i1", "%25i1"),
        ("%41", "%2541"),
        ("é", "%C3%A9"),
        ("e\u0301", "e%CC%81"),
        ("CON", "%43ON"),
        ("con.txt", "%63on.txt"),
        ("lpt1", "%6Cpt1"),
        ("console", "console"),
        ("~", "%7E"),
        ("1", "1"),
        (1, "%i1"),
        (-(2**63), "%i-9223372036854775808"),
        (1.0, "%r1.0"),
        (-0.0, "%r-0.0"),
        (1e22, "%r1e%2B22"),
        (Decimal128("1.0"), "%g1.0"),
        (Decimal128("1E+3"), "%g1E%2B3"),
        (ObjectId("0123456789abcdef01234567"), "%o0123456789abcdef01234567"),
        (Binary(UUID(int=255).bytes, 4), "%u000000000000000000000000000000ff"),
        (Binary(b"x", 4), "%x0478"),
        (b"", "%x00"),
        (b"\xff", "%x00ff"),
        (datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), "%t-1"),
        (Timestamp(1, 2), "%s1-2"),
        (True, "%y1"),
        (False, "%y0"),
    ],
)
def test_ids_and_their_segments(value: Any, segment: str) -> None:
    assert encode_segment(value) == segment
    assert equal(value, decode_segment(segment))


@given(ids())
def test_segments_are_reversible_and_safe_names(value: Any) -> None:
    segment = encode_segment(value)
    assert equal(value, decode_segment(segment))
    assert SAFE_NAME.fullmatch(segment)
    assert segment.partition(".")[0].upper() not in WINDOWS_NAMES


@given(ids(), ids())
def test_different_ids_have_different_segments(a: Any, b: Any) -> None:
    assert (encode_segment(a) == encode_segment(b)) is equal(a, b)


@given(st.text(alphabet="%iorgux0123456789abAB.-é/", max_size=12) | st.text(max_size=8))
def test_only_canonical_text_is_read(text: str) -> None:
    try:
        value = decode_segment(text)
    except InvalidRequestError as error:
        assert error.key == text  # noqa: PT017 - the other branch matters as much
    else:
        assert encode_segment(value) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        ".worm",
        "a/b",
        "a b",
        "é",
        "%",
        "%2",
        "%2e",
        "%41",
        "%i",
        "%i01",
        "%i+1",
        "%i1_0",
        "%i\u0663",
        "%i9223372036854775808",
        "%i-0",
        "%r1",
        "%rnan",
        "%rinf",
        "%r1e400",
        "%gNaN",
        "%g1e3",
        "%gx",
        "%o01",
        "%o0123456789ABCDEF01234567",
        "%u00",
        "%x",
        "%x0",
        "%x0478f",
        "%x" + "04" + "00" * 16,
        "%t",
        "%t253402300800000",
        "%t99999999999999999999",
        "%s1",
        "%s1-4294967296",
        "%s-1-1",
        "%y2",
        "%ytrue",
        "%z1",
        "%C3",
        "%FF",
        "CON",
        "con.txt",
        "a.",
        "a" * 241,
        "%i" + "9" * 5000,
    ],
)
def test_text_that_no_id_gives_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        decode_segment(text)
    assert not isinstance(caught.value, LimitExceededError)
    assert caught.value.fix


NO_IDS = [
    None,
    MISSING,
    [],
    [1],
    {},
    {"a": 1},
    math.nan,
    math.inf,
    -math.inf,
    Decimal128("NaN"),
    Decimal128("-Infinity"),
    "",
    "\ud800",
    Regex("a"),
    MinKey(),
    MaxKey(),
    2**63,
    UUID(int=1),
    object(),
    (1,),
]


@pytest.mark.parametrize("value", NO_IDS)
def test_what_cannot_be_an_id_is_refused(value: Any) -> None:
    for refuse in (check_id, encode_segment):
        with pytest.raises(InvalidRequestError) as caught:
            refuse(value)
        assert caught.value.reason
        assert caught.value.fix


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "it is empty"),
        ("a\ud800", "it is not valid Unicode: it holds half of a surrogate pair"),
        (math.nan, "it is not finite"),
        (Decimal128("NaN"), "it is not finite"),
        (2**63, "it is over 64 bits"),
        (None, "NoneType cannot be an id"),
    ],
)
def test_the_reason_is_the_one_that_holds(value: Any, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_id(value)
    assert caught.value.reason == reason


@given(ids())
def test_what_may_be_an_id_passes(value: Any) -> None:
    check_id(value)


@pytest.mark.parametrize("step", [-1, 0, 1])
@pytest.mark.parametrize("make", [lambda size: "x" * size, lambda size: "é" * (size // 2) + "x" * (size % 2), bytes])
def test_ids_are_limited_in_bytes(make: Any, step: int) -> None:
    value = make(ID_BYTES_MAX + step)
    if step <= 0:
        check_id(value)
    else:
        with pytest.raises(LimitExceededError, match="ID_BYTES_MAX"):
            check_id(value)


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_segments_are_limited_in_bytes(step: int) -> None:
    value = "x" * (SEGMENT_BYTES_MAX - 3 + step) + "/"
    if step <= 0:
        assert len(encode_segment(value)) == SEGMENT_BYTES_MAX + step
    else:
        with pytest.raises(LimitExceededError, match="SEGMENT_BYTES_MAX"):
            encode_segment(value)
    with pytest.raises(LimitExceededError, match="SEGMENT_BYTES_MAX"):
        encode_segment("x" * 1000)
