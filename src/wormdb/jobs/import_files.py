"""Pieces of files on their way into a collection: sent to workers, read there, and put together again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from wormdb.jobs.import_conflicts import Suspect
from wormdb.jobs.import_load import Loaded
from wormdb.jobs.import_parts import Piece
from wormdb.jobs.import_read import rows_of
from wormdb.jobs.work import Item, Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.jobs.import_conflicts import Losers
    from wormdb.jobs.import_load import Loading
    from wormdb.jobs.import_read import Rows
    from wormdb.jobs.work import Runner, Told, Work

__all__ = ["FilePieces"]


@dataclass(frozen=True, slots=True)
class FilePieces:
    """Pieces that are parts of files."""

    pieces: Sequence[Piece]
    runner: Runner
    told: Told | None

    def load(self, loading: Loading, losers: Sequence[Losers]) -> list[Loaded]:
        """`Loading.load` of each piece, with its losers, if there are any; lines are those of whole files."""
        more = [msgspec.msgpack.encode(each) for each in losers] or [msgspec.msgpack.encode({})] * len(self.pieces)
        found = [msgspec.msgpack.decode(body, type=Loaded) for body in self._run("import", _Load(loading), more)]
        return list(_placed(self.pieces, found))

    def keys(self, loading: Loading) -> list[bytes]:
        """`Loading.keys` of each piece."""
        return self._run("import: keys", _Keys(loading), [b""] * len(self.pieces))

    def suspects(self, loading: Loading, hashes: frozenset[int]) -> list[list[Suspect]]:
        """`Loading.suspects` of each piece."""
        more = [msgspec.msgpack.encode(sorted(hashes))] * len(self.pieces)
        bodies = self._run("import: conflicts", _Suspects(loading), more)
        return [msgspec.msgpack.decode(body, type=list[Suspect]) for body in bodies]

    def _run(self, name: str, work: Work, more: Sequence[bytes]) -> list[bytes]:
        items = [
            Item(piece.name, msgspec.msgpack.encode((number, piece, extra)), piece.size)
            for number, (piece, extra) in enumerate(zip(self.pieces, more, strict=True))
        ]
        return self.runner.run(name, work, items, self.told)


def _placed(pieces: Sequence[Piece], loaded: Sequence[Loaded]) -> Iterator[Loaded]:
    """What was loaded, with the lines of whole files."""
    before = 0
    for piece, each in zip(pieces, loaded, strict=True):
        before = before if piece.parts[0].start else 0
        moved = [replace(record, line=record.line + before) for record in each.rejected] if before else each.rejected
        yield msgspec.structs.replace(each, rejected=moved)
        before += each.lines


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    number: int
    piece: Piece
    more: bytes


@dataclass(frozen=True, slots=True)
class _Load:
    """Loads one piece; a value that can be sent."""

    loading: Loading

    def __call__(self, body: bytes, /) -> Output:
        number, rows, more = _opened(self.loading, body)
        losers = msgspec.msgpack.decode(more, type=dict[int, tuple[str, bytes]])
        found = self.loading.load(number, rows, losers)
        return Output(msgspec.msgpack.encode(found), found.read)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Tells the keys of one piece; a value that can be sent."""

    loading: Loading

    def __call__(self, body: bytes, /) -> Output:
        number, rows, _ = _opened(self.loading, body)
        return Output(self.loading.keys(number, rows))


@dataclass(frozen=True, slots=True)
class _Suspects:
    """Tells which records of one piece have some keys; a value that can be sent."""

    loading: Loading

    def __call__(self, body: bytes, /) -> Output:
        number, rows, more = _opened(self.loading, body)
        hashes = frozenset(msgspec.msgpack.decode(more, type=list[int]))
        return Output(msgspec.msgpack.encode(self.loading.suspects(number, rows, hashes)))


def _opened(loading: Loading, body: bytes) -> tuple[int, Iterator[Rows], bytes]:
    sent = msgspec.msgpack.decode(body, type=_Sent)
    return sent.number, rows_of(sent.piece, loading.where.access().writer.model), sent.more
