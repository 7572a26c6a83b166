from __future__ import annotations

import binascii
import json as standard
import math
import re
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError
from wormdb.format import json
from wormdb.format.values import equal, normalize
from wormdb.settings import DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, INT_MAX, INT_MIN
from wormdb.testing.strategies import documents, values

OBJECT_ID = ObjectId("0123456789abcdef01234567")

FORMS: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    (1, "1"),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (1e300, "1e300"),
    (5e-324, "5e-324"),
    (INT_MAX, "9223372036854775807"),
    (INT_MIN, "-9223372036854775808"),
    (math.nan, '{"$numberDouble":"NaN"}'),
    (math.inf, '{"$numberDouble":"Infinity"}'),
    (-math.inf, '{"$numberDouble":"-Infinity"}'),
    ("é\0\U0001f600", '"é\\u0000\U0001f600"'),
    ("$oid", '"$oid"'),
    (b"", '{"$binary":{"base64":"","subType":"00"}}'),
    (b"\xff\x00", '{"$binary":{"base64":"/wA=","subType":"00"}}'),
    (Binary(b"x", 128), '{"$binary":{"base64":"eA==","subType":"80"}}'),
    (datetime(1970, 1, 1, tzinfo=UTC), '{"$date":"1970-01-01T00:00:00Z"}'),
    (datetime(2020, 2, 29, 1, 2, 3, 4000, tzinfo=UTC), '{"$date":"2020-02-29T01:02:03.004Z"}'),
    (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), '{"$date":"9999-12-31T23:59:59.999Z"}'),
    (datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), '{"$date":{"$numberLong":"-1"}}'),
    (datetime(1, 1, 1, tzinfo=UTC), '{"$date":{"$numberLong":"-62135596800000"}}'),
    (OBJECT_ID, '{"$oid":"0123456789abcdef01234567"}'),
    (Decimal128("1.50"), '{"$numberDecimal":"1.50"}'),
    (Decimal128("-0E-6176"), '{"$numberDecimal":"-0E-6176"}'),
    (Decimal128("Infinity"), '{"$numberDecimal":"Infinity"}'),
    (Regex('a"/', "mi"), '{"$regularExpression":{"pattern":"a\\"/","options":"im"}}'),
    (Timestamp(4294967295, 0), '{"$timestamp":{"t":4294967295,"i":0}}'),
    (MinKey(), '{"$minKey":1}'),
    (MaxKey(), '{"$maxKey":1}'),
    ({"b": [1, {"a": OBJECT_ID}], "a": {}}, '{"b":[1,{"a":{"$oid":"0123456789abcdef01234567"}}],"a":{}}'),
]


@pytest.mark.parametrize(("value", "text"), FORMS)
def test_each_type_has_its_relaxed_form(value: Any, text: str) -> None:
    assert json.encode(value) == text.encode()
    assert equal(value, json.decode(text.encode(), name="x"))


@pytest.mark.parametrize(("value", "text"), FORMS)
def test_forms_survive_inside_a_document_next_to_plain_values(value: Any, text: str) -> None:
    document = {"before": 1, "it": value, "list": ["x", value, None], "after": [[[[[[[value]]]]]]]}
    data = json.encode_document(document)
    assert equal(document, json.decode_document(memoryview(data), name="x"))
    assert text.encode() in data


@given(values())
def test_every_value_comes_back_exactly(value: Any) -> None:
    assert equal(value, json.decode(json.encode(value), name="x"))


@given(documents())
def test_what_is_written_is_plain_json_without_spaces(document: dict[str, Any]) -> None:
    data = json.encode_document(document)
    assert list(standard.loads(data)) == list(document)
    without_strings = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", data)
    assert not re.search(rb"\s", without_strings)


@given(values())
def test_a_plain_reader_sees_the_same_forms_in_any_spelling(value: Any) -> None:
    """Spaces, and every character escaped (also the $ of a form), change nothing."""
    spaced = standard.dumps(standard.loads(json.encode(value)), indent=1)
    assert equal(value, json.parse(spaced))
    assert equal(value, json.parse(spaced.replace('"$', '"\\u0024')))


