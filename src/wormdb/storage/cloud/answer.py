"""Read one HTTP/1.1 answer from a stream, strictly: anything odd is refused.

The standard library reads headers with its mail parser, which took half of a small request's
processor time. Stores answer with a few plain headers, so this reads just those.

No number in an answer is believed before it is compared with what the caller can take, and memory is taken as bytes
arrive: what an answer says of its length costs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import BadStatusLine, HTTPException, IncompleteRead
from typing import TYPE_CHECKING

from wormdb.settings import ANSWER_BYTES_MAX, KIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Answer", "AnswerStream", "TooLongError", "read_answer", "whole_number"]

HEAD_BYTES_MAX = 64 * KIB
HEADERS_MAX = 200
INTERIM_ANSWERS_MAX = 10
DIGITS_MAX = 18
"""Of a length: no object has 10^18 bytes, and Python takes a number of any length for one."""
PIECE_BYTES = 256 * KIB
"""Received at once, so that a length that is a lie takes no memory."""
FIRST_BYTES = 16 * KIB
"""Received at once before a length is known: most answers are shorter."""

_END_OF_LINE = re.compile(rb"\n")
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_BLANKS = " \t\r\v\f"


class TooLongError(HTTPException):
    """The object in the answer is longer than the caller can take; `size` is what was said, or seen so far, of it."""

    def __init__(self, size: int) -> None:
        """No requests."""
        super().__init__(f"a body of {size} bytes or more")
        self.size = size


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer, whole. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    may_continue: bool
    """Whether the connection may carry another request."""


class AnswerStream:
    """Bytes as they arrive, and those of them that were not taken yet."""

    __slots__ = ("_receive", "rest")

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        """`receive` brings at most as many bytes as are asked for, at least one but at the end. Nothing came yet."""
        self._receive = receive
        self.rest = b""

    def through(self, end: re.Pattern[bytes]) -> bytes:
        """What comes before the next `end`, which is taken too, without a carriage return; raises HTTPException."""
        held, start = self.rest, 0
        while (found := end.search(held, start)) is None:
            if len(held) > HEAD_BYTES_MAX:
                raise HTTPException("the answer has no end of its headers")
            more = self._receive(FIRST_BYTES)
            if not more:
                raise IncompleteRead(b"")
            start = max(0, len(held) - 2)  # the end may have come by half
            held += more
        self.rest = held[found.end() :]
        return held[: found.start()].rstrip(b"\r")

    def read(self, count: int) -> bytes:
        """The next `count` bytes; raises IncompleteRead if there are fewer."""
        held = self.rest
        if len(held) >= count:
            self.rest = held[count:]
            return held[:count]
        parts = [held]
        self.rest, count = b"", count - len(held)
        while count:
            part = self._receive(min(count, PIECE_BYTES))
            if not part:
                raise IncompleteRead(b"", count)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def read_to_end(self, bytes_max: int) -> bytes:
        """All that comes, or the first `bytes_max` bytes of it."""
        parts, size = [self.rest], len(self.rest)
        while size < bytes_max and (part := self._receive(PIECE_BYTES)):
            parts.append(part)
            size += len(part)
        whole = b"".join(parts)
        self.rest = whole[bytes_max:]
        return whole[:bytes_max]


def read_answer(stream: AnswerStream, method: str, *, object_max: int = ANSWER_BYTES_MAX) -> Answer:
    """The answer to a `method` request; raises HTTPException or OSError if it does not come whole.

    An object that was asked for may have `object_max` bytes: raises TooLongError for more. Anything else that is said
    may have ANSWER_BYTES_MAX.
    """
    for _ in range(INTERIM_ANSWERS_MAX):
        first, *lines = stream.through(_END_OF_HEAD).decode("latin-1").split("\n")
        version, status = _status(first.rstrip("\r"))
        headers = _headers(lines)
        if status >= 200:
            break
    else:
        raise BadStatusLine("too many interim answers")
    may_continue = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    body: bytes | None = b""
    if method != "HEAD" and status not in (204, 304):
        is_object = method == "GET" and status in (200, 206)
        try:
            body = _read_body(stream, headers, object_max if is_object else ANSWER_BYTES_MAX)
        except TooLongError as error:
            if is_object:
                raise
            raise HTTPException("the answer is too long") from error
    if body is None:
        if status < 300:
            # Such a body ends with the connection, and one that was cut ends so too.
            raise HTTPException("the length of a success is not said")
        return Answer(status, headers, stream.read_to_end(ANSWER_BYTES_MAX), may_continue=False)
    # What comes after its end answers no request.
    return Answer(status, headers, body, may_continue and not stream.rest)


def whole_number(text: str) -> int:
    """A length in a header; raises HTTPException for anything but plain digits. No requests."""
    if len(text) > DIGITS_MAX or not (text.isascii() and text.isdigit()):
        raise HTTPException("a length is malformed")
    return int(text)


def _status(line: str) -> tuple[str, int]:
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdigit()) or rest[3:4] not in ("", " "):
        raise BadStatusLine("no status line")
    return version, int(code)


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > HEADERS_MAX:
        raise HTTPException("too many headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name[0] <= " " or name[-1] <= " ":
            raise HTTPException("a header is malformed")
        known, text = name.lower(), value.strip(_BLANKS)
        if headers.setdefault(known, text) != text and known == "content-length":
            raise HTTPException("two lengths of one body")
    return headers


def _read_body(stream: AnswerStream, headers: Mapping[str, str], bytes_max: int) -> bytes | None:
    """The body as the headers tell its end; None if they do not. Raises TooLongError before it takes too much."""
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise HTTPException("unknown transfer encoding")
        return _read_chunks(stream, bytes_max)
    if "content-length" not in headers:
        return None
    size = whole_number(headers["content-length"])
    if size > bytes_max:
        raise TooLongError(size)
    return stream.read(size)


def _read_chunks(stream: AnswerStream, bytes_max: int) -> bytes:
    parts, total = [], 0
    while count := _chunk_size(stream.through(_END_OF_LINE)):
        total += count
        if total > bytes_max:
            raise TooLongError(total)
        parts.append(stream.read(count))
        if stream.through(_END_OF_LINE):
            raise HTTPException("a chunk is longer than it says")
    trailers: list[str] = []
    while line := stream.through(_END_OF_LINE):
        trailers.append(line.decode("latin-1"))
        if len(trailers) > HEADERS_MAX:
            break
    _headers(trailers)
    return b"".join(parts)


def _chunk_size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    if not text or len(text) > DIGITS_MAX or text.strip(b"0123456789abcdefABCDEF"):
        raise HTTPException("a length is malformed")
    return int(text, 16)
