"""Export: the documents of one state as files of Parquet, NDJSON or CSV, in a folder or a bucket.

Each piece of work writes its own files, whose names follow from its number; so a piece that is done twice leaves the
same files. `_SUCCESS` is written last, and lists them all: without it an export is not finished, and the next one
begins by removing what is there of it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.api.arrow import TableReader, declared_type, default_columns
from wormdb.api.columns import ArrowColumn
from wormdb.api.document import show_values, with_id
from wormdb.bql.projection import parse_projection, write_projection
from wormdb.bql.tree import EVERYTHING
from wormdb.engine.blocks.portion import DOCUMENT, Portion
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.jobs.place import Where, absolute
from wormdb.jobs.plain_text import csv_line
from wormdb.jobs.scan import JobScan, cells_along, field_names
from wormdb.jobs.target import OutputFile, OutputFiles, finish, folder_name, make_room, store_at
from wormdb.jobs.work import Output, ProgressListener, Runner
from wormdb.query.execute.answer import HitMaker
from wormdb.query.execute.rows import ColumnBatch, DocumentBatch, RowBatch
from wormdb.query.request import QueryRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.api.options import WrittenFilter, WrittenSelect
    from wormdb.schema.model import Model

__all__ = ["FORMS", "ExportOptions", "ExportResult", "Form", "export"]

Form = Literal["parquet", "ndjson", "csv"]
FORMS: Final[tuple[Form, ...]] = ("parquet", "ndjson", "csv")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported, and how."""

    form: Form = "parquet"
    csv_safe: bool = False
    """Whether no text in CSV is a formula for a spreadsheet, as `wormdb.api.records.safe_cell` says."""
    filter: WrittenFilter = None
    select: WrittenSelect | None = None
    """Some fields, as `find` takes them; a projection that is no list of names for NDJSON only."""
    as_of: str | None = None
    partition_by: tuple[str, ...] = ()
    """Files of rows with the same values of these fields lie in folders of their own."""
    overwrite: bool = False
    """Whether an export that is there is replaced."""
    tasks: int | None = None
    """How many pieces of work are wanted."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote."""

    collection: str
    number: int
    """The log number of the state."""
    form: Form
    rows: int
    size: int
    """Bytes of all files."""
    files: tuple[OutputFile, ...]


def export(
    where: Where, target: str, options: ExportOptions, runner: Runner, told: ProgressListener | None = None
) -> ExportResult:
    """Write the documents of a collection to the folder or bucket `target`.

    1 LIST for `target`, then the scan, and 1 PUT for each file; of Parquet twice that if columns turn out to have
    different types in different files. Raises InvalidRequestError for options that cannot be and for a place that is
    not empty, and what the first piece that failed raised.
    """
    target = absolute(target)
    work = _work(where, target, options)
    items = [
        replace(item, body=msgspec.msgpack.encode((number, item.body)))
        for number, item in enumerate(work.scan.items(options.tasks))
    ]
    store = store_at(target)
    make_room(store, target, overwrite=options.overwrite)
    if work.form == "csv" and work.columns is None:
        names = field_names(work.scan, runner, told, tasks=options.tasks)
        work = replace(work, columns=tuple((name, "_id" if name == "id" else name) for name in ["id", *names]))
    done = [msgspec.msgpack.decode(body, type=_WrittenPart) for body in runner.run("export", work, items, told)]
    types = _common_types(work.names, [seen for each in done for seen in each.seen]) if work.form == "parquet" else None
    if types is not None:
        done = [
            msgspec.msgpack.decode(body, type=_WrittenPart)
            for body in runner.run("export: one type", work.typed(types), items, told)
        ]
    files = tuple(made for each in done for made in each.made)
    number = work.scan.number
    result = ExportResult(
        where.name, number, options.form, sum(each.rows for each in files), sum(each.size for each in files), files
    )
    finish(store, result)
    return result


# --- what is asked ---


def _work(where: Where, target: str, options: ExportOptions) -> _Export:
    if options.form not in FORMS:
        fix = f"use one of {', '.join(FORMS)}"
        raise InvalidRequestError(f"export as {options.form!r:.40}", reason="there is no such form", fix=fix)
    access = where.access()
    tables = TableReader(access)
    select = options.select
    projection = None if select is None else parse_projection(select)
    if projection is not None and projection.arrays:
        raise InvalidRequestError(
            "a projection with $", reason="it depends on the query that finds a document", fix="name whole fields"
        )
    scan = JobScan.of(where, options.filter, options.as_of)
    model = scan.state.model()
    columns: Mapping[str, str] | None = None
    if options.form != "ndjson":
        columns = _columns(tables, select, model, options.form)
        projection = None
    by = tables.checked(list(options.partition_by)) if options.partition_by else {}
    return _Export(
        scan,
        target,
        options.form,
        None if columns is None else tuple(columns.items()),
        None if projection is None else json.encode(write_projection(projection)).decode(),
        tuple(by.items()),
        is_safe=options.csv_safe,
    )


