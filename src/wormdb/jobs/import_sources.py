"""Files that an import reads: found in folders and buckets, cut into pieces, and read record by record."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.jobs.export_files import store_at
from wormdb.jobs.place import absolute
from wormdb.limits import MIB, RECORD_BYTES_MAX
from wormdb.records import form_of, read_records
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from wormdb.records import Record

__all__ = ["FORMS", "FileForm", "Piece", "pieces_of", "read_piece", "whole_of"]

FileForm = Literal["ndjson", "json", "csv", "parquet"]
FORMS: Final[tuple[FileForm, ...]] = ("ndjson", "json", "csv", "parquet")
PIECE_BYTES: Final = 32 * MIB
"""Files of lines are cut into pieces of about this size."""
_BY_SUFFIX: Final[dict[str, FileForm]] = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
_PEEK: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or the lines of one that begin in a range of bytes. A value that can be sent."""

    folder: str
    key: str
    form: FileForm
    separator: str
    start: int
    stop: int
    size: int
    """Of the whole file."""

    @property
    def name(self) -> str:
        """For people."""
        where = f"{self.folder.rstrip('/')}/{self.key}"
        return where if (self.start, self.stop) == (0, self.size) else f"{where}, bytes {self.start:,} to {self.stop:,}"


def pieces_of(sources: Iterable[str], form: FileForm | None, separator: str | None) -> list[Piece]:
    """The pieces of files, and of all files in folders. 1 LIST for a folder, 1 HEAD and 1 GET for each file.

    Raises InvalidRequestError for a file whose form nothing tells, NotFoundError for one that is not there.
    """
    found = [piece for source in sources for piece in _pieces(source, form, separator)]
    if not found:
        raise InvalidRequestError("import", reason="there are no files", fix="name files, or a folder with some")
    return found


def _pieces(source: str, form: FileForm | None, separator: str | None) -> Iterator[Piece]:
    folder, key = _split(source)
    if key:
        yield from _cut(folder, key, store_at(folder).head(key).size, form, separator)
        return
    for page in store_at(folder).list():
        for info in page.objects:
            name = info.key.rpartition("/")[2]
            if not name.startswith((".", "_")) and info.size:
                yield from _cut(folder, info.key, info.size, form, separator)


def _split(source: str) -> tuple[str, str]:
    """A folder or bucket, and the file in it; no file if all are meant."""
    if "://" in source:
        folder, _, key = source.rpartition("/")
        return (source, "") if not key or not Path(key).suffix else (folder, key)
    path = Path(absolute(source))
    if path.is_dir():
        return str(path), ""
    if not path.is_file():
        raise NotFoundError(source, reason="there is no such file or folder", fix="check the name")
    return str(path.parent), path.name


def _cut(folder: str, key: str, size: int, form: FileForm | None, separator: str | None) -> Iterator[Piece]:
    begin = store_at(folder).get_range(key, ByteRange(0, _PEEK))
    is_packed = begin.startswith(_GZIP)
    suffix = Path(key.removesuffix(".gz")).suffix.lower()
    chosen = form or _BY_SUFFIX.get(suffix) or ("ndjson" if is_packed else form_of(begin))
    between = separator or ("\t" if suffix == ".tsv" else ",")
    is_cut = chosen == "ndjson" and not is_packed
    step = PIECE_BYTES if is_cut else max(size, 1)
    for start in range(0, max(size, 1), step):
        yield Piece(folder, key, chosen, between, start, min(start + step, size), size)


def whole_of(piece: Piece) -> bytes:
    """The whole file. 1 GET."""
    return store_at(piece.folder).get(piece.key).body


def read_piece(piece: Piece) -> tuple[Iterator[Record], int]:
    """The records of a piece, and how many lines are in it. Lines count from its begin. 1 GET, or a few.

    Raises InvalidRequestError if it cannot be read. Not for Parquet.
    """
    assert piece.form != "parquet", "it has no lines"
    if piece.start or piece.stop < piece.size:
        data = _lines(piece)
        return read_records(io.BytesIO(data), "ndjson"), data.count(b"\n")
    data = whole_of(piece)
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidRequestError(f"{piece.name} cannot be unpacked", reason=str(error)) from error
    stream: BinaryIO = io.BytesIO(data)
    return read_records(stream, piece.form, separator=piece.separator), data.count(b"\n")


def _lines(piece: Piece) -> bytes:
    """The lines that begin in the range: the end of the last one may lie behind it."""
    store = store_at(piece.folder)
    begin = max(piece.start - 1, 0)
    data = store.get_range(piece.key, ByteRange(begin, piece.stop - begin))
    if piece.start:
        # The byte before tells whether a line begins just here.
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
    stop = piece.stop
    while data and not data.endswith(b"\n") and stop < piece.size:
        more = store.get_range(piece.key, ByteRange(stop, min(RECORD_BYTES_MAX, piece.size - stop)))
        end = more.find(b"\n") + 1
        data += more[:end] if end else more
        stop += len(more)
        if end:
            break
    return data
