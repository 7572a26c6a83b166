"""The records of a piece of files, some at a time: memory does not grow with the files."""

from __future__ import annotations

import gzip
import io
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from wormdb.api.records import Record, read_records
from wormdb.errors import InvalidRequestError
from wormdb.format.segment import decode_segment
from wormdb.jobs.import_lines import FileRange, read_lines
from wormdb.jobs.import_parquet import read_batches
from wormdb.jobs.import_parts import GZIP
from wormdb.jobs.target import store_at
from wormdb.settings import MIB, RECORD_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    import pyarrow as pa

    from wormdb.api.records import Form
    from wormdb.jobs.import_parts import Part, Piece
    from wormdb.schema.model import Model

__all__ = ["Rows", "rows_of"]

ROWS_AT_ONCE: Final = 1_000
_FETCHED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records of one file: one by one, or as columns."""

    file: str
    records: list[Record] = field(default_factory=list)
    batch: pa.RecordBatch | None = None
    first: int = 0
    """Rows of the file before a batch."""
    lines: int = 0
    """Lines of the part that ends here; 0 if nobody has to know."""


def rows_of(piece: Piece, model: Model | None) -> Iterator[Rows]:
    """All records of a piece, in order. 1 GET for each file and each 4 MiB of it, of Parquet for each MiB.

    Raises InvalidRequestError for a file that cannot be read at all; a record that cannot says so itself.
    """
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
            yield from _some(name, read_records(io.BytesIO(data), "ndjson"))
            yield Rows(name, lines=data.count(b"\n"))
        else:
            yield from _some(name, _streamed(piece.folder, part))


def _some(name: str, records: Iterable[Record]) -> Iterator[Rows]:
    waiting = iter(records)
    while some := list(islice(waiting, ROWS_AT_ONCE)):
        yield Rows(name, some)


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
