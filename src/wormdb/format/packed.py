"""Content that is packed by gzip, unpacked within a bound."""

from __future__ import annotations

import zlib
from typing import Final

from wormdb.errors import LimitExceededError
from wormdb.format.frame import corrupt

__all__ = ["unpack"]

_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""zlib's word for gzip, with its header and checksum."""


def unpack(body: bytes, *, key: str, limit: int) -> bytes:
    """The content of a file that is packed by gzip; of one that is not, itself. Never more than `limit` bytes.

    Several members one behind the other are one content. Raises CorruptionError for one that is damaged or cut off,
    LimitExceededError for one that is larger; both name the key. No requests.
    """
    if not body.startswith(_GZIP):
        _check_size(len(body), key, limit)
        return body
    parts: list[bytes] = []
    size, rest = 0, body
    while rest:
        member = zlib.decompressobj(_GZIP_WINDOW)
        try:
            parts.append(member.decompress(rest, limit - size + 1))
        except zlib.error as error:
            corrupt(key, f"it cannot be unpacked: {error}")
        size += len(parts[-1])
        _check_size(size, key, limit)
        if not member.eof:
            corrupt(key, "it cannot be unpacked: it is cut off")
        rest = member.unused_data.lstrip(b"\0")  # tapes fill the end of a file with zeros
    return b"".join(parts)


def _check_size(size: int, key: str, limit: int) -> None:
    if size > limit:
        raise LimitExceededError(
            f"the file {key}",
            reason=f"it has more than {limit:,} bytes, unpacked",
            fix="worm import reads files of any size",
            key=key,
        )
