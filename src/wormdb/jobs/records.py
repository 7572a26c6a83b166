"""The records of a piece of files, some at a time: memory does not grow with the files."""

from __future__ import annotations

import io
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec

from wormdb.api.imports.rows import Rows, some_rows
from wormdb.api.records import Form, Record, RowCut, cut_rows, plain_cells, read_columns, read_records
from wormdb.api.texts import PEEK_BYTES, find_separator, open_packed, open_text, wide_encoding
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.segment import decode_folders, decode_segment
from wormdb.jobs.target import store_at
from wormdb.jobs.work import Course, Item, Output, ProgressListener
from wormdb.settings import MIB, RECORD_BYTES_MAX
from wormdb.storage.store import ByteRange
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from wormdb.jobs.parts import FilePart, Piece
    from wormdb.schema.model import Model

__all__ = [
    "STEP_BYTES",
    "Chunk",
    "FileRange",
    "RecordRules",
    "Survey",
    "count_records",
    "parts_between",
    "parts_of_groups",
    "read_batches",
    "read_files",
    "read_lines",
    "rows_of",
    "survey",
]

_BOM: Final = b"\xef\xbb\xbf"
_FETCHED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class RecordRules:
    """What is done with each record before it is imported. A value that can be sent."""

    is_csv_safe: bool = False
    """Whether cells of CSV were written by `safe_cell`, which is taken back."""
    is_rejects: bool = False
    """Whether files are those of rejected records: what was corrected in them is imported."""
    from_line: int = 0
    """Records that begin before this line are skipped."""

    @property
    def can_cut(self) -> bool:
        """Whether a file can be read in parts: lines of one are not known before all is read."""
        return not self.from_line

    def records(self, records: Iterable[Record]) -> Iterable[Record]:
        """The records as they are imported. No requests."""
        if self.is_rejects:
            records = map(_corrected, records)
        return map(plain_cells, records) if self.is_csv_safe else records


def rows_of(piece: Piece, model: Model | None, reading: RecordRules | None = None) -> Iterator[Rows]:
    """All records of a piece, in order. 1 GET for each file and each 4 MiB of it, of Parquet for each MiB.

    Raises InvalidRequestError for a file that cannot be read at all; a record that cannot says so itself.
    """
    reading = reading or RecordRules()
    entities = _entities(piece, model)
    for part in piece.parts:
        name = piece.file(part)
        if part.form == "parquet":
            first = part.first
            for batch in read_batches(piece.folder, part):
                yield Rows(name, batch=batch, first=first)
                first += batch.num_rows
        elif part.form == "entities":
            yield Rows(name, [next(entities)])
        elif part.form == "ndjson" and not part.is_whole:
            _, data = read_lines(piece.folder, part.key, part.start, part.stop, part.size)
            for some in _some(name, part, read_records(io.BytesIO(data), "ndjson"), reading):
                yield replace(some, is_placed=False)
            yield Rows(name, lines=data.count(b"\n"))
        else:
            yield from _some(name, part, _streamed(piece.folder, part), reading)


def read_files(
    pieces: Sequence[Piece], model: Model | None, reading: RecordRules, told: ProgressListener | None = None
) -> Iterator[Rows]:
    """All records of files, one after the other; `told` hears how far it is. Costs and raises as `rows_of`."""
    items = [Item(piece.name, b"", piece.size) for piece in pieces]
    course = Course("import", items, SystemClock(), told)
    for number, piece in enumerate(pieces):
        count = size = 0
        for some in rows_of(piece, model, reading):
            yield some
            count, size = count + some.count, size + some.size
            course.during(number, size, count)
        course.finished(number, count)


def count_records(piece: Piece) -> int:
    """How many records a part of a file has. Costs as reading it."""
    (part,) = piece.parts
    if part.form == "ndjson":
        _, data = read_lines(piece.folder, part.key, part.start, part.stop, part.size)
        return sum(1 for line in data.split(b"\n") if line.removeprefix(_BOM).strip())
    return sum(1 for _ in _streamed(piece.folder, part))


def _some(name: str, part: FilePart, records: Iterable[Record], reading: RecordRules) -> Iterator[Rows]:
    for some in some_rows(name, reading.records(records), part.source, reading.from_line):
        yield replace(some, first=some.first + part.before) if part.before else some


def _corrected(record: Record) -> Record:
    """The record that a line of rejects holds, after people corrected it there."""
    whole = record.values or {}
    if isinstance(values := whole.get("record"), dict):
        return replace(record, values=values, is_text=whole.get("form") == "csv")
    problem, text = record.problem or "it has no record", record.text or json.encode(whole).decode()
    return replace(record, values=None, problem=problem, text=text)


def _streamed(folder: str, part: FilePart) -> Iterator[Record]:
    """The records of a part that is read bit by bit."""
    stream = io.BufferedReader(FileRange(folder, part.key, part.start, part.stop), MIB)
    form, name = cast("Form", part.form), f"{folder.partition('?')[0].rstrip('/')}/{part.key}"
    try:
        binary = cast("BinaryIO", open_packed(stream, MIB))
        if not part.start:
            binary = cast("BinaryIO", open_text(cast("io.BufferedReader[Any]", binary), name, part.encoding))
        separator = part.separator or find_separator(cast("io.BufferedReader[Any]", binary).peek(PEEK_BYTES))
        for record in read_records(binary, form, separator=separator, columns=part.columns, name=name):
            yield replace(record, line=record.line + part.first) if part.first else record
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRequestError(f"{name} cannot be unpacked", reason=str(error)) from error


