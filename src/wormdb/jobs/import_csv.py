"""Large CSV in parts: a break in quotes is no end of a row, and only what is before tells whether it is in quotes.

So each chunk of lines is surveyed for both cases, side by side with the others; then one pass over the answers tells
which case each chunk is, and where in it a row begins.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from wormdb.api.records import RowCut, cut_rows, read_columns
from wormdb.jobs.import_lines import read_lines
from wormdb.jobs.target import store_at
from wormdb.jobs.work import Output
from wormdb.settings import RECORD_BYTES_MAX
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.jobs.import_parts import Part

__all__ = ["Chunk", "Survey", "parts_between", "survey"]

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Survey:
    """A chunk that is to be surveyed: the lines that begin in a range of bytes."""

    folder: str
    key: str
    separator: str
    start: int
    stop: int
    size: int

    def encode(self) -> bytes:
        """To be sent."""
        return msgspec.msgpack.encode(self)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a chunk is like."""

    begin: int
    """Where its first line begins."""
    lines: int
    closed: RowCut
    """If a row begins there."""
    open: RowCut
    """If a quoted cell goes on from before."""

    @classmethod
    def decode(cls, body: bytes) -> Chunk:
        """What was sent."""
        return msgspec.msgpack.decode(body, type=Chunk)


def survey(body: bytes, /) -> Output:
    """Look where rows begin in a chunk, whichever way it begins. 1 GET, or a few."""
    asked = msgspec.msgpack.decode(body, type=Survey)
    begin, data = read_lines(asked.folder, asked.key, asked.start, asked.stop, asked.size)
    whole = data if asked.start else data.removeprefix(_BOM)
    lines = data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
    closed = cut_rows(whole, asked.separator, is_open=False)
    found = Chunk(begin, lines, closed, cut_rows(data, asked.separator, is_open=True))
    return Output(msgspec.msgpack.encode(found), lines)


def parts_between(folder: str, part: Part, chunks: Iterable[Chunk]) -> Iterator[Part]:
    """The parts of a file whose chunks are known, each of whole rows. 1 GET for the columns.

    Raises InvalidRequestError if the first line names none.
    """
    cuts = list(_cuts(chunks))
    stops = [*(start for start, _ in cuts[1:]), part.size]
    begin = store_at(folder).get_range(part.key, ByteRange(0, min(stops[0], RECORD_BYTES_MAX)))
    columns = tuple(read_columns(io.BytesIO(begin), part.separator))
    for (start, lines), stop in zip(cuts, stops, strict=True):
        yield replace(part, start=start, stop=stop, first=lines, columns=columns if start else None)


def _cuts(chunks: Iterable[Chunk]) -> Iterator[tuple[int, int]]:
    """Where rows begin after about a chunk each: the byte, and the lines before it."""
    is_open, lines, last = False, 0, -1
    for chunk in chunks:
        cut = chunk.open if is_open else chunk.closed
        if cut.start is not None and chunk.begin + cut.start > last:
            last = chunk.begin + cut.start
            yield last, lines + cut.lines
        is_open, lines = cut.is_open, lines + chunk.lines