@given(st.lists(values() | st.text() | st.text('ab "\\\n\x7f~')))
def test_many_values_are_encoded_as_each_of_them_is(many: list[Any]) -> None:
    assert json.encode_all(many) == [json.encode(value) for value in many]
    texts = [value for value in many if type(value) is str]
    assert json.encode_all(texts) == [json.encode(value) for value in texts]


@given(documents())
def test_encode_leaves_its_argument_alone(document: dict[str, Any]) -> None:
    before = normalize(document)
    json.encode(document)
    assert equal(before, document)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"$numberInt":"-5"}', -5),
        ('{"$numberInt":"2147483647"}', 2**31 - 1),
        ('{"$numberLong":"9223372036854775807"}', INT_MAX),
        ('{"$numberDouble":"1"}', 1.0),
        ('{"$numberDouble":"-0.0"}', -0.0),
        ('{"$numberDouble":"1.5E+3"}', 1500.0),
        ('{"$date":{"$numberLong":"0"}}', datetime(1970, 1, 1, tzinfo=UTC)),
        ('{"$date":"2020-01-01T00:00:00.5Z"}', datetime(2020, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)),
        ('{"$date":"2020-01-01T00:00:00.123999Z"}', datetime(2020, 1, 1, 0, 0, 0, 123000, tzinfo=UTC)),
        ('{"$date":"2020-01-01T02:00:00+02:00"}', datetime(2020, 1, 1, tzinfo=UTC)),
        ('{"$date":"2020-01-01T02:00:00+0200"}', datetime(2020, 1, 1, tzinfo=UTC)),
        ('{"$uuid":"00000000-0000-0000-0000-0000000000FF"}', Binary(bytes(15) + b"\xff", 4)),
        ('{"$binary":{"subType":"0","base64":"eA=="}}', b"x"),
        ('{"$oid":"0123456789ABCDEF01234567"}', OBJECT_ID),
        ('{"a":1,"a":2}', {"a": 2}),
        (" \n[ ] ", []),
        ('{"a":"\\u0024x"}', {"a": "$x"}),
    ],
)
def test_canonical_forms_are_read_too(text: str, value: Any) -> None:
    assert equal(value, json.parse(text))
    assert equal([value], json.decode(f"[{text}]".encode(), name="x"))


MALFORMED = [
    "",
    " ",
    "{",
    "[1,]",
    "{'a':1}",
    "nul",
    "NaN",
    "Infinity",
    "01",
    "1.",
    ".5",
    "+1",
    "1e999",
    '"\\ud800"',
    '"\\x"',
    '"\n"',
    "9223372036854775808",
    "-9223372036854775809",
    "1" * 400,
    "[[[[[[[9223372036854775808]]]]]]]",
    '{"$oid":"0123"}',
    '{"$oid":1}',
    '{"$oid":"0123456789abcdef0123456g"}',
    '{"$oid":"0123456789abcdef01234567","x":1}',
    '{"x":1,"$oid":"0123456789abcdef01234567"}',
    '{"\\u0024bad":1}',
    '{"$bad":1}',
    '{"$":1}',
    '{"a":{"$gt":1}}',
    '{"$numberInt":"2147483648"}',
    '{"$numberInt":5}',
    '{"$numberInt":"05"}',
    '{"$numberInt":"٣"}',
    '{"$numberInt":" 5"}',
    '{"$numberLong":"9223372036854775808"}',
    '{"$numberLong":"1_0"}',
    '{"$numberDouble":"nan"}',
    '{"$numberDouble":"1e999"}',
    '{"$numberDouble":1.5}',
    '{"$numberDecimal":"1e9999"}',
    '{"$numberDecimal":"sNaN"}',
    '{"$numberDecimal":"inf"}',
    '{"$numberDecimal":"12345678901234567890123456789012345"}',
    '{"$numberDecimal":1}',
    '{"$date":5}',
    '{"$date":"2020-01-01"}',
    '{"$date":"2020-13-01T00:00:00Z"}',
    '{"$date":"2020-01-01T00:00:00"}',
    '{"$date":{"$numberLong":"253402300800000"}}',
    '{"$date":{"$numberLong":"9223372036854775807"}}',
    '{"$date":{"$numberLong":"0","x":1}}',
    '{"$date":{"$numberInt":"0"}}',
    '{"$date":"0001-01-01T00:00:00+01:00"}',
    '{"$binary":"eA=="}',
    '{"$binary":{"base64":"eA="  ,"subType":"00"}}',
    '{"$binary":{"base64":"eA==","subType":"100"}}',
    '{"$binary":{"base64":"é","subType":"00"}}',
    '{"$binary":{"base64":"eA=="}}',
    '{"$binary":{"base64":1,"subType":"00"}}',
    '{"$uuid":"00000000000000000000000000000000"}',
    '{"$uuid":5}',
    '{"$timestamp":{"t":-1,"i":0}}',
    '{"$timestamp":{"t":true,"i":0}}',
    '{"$timestamp":{"t":4294967296,"i":0}}',
    '{"$timestamp":{"t":1}}',
    '{"$regularExpression":{"pattern":"a"}}',
    '{"$regularExpression":{"pattern":"a","options":"q"}}',
    '{"$regularExpression":{"pattern":"\\u0000","options":""}}',
    '{"$regularExpression":{"pattern":1,"options":""}}',
    '{"$minKey":true}',
    '{"$minKey":2}',
    '{"$maxKey":1.0}',
    '{"$minKey":1,"$maxKey":1}',
    '{"$oid":{"$oid":"x"}}',
]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_refused_with_a_typed_error(text: str) -> None:
    with pytest.raises(InvalidRequestError) as typed:
        json.parse(text)
    assert typed.value.reason
    assert typed.value.fix
    with pytest.raises(CorruptionError, match="block7") as stored:
        json.decode(text.encode("utf-8", "surrogatepass"), name="block7")
    assert stored.value.key == "block7"
    assert stored.value.reason


