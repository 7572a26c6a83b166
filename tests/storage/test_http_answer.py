"""One HTTP answer is read exactly, or not at all."""

from __future__ import annotations

import io
from http.client import HTTPException

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.storage.http_answer import HEADERS_MAX, LINE_BYTES_MAX, read_answer

OK = b"HTTP/1.1 200 OK\r\n"


def test_body_by_length() -> None:
    stream = io.BytesIO(OK + b'ETag: "a:b"\r\nContent-Length: 4\r\nX-Odd:\r\n\r\nbodyNEXT')
    answer = read_answer(stream, "GET")
    assert (answer.status, answer.body, answer.may_continue) == (200, b"body", True)
    assert answer.headers == {"etag": '"a:b"', "content-length": "4", "x-odd": ""}
    assert stream.read() == b"NEXT"


def test_body_in_chunks() -> None:
    stream = io.BytesIO(
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nNEXT"
    )
    assert read_answer(stream, "GET").body == b"abc0123456789"
    assert stream.read() == b"NEXT"


def test_body_to_the_end() -> None:
    answer = read_answer(io.BytesIO(OK + b"\r\nall of it"), "GET")
    assert (answer.body, answer.may_continue) == (b"all of it", False)


@pytest.mark.parametrize(("status", "method"), [(204, "PUT"), (304, "GET"), (200, "HEAD")])
def test_answers_that_have_no_body(status: int, method: str) -> None:
    answer = read_answer(io.BytesIO(b"HTTP/1.1 %d X\r\nContent-Length: 10\r\n\r\n" % status), method)
    assert (answer.status, answer.body, answer.may_continue) == (status, b"", True)


@pytest.mark.parametrize("head", [OK + b"Connection: close\r\n", OK + b"Connection: Close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_connection_that_will_close_is_not_kept(head: bytes) -> None:
    assert read_answer(io.BytesIO(head + b"Content-Length: 0\r\n\r\n"), "GET").may_continue is False


def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert read_answer(io.BytesIO(interim * 2 + OK + b"Content-Length: 0\r\n\r\n"), "PUT").status == 200
    with pytest.raises(HTTPException):
        read_answer(io.BytesIO(interim * 50 + OK + b"Content-Length: 0\r\n\r\n"), "PUT")


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
        OK + b"Content-Length: 4\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b": no name\r\n\r\n",
        OK + b"Name : blank\r\n\r\n",
        OK + b" folded: line\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"X: " + b"y" * LINE_BYTES_MAX + b"\r\n\r\n",
        OK + b"X: y\r\n" * (HEADERS_MAX + 1) + b"\r\n",
    ],
    ids=lambda raw: repr(raw[-30:]),
)
def test_anything_odd_is_no_answer(raw: bytes) -> None:
    with pytest.raises(HTTPException):
        read_answer(io.BytesIO(raw), "GET")


@given(st.integers(0, 200), st.binary(max_size=40))
def test_no_truncation_passes_for_whole(cut: int, body: bytes) -> None:
    whole = OK + b'ETag: "v"\r\nContent-Length: %d\r\n\r\n' % len(body) + body
    if cut >= len(whole):
        assert read_answer(io.BytesIO(whole), "GET").body == body
        return
    with pytest.raises(HTTPException):
        read_answer(io.BytesIO(whole[:cut]), "GET")
