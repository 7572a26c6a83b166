"""Changes of an index in order of key, however many there are: memory holds one chunk of them.

Applied in that order each leaf of the tree is written once. Chunks by id would reach most leaves again and again.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from wormdb.engine.tree.entries import Change

__all__ = ["ChangeSorter"]

_PART: Final = 1_000
"""Changes that are packed together."""
_KEY: Final = itemgetter(0)
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]])


class ChangeSorter:
    """Takes chunks of changes, each in order of key, and gives all of them in order. Not thread-safe.

    Of changes with one key the last one that was added counts. One chunk stays in memory; if there are more, all of
    them are in a temporary file, which is removed in the end.
    """

    def __init__(self, part: int = _PART) -> None:
        """Nothing is there yet; `part` changes of the file are read at once."""
        self._part = part
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
        for some in self._merged():
            found += some
            while len(found) >= size:
                yield found[:size]
                del found[:size]
        if found:
            yield found

    def _spill(self, changes: list[Change]) -> None:
        if self._file is None:
            from tempfile import TemporaryFile  # only large steps need it

            self._file = TemporaryFile(prefix="worm-index-")  # noqa: SIM115 - __exit__ closes it
        self._file.seek(0, 2)
        parts = []
        for start in range(0, len(changes), self._part):
            body = msgspec.msgpack.encode(changes[start : start + self._part])
            parts.append((self._file.tell(), len(body)))
            self._file.write(body)
        self._runs.append(parts)

    def _merged(self) -> Iterator[list[Change]]:
        """The changes of all chunks in order of key, some at a time, of each key the last.

        Sorted are those up to the least of the keys at which a chunk must be read on, so that no change is compared
        one by one.
        """
        rests = [iter(parts) for parts in self._runs]
        held: list[list[Change]] = [[] for _ in rests]
        while True:
            for place, rest in enumerate(rests):
                if not held[place]:
                    held[place] = self._read(next(rest, None))
            ends = [some[-1][0] for some in held if some]
            if not ends:
                return
            least, due = min(ends), []
            for place, some in enumerate(held):
                stop = bisect_right(some, least, key=_KEY)
                due += some[:stop]
                held[place] = some[stop:]
            due.sort(key=_KEY)  # stable: those of one key stay in the order in which they were added
            last = dict(due)
            yield due if len(last) == len(due) else list(last.items())

    def _read(self, part: tuple[int, int] | None) -> list[Change]:
        if part is None:
            return []
        assert self._file is not None, "runs are in the file"
        self._file.seek(part[0])
        return _DECODER.decode(self._file.read(part[1]))
