"""Imports of tables in memory: data frames of pandas and Polars, tables of Arrow, and streams of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from wormdb.api.imports.records import CONFLICT_RULES
from wormdb.api.imports.rows import ROWS_AT_ONCE, Rows
from wormdb.api.imports.run import ImportRules, run_import
from wormdb.api.imports.stream import Stream
from wormdb.api.records import Record
from wormdb.engine.bulk.rows import ID_COLUMNS, RowReader, set_cell
from wormdb.errors import InvalidRequestError
from wormdb.format.path import parse_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.api.imports.intake import Rejection
    from wormdb.api.imports.records import ConflictRule, ImportResult

__all__ = ["FrameColumns", "columns_of", "import_frame"]


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """The columns of a frame, in order: as a table, and those whose cells are of several kinds as values."""

    table: pa.Table
    """Every column; one of several kinds is null here."""
    mixed: Mapping[str, Sequence[Any]]


def import_frame(
    access: Access[Any], by: Author, frame: Any, on_conflict: ConflictRule, id_field: str | None
) -> ImportResult:
    """Import the rows of a frame, all of them by one entry of the log; costs and raises as `run_import`.

    Raises InvalidRequestError for what is not a frame, for a type that no value has, and for rows that do not fit.
    """
    if on_conflict not in CONFLICT_RULES:
        raise InvalidRequestError(
            f"on_conflict={on_conflict!r:.40}", reason="there is no such rule", fix=f"use one of {CONFLICT_RULES}"
        )
    columns = columns_of(frame)
    names = columns.table.column_names
    if id_field is not None and id_field not in names:
        raise InvalidRequestError(
            f"id_field={id_field!r:.80}", reason="the frame has no such column", fix=f"it has {names}"
        )
    rules = ImportRules(id_field, on_conflict, is_strict=True, forwards=access.settings.forward != "manual")
    stream = Stream(access, lambda: _rows(columns))
    try:
        return run_import(access, by, rules, lambda: stream, _ignore)
    finally:
        stream.close()


def columns_of(frame: Any) -> FrameColumns:
    """A frame as columns whose types documents can hold, as far as Arrow can cast them. No requests.

    Raises InvalidRequestError for what is not one, and for columns that cannot be told apart.
    """
    import pyarrow as pa

    try:
        table, mixed = _table_of(frame)
        _check_names(table.column_names)
        plain = pa.schema([(field.name, _plain_type(field.type)) for field in table.schema])
        return FrameColumns(table.cast(plain, safe=False), mixed)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"a frame of type {type(frame).__name__}",
            reason=str(error)[:300],
            fix="cast its columns to strings, numbers, booleans, timestamps, binary, structs or arrays",
        ) from error


def _table_of(frame: Any) -> tuple[pa.Table, Mapping[str, Sequence[Any]]]:
    import pyarrow as pa

    package = type(frame).__module__.split(".")[0]
    if isinstance(frame, pa.Table):
        return frame, {}
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame]), {}
    if package == "pandas" and hasattr(frame, "columns"):
        return _of_pandas(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(_of_polars(frame) if package == "polars" and hasattr(frame, "to_arrow") else frame), {}
    is_lazy = package == "polars" and hasattr(frame, "collect")
    raise InvalidRequestError(
        f"a frame of type {type(frame).__name__}",
        reason="its rows are not there yet" if is_lazy else "it is neither a data frame nor a table of Arrow",
        fix="call collect()" if is_lazy else "give one of pandas, Polars or Arrow; documents go to insert_many",
    )


def _check_names(names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidRequestError(
                f"column {place + 1} of the frame",
                reason=f"{name!r:.80} is there twice, as a column or as the name of an index",
                fix="rename one of them, or leave it out",
            )


# --- pandas, whose columns may have cells of any kind ---


def _of_pandas(frame: Any) -> tuple[pa.Table, Mapping[str, Sequence[Any]]]:
    import pyarrow as pa

    if frame.columns.nlevels > 1:
        raise InvalidRequestError(
            "a frame of pandas",
            reason=f"the names of columns have {frame.columns.nlevels} levels",
            fix="join them: frame.columns = ['.'.join(map(str, name)) for name in frame.columns]",
        )
    levels = [place for place, name in enumerate(frame.index.names) if name is not None]
    found = [(str(frame.index.names[place]), frame.index.get_level_values(place)) for place in levels]
    found += [(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    _check_names([name for name, _ in found])
    arrays: list[Any] = []
    mixed: dict[str, Sequence[Any]] = {}
    for name, cells in found:
        try:
            arrays.append(pa.Array.from_pandas(cells))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            if cells.dtype != object:
                raise InvalidRequestError(
                    f"column {name!r:.80} of type {cells.dtype}",
                    reason=str(error)[:200],
                    fix="cast it, or leave it out",
                ) from error
            arrays.append(pa.nulls(len(cells)))
            mixed[name] = [_cell(cell) for cell in cells]
    return pa.table(arrays, names=[name for name, _ in found]), mixed


def _cell(value: Any) -> Any:
    """A cell as a value of a document; None if it is missing: None, NaN, NaT or NA."""
    from importlib import import_module

    if isinstance(value, dict):
        return {name: cell for name, inner in value.items() if (cell := _cell(inner)) is not None}
    if isinstance(value, (list, tuple)):
        return [_cell(each) for each in value]
    pandas = import_module("pandas")  # it is there: the frame is one of it
    if type(value).__module__ == "numpy":
        value = pandas.Timestamp(value) if type(value).__name__ == "datetime64" else value.tolist()
        return _cell(value) if isinstance(value, list) else _cell_of_one(value, pandas)
    return _cell_of_one(value, pandas)


def _cell_of_one(value: Any, pandas: Any) -> Any:
    if pandas.api.types.is_scalar(value) and pandas.isna(value):
        return None
    if isinstance(value, pandas.Timestamp):
        value = value.to_pydatetime(warn=False)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else value


def _of_polars(frame: Any) -> Any:
    """A frame of Polars in types that Arrow can cast: it has no kernels for categories of the newest kind of text."""
    from importlib import import_module

    polars = import_module("polars")
    objects = [name for name, kind in getattr(frame, "schema", {}).items() if kind == polars.Object]
    if objects:
        raise InvalidRequestError(
            f"column {objects[0]!r:.80} of type Object",
            reason="it has objects of Python, of which Polars tells only the addresses",
            fix="cast it, or leave it out",
        )
    return frame.to_arrow(compat_level=polars.CompatLevel.oldest())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values that documents have: no dictionaries, views, sizes or nanoseconds."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view() or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_struct(kind):
        inner = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([(field.name, _plain_type(field.type)) for field in inner])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    return kind


def _rows(frame: FrameColumns) -> Iterator[Rows]:
    if frame.mixed:
        yield from _record_rows(frame)
        return
    first = 0
    for batch in frame.table.to_batches(max_chunksize=ROWS_AT_ONCE):
        yield Rows("", batch=batch, first=first)
        first += batch.num_rows


def _record_rows(frame: FrameColumns) -> Iterator[Rows]:
    """Rows of a frame in which a column has cells of several kinds: one by one, in the order of its columns."""
    names = frame.table.column_names
    RowReader(frame.table.schema)  # names and types are checked, also of columns that it does not read
    table = frame.table.drop_columns([name for name in names if name in frame.mixed and name in ID_COLUMNS])
    reader = RowReader(table.schema)
    paths = {name: (name,) if name in ID_COLUMNS else tuple(parse_path(name)) for name in frame.mixed}
    order = dict.fromkeys(name if name in ID_COLUMNS else parse_path(name)[0] for name in names)
    for first in range(0, frame.table.num_rows, ROWS_AT_ONCE):
        some = table.slice(first, ROWS_AT_ONCE).combine_chunks().to_batches()
        count = min(ROWS_AT_ONCE, frame.table.num_rows - first)
        found = reader.rows(some[0]) if some and table.num_columns else [{} for _ in range(count)]
        records = []
        for place, row in enumerate(found, first):
            if isinstance(row, dict):
                for name, path in paths.items():
                    if (value := frame.mixed[name][place]) is not None:
                        set_cell(row, path, value)
                    elif name in ID_COLUMNS:
                        row[name] = None
                records.append(Record(place + 1, {name: row[name] for name in order if name in row}))
            else:
                records.append(Record(place + 1, None, problem=row.reason or row.what))
        yield Rows("", records, first=first)


def _ignore(rejected: Rejection) -> None:
    """The error of a strict import names what does not fit."""
