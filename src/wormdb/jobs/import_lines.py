"""Bytes of files that are read in parts: whole lines of a range, or a stream that is fetched bit by bit."""

from __future__ import annotations

import io
from typing import Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.jobs.target import store_at
from wormdb.settings import MIB, RECORD_BYTES_MAX
from wormdb.storage.store import ByteRange

__all__ = ["STEP_BYTES", "FileRange", "read_lines"]

STEP_BYTES: Final = 4 * MIB
"""Bytes of a stream that are fetched at once."""


def read_lines(folder: str, key: str, start: int, stop: int, size: int) -> tuple[int, bytes]:
    """The lines that begin in a range, and where the first one does: the end of the last one may lie behind it.

    1 GET, or a few.
    """
    store = store_at(folder)
    begin = max(start - 1, 0)
    data = store.get_range(key, ByteRange(begin, stop - begin))
    if start:
        # The byte before tells whether a line begins just here.
        skipped = data.find(b"\n") + 1 or len(data)
        begin, data = begin + skipped, data[skipped:]
    while data and not data.endswith(b"\n") and stop < size:
        more = store.get_range(key, ByteRange(stop, min(RECORD_BYTES_MAX, size - stop)))
        end = more.find(b"\n") + 1
        data += more[:end] if end else more
        stop += len(more)
        if end:
            break
    return begin, data


class FileRange(io.RawIOBase):
    """A range of a file as a stream that can be sought in. 1 GET for each `step` bytes. Not thread-safe."""

    def __init__(self, folder: str, key: str, start: int, stop: int, step: int = STEP_BYTES) -> None:
        """No requests."""
        self._store, self._key = store_at(folder), key
        self._start, self._size, self._step = start, stop - start, step
        self._at = 0
        self._held, self._held_at = b"", 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place in the range."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place in the range."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Read on, as much as there is. Raises InvalidRequestError if the file is shorter than it was."""
        target = memoryview(buffer).cast("B")
        wanted = min(len(target), self._size - self._at)
        if wanted <= 0:
            return 0
        behind = self._at - self._held_at
        if behind < 0 or behind + wanted > len(self._held):
            length = min(max(self._step, wanted), self._size - self._at)
            self._held = self._store.get_range(self._key, ByteRange(self._start + self._at, length))
            self._held_at, behind = self._at, 0
            if len(self._held) < length:
                raise InvalidRequestError(
                    self._key, reason="the file became shorter while it was read", fix="run the import again"
                )
        target[:wanted] = self._held[behind : behind + wanted]
        self._at += wanted
        return wanted
