"""The rows of an export in each of its forms: lines of JSON, lines of CSV, or columns."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.columns import ArrowColumn
from wormdb.api.document import show_values, with_id
from wormdb.bql.aggregation import value_of
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.format import json
from wormdb.format.path import TRAVERSED, parse_path
from wormdb.jobs.export_types import seen_of, unpacked
from wormdb.jobs.plain_text import csv_line
from wormdb.query.execute.answer import HitMaker
from wormdb.query.execute.rows import ColumnBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Portion
    from wormdb.jobs.export_types import Seen
    from wormdb.query.execute.rows import DocumentBatch, RowBatch
    from wormdb.query.request import QueryRequest

__all__ = ["Lines", "TableFile", "cells_along", "csv_lines", "document_lines", "projected_lines"]

_STORED: Final = b'{"_id":'
_SHOWN: Final = b'{"id":'


@dataclass(slots=True)
class Lines:
    """A file of text."""

    head: bytes = b""
    rows: int = 0
    size: int = 0
    _lines: list[bytes] = field(default_factory=list)

    def add(self, lines: Sequence[bytes]) -> None:
        """The rows that come next."""
        self._lines += lines
        self.rows += len(lines)
        self.size += sum(map(len, lines))

    def finish(self) -> bytes:
        """The file."""
        return self.head + b"".join(self._lines)


@dataclass(slots=True)
class TableFile:
    """A file of Parquet."""

    columns: Mapping[str, str]
    """By name what is read for each."""
    declared: Mapping[str, str | None]
    """By name the type that the model says."""
    forced: bytes | None
    """The types that all files must have, if they are known."""
    seen: list[Seen]
    """Where the types of its columns are noted."""
    rows: int = 0
    size: int = 0
    _portions: list[Portion] = field(default_factory=list)

    def add(self, portion: Portion) -> None:
        """The rows that come next."""
        self._portions.append(portion)
        self.rows += portion.rows
        self.size += portion.table.nbytes

    def finish(self) -> bytes:
        """The file. Packed as blocks are, by zstd."""
        import pyarrow.parquet as pq

        table = self._table()
        self.seen.append(seen_of(table))
        if self.forced is not None:
            table = table.cast(unpacked(self.forced))
        out = io.BytesIO()
        pq.write_table(table, out, compression="zstd")
        return out.getvalue()

    def _table(self) -> pa.Table:
        import pyarrow as pa

        columns = {}
        for name, path in self.columns.items():
            if path == DOCUMENT:
                texts = [portion.table.column(DOCUMENT).cast(pa.string()) for portion in self._portions]
                columns[name] = pa.chunked_array([chunk for text in texts for chunk in text.chunks], pa.string())
                continue
            column = ArrowColumn(path, self.declared[name])
            for portion in self._portions:
                column.add(portion)
            columns[name] = column.finish()
        return pa.table(columns)


def document_lines(portion: Portion) -> list[bytes]:
    """Whole documents, as callers see them. No requests."""
    return [_shown(body) + b"\n" for body in portion.documents()]


def _shown(body: bytes) -> bytes:
    # Nearly every document begins with its id, and then nothing else has to be read.
    return _SHOWN + body[len(_STORED) :] if body.startswith(_STORED) else json.encode(show_values(body))


def projected_lines(portion: Portion, request: QueryRequest) -> list[bytes]:
    """What a projection shows of whole documents. No requests."""
    showing = HitMaker(request, _decoded)
    hits = showing.hits(ColumnBatch(portion, is_whole=True))
    return [json.encode(with_id(hit.document)) + b"\n" for hit in hits]


def _decoded(batch: RowBatch) -> DocumentBatch:
    assert isinstance(batch, ColumnBatch), "documents were asked for with their rows"
    return batch.decoded()


def csv_lines(portion: Portion, paths: Iterable[str], *, is_safe: bool = False) -> list[bytes]:
    """A line for each row, with the values of some paths, as `csv_line` has it. No requests."""
    rows = zip(*(cells_along(portion, path) for path in paths), strict=True)
    return [csv_line(row, is_safe=is_safe) for row in rows]


def cells_along(portion: Portion, path: str) -> list[Any]:
    """The value of a path in each row, an array of values where it crosses an array. No requests."""
    values = portion.values(path)
    crossing = [row for row, value in enumerate(values) if value is TRAVERSED]
    if crossing:
        segments = parse_path(path)
        for row, body in zip(crossing, portion.documents(crossing), strict=True):
            values[row] = value_of(json.decode_document(body, name="document"), segments)
    return values
