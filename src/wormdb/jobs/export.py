"""Export: the documents of one state as files of Parquet, NDJSON or CSV, in a folder or a bucket.

Each piece of work writes its own files, whose names follow from its number; so a piece that is done twice leaves the
same files. `_SUCCESS` is written last, and lists them all: without it an export is not finished, and the next one
begins by removing what is there of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.api.arrow import TableReader, declared_type, default_columns
from wormdb.bql.projection import parse_projection, write_projection
from wormdb.bql.tree import EVERYTHING
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.jobs.export_files import Made, Parts, finish, folder_name, make_room, store_at
from wormdb.jobs.export_rows import Lines, TableFile, cells_along, csv_lines, document_lines, projected_lines
from wormdb.jobs.export_types import AsText, Seen, agreed
from wormdb.jobs.field_names import field_names
from wormdb.jobs.place import absolute
from wormdb.jobs.plain_text import csv_line
from wormdb.jobs.scan import Scan
from wormdb.jobs.work import Output
from wormdb.query.request import QueryRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from wormdb.api.options import WrittenFilter, WrittenSelect
    from wormdb.engine.blocks.portion import Portion
    from wormdb.jobs.place import Where
    from wormdb.jobs.work import Runner, Told
    from wormdb.schema.model import Model

__all__ = ["FORMS", "ExportOptions", "Exported", "Form", "export"]

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
class Exported:
    """What an export wrote."""

    collection: str
    number: int
    """The log number of the state."""
    form: Form
    rows: int
    size: int
    """Bytes of all files."""
    files: tuple[Made, ...]


def export(where: Where, target: str, options: ExportOptions, runner: Runner, told: Told | None = None) -> Exported:
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
    done = [msgspec.msgpack.decode(body, type=_Done) for body in runner.run("export", work, items, told)]
    types = agreed(work.names, [seen for each in done for seen in each.seen]) if work.form == "parquet" else None
    if types is not None:
        done = [
            msgspec.msgpack.decode(body, type=_Done)
            for body in runner.run("export: one type", work.typed(types), items, told)
        ]
    files = tuple(made for each in done for made in each.made)
    number = work.scan.number
    result = Exported(
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
    scan = Scan.of(where, options.filter, options.as_of)
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


class _Done(msgspec.Struct, frozen=True):
    made: list[Made]
    seen: list[Seen]


@dataclass(frozen=True, slots=True)
class _Export:
    """Writes the files of one piece; a value that can be sent."""

    scan: Scan
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
        """Of columns."""
        return [name for name, _ in self.columns or ()]

    def typed(self, types: Mapping[str, Any]) -> _Export:
        """The same with types that all files can have."""
        import pyarrow as pa

        kinds: dict[str, pa.DataType] = {name: pa.string() if kind is AsText else kind for name, kind in types.items()}
        texts = frozenset(name for name, kind in types.items() if kind is AsText)
        return replace(self, texts=texts, forced=pa.schema(list(kinds.items())).serialize().to_pybytes())

    def __call__(self, body: bytes, /) -> Output:
        """Read one piece and write its files. 1 PUT each, beside the scan."""
        number, share = msgspec.msgpack.decode(body, type=tuple[int, bytes])
        paths = [DOCUMENT] if self.columns is None else [path for _, path in self.columns]
        names = list(dict.fromkeys(["_id", *paths, *(path for _, path in self.by)]))
        portions = self.scan.portions(share, names)
        parts = Parts(store_at(self.target), number, self.form)
        seen: list[Seen] = []
        declared = self._declared()
        for portion in portions:
            for folder, rows in self._folders(portion):
                self._add(parts, folder, rows, declared, seen)
                parts.flush()
        parts.flush(is_last=True)
        rows_made = sum(made.rows for made in parts.made)
        return Output(msgspec.msgpack.encode(_Done(parts.made, seen)), rows_made)

    def _add(
        self, parts: Parts, folder: str, rows: Portion, declared: Mapping[str, str | None], seen: list[Seen]
    ) -> None:
        if self.form == "parquet":
            columns = dict(self.columns or ())
            table: TableFile = parts.gatherer(folder, lambda: TableFile(columns, declared, self.forced, seen))
            table.add(rows)
            return
        head = csv_line(self.names, is_safe=self.is_safe) if self.form == "csv" else b""
        lines: Lines = parts.gatherer(folder, lambda: Lines(head))
        if self.form == "csv":
            lines.add(csv_lines(rows, [path for _, path in self.columns or ()], is_safe=self.is_safe))
        elif self.projection is None:
            lines.add(document_lines(rows))
        else:
            lines.add(projected_lines(rows, _request(self.projection)))

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
