"""Read one HTTP/1.1 answer from a stream, strictly: anything odd is refused.

The standard library reads headers with its mail parser, which took half of a small request's
processor time. Stores answer with a few plain headers, so this reads just those.

No number in an answer is believed before it is compared with what the caller can take, and memory is taken as bytes
arrive: what an answer says of its length costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from http.client import BadStatusLine, HTTPException, IncompleteRead
from typing import TYPE_CHECKING

from wormdb.settings import ANSWER_BYTES_MAX, MIB

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

__all__ = ["Answer", "TooLongError", "read_answer", "whole_number"]

LINE_BYTES_MAX = 64 * 1024
HEADERS_MAX = 200
INTERIM_ANSWERS_MAX = 10
DIGITS_MAX = 18
"""Of a length: no object has 10^18 bytes, and Python takes a number of any length for one."""
PIECE_BYTES = 4 * MIB
"""Read at once, so that a length that is a lie takes no memory."""


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


def read_answer(stream: BinaryIO, method: str, *, object_max: int = ANSWER_BYTES_MAX) -> Answer:
    """The answer to a `method` request; raises HTTPException or OSError if it does not come whole.

    An object that was asked for may have `object_max` bytes: raises TooLongError for more. Anything else that is said
    may have ANSWER_BYTES_MAX.
    """
    for _ in range(INTERIM_ANSWERS_MAX):
        version, status = _read_status(stream)
        headers = _read_headers(stream)
        if status >= 200:
            break
    else:
        raise BadStatusLine("too many interim answers")
    may_continue = version == b"HTTP/1.1" and headers.get("connection", "").lower() != "close"
    if method == "HEAD" or status in (204, 304):
        return Answer(status, headers, b"", may_continue)
    is_object = method == "GET" and status in (200, 206)
    try:
        body = _read_body(stream, headers, object_max if is_object else ANSWER_BYTES_MAX)
    except TooLongError as error:
        if is_object:
            raise
        raise HTTPException("the answer is too long") from error
    if body is not None:
        return Answer(status, headers, body, may_continue)
    if status < 300:
        # Such a body ends with the connection, and one that was cut ends so too.
        raise HTTPException("the length of a success is not said")
    return Answer(status, headers, stream.read(ANSWER_BYTES_MAX), may_continue=False)


def whole_number(text: str) -> int:
    """A length in a header; raises HTTPException for anything but plain digits. No requests."""
    return _number(text.encode("latin-1"), b"0123456789", 10)


def _read_line(stream: BinaryIO) -> bytes:
    line = stream.readline(LINE_BYTES_MAX)
    if not line.endswith(b"\n"):
        raise IncompleteRead(b"")
    return line.rstrip(b"\r\n")


def _read_status(stream: BinaryIO) -> tuple[bytes, int]:
    version, _, rest = _read_line(stream).partition(b" ")
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit() or rest[3:4] not in (b"", b" "):
        raise BadStatusLine("no status line")
    return version, int(rest[:3])


def _read_headers(stream: BinaryIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(HEADERS_MAX):
        line = _read_line(stream)
        if not line:
            return headers
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise HTTPException("a header is malformed")
        known, text = name.decode("latin-1").lower(), value.strip().decode("latin-1")
        if headers.setdefault(known, text) != text and known == "content-length":
            raise HTTPException("two lengths of one body")
    raise HTTPException("too many headers")


def _number(text: bytes, digits: bytes, base: int) -> int:
    if not text or len(text) > DIGITS_MAX or text.strip(digits):
        raise HTTPException("a length is malformed")
    return int(text, base)


def _read_body(stream: BinaryIO, headers: Mapping[str, str], bytes_max: int) -> bytes | None:
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
    return _read_exactly(stream, size)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(min(count, PIECE_BYTES))
        if not part:
            raise IncompleteRead(b"", count)
        parts.append(part)
        count -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_chunks(stream: BinaryIO, bytes_max: int) -> bytes:
    parts, total = [], 0
    while count := _number(_read_line(stream).partition(b";")[0].strip(), b"0123456789abcdefABCDEF", 16):
        total += count
        if total > bytes_max:
            raise TooLongError(total)
        parts.append(_read_exactly(stream, count))
        if _read_line(stream):
            raise HTTPException("a chunk is longer than it says")
    _read_headers(stream)
    return b"".join(parts)
