"""Rows on standard output, one after the other: as JSON, as lines of JSON, as CSV, or as a table for people.

However many rows there are, only some are in memory.
"""

from __future__ import annotations

import shutil
import sys
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from wormdb.bql.aggregation import value_of
from wormdb.cli.show.text import TextColumn, cell_of, fit_column, is_number, ruled_head, ruled_row
from wormdb.errors import LimitExceededError
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.format.path import parse_path
from wormdb.jobs.plain_text import csv_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row: TypeAlias = "Mapping[str, Any]"
Columns: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""By name the path of its values."""

__all__ = [
    "FORMATS",
    "Columns",
    "columns_in",
    "columns_of",
    "json_rows",
    "write_csv",
    "write_json",
    "write_lines",
    "write_parts",
    "write_rows",
    "write_table",
]

FORMATS: Final = ("table", "json", "ndjson", "csv")
_CELL_PLACES: Final = 40
_SAMPLE_ROWS: Final = 1_000
"""Rows of a table that are looked at before the first is printed, for the widths of columns."""
_NAMES_MAX: Final = 10_000
_WRITE_BYTES: Final = 64 * 1024


def write_parts(parts: Iterable[bytes], *, extra: int = 0) -> int:
    """Write in large pieces; how many parts there were, without `extra` ones."""
    sys.stdout.flush()
    stream = sys.stdout.buffer
    held: list[bytes] = []
    count = size = 0
    for part in parts:
        held.append(part)
        count, size = count + 1, size + len(part)
        if size >= _WRITE_BYTES:
            stream.write(b"".join(held))
            held, size = [], 0
    stream.write(b"".join(held))
    stream.flush()
    return count - extra


def write_rows(rows: Iterable[Row], form: str, columns: Columns | None = None, *, is_safe: bool = False) -> int:
    """All rows as json, ndjson or csv; how many there were. Without `columns` CSV reads the rows twice."""
    if form == "json":
        return write_json(rows)
    return write_lines(rows) if form == "ndjson" else write_csv(rows, columns or columns_in(rows), is_safe=is_safe)


def write_json(rows: Iterable[Row]) -> int:
    """A list of all rows, one a line; how many there were."""
    return write_parts(chain([b"["], json_rows(rows), [b"\n]\n"]), extra=2)


def json_rows(rows: Iterable[Row]) -> Iterator[bytes]:
    """The rows as items of a list in JSON, each on a line of its own."""
    for place, row in enumerate(rows):
        yield (b",\n" if place else b"\n") + json.encode(dict(row))


def write_lines(rows: Iterable[Row]) -> int:
    """Each row as one line of JSON; how many there were."""
    return write_parts(json.encode(dict(row)) + b"\n" for row in rows)


def write_csv(rows: Iterable[Row], columns: Columns, *, is_safe: bool = False) -> int:
    """A line of names, and a line for each row, as RFC 4180 has them; how many rows there were.

    Text, numbers and times are as they are, other values are JSON. Null and missing are empty, empty text is "".
    With `is_safe` no text is a formula for a spreadsheet.
    """
    lines = (csv_line(_values(row, columns), is_safe=is_safe) for row in rows)
    return write_parts(chain([csv_line(list(columns), is_safe=is_safe)], lines), extra=1)


def columns_of(names: Iterable[str]) -> Columns:
    """The columns of dotted names. Raises InvalidRequestError for what is none."""
    return {name: parse_path(name) for name in names}


def columns_in(rows: Iterable[Row]) -> Columns:
    """The fields that some rows have, the id first; the id for no rows. Raises LimitExceededError for too many."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
        if len(names) > _NAMES_MAX:
            raise LimitExceededError(
                f"a table with more than {_NAMES_MAX:,} columns",
                reason="the documents have too many different fields",
                fix="name some with --select, or use --format ndjson",
            )
    return {name: (name,) for name in sorted(names or ["id"], key=lambda name: name != "id")}


def write_table(rows: Iterable[Row], columns: Columns | None = None) -> int:
    """A table, without `columns` of the fields that its first rows have; how many rows there were.

    Long cells are cut. On a terminal only as many columns are shown as there is room for.
    """
    rest = iter(rows)
    sample = list(islice(rest, _SAMPLE_ROWS))
    if not sample and columns is None:
        return 0
    named = columns or columns_in(sample)
    found = [_values(row, named) for row in sample]
    fields = [_fitted(name, [values[place] for values in found]) for place, name in enumerate(named)]
    kept = _that_fit(fields)
    shown = fields[:kept]
    rows_after = ([_cell(value) for value in _values(row, named)[:kept]] for row in rest)
    first = ([_cell(value) for value in values[:kept]] for values in found)
    # A longer cell further on is shown whole, beside its column: a number that is cut would be another one.
    later = (ruled_row(list(map(_widened, shown, row)), row) for row in rows_after)
    lines = chain(ruled_head(shown), (ruled_row(shown, row) for row in first), later)
    # A terminal of another encoding shows ? for what it does not have.
    count = write_parts((f"{line}\n".encode(sys.stdout.encoding, "replace") for line in lines), extra=2)
    if kept < len(fields):
        left = ", ".join(field.name for field in fields[kept:])
        click.echo(f"(no room for {left}: --select some, or --format json)")
    return count


def _values(row: Row, columns: Columns) -> list[Any]:
    document = dict(row)
    return [document.get(path[0], MISSING) if len(path) == 1 else value_of(document, path) for path in columns.values()]


def _cell(value: Any) -> str:
    return "" if value is MISSING else cell_of(value)


def _fitted(name: str, values: Sequence[Any]) -> TextColumn:
    is_right = all(is_number(value) for value in values if value is not MISSING and value is not None)
    column = TextColumn(name, 0, is_right=is_right and any(is_number(value) for value in values))
    return fit_column(column, [_cell(value) for value in values], _CELL_PLACES)


def _widened(column: TextColumn, cell: str) -> TextColumn:
    return fit_column(column, [cell], _CELL_PLACES) if len(cell) > column.width else column


def _that_fit(columns: Sequence[TextColumn]) -> int:
    """How many columns a terminal has room for, at least one; all of them in a pipe."""
    if not _is_terminal():
        return len(columns)
    room, taken = shutil.get_terminal_size().columns, 0
    for place, column in enumerate(columns):
        taken += column.width + (2 if place else 0)
        if taken > room:
            return max(place, 1)
    return len(columns)


def _is_terminal() -> bool:
    return sys.stdout.isatty()
