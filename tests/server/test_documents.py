"""Documents and filters on the wire: JSON and BSON in and out, the shell's JSON, and texts that may be ids."""

from __future__ import annotations

import json as standard
from contextlib import suppress
from datetime import UTC, datetime

import bson
import pytest
from bson import Decimal128, Int64, ObjectId, Timestamp
from bson.codec_options import CodecOptions
from hypothesis import given
from hypothesis import strategies as st

from wormdb.format import json
from wormdb.server.documents import read_document, read_filter, show_ids, show_rows, written_filter
from wormdb.server.lenient import make_strict
from wormdb.server.replies import ErrorReply

ONE = ObjectId("500000000000000000000001")

plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=5).filter(lambda name: "$" not in name), inner, max_size=3),
    ),
    max_leaves=10,
)


@given(plain)
def test_strict_json_means_the_same_to_the_lenient_reader(value: object) -> None:
    assert standard.loads(make_strict(standard.dumps(value))) == value
    assert standard.loads(make_strict(standard.dumps(value, ensure_ascii=False, indent=1))) == value


@given(st.text(max_size=40))
def test_the_lenient_reader_raises_nothing_but_value_errors(text: str) -> None:
    try:
        strict = make_strict(text)
    except ValueError:
        return
    standard.loads(strict)


@given(st.binary(max_size=60))
def test_bytes_are_a_filter_or_a_fault(data: bytes) -> None:
    for read in (read_filter, lambda each: read_document(each, "json"), lambda each: read_document(each, "bson")):
        with suppress(ErrorReply):
            assert isinstance(read(data), dict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: 1}", {"a": 1}),
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ("{a: [1, 2,], }", {"a": [1, 2]}),
        ("{a: ObjectId('500000000000000000000001')}", {"a": ONE}),
        ("{a: ISODate('2024-01-02T03:04:05Z')}", {"a": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)}),
        ("{a: new Date(1000)}", {"a": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}),
        ("{a: NumberLong(5), b: NumberInt('6'), c: NumberDecimal('1.5')}", {"a": 5, "b": 6, "c": Decimal128("1.5")}),
        ("{a: Timestamp(1, 2)}", {"a": Timestamp(1, 2)}),
        ("{a: .5, b: +1, c: -Infinity, d: undefined}", {"a": 0.5, "b": 1, "c": float("-inf"), "d": None}),
        ("{a: BinData(0, 'AQID')}", {"a": b"\x01\x02\x03"}),
        ("{'dotted.name': true}", {"dotted.name": True}),
    ],
)
def test_the_forms_of_the_shell(text: str, expected: dict[str, object]) -> None:
    assert read_filter(text.encode()) == expected


def test_bson_is_told_by_its_length() -> None:
    given = {"a": 1, "b": Int64(5), "c": {"$gt": 3}, "d": ONE}
    assert read_filter(bson.encode(given)) == given
    assert read_document(bson.encode({"_id": ONE, "x": 1.5}), "bson") == {"_id": ONE, "x": 1.5}
    with pytest.raises(ErrorReply, match="BQL parse error: Invalid BSON format"):
        read_filter(bson.encode(given)[:-1])


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"_id": str(ONE)}, {"_id": ONE}),
        ({"ref": str(ONE)}, {"ref": {"$in": [ONE, str(ONE)]}}),
        ({"ref": {"$ne": str(ONE)}}, {"ref": {"$nin": [ONE, str(ONE)]}}),
        ({"ref": {"$in": [str(ONE), "x"]}}, {"ref": {"$in": [ONE, str(ONE), "x"]}}),
        ({"_id": {"$gt": str(ONE)}}, {"_id": {"$gt": ONE}}),
        ({"$or": [{"_id": str(ONE)}, {"a": 1}]}, {"$or": [{"_id": ONE}, {"a": 1}]}),
        ({"l": {"$elemMatch": {"ref": str(ONE)}}}, {"l": {"$elemMatch": {"ref": {"$in": [ONE, str(ONE)]}}}}),
        ({"a": {"$not": {"$eq": str(ONE)}}}, {"a": {"$not": {"$in": [ONE, str(ONE)]}}}),
        ({"a": "5" * 23}, {"a": "5" * 23}),
    ],
)
def test_a_text_that_may_be_an_id_is_tried_as_both(tree: dict[str, object], expected: dict[str, object]) -> None:
    assert read_filter(standard.dumps(tree).encode()) == expected


def test_rows_are_shown_with_underscore_id() -> None:
    whole = json.encode({"id": ONE, "a": 1})
    assert show_rows([whole], "json") == [b'{"_id":"500000000000000000000001","a":1}']
    assert show_rows([b'{"id":"text","a":1}', b'{"a":"id"}'], "json") == [b'{"_id":"text","a":1}', b'{"a":"id"}']
    assert show_rows([b'{"a":1,"id":{"$oid":"500000000000000000000001"}}'], "json") == [
        b'{"a":1,"_id":"500000000000000000000001"}'
    ]
    when = datetime(2024, 1, 2, tzinfo=UTC)
    row = json.encode({"id": ONE, "when": when, "big": 2**40, "d": Decimal128("1.10"), "b": b"\0"})
    (shown,) = show_rows([row], "bson")
    assert bson.decode(shown, CodecOptions(tz_aware=True)) == {
        "_id": ONE,
        "when": when,
        "big": 2**40,
        "d": Decimal128("1.10"),
        "b": b"\0",
    }


def test_ids_are_shown_as_the_session_wants_them() -> None:
    assert show_ids([ONE, "text", 5], "hex") == [str(ONE), "text", b"5"]
    assert show_ids([ONE], "bytes") == [ONE.binary]


def test_a_filter_is_written_as_json() -> None:
    assert written_filter({"a": {"$gt": 5}, "b": ONE}) == b'{"a":{"$gt":5},"b":{"$oid":"500000000000000000000001"}}'
