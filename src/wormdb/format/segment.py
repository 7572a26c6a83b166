"""Document ids as one segment of an object key or one file name: injective and reversible.

A string id is itself where its bytes are harmless, so that people find their files; every other byte
is written %XX. Ids of other types start with % and a letter that is not a hex digit, so no string can
be taken for one. Nothing a user chooses gives an empty name, `.`, `..`, a name that starts with a
dot (such as `.worm`), a slash, a character outside ASCII, or a name reserved by Windows.
Names that differ in case only stay different, as keys do; a store on a file system that folds
case has to guard itself.
"""

from __future__ import annotations

import re
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import Binary, BSONError, Decimal128, ObjectId, Timestamp
from wormdb.format.wrappers import milliseconds, moment
from wormdb.settings import ID_BYTES_MAX, INT_MAX, INT_MIN, SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_id", "decode_folders", "decode_segment", "encode_folders", "encode_segment"]

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.@")
_ESCAPED: Final = [chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in range(256)]
_ESCAPE: Final = re.compile("%([0-9A-F]{2})")
_RESERVED: Final = re.compile(r"(CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(\.|$)", re.IGNORECASE)
# Most ids: text that is its own name.
_PLAIN: Final = re.compile(
    r"(?!(?:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(?:\.|$))[a-z0-9_@-](?:[a-z0-9_.@-]*[a-z0-9_@-])?",
    re.IGNORECASE | re.ASCII,
)
_UUID_SUBTYPE: Final = 4


def check_id(value: Any) -> None:
    """Refuse what cannot be an `_id`: None, arrays, documents, regular expressions, NaN and the like.

    An id is a normalized string (not empty), integer, finite number, ObjectId, binary, date,
    boolean or timestamp. Raises InvalidRequestError; LimitExceededError over ID_BYTES_MAX. No requests.
    """
    kind = type(value)
    if kind is str and value and value.isascii() and len(value) <= ID_BYTES_MAX:
        return
    if kind not in _WRITERS:
        reason = f"{kind.__name__} cannot be an id"
        raise InvalidRequestError("this _id cannot be used", reason=reason, fix="use a string, a number or an ObjectId")
    if (fault := _fault(value)) is not None:
        raise InvalidRequestError(f"{kind.__name__} _id cannot be used", reason=f"it is {fault}", fix="use another id")
    size = len(value.encode() if isinstance(value, str) else value) if isinstance(value, str | bytes) else 0
    if size > ID_BYTES_MAX:
        reason = f"ID_BYTES_MAX is {ID_BYTES_MAX}"
        raise LimitExceededError(f"an _id takes {size} bytes", reason=reason, fix="use a shorter id, or a hash of it")


def _fault(value: Any) -> str | None:
    if isinstance(value, str):
        is_text = value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
        return "empty" if not value else None if is_text else "not valid Unicode: it holds half of a surrogate pair"
    if isinstance(value, float):
        return None if isfinite(value) else "not finite"
    if isinstance(value, Decimal128):
        return None if value.to_decimal().is_finite() else "not finite"
    return "over 64 bits" if isinstance(value, int) and not INT_MIN <= value <= INT_MAX else None


def encode_segment(value: Any) -> str:
    """The segment of an id: ASCII, one name, at most SEGMENT_BYTES_MAX bytes.

    Raises what `check_id` raises, and LimitExceededError if the id is too long for a name. No requests.
    """
    if type(value) is str and len(value) <= SEGMENT_BYTES_MAX and _PLAIN.fullmatch(value):
        return value
    check_id(value)
    letter, text = _WRITERS[type(value)](value)
    escaped = "".join([_ESCAPED[byte] for byte in text.encode()])
    segment = f"%{letter}{escaped}" if letter else _guarded(escaped)
    if len(segment) > SEGMENT_BYTES_MAX:
        raise LimitExceededError(
            f"an _id takes {len(segment)} bytes as a name",
            reason=f"SEGMENT_BYTES_MAX is {SEGMENT_BYTES_MAX}",
            fix="use a shorter id, or turn readable files off for this model",
        )
    return segment


def _guarded(name: str) -> str:
    """`name` without a dot at either end, and not one that Windows reserves."""
    if name.endswith("."):
        name = f"{name[:-1]}%2E"
    if name.startswith(".") or _RESERVED.match(name):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return name


def decode_segment(text: str) -> Any:
    """The id whose segment is `text`; InvalidRequestError if `encode_segment` never wrote it. No requests."""
    try:
        value = _read(text)
        if encode_segment(value) == text:
            return value
    except (ValueError, ArithmeticError, BSONError, InvalidRequestError):
        pass
    raise InvalidRequestError(
        f"{text[:80]!r} is not the name of a document",
        reason="wormdb writes no id in this way",
        fix="leave objects of other programs out",
        key=text,
    )


# --- Text ids that are paths: a folder for each part. Folders of partitions, `year=2024`, keep their sign.


def encode_folders(value: str) -> str:
    """The key of an id that is a path, `2024/05/17/abc`: each part as a segment, but `=` is itself.

    Raises as `encode_segment`; an empty part cannot be written. No requests.
    """
    return "/".join(encode_segment(part).replace("%3D", "=") for part in value.split("/"))


def decode_folders(text: str) -> str:
    """The id whose key is `text`; InvalidRequestError if `encode_folders` never wrote it. No requests."""
    parts = [decode_segment(part.replace("=", "%3D")) for part in text.split("/")]
    if not all(type(part) is str and "/" not in part for part in parts):
        decode_segment("")  # raises
    return "/".join(parts)


def _read(text: str) -> Any:
    letter = text[1:2] if text.startswith("%") else ""
    read = _READERS.get(letter, _read_text)
    payload = text[2:] if letter in _READERS else text
    return read(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), payload))


def _read_text(payload: str) -> str:
    return payload.encode("latin-1").decode()  # escapes stand for bytes of UTF-8


def _read_binary(payload: str) -> bytes | Binary:
    subtype, data = int(payload[:2], 16), bytes.fromhex(payload[2:])
    return Binary(data, subtype) if subtype else data


def _read_timestamp(payload: str) -> Timestamp:
    time, _, increment = payload.partition("-")
    return Timestamp(int(time), int(increment))


def _write_binary(value: bytes) -> tuple[str, str]:
    subtype = value.subtype if isinstance(value, Binary) else 0
    if subtype == _UUID_SUBTYPE and len(value) == 16:
        return "u", value.hex()
    return "x", f"{subtype:02x}{value.hex()}"


_WRITERS: Final[dict[type, Callable[[Any], tuple[str, str]]]] = {
    str: lambda value: ("", value),
    int: lambda value: ("i", str(value)),
    float: lambda value: ("r", repr(value)),
    Decimal128: lambda value: ("g", str(value)),
    ObjectId: lambda value: ("o", str(value)),
    bytes: _write_binary,
    Binary: _write_binary,
    datetime: lambda value: ("t", str(milliseconds(value))),
    Timestamp: lambda value: ("s", f"{value.time}-{value.inc}"),
    bool: lambda value: ("y", "1" if value else "0"),
}

_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "i": int,
    "r": float,
    "g": Decimal128,
    "o": ObjectId,
    "u": lambda payload: Binary(bytes.fromhex(payload), _UUID_SUBTYPE),
    "x": _read_binary,
    "t": lambda payload: moment(int(payload)),
    "s": _read_timestamp,
    "y": lambda payload: payload == "1",
}
