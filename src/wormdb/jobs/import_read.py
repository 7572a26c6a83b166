"""The records of a piece of files, some at a time: memory does not grow with the files."""

from __future__ import annotations

import gzip
import io
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from wormdb.api.imports.rows import Rows, some_rows
from wormdb.api.records import Record, plain_cells, read_records
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.segment import decode_segment
from wormdb.jobs.import_lines import FileRange, read_lines
from wormdb.jobs.import_parquet import read_batches
from wormdb.jobs.import_parts import GZIP
from wormdb.jobs.target import store_at
from wormdb.jobs.work import Course, Item
from wormdb.settings import MIB, RECORD_BYTES_MAX
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from wormdb.api.records import Form
    from wormdb.jobs.import_parts import Part, Piece
    from wormdb.jobs.work import Told
    from wormdb.schema.model import Model

__all__ = ["Reading", "count_records", "read_files", "rows_of"]

_BOM: Final = b"\xef\xbb\xbf"
_FETCHED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Reading:
    """What is done with each record before it is imported. A value that can be sent."""

    is_csv_safe: bool = False
    """Whether cells of CSV were written by `safe_cell`, which is taken back."""
    is_rejects: bool = False
    """Whether files are those of rejected records: what was corrected in them is imported."""
    from_line: int = 0
    """Records that begin before this line are passed over."""

    @property
    def can_cut(self) -> bool:
        """Whether a file can be read in parts: lines of one are not known before all is read."""
        return not self.from_line

    def records(self, records: Iterable[Record]) -> Iterable[Record]:
        """The records as they are imported. No requests."""
        if self.is_rejects:
            records = map(_corrected, records)
        return map(plain_cells, records) if self.is_csv_safe else records


def rows_of(piece: Piece, model: Model | None, reading: Reading | None = None) -> Iterator[Rows]:
    """All records of a piece, in order. 1 GET for each file and each 4 MiB of it, of Parquet for each MiB.

    Raises InvalidRequestError for a file that cannot be read at all; a record that cannot says so itself.
    """
    reading = reading or Reading()
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
    pieces: Sequence[Piece], model: Model | None, reading: Reading, told: Told | None = None
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


def _some(name: str, part: Part, records: Iterable[Record], reading: Reading) -> Iterator[Rows]:
    for some in some_rows(name, reading.records(records), part.source, reading.from_line):
        yield replace(some, first=some.first + part.before) if part.before else some


def _corrected(record: Record) -> Record:
    """The record that a line of rejects holds, after people corrected it there."""
    whole = record.values or {}
    if isinstance(values := whole.get("record"), dict):
        return replace(record, values=values, is_text=whole.get("form") == "csv")
    problem, text = record.problem or "it has no record", record.text or json.encode(whole).decode()
    return replace(record, values=None, problem=problem, text=text)


def _streamed(folder: str, part: Part) -> Iterator[Record]:
    """The records of a part that is read bit by bit."""
    stream = io.BufferedReader(FileRange(folder, part.key, part.start, part.stop), MIB)
    form = cast("Form", part.form)
    try:
        opened: Any = gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == GZIP else stream
        binary: BinaryIO = io.BufferedReader(opened, MIB) if opened is not stream else opened
        for record in read_records(binary, form, separator=part.separator, columns=part.columns):
            yield replace(record, line=record.line + part.first) if part.first else record
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRequestError(
            f"{folder.partition('?')[0].rstrip('/')}/{part.key} cannot be unpacked", reason=str(error)
        ) from error


# --- one document a file ---


def _entities(piece: Piece, model: Model | None) -> Iterator[Record]:
    """The documents of files that have one each, fetched side by side: they are small, or there is only one."""
    parts = [part for part in piece.parts if part.form == "entities"]
    if parts:
        with ThreadPoolExecutor(_FETCHED_AT_ONCE, thread_name_prefix="wormdb-import") as pool:
            yield from pool.map(lambda part: _entity(piece.folder, part, model), parts)


def _entity(folder: str, part: Part, model: Model | None) -> Record:
    """The one document of a file; without an id of its own it is called as the file is."""
    if part.size > RECORD_BYTES_MAX:
        return Record(1, None, part.size, problem=f"it is longer than {RECORD_BYTES_MAX:,} bytes")
    body = store_at(folder).get(part.key).body
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
    return decode_segment(name.partition(".")[0])
