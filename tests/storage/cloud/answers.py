"""Answers that a store, a proxy or a liar may give: status, error code, body and how its length is said, generated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.http_script import Raw

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OBJECT", "Framing", "HostileAnswer", "error_xml", "hostile_answers"]

OBJECT = b"0123456789abcdef"
_LISTING = b"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated></ListBucketResult>"
_DELETED = b"<DeleteResult/>"
_PAGE = b"<html><body>Welcome to nginx!</body></html>"


def error_xml(code: str) -> bytes:
    """The body with which S3 and Azure explain an error."""
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>m</Message></Error>'.encode()


class Framing(Enum):
    """How an answer says where its body ends."""

    LENGTH = auto()
    CHUNKS = auto()
    CLOSE = auto()
    """It does not: the body ends with the connection."""
    CUT = auto()
    """A length, and fewer bytes."""
    LONGER = auto()
    """A length, and more bytes."""
    CHUNKS_CUT = auto()
    CHUNK_TOO_LONG = auto()
    """A chunk of 10^13 bytes."""
    ODD_LENGTH = auto()
    """A length that is none, or more than there can be."""
    TWO_LENGTHS = auto()
    """Two lengths that differ."""


WHOLE = frozenset({Framing.LENGTH, Framing.CHUNKS, Framing.LONGER})
"""After these a reader knows that it has the whole body that the answer spoke of."""
_ODD_LENGTHS = ("10000000000000", "1" + "0" * 30, "9" * 5000, "-1", "1_0", "+16", "0x10", "sixteen", "16, 16", "٣", "")


@dataclass(frozen=True)
class HostileAnswer:
    """One answer, and what it may be taken for."""

    status: str
    body: bytes
    framing: Framing
    headers: Mapping[str, str]
    odd_length: str = "-1"

    @property
    def code(self) -> str:
        """The error code in its body, if the body is not cut."""
        return self.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()

    def says(self, status: int, *codes: str) -> bool:
        """Whether a reader that has the whole of it finds this status and one of these codes."""
        if self.framing not in WHOLE | {Framing.CLOSE, Framing.CUT, Framing.CHUNKS_CUT, Framing.TWO_LENGTHS}:
            return False
        return self.status == str(status) and (not codes or self.code in codes)

    @property
    def is_whole(self) -> bool:
        """Whether a reader can know that nothing of it is missing."""
        return self.framing in WHOLE or self.status in ("204", "304")

    def raw(self) -> Raw:
        """As bytes on the connection, which is closed after them."""
        body, lines = (
            self.body,
            [f"HTTP/1.1 {self.status} X", *(f"{name}: {text}" for name, text in self.headers.items())],
        )
        match self.framing:
            case Framing.LENGTH:
                lines.append(f"Content-Length: {len(body)}")
            case Framing.CUT:
                lines.append(f"Content-Length: {len(body) + 1}")
            case Framing.LONGER:
                lines.append(f"Content-Length: {len(body)}")
                body += b"HTTP/1.1 200 OK\r\n"
            case Framing.ODD_LENGTH:
                lines.append(f"Content-Length: {self.odd_length}")
            case Framing.TWO_LENGTHS:
                lines += [f"Content-Length: {len(body)}", f"Content-Length: {len(body) + 7}"]
            case Framing.CHUNKS | Framing.CHUNKS_CUT | Framing.CHUNK_TOO_LONG:
                lines.append("Transfer-Encoding: chunked")
                size = 10**13 if self.framing is Framing.CHUNK_TOO_LONG else len(body)
                end = b"0\r\n\r\n" if self.framing is Framing.CHUNKS else b""
                body = (b"%x\r\n%s\r\n" % (size, body) if body else b"") + end
            case Framing.CLOSE:
                pass
        return Raw(("\r\n".join(lines) + "\r\n\r\n").encode() + body)


_STATUSES = (
    "200 200 200 206 206 404 404 404 201 204 301 304 400 401 403 408 409 412 416 416 429 500 501 502 503 999 99999 2x0"
)
_CODES = (
    "NoSuchKey NoSuchBucket PreconditionFailed SlowDown InvalidRange AccessDenied BlobNotFound ContainerNotFound Odd"
)
_HEADERS = {
    "ETag": ('"v"', '"v"', "", '"a\x0bb"'),
    "Date": (
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Mon, 99 Foo 99999 10:00:00 GMT",
        "Mon, 16 Nov 2026 10:00:00 +99999999999",
        "",
    ),
    "Last-Modified": ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "never", ""),
    "Content-Range": (
        f"bytes 0-7/{len(OBJECT)}",
        f"bytes 0-7/{len(OBJECT)}",
        "bytes 8-15/16",
        "bytes */16",
        "bytes 0-7/*",
        "0",
        "",
    ),
    "x-amz-request-id": ("4442587FB7D0A2F9", ""),
    "x-goog-generation": ("41", "41", ""),
    "Connection": ("close", ""),
}


@st.composite
def hostile_answers(draw: st.DrawFn, ours: bytes = OBJECT) -> HostileAnswer:
    """Any of these things together; `ours` is among the bodies."""
    headers = {name: draw(st.sampled_from(values)) for name, values in _HEADERS.items()}
    bodies = [b"", ours, OBJECT[:8], OBJECT[:5], _LISTING, _DELETED, _PAGE, b"404 page not found\n", bytes(3_000)]
    bodies += [error_xml(code) for code in _CODES.split()] * 2
    return HostileAnswer(
        draw(st.sampled_from(_STATUSES.split())),
        draw(st.sampled_from(bodies)),
        draw(st.sampled_from(Framing)),
        {name: text for name, text in headers.items() if text},
        draw(st.sampled_from(_ODD_LENGTHS)),
    )
