"""Places in answers as text: opaque, safe in URLs, and refused when they are damaged.

A token is no secret and no right: it says where to go on, and whoever asks has to be allowed to.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from zlib import crc32

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TokenKind", "refused", "seal", "unseal"]

TokenKind: TypeAlias = Literal["page", "cursor"]
"""What a token is for."""

_VERSION: Final = 1
_MARKS: Final[Mapping[TokenKind, int]] = {"page": 0x70, "cursor": 0x63}
_FIXES: Final[Mapping[TokenKind, str]] = {
    "page": "give the next_page of the page before as it is, or leave it out to begin at the first page",
    "cursor": "give the token of a cursor as it is, or open a new cursor",
}
_SUM_BYTES: Final = 4
_SHOWN_CHARS: Final = 24


def seal(kind: TokenKind, body: bytes) -> str:
    """Bytes as a token. No requests."""
    content = bytes([_MARKS[kind], _VERSION]) + body
    return _text(content + crc32(content).to_bytes(_SUM_BYTES, "big"))


def unseal(kind: TokenKind, token: object) -> bytes:
    """The bytes of a token; raises InvalidRequestError for anything else. No requests."""
    if not isinstance(token, str):
        raise refused(kind, token, f"it is {type(token).__name__}, and no text")
    try:
        whole = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except ValueError:
        whole = b""
    content, check = whole[:-_SUM_BYTES], whole[-_SUM_BYTES:]
    # Letters that the alphabet does not have are passed over by the decoder.
    if len(content) < 2 or crc32(content).to_bytes(_SUM_BYTES, "big") != check or _text(whole) != token:
        raise refused(kind, token, "it is damaged, or no token")
    if content[0] != _MARKS[kind]:
        raise refused(kind, token, "it is a token for something else")
    if content[1] != _VERSION:
        raise refused(kind, token, "another version of wormdb made it")
    return content[2:]


def refused(kind: TokenKind, token: object, reason: str) -> InvalidRequestError:
    """What is raised for a token that cannot be used. No requests."""
    shown = f"{token[:_SHOWN_CHARS]}…" if isinstance(token, str) and len(token) > _SHOWN_CHARS else token
    return InvalidRequestError(f"the {kind} token {shown!r:.60}", reason=reason, fix=_FIXES[kind])


def _text(whole: bytes) -> str:
    return urlsafe_b64encode(whole).decode().rstrip("=")
