"""Parquet in parts: a few row groups each, read in batches of bounded size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.jobs.import_lines import FileRange
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq

    from wormdb.jobs.import_parts import Part

__all__ = ["parts_of_groups", "read_batches"]

_ROWS: Final = 8_192
_BUFFER: Final = MIB
"""Bytes of each column that are fetched at once, however large a row group is."""


def parts_of_groups(folder: str, part: Part, size: int) -> Iterator[Part]:
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


def read_batches(folder: str, part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a part, some thousand at a time. 1 GET for each MiB. Raises InvalidRequestError if it is broken."""
    import pyarrow as pa

    file = _opened(folder, part)
    last = file.num_row_groups if part.is_whole else part.stop
    try:
        yield from file.iter_batches(_ROWS, row_groups=range(part.start, last), use_threads=False)
    except pa.ArrowException as error:
        raise _broken(folder, part, error) from error


def _opened(folder: str, part: Part) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source: Any = FileRange(folder, part.key, 0, part.size, 64 * 1024)
    try:
        return pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False)
    except pa.ArrowException as error:
        raise _broken(folder, part, error) from error


def _broken(folder: str, part: Part, error: Exception) -> InvalidRequestError:
    name = f"{folder.partition('?')[0].rstrip('/')}/{part.key}"
    return InvalidRequestError(f"{name} is no Parquet", reason=str(error).partition("\n")[0])
