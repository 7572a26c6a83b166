"""Replies as bytes, in RESP2 and RESP3. Pure: values in, bytes out.

Handlers give plain values: None, bool, int, float, bytes, str (both are bulk strings), lists and dicts; and the classes
below for what Python has no value for. RESP2 has no maps, booleans, doubles: maps become flat arrays, booleans 1 and 0,
doubles text.
"""

from __future__ import annotations

from math import isinf, isnan
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import NAMED_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOTHING", "OK", "ErrorReply", "NoReply", "ReplyFields", "Status", "encode_reply"]


class Status:
    """A simple string, such as OK."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """One line."""
        self.text = text


OK: Final = Status("OK")


class NoReply:
    """Nothing is sent: what the client asked for has no answer."""


NOTHING: Final = NoReply()


class ErrorReply(Exception):  # noqa: N818 - it is a reply of the protocol that handlers may also raise
    """An error reply: `PREFIX message`, one line."""

    def __init__(self, message: str, prefix: str = "ERR") -> None:
        """`prefix` is what programs look at."""
        self.prefix = prefix
        self.message = " ".join(message.split())
        super().__init__(f"{prefix} {self.message}")

    @property
    def line(self) -> str:
        """What is sent, of bounded length."""
        line = f"{self.prefix} {self.message}"
        return line if len(line) <= 2 * NAMED_CHARS_MAX else line[: 2 * NAMED_CHARS_MAX] + "…"


class ReplyFields:
    """Named fields whose order clients know: a map in RESP3, and in RESP2 the values alone."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        """In their order."""
        self.values = values


def encode_reply(value: Any, version: int) -> bytes:
    """The bytes of a reply in RESP `version`, 2 or 3."""
    parts: list[bytes] = []
    if type(value) is ReplyFields and version == 2:
        value = [*value.values.values()]
    _put(value, version, parts)
    return b"".join(parts)


def _put(value: Any, version: int, parts: list[bytes]) -> None:
    kind = type(value)
    if kind is bytes:
        parts.append(b"$%d\r\n%b\r\n" % (len(value), value))
    elif kind is str:
        data = value.encode("utf-8", "surrogatepass")
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    elif kind is int:
        parts.append(b":%d\r\n" % value)
    elif kind is list or kind is tuple:
        parts.append(b"*%d\r\n" % len(value))
        for each in value:
            if type(each) is bytes:  # rows, mostly
                parts.append(b"$%d\r\n%b\r\n" % (len(each), each))
            else:
                _put(each, version, parts)
    else:
        _put_other(value, version, parts)


def _put_other(value: Any, version: int, parts: list[bytes]) -> None:
    if value is None:
        parts.append(b"_\r\n" if version >= 3 else b"$-1\r\n")
    elif isinstance(value, bool):
        parts.append((b"#f\r\n", b"#t\r\n")[value] if version >= 3 else b":%d\r\n" % value)
    elif isinstance(value, float):
        _put_double(value, version, parts)
    elif isinstance(value, dict):
        _put_map(value, version, parts)
    elif isinstance(value, ReplyFields):
        _put(dict(value.values) if version >= 3 else list(value.values.values()), version, parts)
    elif isinstance(value, Status):
        parts.append(f"+{value.text}\r\n".encode())
    elif isinstance(value, ErrorReply):
        parts.append(f"-{value.line}\r\n".encode("utf-8", "replace"))
    elif not isinstance(value, NoReply):
        raise TypeError(f"a reply of type {type(value).__name__}")


def _put_map(value: Mapping[Any, Any], version: int, parts: list[bytes]) -> None:
    parts.append(b"%%%d\r\n" % len(value) if version >= 3 else b"*%d\r\n" % (2 * len(value)))
    for name, each in value.items():
        _put(name, version, parts)
        _put(each, version, parts)


def _put_double(value: float, version: int, parts: list[bytes]) -> None:
    text = "nan" if isnan(value) else ("inf" if value > 0 else "-inf") if isinf(value) else f"{value:.17g}"
    if version >= 3:
        parts.append(f",{text}\r\n".encode())
    else:
        _put(text, version, parts)