# --- one document a file ---


def _entities(piece: Piece, model: Model | None) -> Iterator[Record]:
    """The documents of files that have one each, fetched side by side: they are small, or there is only one."""
    parts = [part for part in piece.parts if part.form == "entities"]
    if parts:
        with ThreadPoolExecutor(_FETCHED_AT_ONCE, thread_name_prefix="wormdb-import") as pool:
            yield from pool.map(lambda part: _entity(piece.folder, part, model), parts)


def _entity(folder: str, part: FilePart, model: Model | None) -> Record:
    """The one document of a file; without an id of its own it is called as the file is."""
    if part.size > RECORD_BYTES_MAX:
        return Record(1, None, part.size, problem=f"it is longer than {RECORD_BYTES_MAX:,} bytes")
    body = store_at(folder).get(part.key).body
    if encoding := part.encoding or wide_encoding(body):
        try:
            body = body.decode(encoding).encode()
        except UnicodeError as error:
            return Record(1, None, len(body), problem=str(error)[:200])
    found = list(islice(read_records(io.BytesIO(body), "json"), 2))
    if len(found) != 1 or found[0].values is None:
        problem = found[0].problem if found and found[0].values is None else "a file has one object of JSON"
        return Record(1, None, len(body), problem=problem, text=body[:10_000].decode(errors="replace"))
    (record,) = found
    values = found[0].values
    if "id" in values or "_id" in values:
        return record
    return replace(record, values={"id": _named(part.key, model), **values})


def _named(key: str, model: Model | None) -> Any:
    """The id that a file's name tells: that of its folder if all are called alike, as the model's path says."""
    folder, _, name = key.rpartition("/")
    if model is not None and folder and name == model.path.file_name:
        return decode_segment(folder.rpartition("/")[2])
    if model is not None and model.path.is_deep and key.endswith(model.path.extension):
        return decode_folders(key.removesuffix(model.path.extension))
    if model is not None and model.path.is_flat and name.endswith(model.path.extension):
        return decode_segment(name.removesuffix(model.path.extension))
    return decode_segment(name.partition(".")[0])


# --- bytes of a part: whole lines of a range, or a stream that is fetched bit by bit ---

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


# --- large CSV in parts: a line break within quotes does not end a row ---
#
# Only the text before a line break tells whether it is within quotes.
#
# So each chunk of lines is surveyed for both cases, side by side with the others; then one pass over the answers tells
# which case each chunk is, and where in it a row begins.


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
        """As bytes that can be sent."""
        return msgspec.msgpack.encode(self)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where rows and lines begin in a chunk."""

    begin: int
    """Where its first line begins."""
    lines: int
    closed: RowCut
    """If a row begins there."""
    open: RowCut
    """If a quoted cell goes on from before."""

    @classmethod
    def decode(cls, body: bytes) -> Chunk:
        """The value of bytes that were sent."""
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


def parts_between(folder: str, part: FilePart, chunks: Iterable[Chunk]) -> Iterator[FilePart]:
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


# --- Parquet in parts: a few row groups each, read in batches of bounded size ---

_ROWS: Final = 8_192
_BUFFER: Final = MIB
"""Bytes of each column that are fetched at once, however large a row group is."""


def parts_of_groups(folder: str, part: FilePart, size: int) -> Iterator[FilePart]:
    """The parts of a file, each with row groups of about `size` stored bytes. Some GETs for its footer.

    Raises InvalidRequestError if it is not Parquet.
    """
    footer = _opened(folder, part).metadata
    start = first = rows = stored = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        own = sum(group.column(place).total_compressed_size for place in range(group.num_columns))
        if number > start and stored + own > size:
            yield replace(part, start=start, stop=number, first=first)
            start, first, stored = number, first + rows, 0
            rows = 0
        rows, stored = rows + group.num_rows, stored + own
    yield replace(part, start=start, stop=footer.num_row_groups, first=first)


def read_batches(folder: str, part: FilePart) -> Iterator[pa.RecordBatch]:
    """The rows of a part, some thousand at a time. 1 GET for each MiB. Raises InvalidRequestError if it is broken."""
    import pyarrow as pa

    file = _opened(folder, part)
    last = file.num_row_groups if part.is_whole else part.stop
    try:
        yield from file.iter_batches(_ROWS, row_groups=range(part.start, last), use_threads=False)
    except pa.ArrowException as error:
        raise _broken(folder, part, error) from error


def _opened(folder: str, part: FilePart) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source: Any = FileRange(folder, part.key, 0, part.size, 64 * 1024)
    try:
        return pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False)
    except pa.ArrowException as error:
        raise _broken(folder, part, error) from error


def _broken(folder: str, part: FilePart, error: Exception) -> InvalidRequestError:
    name = f"{folder.partition('?')[0].rstrip('/')}/{part.key}"
    return InvalidRequestError(f"{name} is not a Parquet file", reason=str(error).partition("\n")[0])
