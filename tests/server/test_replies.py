"""Replies as bytes: read back by redis-py's own reader and by ours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.server.replies import NOTHING, OK, ErrorReply, ReplyFields, Status, encode_reply


@pytest.mark.parametrize(
    ("value", "second", "third"),
    [
        (OK, b"+OK\r\n", b"+OK\r\n"),
        (Status("PONG"), b"+PONG\r\n", b"+PONG\r\n"),
        (None, b"$-1\r\n", b"_\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (False, b":0\r\n", b"#f\r\n"),
        (-7, b":-7\r\n", b":-7\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        (math.inf, b"$3\r\ninf\r\n", b",inf\r\n"),
        (-math.inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
        (math.nan, b"$3\r\nnan\r\n", b",nan\r\n"),
        ("ä", b"$2\r\n\xc3\xa4\r\n", b"$2\r\n\xc3\xa4\r\n"),
        (b"\0\r\n", b"$3\r\n\0\r\n\r\n", b"$3\r\n\0\r\n\r\n"),
        ([1, [b"a"]], b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n"),
        ({"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        (
            ReplyFields({"a": 1, "b": [2]}),
            b"*2\r\n:1\r\n*1\r\n:2\r\n",
            b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n:2\r\n",
        ),
        (ErrorReply("no\r\n  good"), b"-ERR no good\r\n", b"-ERR no good\r\n"),
        (ErrorReply("x", "NOSUCH"), b"-NOSUCH x\r\n", b"-NOSUCH x\r\n"),
        (NOTHING, b"", b""),
    ],
)
def test_each_kind_in_both_protocols(value: object, second: bytes, third: bytes) -> None:
    assert encode_reply(value, 2) == second
    assert encode_reply(value, 3) == third


@given(st.text())
def test_an_error_is_always_one_line_of_bounded_length(message: str) -> None:
    line = encode_reply(ErrorReply(message), 3)
    assert line.startswith(b"-ERR ")
    assert line.endswith(b"\r\n")
    assert b"\r" not in line[:-2]
    assert b"\n" not in line[:-2]
    assert len(line) < 20_000


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.binary(max_size=5), inner, max_size=4)),
    max_leaves=12,
)


@given(values)
def test_another_reader_reads_what_was_meant(value: object) -> None:
    assert _read(memoryview(encode_reply(value, 3)))[0] == value


def _read(data: memoryview) -> tuple[object, memoryview]:
    """A reader of RESP3 of its own: a value, and what follows it."""
    line, rest = bytes(data[: bytes(data).index(b"\r\n")]), data[bytes(data).index(b"\r\n") + 2 :]
    kind, text = line[:1], line[1:]
    if kind in b"_#:":
        return {b"_": None, b"#": text == b"t"}.get(kind) if kind != b":" else int(text), rest
    size = int(text)
    if kind == b"$":
        return bytes(rest[:size]), rest[size + 2 :]
    items: list[object] = []
    for _ in range(size * (2 if kind == b"%" else 1)):
        item, rest = _read(rest)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if kind == b"%" else items), rest


def test_a_reply_of_no_kind_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        encode_reply(object(), 3)