def _columns(
    tables: TableReader[Any], select: WrittenSelect | None, model: Model | None, form: Form
) -> Mapping[str, str] | None:
    """The columns of files, the id first; None if only the documents tell."""
    if select is None:
        return default_columns(model) if model is not None or form == "parquet" else None
    if isinstance(select, dict) or not all(isinstance(name, str) for name in select):
        raise InvalidRequestError(
            f"export of a projection as {form}", reason="columns have names", fix="name fields, or export ndjson"
        )
    names = ["id", *(name for name in select if name not in ("id", "_id"))]
    return tables.checked(names)


# --- one piece ---


class _WrittenPart(msgspec.Struct, frozen=True):
    made: list[OutputFile]
    seen: list[_FileTypes]


@dataclass(frozen=True, slots=True)
class _Export:
    """Writes the files of one piece; a value that can be sent."""

    scan: JobScan
    target: str
    form: Form
    columns: tuple[tuple[str, str], ...] | None
    """The name of each, and what is read for it; None for whole documents."""
    projection: str | None
    by: tuple[tuple[str, str], ...]
    texts: frozenset[str] = frozenset()
    """Columns that are written as JSON."""
    forced: bytes | None = None
    """The types of all columns."""
    is_safe: bool = False
    """Whether no text in CSV is a formula."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns or ()]

    def typed(self, types: Mapping[str, Any]) -> _Export:
        """The same with types that all files can have."""
        import pyarrow as pa

        kinds: dict[str, pa.DataType] = {name: pa.string() if kind is _AsText else kind for name, kind in types.items()}
        texts = frozenset(name for name, kind in types.items() if kind is _AsText)
        return replace(self, texts=texts, forced=pa.schema(list(kinds.items())).serialize().to_pybytes())

    def __call__(self, body: bytes, /) -> Output:
        """Read one piece and write its files. 1 PUT each, beside the scan."""
        number, share = msgspec.msgpack.decode(body, type=tuple[int, bytes])
        paths = [DOCUMENT] if self.columns is None else [path for _, path in self.columns]
        names = list(dict.fromkeys(["_id", *paths, *(path for _, path in self.by)]))
        portions = self.scan.portions(share, names)
        parts = OutputFiles(store_at(self.target), number, self.form)
        seen: list[_FileTypes] = []
        declared = self._declared()
        for portion in portions:
            for folder, rows in self._folders(portion):
                self._add(parts, folder, rows, declared, seen)
                parts.flush()
        parts.flush(is_last=True)
        rows_made = sum(made.rows for made in parts.made)
        return Output(msgspec.msgpack.encode(_WrittenPart(parts.made, seen)), rows_made)

    def _add(
        self, parts: OutputFiles, folder: str, rows: Portion, declared: Mapping[str, str | None], seen: list[_FileTypes]
    ) -> None:
        if self.form == "parquet":
            columns = dict(self.columns or ())
            table: _TableFile = parts.gatherer(folder, lambda: _TableFile(columns, declared, self.forced, seen))
            table.add(rows)
            return
        head = csv_line(self.names, is_safe=self.is_safe) if self.form == "csv" else b""
        lines: _LineFile = parts.gatherer(folder, lambda: _LineFile(head))
        if self.form == "csv":
            lines.add(_csv_lines(rows, [path for _, path in self.columns or ()], is_safe=self.is_safe))
        elif self.projection is None:
            lines.add(_document_lines(rows))
        else:
            lines.add(_projected_lines(rows, _request(self.projection)))

    def _declared(self) -> dict[str, str | None]:
        model = self.scan.state.model()
        return {
            name: "json" if name in self.texts else declared_type(model, path)
            for name, path in self.columns or ()
            if path != DOCUMENT
        }

    def _folders(self, portion: Portion) -> Iterator[tuple[str, Portion]]:
        """The rows of each folder."""
        import pyarrow as pa

        if not self.by:
            yield "", portion
            return
        fields = [name for name, _ in self.by]
        rows: dict[str, list[int]] = {}
        for row, values in enumerate(zip(*(cells_along(portion, path) for _, path in self.by), strict=True)):
            rows.setdefault(folder_name(fields, values), []).append(row)
        for folder, chosen in rows.items():
            yield folder, portion.take(pa.array(chosen, pa.int64()))


@lru_cache(maxsize=4)
def _request(projection: str) -> QueryRequest:
    return QueryRequest(EVERYTHING, projection=parse_projection(json.parse(projection, operators=True)))


# --- rows as lines of JSON, lines of CSV, or columns ---

_STORED: Final = b'{"_id":'
_SHOWN: Final = b'{"id":'


@dataclass(slots=True)
class _LineFile:
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
class _TableFile:
    """A file of Parquet."""

    columns: Mapping[str, str]
    """By name what is read for each."""
    declared: Mapping[str, str | None]
    """By name the type that the model says."""
    forced: bytes | None
    """The types that all files must have, if they are known."""
    seen: list[_FileTypes]
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
        self.seen.append(_types_of(table))
        if self.forced is not None:
            table = table.cast(_read_schema(self.forced))
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


def _document_lines(portion: Portion) -> list[bytes]:
    """Whole documents, as callers see them. No requests."""
    return [_shown(body) + b"\n" for body in portion.documents()]


def _shown(body: bytes) -> bytes:
    # Nearly every document begins with its id, and then nothing else has to be read.
    return _SHOWN + body[len(_STORED) :] if body.startswith(_STORED) else json.encode(show_values(body))


def _projected_lines(portion: Portion, request: QueryRequest) -> list[bytes]:
    """What a projection shows of whole documents. No requests."""
    showing = HitMaker(request, _decoded)
    hits = showing.hits(ColumnBatch(portion, is_whole=True))
    return [json.encode(with_id(hit.document)) + b"\n" for hit in hits]


def _decoded(batch: RowBatch) -> DocumentBatch:
    assert isinstance(batch, ColumnBatch), "documents were asked for with their rows"
    return batch.decoded()


def _csv_lines(portion: Portion, paths: Iterable[str], *, is_safe: bool = False) -> list[bytes]:
    """A line for each row, with the values of some paths, as `csv_line` has it. No requests."""
    rows = zip(*(cells_along(portion, path) for path in paths), strict=True)
    return [csv_line(row, is_safe=is_safe) for row in rows]


# --- one type for each column, though files are written apart ---
#
# Each file is written with the types of its own values. Where files differ, `_common_types` says what all of them can
# have, by the rule of `Collection.to_arrow`. Then the export is written once more with these types.

_DIGITS: Final = 38
_DOUBLE_MAX: Final = 2**53


@dataclass(frozen=True, slots=True)
class _FileTypes:
    """The types of the columns of one file, and what decides how they can be changed."""

    schema: bytes
    """Arrow's own form of a schema."""
    digits: dict[str, int] = field(default_factory=dict)
    """Of columns of decimals: digits before the point, at most."""
    wide: tuple[str, ...] = ()
    """Columns of integers that no double holds exactly."""


