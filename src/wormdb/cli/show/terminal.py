"""The terminal, guarded: whatever a database holds, no control character of it reaches the terminal.

Names, ids, actors, keys, messages and values come from any writer of the bucket. On a terminal a control character
among them could move the cursor, rewrite what was printed or answer in the user's name. So all that is written to a
terminal passes here, from every command, log and traceback, and what people must not meet is shown as an escape of
JSON. Styles of our own go by `write_own`.
"""

from __future__ import annotations

import codecs
import re
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["guard_terminals", "guarded_terminals", "harmless", "write_own"]

_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # not seen, or turning text
    "\U000e0000-\U000e0fff\ud800-\udfff]"  # tags, halves of characters
)


def harmless(text: str) -> str:
    """The text with what a terminal would obey, or people would not see, as escapes of JSON. No requests.

    Newlines and tabs stay, and a newline of CSV is one. Inside JSON the escapes mean the same characters.
    """
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    if ord(letter) < 0x10000:
        return f"\\u{ord(letter):04x}"
    units = letter.encode("utf-16-be")
    return f"\\u{units[:2].hex()}\\u{units[2:].hex()}"


class _Bytes:
    """Writes bytes to a terminal, cleaned."""

    def __init__(self, inner: IO[bytes], encoding: str) -> None:
        self._inner = inner
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def write(self, data: bytes) -> int:
        """Write all bytes, cleaned; returns how many were given."""
        text = harmless(self._decoder.decode(data))
        self._inner.write(text.encode(self._encoding, "replace"))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Guard:
    """A stream of text to a terminal that lets nothing harmful through."""

    def __init__(self, inner: IO[str]) -> None:
        self.inner = inner

    @property
    def buffer(self) -> _Bytes:
        """For bytes."""
        self.inner.flush()
        return _Bytes(self.inner.buffer, self.inner.encoding or "utf-8")  # type: ignore[attr-defined] # a TextIOWrapper

    def write(self, text: str) -> int:
        """Write the text, cleaned; returns its length."""
        self.inner.write(harmless(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write all of them, cleaned."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def write_own(text: str, *, err: bool = False) -> None:
    """Write text of which every part of others went through `harmless`: it may have styles and move the cursor."""
    stream: Any = sys.stderr if err else sys.stdout
    stream = stream.inner if isinstance(stream, _Guard) else stream
    stream.write(text)
    stream.flush()


def guard_terminals() -> None:
    """From now on, clean what is written to standard output and errors, where that is a terminal."""
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


def _guarded(stream: Any) -> Any:
    is_terminal = stream is not None and not isinstance(stream, _Guard) and stream.isatty()
    return _Guard(stream) if is_terminal else stream


@contextmanager
def guarded_terminals() -> Iterator[None]:
    """`guard_terminals` for a while."""
    before = sys.stdout, sys.stderr
    guard_terminals()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
