"""A client that shares no code with the server: it sends words, and shows replies as text, in RESP2 and RESP3."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Wire", "packed", "shown_text"]


def packed(*words: str | bytes | int) -> bytes:
    """A command as an array of bulk strings."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def shown_text(data: bytes) -> str:
    """Bulk strings as text in quotes; bytes that are no text as hex."""
    try:
        text = data.decode().replace("\r\n", "\\r\\n").replace("\n", "\\n")
    except UnicodeDecodeError:
        text = "\0"
    return f'"{text}"' if text.isprintable() else f"0x{data.hex()}"


class Wire:
    """One connection. Replies are shown by `ask`: +OK, -ERR …, :1, "text", nil, #t, ,1.5, [a, b], {a: b}."""

    def __init__(self, port: int, version: int = 2) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self.socket.makefile("rb")
        if version == 3:
            assert self.ask("HELLO", "3").startswith("{")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, *words: str | bytes | int) -> str:
        self.send(packed(*words))
        return self.read()

    def read(self) -> str:
        """The next reply, shown. Raises ConnectionError at the end."""
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2].decode()
        if kind in b"+-:,#":
            return line[:-2].decode()
        if kind == b"_" or rest == "-1":
            return "nil"
        count = int(rest)
        if kind == b"$":
            data = self._file.read(count + 2)
            return shown_text(data[:-2])
        if kind == b"*":
            return "[" + ", ".join(self.read() for _ in range(count)) + "]"
        assert kind == b"%", line
        return "{" + ", ".join(f"{self.read()}: {self.read()}" for _ in range(count)) + "}"

    def is_closed(self) -> bool:
        """Whether the server closed it; waits for that."""
        return self._file.read(1) == b""

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
