"""Changes of an index in order of key, however many there are: memory holds one chunk of them.

Applied in that order each leaf of the tree is written once. Chunks by id would reach most leaves again and again.
"""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from wormdb.engine.tree.entries import Change

__all__ = ["ChangeSorter"]

_PART: Final = 1_000
"""Changes that are packed together."""
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]])


class ChangeSorter:
    """Takes chunks of changes, each in order of key, and gives all of them in order. Not thread-safe.

    Of changes with one key the last one that was added counts. One chunk stays in memory; if there are more, all of
    them are in a temporary file, which is removed in the end.
    """

    def __init__(self) -> None:
        """Nothing is there yet."""
        self._only: list[Change] | None = None
        self._file: IO[bytes] | None = None
        self._runs: list[list[tuple[int, int]]] = []
        """Of each chunk, where its parts are in the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, changes: list[Change]) -> None:
        """Take a chunk in. No requests."""
        if self._only is None and not self._runs:
            self._only = changes
            return
        if self._only is not None:
            self._spill(self._only)
            self._only = None
        self._spill(changes)

    def chunks(self, size: int) -> Iterator[list[Change]]:
        """All changes in order of key, at most `size` at once; a single chunk as it was added. No requests."""
        if self._only is not None:
            yield self._only
            return
        found: list[Change] = []
        for change in _last_of_each(heapq.merge(*map(self._read, self._runs), key=itemgetter(0))):
            found.append(change)
            if len(found) == size:
                yield found
                found = []
        if found:
            yield found

    def _spill(self, changes: list[Change]) -> None:
        if self._file is None:
            from tempfile import TemporaryFile  # only large steps need it

            self._file = TemporaryFile(prefix="worm-index-")  # noqa: SIM115 - __exit__ closes it
        self._file.seek(0, 2)
        parts = []
        for start in range(0, len(changes), _PART):
            body = msgspec.msgpack.encode(changes[start : start + _PART])
            parts.append((self._file.tell(), len(body)))
            self._file.write(body)
        self._runs.append(parts)

    def _read(self, parts: Iterable[tuple[int, int]]) -> Iterator[Change]:
        for start, length in parts:
            assert self._file is not None, "runs are in the file"
            self._file.seek(start)
            yield from _DECODER.decode(self._file.read(length))


def _last_of_each(changes: Iterable[Change]) -> Iterator[Change]:
    """Of changes with the same key, which come in the order they were added, the last one."""
    held: Change | None = None
    for change in changes:
        if held is not None and held[0] != change[0]:
            yield held
        held = change
    if held is not None:
        yield held