def test_typed_errors_tell_line_and_column() -> None:
    with pytest.raises(InvalidRequestError, match="line 3, column 8"):
        json.parse('{\n "é": 1,\n "ééé" 2}')
    with pytest.raises(InvalidRequestError, match="line 1, column 6"):
        json.parse('{"a":')
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        json.parse("\ud800")


def test_operators_pass_only_where_they_are_asked_for() -> None:
    text = '{"age":{"$gt":{"$numberInt":"5"}},"$or":[{"_id":{"$oid":"0123456789abcdef01234567"}}]}'
    expected = {"age": {"$gt": 5}, "$or": [{"_id": OBJECT_ID}]}
    assert equal(expected, json.parse(text, operators=True))
    with pytest.raises(InvalidRequestError, match="\\$gt"):
        json.parse('{"age":{"$gt":5}}')
    for half_a_form in ('{"$oid":"0123456789abcdef01234567","$gt":1}', '{"a":1,"$date":"x"}'):
        with pytest.raises(InvalidRequestError, match="not a form"):
            json.parse(half_a_form, operators=True)


def test_a_document_is_an_object() -> None:
    for data in (b"[]", b"1", b"null", b'{"$minKey":1}'):
        with pytest.raises(CorruptionError, match="no document"):
            json.decode_document(data, name="x")


def test_what_is_not_normal_is_refused_in_writing() -> None:
    for value in (object(), [1j], {"a": {"b": object}}):
        with pytest.raises(InvalidRequestError, match="normalize"):
            json.encode(value)


def test_a_value_that_holds_itself_is_refused_in_writing() -> None:
    loop: list[Any] = [b"x"]
    loop.append(loop)
    with pytest.raises(LimitExceededError, match="too deep"):
        json.encode(loop)


# --- limits: n - 1, n, n + 1 ---


def _nest(levels: int, kind: str, core: str) -> str:
    return {"[": "[" * levels + core + "]" * levels, "{": '{"a":' * levels + core + "}" * levels}[kind]