class _AsText:
    """Stands for a type: all values as extended JSON."""


def _types_of(table: pa.Table) -> _FileTypes:
    """What a file shows of its columns. No requests."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits: dict[str, int] = {}
    wide: list[str] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_decimal(column.type):
            most: Any = pc.max(pc.abs(column)).as_py()
            digits[name] = 0 if not most else max(most.adjusted() + 1, 0)
        elif pa.types.is_int64(column.type):
            ends: Any = pc.min_max(column).as_py()
            if any(abs(end) > _DOUBLE_MAX for end in ends.values() if end is not None):
                wide.append(name)
    return _FileTypes(table.schema.serialize().to_pybytes(), digits, tuple(wide))


def _read_schema(schema: bytes) -> pa.Schema:
    """A schema as Arrow's value. No requests."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(schema))


def _common_types(names: Sequence[str], files: Iterable[_FileTypes]) -> dict[str, pa.DataType | type[_AsText]] | None:
    """The type of each column in which files differ, with the types of all others; None if none differ."""
    found = list(files)
    schemas = [_read_schema(seen.schema) for seen in found]
    types = {name: _common_type(name, [schema.field(name).type for schema in schemas], found) for name in names}
    is_same = all(schema.field(name).type == types[name] for name in names for schema in schemas)
    return None if is_same else types


def _common_type(name: str, given: Sequence[pa.DataType], files: Sequence[_FileTypes]) -> pa.DataType | type[_AsText]:
    import pyarrow as pa

    kinds = list(dict.fromkeys(kind for kind in given if not pa.types.is_null(kind)))
    if not kinds:
        return pa.null()
    if len(kinds) > 1 and all(map(pa.types.is_list, kinds)):
        kinds = [kind for kind in kinds if not pa.types.is_null(kind.value_type)]  # empty ones become any other
    if len(kinds) == 1:
        return kinds[0]
    if all(map(pa.types.is_decimal, kinds)):
        scale = max(kind.scale for kind in kinds)
        whole = max(seen.digits.get(name, 0) for seen in files)
        return pa.decimal128(_DIGITS, scale) if scale + whole <= _DIGITS else _AsText
    if set(kinds) == {pa.int64(), pa.float64()} and not any(name in seen.wide for seen in files):
        return pa.float64()
    return _AsText
