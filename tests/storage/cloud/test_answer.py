"""One HTTP answer is read exactly, or not at all."""

from __future__ import annotations

import io
from http.client import HTTPException

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.settings import ANSWER_BYTES_MAX, MIB
from wormdb.storage.cloud.answer import HEAD_BYTES_MAX, HEADERS_MAX, AnswerStream, TooLongError, read_answer

OK = b"HTTP/1.1 200 OK\r\n"


def stream_of(raw: bytes, step: int = 1 << 30) -> AnswerStream:
    """All of `raw`, received in pieces of `step` bytes."""
    pieces = io.BytesIO(raw)
    return AnswerStream(lambda count: pieces.read(min(count, step)))


def test_body_by_length() -> None:
    stream = stream_of(OK + b'ETag: "a:b"\r\nContent-Length: 4\r\nX-Odd:\r\n\r\nbodyNEXT')
    answer = read_answer(stream, "GET")
    assert (answer.status, answer.body) == (200, b"body")
    assert answer.headers == {"etag": '"a:b"', "content-length": "4", "x-odd": ""}
    assert stream.rest == b"NEXT"
    assert answer.may_continue is False  # what comes then answers no request


def test_body_in_chunks() -> None:
    stream = stream_of(
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nNEXT"
    )
    assert read_answer(stream, "GET").body == b"abc0123456789"
    assert stream.rest == b"NEXT"


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_body_that_ends_with_the_connection_is_no_success(method: str) -> None:
    """If the connection broke it would look the same: the entry that was written would be another's, shorter one."""
    for body in (b"all of it", b"all", b""):
        with pytest.raises(HTTPException):
            read_answer(stream_of(OK + b"\r\n" + body), method)
        answer = read_answer(stream_of(b"HTTP/1.1 500 X\r\n\r\n" + body), method)
        assert (answer.status, answer.body, answer.may_continue) == (500, body, False)


class Endless:
    """What begins like this and goes on for ever; `taken` are the bytes that were received."""

    def __init__(self, begin: bytes, again: bytes) -> None:
        self._rest, self._again, self.taken = begin, again, 0

    def receive(self, count: int) -> bytes:
        self._rest = self._rest or self._again
        piece, self._rest = self._rest[:count], self._rest[count:]
        self.taken += len(piece)
        return piece


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("status", [200, 206, 404, 500])
@pytest.mark.parametrize("framing", ["Transfer-Encoding: chunked", "Content-Length: 10000000000000", "X: y"])
def test_no_answer_is_read_without_end(method: str, status: int, framing: str) -> None:
    chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n" if "chunked" in framing else bytes(0x10000)
    endless = Endless(b"HTTP/1.1 %d X\r\n%s\r\n\r\n" % (status, framing.encode()), chunk)
    stream = AnswerStream(endless.receive)
    if status >= 300 and framing == "X: y":
        assert len(read_answer(stream, method).body) == ANSWER_BYTES_MAX
    else:
        is_object = method == "GET" and status < 300 and framing != "X: y"
        with pytest.raises(TooLongError if is_object else HTTPException):
            read_answer(stream, method, object_max=3 * MIB)
    assert endless.taken < 5 * MIB


@pytest.mark.parametrize("size", [0, 1, 100, 101, 4 * MIB, 9 * MIB + 1])
@pytest.mark.parametrize("bound", [100, 9 * MIB])
def test_an_object_is_read_up_to_its_bound(size: int, bound: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    framed = [
        b"Content-Length: %d\r\n\r\n%s" % (size, body),
        b"Transfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n" % (b"%x\r\n%s\r\n" % (size, body) if size else b""),
    ]
    for rest in framed:
        stream = stream_of(OK + rest)
        if size <= bound:
            assert read_answer(stream, "GET", object_max=bound).body == body
            continue
        with pytest.raises(TooLongError) as caught:
            read_answer(stream, "GET", object_max=bound)
        assert caught.value.size == size


@pytest.mark.parametrize(("status", "method"), [(204, "PUT"), (304, "GET"), (200, "HEAD")])
def test_answers_that_have_no_body(status: int, method: str) -> None:
    answer = read_answer(stream_of(b"HTTP/1.1 %d X\r\nContent-Length: 10\r\n\r\n" % status), method)
    assert (answer.status, answer.body, answer.may_continue) == (status, b"", True)


@pytest.mark.parametrize("head", [OK + b"Connection: close\r\n", OK + b"Connection: Close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_connection_that_will_close_is_not_kept(head: bytes) -> None:
    assert read_answer(stream_of(head + b"Content-Length: 0\r\n\r\n"), "GET").may_continue is False


def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert read_answer(stream_of(interim * 2 + OK + b"Content-Length: 0\r\n\r\n"), "PUT").status == 200
    with pytest.raises(HTTPException):
        read_answer(stream_of(interim * 50 + OK + b"Content-Length: 0\r\n\r\n"), "PUT")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        OK + b"Content-Length: 4\r\n\r\nbod",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: four\r\n\r\n",
        OK + b"Content-Length: 1_0\r\n\r\n0123456789",
        OK + b"Content-Length: +4\r\n\r\nbody",
        OK + b"Content-Length: \r\n\r\n",
        OK + b"Content-Length: \xb2\r\n\r\nbody",
        OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nbody",
        OK + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\nbody",
        OK + b"Content-Length: 4\r\nContent-Length: 3\r\n\r\nbody",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        OK + b"Content-Length: 4\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b": no name\r\n\r\n",
        OK + b"Name : blank\r\n\r\n",
        OK + b" folded: line\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"X: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n",
        OK + b"X: y\r\n" * (HEADERS_MAX + 1) + b"\r\n",
    ],
    ids=lambda raw: repr(raw[-30:]),
)
def test_anything_odd_is_no_answer(raw: bytes) -> None:
    with pytest.raises(HTTPException):
        read_answer(stream_of(raw), "GET")


@given(st.integers(0, 200), st.binary(max_size=40))
def test_no_truncation_passes_for_whole(cut: int, body: bytes) -> None:
    whole = OK + b'ETag: "v"\r\nContent-Length: %d\r\n\r\n' % len(body) + body
    if cut >= len(whole):
        assert read_answer(stream_of(whole), "GET").body == body
        return
    with pytest.raises(HTTPException):
        read_answer(stream_of(whole[:cut]), "GET")


@given(st.integers(1, 40), st.binary(max_size=40), st.sampled_from(["length", "chunks", "connection"]))
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(step: int, body: bytes, framing: str) -> None:
    if framing == "length":
        whole = OK + b'ETag: "v"\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body)
    elif framing == "chunks":
        chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
        whole = OK + b"Transfer-Encoding: chunked\r\n\r\n%s0\r\nX: t\r\n\r\n" % chunk
    else:
        whole = b"HTTP/1.1 404 X\r\nServer: s\r\n\r\n" + body
    in_pieces, at_once = read_answer(stream_of(whole, step), "GET"), read_answer(stream_of(whole), "GET")
    assert in_pieces == at_once
    assert in_pieces.body == body


def test_lines_may_end_without_a_carriage_return() -> None:
    for raw in (
        b"HTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\nX: y\r\n\nok",
    ):
        answer = read_answer(stream_of(raw), "GET")
        assert (answer.body, answer.headers) == (b"ok", {"content-length": "2", "x": "y"})
