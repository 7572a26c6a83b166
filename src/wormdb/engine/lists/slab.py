"""The lists of an index of vectors as arrays, ready to be multiplied: what a process keeps of them.

What an object has of a list never changes, so it stays when runs are added; which entries count is of one head.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.shelf import Label
from wormdb.engine.lists.codes import load_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.lists.codes import Codes, Singles
    from wormdb.engine.lists.read import ListReader, RunList
    from wormdb.format.list_part import StoredList, TextArray
    from wormdb.format.list_run import ListHead

__all__ = ["VectorPiece", "VectorSlab", "keep_slab", "open_slab"]

_SLAB_KIND: Final = "vectors"
_CACHE_SHARE: Final = 0.5
"""Of the cache for columns that the lists of one index may take."""
_PIECE_MEMORY: Final = 1_500
"""Bytes of the objects around the entries of a list, about …"""
_ID_MEMORY: Final = 32
"""… and of an id."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorPiece:
    """The entries that one run has of one list."""

    codes: Codes
    """A row for each, as it is stored."""
    factors: Singles
    """What their scores are made of besides, as `VectorKind.make_factors` has it."""
    ids: TextArray
    hidden: Any
    """The places of entries that do not count; None if all do."""


class VectorSlab:
    """The lists of one head that were read so far. Thread-safe: what it keeps may be made twice."""

    def __init__(self, head: ListHead, bytes_max: int) -> None:
        """Without lists; those of other heads are taken over by `follow`. No requests."""
        self.head = head
        self.size = 0
        """Bytes of what it keeps, about."""
        self._bytes_max = bytes_max
        self._names = [part.name for run in head.runs for part in run.parts]
        self._stored: dict[tuple[str, bytes], StoredList | None] = {}
        """By object and key, also of lists that an object does not have."""
        self._pieces: dict[bytes, tuple[VectorPiece, ...]] = {}
        self._lock = Lock()

    def follow(self, head: ListHead) -> VectorSlab:
        """What is kept of a newer head, or of an older one: all that objects of both have. No requests."""
        slab = VectorSlab(head, self._bytes_max)
        names = set(slab._names)
        with self._lock:
            slab._stored = {place: found for place, found in self._stored.items() if place[0] in names}
        slab.size = sum(map(_size, slab._stored.values()))
        return slab

    def read(self, reader: ListReader, keys: Sequence[bytes]) -> list[VectorPiece]:
        """The entries of some lists, of all runs. What is not kept costs as `ListReader.read`."""
        pieces = self._pieces
        try:
            return [piece for key in keys for piece in pieces[key]]
        except KeyError:
            found = self._load(reader, [key for key in keys if key not in pieces])
        # Another thread may have dropped some meanwhile: then they are read anew.
        known = {key: held for key in keys if (held := found.get(key, pieces.get(key))) is not None}
        known |= self._load(reader, [key for key in keys if key not in known])
        return [piece for key in keys for piece in known[key]]

    def _load(self, reader: ListReader, keys: Sequence[bytes]) -> dict[bytes, tuple[VectorPiece, ...]]:
        """Some lists, which are kept from now on as far as there is room."""
        if not keys:
            return {}
        stored = self._stored
        held = {place: stored[place] for name in self._names for key in keys if (place := (name, key)) in stored}
        lists = reader.read(keys, held)
        made = {key: tuple(map(_piece, filter(_has_entries, lists.get(key, ())))) for key in keys}
        with self._lock:
            self._pieces |= made
            for place, found in held.items():
                if place not in stored:
                    stored[place] = found
                    self.size += _size(found)
            while self.size > self._bytes_max and stored:
                self._drop(next(iter(stored))[1])
        return made

    def _drop(self, key: bytes) -> None:
        """Keep a list no longer."""
        self._pieces.pop(key, None)
        for name in self._names:
            if (name, key) in self._stored:
                self.size -= _size(self._stored.pop((name, key)))


def open_slab(reader: ListReader) -> VectorSlab:
    """What is kept of the lists of a reader, from now on for its head. No requests."""
    if reader.folder is None:
        return VectorSlab(reader.head, 0)
    cache = reader.folder.shelf.pages
    held: VectorSlab | None = cache.find(Label(reader.folder.folder, _SLAB_KIND))
    if held is not None and (held.head is reader.head or held.head == reader.head):
        return held
    opened = VectorSlab(reader.head, int(cache.bytes_max * _CACHE_SHARE)) if held is None else held.follow(reader.head)
    keep_slab(reader, opened)
    return opened


def keep_slab(reader: ListReader, slab: VectorSlab) -> None:
    """Keep it for others, as far as the cache has room. No requests."""
    if reader.folder is not None:
        reader.folder.shelf.pages.keep(Label(reader.folder.folder, _SLAB_KIND), slab, slab.size)


def _has_entries(found: RunList) -> bool:
    return found.entries.count > 0


def _piece(found: RunList) -> VectorPiece:
    numpy = load_numpy()
    entries = found.entries
    codes, *factors = entries.columns
    count = entries.count
    columns = [numpy.frombuffer(each, "<f4") for each in factors]
    return VectorPiece(
        numpy.frombuffer(codes, numpy.int8).reshape(count, -1),
        # A copy: what is stored may lie anywhere in memory, and single numbers are fast where they are aligned.
        numpy.stack(columns, axis=1).astype(numpy.float32),
        entries.ids,
        numpy.array(sorted(found.hidden), numpy.int64) if found.hidden else None,
    )


def _size(found: StoredList | None) -> int:
    if found is None:
        return _PIECE_MEMORY
    return _PIECE_MEMORY + sum(map(len, found.columns)) + _ID_MEMORY * (found.count + len(found.gone))