@pytest.mark.parametrize("core", ["1", '{"$minKey":1}', '{"$date":{"$numberLong":"0"}}', '"$"'])
@pytest.mark.parametrize("kind", ["[", "{"])
@pytest.mark.parametrize("step", [-1, 0, 1, 3, 800, 100_000])
def test_depth_is_limited_when_reading(step: int, kind: str, core: str) -> None:
    text = _nest(DOCUMENT_DEPTH_MAX + step, kind, core)
    if step <= 0:
        assert equal(json.parse(text), json.decode(json.encode(json.parse(text)), name="x"))
    else:
        with pytest.raises(LimitExceededError, match="DOCUMENT_DEPTH_MAX"):
            json.parse(text)
        with pytest.raises(CorruptionError, match="DOCUMENT_DEPTH_MAX"):
            json.decode(text.encode(), name="x")


def test_many_brackets_are_not_depth() -> None:
    value = [[[[1] * 3] * 3] * 3] * 50
    assert json.decode(json.encode(value), name="x") == value


def test_depth_without_end_in_unclosed_text() -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(InvalidRequestError):
            json.parse(text)
        with pytest.raises(CorruptionError):
            json.decode(text.encode(), name="x")


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_documents_are_limited_in_bytes(step: int) -> None:
    document = {"a": "x" * (DOCUMENT_BYTES_MAX - len('{"a":""}') + step)}
    if step <= 0:
        assert len(json.encode_document(document)) == DOCUMENT_BYTES_MAX + step
    else:
        with pytest.raises(LimitExceededError, match="DOCUMENT_BYTES_MAX"):
            json.encode_document(document)


# --- hostile bytes ---


def _decode_or_report(data: bytes) -> None:
    try:
        value = json.decode(data, name="x")
    except CorruptionError:
        return
    assert equal(value, json.decode(json.encode(value), name="x"))


@given(st.binary(max_size=64) | st.text(alphabet='{}[]",:$\\u0024eE+-.019oidate\n ', max_size=40).map(str.encode))
def test_arbitrary_bytes_give_a_value_or_corruption(data: bytes) -> None:
    _decode_or_report(data)


@pytest.mark.parametrize("part", [b"\x80", b"\xc2", b"\xff", b"\xed\xa0\x80"])
@pytest.mark.parametrize("form", [b'"%s"', b'{"%s":null}', b'{"a":"%s"}', b'[{"a":["%s"]}]', b'{"%s":{"$oid":"1"}}'])
def test_what_is_not_utf_8_is_corruption(form: bytes, part: bytes) -> None:
    with pytest.raises(CorruptionError, match="x holds no valid JSON"):
        json.decode(form % part, name="x")


@given(documents(), st.data())
def test_damaged_bytes_give_a_value_or_corruption(document: dict[str, Any], data: st.DataObject) -> None:
    damaged = bytearray(json.encode(document))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged)))
        end = data.draw(st.integers(place, min(len(damaged), place + 8)))
        damaged[place:end] = data.draw(st.binary(max_size=2) | st.sampled_from([b'"', b"{", b'"$', b"}", b"9" * 20]))
    _decode_or_report(bytes(damaged))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ('{"a":', "it ends too early"),
        ('{"a": 1e400}', "a number is out of range"),
    ],
)
def test_what_is_wrong_is_told_in_words(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as found:
        json.parse(text)
    assert found.value.reason == reason
    with pytest.raises(CorruptionError) as broken:
        json.decode(text.encode(), name="it")
    assert broken.value.reason == reason


@settings(max_examples=300)
@given(
    st.one_of(
        st.text("ABab01+/=- _\n\x00é", max_size=9),
        st.binary(max_size=12).map(lambda data: b64encode(data).decode()),
        st.tuples(st.binary(max_size=12), st.integers(0, 16), st.sampled_from("=A-\n")).map(
            lambda three: (text := b64encode(three[0]).decode())[: three[1]] + three[2] + text[three[1] :]
        ),
    )
)
@example("AAAA=")
@example("AB==")
def test_binary_values_are_read_as_the_standard_library_reads_base64(text: str) -> None:
    """Another reader, which is faster, comes first: it must not take less, nor more."""
    written = json.encode({"base64": text, "subType": "00"}).decode()
    try:
        expected = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        with pytest.raises(CorruptionError):
            json.decode(f'{{"$binary":{written}}}'.encode(), name="x")
    else:
        assert json.decode(f'{{"$binary":{written}}}'.encode(), name="x") == expected
