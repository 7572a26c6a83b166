"""Documents that were found near to something, with their vectors ready to be scored: what a process keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.engine.lists.codes import load_numpy
from wormdb.format import json
from wormdb.format.path import get_direct
from wormdb.format.vector import read_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.state.view import StoredVersion
    from wormdb.format.path import Path

__all__ = ["Fetch", "KnownRow", "KnownRows"]

Fetch: TypeAlias = "Callable[[Sequence[bytes]], dict[bytes, StoredVersion]]"
"""What gives the documents of some keys, of those that are there."""

_ROW_MEMORY: Final = 400
"""Bytes of the objects around a row, about."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownRow:
    """A document with a vector."""

    held: StoredVersion
    numbers: Any
    """The vector as float64."""
    length: float
    """The root of its product with itself, each rounded once."""
    greatest: float
    """The greatest of its numbers, without the sign."""


class KnownRows:
    """Documents of one state by the keys of their ids, up to a number of bytes. Thread-safe."""

    def __init__(self, path: Path, dimensions: int, bytes_max: int, before: KnownRows | None = None) -> None:
        """Without documents. Of those of another state the vectors are taken over, where documents are the same."""
        self.size = 0
        """Bytes of what it keeps, about."""
        self.size_before: int = 0 if before is None else max(before.size, before.size_before)
        """At most what it still holds of the other state."""
        self._path = path
        self._dimensions = dimensions
        self._bytes_max = bytes_max
        self._rows: dict[bytes, KnownRow | None] = {}
        """None for a key under which there is no such document."""
        self._others: dict[bytes, KnownRow | None] = {} if before is None else before.newest()
        self._lock = Lock()

    def newest(self) -> dict[bytes, KnownRow | None]:
        """What is kept of this state, or if that is nothing of the one before. No requests."""
        return self._rows or self._others

    def find(self, keys: Sequence[bytes], fetch: Fetch) -> list[KnownRow | None]:
        """The documents of some keys; None if it is not there, or has no vector. What is not kept costs as `fetch`."""
        rows = self._rows  # another thread may begin anew
        try:
            return [*map(rows.__getitem__, keys)]
        except KeyError:
            new = self._learn([key for key in keys if key not in rows], fetch)
        return [new[key] if key in new else rows[key] for key in keys]

    def _learn(self, keys: Sequence[bytes], fetch: Fetch) -> dict[bytes, KnownRow | None]:
        made: dict[bytes, KnownRow | None] = dict.fromkeys(keys)
        for key, held in fetch(keys).items():
            other = self._others.get(key)
            is_same = other is not None and other.held.document == held.document
            made[key] = (
                KnownRow(held, other.numbers, other.length, other.greatest) if is_same and other else self._read(held)
            )
        cost = sum(map(self._cost, made.values()))
        with self._lock:
            if self.size + cost > self._bytes_max:
                self._rows, self._others, self.size, self.size_before = {}, {}, 0, 0
            if cost <= self._bytes_max:
                self._rows |= made
                self.size += cost
        return made

    def _read(self, held: StoredVersion) -> KnownRow | None:
        value = get_direct(json.decode_fields(held.document or b"", self._path[:1], name="document"), self._path)
        vector = read_vector(value, self._dimensions)
        if isinstance(vector, str):
            return None
        numbers = load_numpy().array(vector, "float64")
        return KnownRow(held, numbers, sqrt(fsum((numbers * numbers).tolist())), float(abs(numbers).max()))

    def _cost(self, row: KnownRow | None) -> int:
        return _ROW_MEMORY if row is None else _ROW_MEMORY + 8 * self._dimensions + len(row.held.document or b"")
