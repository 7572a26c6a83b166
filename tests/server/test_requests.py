"""Commands from bytes: any split gives the same commands, bounds hold, and no other error comes than ProtocolError."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.wire import packed
from wormdb.server.requests import GUEST_BOUNDS, ProtocolError, RequestBounds, RequestParser, split_words

SMALL = RequestBounds(arguments=4, argument_bytes=20, command_bytes=40, line_bytes=30)
words = st.lists(st.binary(max_size=30), min_size=1, max_size=5)
plain = st.lists(st.text("abcXYZ019-_.:", min_size=1, max_size=8), min_size=1, max_size=5)


def commands_of(data: bytes, cuts: list[int], bounds: RequestBounds | None = None) -> list[list[bytes]]:
    """The commands of bytes that come in pieces."""
    parser = RequestParser() if bounds is None else RequestParser(bounds)
    found = []
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for start, stop in pairwise(places):
        parser.feed(data[start:stop])
        found += list(parser)
    return found


@given(st.lists(st.one_of(words, plain), max_size=6), st.lists(st.integers(0, 10_000), max_size=20), st.data())
def test_any_split_gives_the_same_commands(
    commands: list[list[bytes] | list[str]], cuts: list[int], data: st.DataObject
) -> None:
    sent, expected = b"", []
    for command in commands:
        as_bytes = [word if isinstance(word, bytes) else word.encode() for word in command]
        is_inline = all(isinstance(word, str) for word in command) and data.draw(st.booleans())
        sent += b" ".join(as_bytes) + b"\r\n" if is_inline else packed(*as_bytes)
        expected.append(as_bytes)
    assert commands_of(sent, cuts) == expected
    assert commands_of(sent, list(range(len(sent)))) == expected


def outcome(data: bytes, cuts: list[int], bounds: RequestBounds) -> tuple[list[list[bytes]], str]:
    parser = RequestParser(bounds)
    found: list[list[bytes]] = []
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    try:
        for start, stop in pairwise(places):
            parser.feed(data[start:stop])
            found += list(parser)
    except ProtocolError as error:
        return found, str(error)
    return found, ""


noise = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from([b"*1\r\n", b"*3\r\n", b"$3\r\nabc\r\n", b"$-1\r\n", b"*-1\r\n", b"*99999999999999999999\r\n"]),
        st.sampled_from(
            [b"*1048577\r\n", b"$536870913\r\n", b"PING\r\n", b'"unclosed\r\n', b"\r\n", b"*0\r\n", b"$x\r\n"]
        ),
        words.map(lambda each: packed(*each)),
    ),
    max_size=8,
).map(b"".join)


@given(noise, st.lists(st.integers(0, 10_000), max_size=12))
def test_whatever_is_sent_ends_the_same_way_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    whole, broken = outcome(data, [], SMALL)
    assert outcome(data, cuts, SMALL) == (whole, broken)
    for command in whole:
        assert command
        assert len(command) <= SMALL.arguments or sum(map(len, command)) <= SMALL.line_bytes
        assert all(len(word) <= max(SMALL.argument_bytes, SMALL.line_bytes) for word in command)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"*5\r\n", "invalid multibulk length"),
        (b"*100000000\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*" + b"1" * 30, "invalid multibulk length"),
        (b"*1\r\n$21\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*3\r\n$20\r\n" + b"a" * 20 + b"\r\n$20\r\n" + b"a" * 20 + b"\r\n$1\r\n", "too big command"),
        (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        (b"*1\r\n$1\r\nabc", "an argument does not end with CRLF"),
        (b"a" * 40, "too big inline request"),
        (b"a b c d e\r\n", "too many words in an inline request"),
        (b'"a\r\n', "unbalanced quotes in request"),
        (b'"a"b\r\n', "unbalanced quotes in request"),
    ],
)
def test_bounds_hold_before_anything_is_kept(data: bytes, reason: str) -> None:
    parser = RequestParser(SMALL)
    parser.feed(data)
    with pytest.raises(ProtocolError) as caught:
        list(parser)
    assert str(caught.value) == reason


def test_an_announced_argument_reserves_no_memory() -> None:
    parser = RequestParser()
    parser.feed(b"*2\r\n$60000000\r\n")
    assert parser.next() is None
    assert len(parser._buffer) < 100


def test_a_guest_may_send_less() -> None:
    assert GUEST_BOUNDS.command_bytes < RequestParser().bounds.command_bytes
    parser = RequestParser(GUEST_BOUNDS)
    parser.feed(b"*33\r\n")
    with pytest.raises(ProtocolError):
        parser.next()


def test_what_was_read_is_not_kept() -> None:
    parser = RequestParser()
    for _ in range(1_000):
        parser.feed(packed("PING", "x" * 1_000))
        assert len(list(parser)) == 1
    assert parser.held == 0
    assert len(parser._buffer) == 0


def test_empty_lines_and_empty_arrays_are_passed_over() -> None:
    assert commands_of(b"\r\n\n*0\r\n*-1\r\nPING\n", []) == [[b"PING"]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'SET k "two words"', [b"SET", b"k", b"two words"]),
        (b"SET k 'it\\'s'", [b"SET", b"k", b"it's"]),
        (b'"\\x41\\n\\"\\\\"', [b'A\n"\\']),
        (b"'a\\nb'", [b"a\\nb"]),
        (b'""', [b""]),
        (b"  a\t b  ", [b"a", b"b"]),
    ],
)
def test_words_are_split_as_redis_cli_does(line: bytes, expected: list[bytes]) -> None:
    assert split_words(line) == expected


@given(st.lists(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x2FF, exclude_characters="\\"), max_size=9)))
def test_quoted_words_come_back(texts: list[str]) -> None:
    line = shlex.join(text.replace("'", "") for text in texts)
    assert split_words(line.encode()) == [text.replace("'", "").encode() for text in texts]
