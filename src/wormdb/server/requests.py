"""Commands as clients send them: RESP arrays of bulk strings, or a line of words. Pure: bytes in, commands out.

`RequestParser` is fed whatever arrives, in any pieces, and gives commands as soon as they are whole. What a client may
make it keep is bounded before anything is kept: the number of arguments, the bytes of one of them and of a whole
command, the length of a line. A client that has not said who it is gets the smaller bounds of `GUEST_BOUNDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GUEST_BOUNDS", "USER_BOUNDS", "ProtocolError", "RequestBounds", "RequestParser", "split_words"]


class ProtocolError(Exception):
    """Bytes that are not a command, or one over its bounds. The connection is of no more use. Inside this package."""


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """What one command may have."""

    arguments: int
    argument_bytes: int
    command_bytes: int
    line_bytes: int = 65_536


USER_BOUNDS: Final = RequestBounds(arguments=100_001, argument_bytes=64 << 20, command_bytes=64 << 20)
GUEST_BOUNDS: Final = RequestBounds(arguments=32, argument_bytes=4_096, command_bytes=16_384, line_bytes=4_096)

_DIGITS_MAX: Final = 19
_HEAD_BYTES_MAX: Final = _DIGITS_MAX + 3
"""Of `*` or `$`, a sign, and a number."""
_KEPT_BYTES: Final = 65_536
"""What has been read is cut off from the buffer when it is this much."""


class RequestParser:
    """Makes commands of bytes. For one connection; it keeps only what is not a whole command yet."""

    __slots__ = ("_at", "_buffer", "_bytes", "_parts", "_size", "_wanted", "bounds")

    def __init__(self, bounds: RequestBounds = USER_BOUNDS) -> None:
        """Nothing was fed. `bounds` may be changed between commands."""
        self.bounds = bounds
        self._buffer = bytearray()
        self._at = 0
        self._parts: list[bytes] = []
        self._wanted = 0
        """Arguments that the command at hand still lacks; 0 between commands."""
        self._size = -1
        """Bytes of the next argument; -1 if that is not known yet."""
        self._bytes = 0

    @property
    def held(self) -> int:
        """Bytes that it keeps."""
        return len(self._buffer) + self._bytes

    @property
    def left(self) -> int:
        """Bytes that were fed and are not a part of any command that `next` has given."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        """Take bytes. Nothing is looked at before `next` is asked for commands."""
        self._buffer += data

    def __iter__(self) -> Iterator[list[bytes]]:
        """The commands that are whole; raises ProtocolError at the first that can never be."""
        while (command := self.next()) is not None:
            yield command

    def next(self) -> list[bytes] | None:
        """The next whole command, never an empty one; None if more bytes are needed. Raises ProtocolError."""
        while True:
            if self._wanted:
                if not self._fill():
                    self._shrink()
                    return None
                command, self._parts, self._bytes = self._parts, [], 0
                return command
            if self._at >= len(self._buffer):
                self._shrink()
                return None
            if self._buffer[self._at] == 0x2A:  # *
                count = self._number("multibulk length", self.bounds.arguments)
                if count is None:
                    self._shrink()
                    return None
                self._wanted = max(count, 0)
                continue
            words = self._line()
            if words is None:
                self._shrink()
                return None
            if words:
                return words

    def _fill(self) -> bool:
        """Take the arguments that are there; whether the command is whole."""
        buffer = self._buffer
        self._fill_short()
        while self._wanted:
            if self._size < 0:
                if self._at >= len(buffer):
                    return False
                if buffer[self._at] != 0x24:  # $
                    raise ProtocolError(f"expected '$', got '{_shown(buffer[self._at])}'")
                size = self._number("bulk length", self.bounds.argument_bytes)
                if size is None:
                    return False
                if size < 0:
                    raise ProtocolError("invalid bulk length")
                self._bytes += size
                if self._bytes > self.bounds.command_bytes:
                    raise ProtocolError("too big command")
                self._size = size
            end = self._at + self._size
            if len(buffer) < end + 2:
                return False
            if buffer[end] != 0x0D or buffer[end + 1] != 0x0A:
                raise ProtocolError("an argument does not end with CRLF")
            self._parts.append(bytes(buffer[self._at : end]))
            self._at, self._size = end + 2, -1
            self._wanted -= 1
        return True

    def _fill_short(self) -> None:
        """Take arguments as long as they are short and whole, as most are; what is anything else, is left as it is."""
        if self._size >= 0:
            return
        buffer, at, wanted, parts = self._buffer, self._at, self._wanted, self._parts
        size = len(buffer)
        most, room = self.bounds.argument_bytes, self.bounds.command_bytes - self._bytes
        # `$3\r\nabc\r\n`: at most three digits.
        while wanted and at + 4 < size and buffer[at] == 0x24:
            head = buffer.find(b"\r\n", at + 2, at + 6)
            digits = buffer[at + 1 : head]
            if head < 0 or not digits.isdigit():
                break
            length = int(digits)
            end = head + 2 + length
            if length > most or length > room or buffer[end : end + 2] != b"\r\n":
                break
            parts.append(bytes(buffer[head + 2 : end]))
            at, wanted, room = end + 2, wanted - 1, room - length
        self._bytes = self.bounds.command_bytes - room
        self._at, self._wanted = at, wanted

    def _number(self, what: str, most: int) -> int | None:
        """The number behind the sign at hand, and go on behind it; None if its line is not whole."""
        start = self._at + 1
        end = self._buffer.find(b"\r\n", start, start + _HEAD_BYTES_MAX)
        if end < 0:
            if len(self._buffer) - start >= _HEAD_BYTES_MAX:
                raise ProtocolError(f"invalid {what}")
            return None
        digits = bytes(self._buffer[start:end])
        if not digits.removeprefix(b"-").isdigit() or len(digits) > _DIGITS_MAX:
            raise ProtocolError(f"invalid {what}")
        number = int(digits)
        if number > most:
            raise ProtocolError(f"invalid {what}")
        self._at = end + 2
        return number

    def _line(self) -> list[bytes] | None:
        """The words of a line; None if it is not whole."""
        most = self.bounds.line_bytes
        end = self._buffer.find(b"\n", self._at, self._at + most + 1)
        if end < 0:
            if len(self._buffer) - self._at > most:
                raise ProtocolError("too big inline request")
            return None
        line = bytes(self._buffer[self._at : end]).removesuffix(b"\r")
        self._at = end + 1
        words = split_words(line)
        if len(words) > self.bounds.arguments:
            raise ProtocolError("too many words in an inline request")
        return words

    def _shrink(self) -> None:
        if self._at and (self._at >= _KEPT_BYTES or self._at == len(self._buffer)):
            del self._buffer[: self._at]
            self._at = 0


_ESCAPES: Final = {0x6E: 0x0A, 0x72: 0x0D, 0x74: 0x09, 0x62: 0x08, 0x61: 0x07}
_BLANKS: Final = b" \t\n\r\v\f\0"


def split_words(line: bytes) -> list[bytes]:
    r"""The words of a line, as redis-cli splits it: "double quotes" with \n, \" and \x41, and 'single quotes'.

    Raises ProtocolError for a quote that is not closed, or after which a word goes on.
    """
    words: list[bytes] = []
    at, end = 0, len(line)
    while True:
        while at < end and line[at] in _BLANKS:
            at += 1
        if at >= end:
            return words
        word = bytearray()
        while at < end and line[at] not in _BLANKS:
            if line[at] in (0x22, 0x27):
                at = _quoted(line, at, word)
                if at < end and line[at] not in _BLANKS:
                    raise ProtocolError("unbalanced quotes in request")
            else:
                word.append(line[at])
                at += 1
        words.append(bytes(word))


def _quoted(line: bytes, at: int, word: bytearray) -> int:
    """Read a quoted part into `word`; where it goes on."""
    quote = line[at]
    at += 1
    while at < len(line):
        letter = line[at]
        if letter == quote:
            return at + 1
        if letter == 0x5C and at + 1 < len(line):
            following = line[at + 1]
            if quote == 0x27:
                if following == 0x27:
                    letter, at = following, at + 1
            elif following == 0x78 and _is_hex(line[at + 2 : at + 4]):
                letter, at = int(line[at + 2 : at + 4], 16), at + 3
            else:
                letter, at = _ESCAPES.get(following, following), at + 1
        word.append(letter)
        at += 1
    raise ProtocolError("unbalanced quotes in request")


def _is_hex(text: bytes) -> bool:
    return len(text) == 2 and all(letter in b"0123456789abcdefABCDEF" for letter in text)


def _shown(byte: int) -> str:
    return chr(byte) if 0x20 < byte < 0x7F else f"\\x{byte:02x}"
