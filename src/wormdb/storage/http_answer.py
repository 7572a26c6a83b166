"""Read one HTTP/1.1 answer from a stream, strictly: anything odd is no answer.

The standard library reads headers with its mail parser, which took half of a small request's
processor time. Stores answer with a few plain headers, so this reads just those.
"""

from __future__ import annotations

from dataclasses import dataclass
from http.client import BadStatusLine, HTTPException, IncompleteRead
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

__all__ = ["Answer", "read_answer"]

LINE_BYTES_MAX = 64 * 1024
HEADERS_MAX = 200
INTERIM_ANSWERS_MAX = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer, whole. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    may_continue: bool
    """Whether the connection may carry another request."""


def read_answer(stream: BinaryIO, method: str) -> Answer:
    """The answer to a `method` request; raises HTTPException or OSError if it does not come whole."""
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
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise HTTPException("unknown transfer encoding")
        return Answer(status, headers, _read_chunks(stream), may_continue)
    if "content-length" in headers:
        return Answer(
            status, headers, _read_exactly(stream, _number(headers["content-length"].encode(), 10)), may_continue
        )
    return Answer(status, headers, stream.read(), may_continue=False)


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
        headers.setdefault(name.decode("latin-1").lower(), value.strip().decode("latin-1"))
    raise HTTPException("too many headers")


def _number(text: bytes, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise HTTPException("a length is malformed")
    return number


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    body = stream.read(count)
    if len(body) != count:
        raise IncompleteRead(b"", count - len(body))
    return body


def _read_chunks(stream: BinaryIO) -> bytes:
    parts = []
    while count := _number(_read_line(stream).partition(b";")[0].strip(), 16):
        parts.append(_read_exactly(stream, count))
        if _read_line(stream):
            raise HTTPException("a chunk is longer than it says")
    _read_headers(stream)
    return b"".join(parts)
