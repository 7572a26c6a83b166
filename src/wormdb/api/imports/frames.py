"""Imports of tables in memory: data frames of pandas and Polars, tables of Arrow, and streams of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.api.imports.records import CONFLICT_RULES
from wormdb.api.imports.rows import ROWS_AT_ONCE, Rows
from wormdb.api.imports.run import ImportRules, run_import
from wormdb.api.imports.stream import Stream
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.api.imports.intake import Rejection
    from wormdb.api.imports.records import ConflictRule, ImportResult

__all__ = ["import_frame", "table_of"]


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
    table = table_of(frame)
    if id_field is not None and id_field not in table.column_names:
        raise InvalidRequestError(
            f"id_field={id_field!r:.80}", reason="the frame has no such column", fix=f"it has {table.column_names}"
        )
    rules = ImportRules(id_field, on_conflict, is_strict=True, forwards=access.settings.forward != "manual")
    stream = Stream(access, lambda: _rows(table))
    try:
        return run_import(access, by, rules, lambda: stream, _ignore)
    finally:
        stream.close()


def table_of(frame: Any) -> pa.Table:
    """A frame as a table whose types documents can hold, as far as Arrow can cast them. No requests.

    Raises InvalidRequestError for what is not one.
    """
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            table = frame
        elif isinstance(frame, pa.RecordBatch):
            table = pa.Table.from_batches([frame])
        elif type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns"):
            is_named = any(name is not None for name in frame.index.names)
            table = pa.Table.from_pandas(frame.reset_index() if is_named else frame, preserve_index=False)
        elif hasattr(frame, "__arrow_c_stream__"):
            table = pa.table(_without_views(frame))
        else:
            raise InvalidRequestError(
                f"a frame of type {type(frame).__name__}",
                reason="it is neither a data frame nor a table of Arrow",
                fix="give one of pandas, Polars or Arrow; documents go to insert_many",
            )
        return table.cast(pa.schema([(field.name, _plain_type(field.type)) for field in table.schema]), safe=False)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidRequestError(
            f"a frame of type {type(frame).__name__}",
            reason=str(error)[:300],
            fix="let each column have values of one type",
        ) from error


def _without_views(frame: Any) -> Any:
    """A frame of Polars in types that Arrow can cast: it has no kernels for categories of the newest kind of text."""
    if type(frame).__module__.split(".")[0] != "polars" or not hasattr(frame, "to_arrow"):
        return frame
    from importlib import import_module

    return frame.to_arrow(compat_level=import_module("polars").CompatLevel.oldest())


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


def _rows(table: pa.Table) -> Iterator[Rows]:
    first = 0
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        yield Rows("", batch=batch, first=first)
        first += batch.num_rows


def _ignore(rejected: Rejection) -> None:
    """The error of a strict import names what does not fit."""
