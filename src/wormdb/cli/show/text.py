"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import io
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from wormdb.cli.show.terminal import write_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "PLAIN",
    "TextColumn",
    "camel",
    "cell_of",
    "counted",
    "cut",
    "fit_column",
    "is_number",
    "number_text",
    "one_line",
    "print_document",
    "print_json",
    "print_ruled",
    "print_table",
    "print_values",
    "ruled_head",
    "ruled_row",
    "size_text",
    "time_text",
    "width_of",
]


# --- Numbers, sizes, times and values as people read them.

_WIDE: Final = frozenset("WF")


def size_text(count: float) -> str:
    """Bytes in decimal units: 847 KB, 2.1 MB."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("KB", "MB", "GB", "TB"):
        count /= 1000
        # 999.6 would be shown as 1000 of this unit: it is 1.0 of the next one.
        if count < 999.5:
            return f"{count:.1f} {unit}" if count < 99.95 else f"{count:.0f} {unit}"
    return f"{count / 1000:,.1f} PB"


def time_text(moment: datetime | None) -> str:
    """A time to the second, in UTC; two dashes for none."""
    return "--" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def number_text(value: Any) -> str:
    """A number with commas between thousands, anything else as in a cell."""
    from wormdb.format.kinds import Decimal128

    if isinstance(value, Decimal128):
        value = value.to_decimal()
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{value:,}"
    return cell_of(value)


def is_number(value: Any) -> bool:
    """Whether a value is aligned to the right."""
    from wormdb.format.kinds import Decimal128

    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def cell_of(value: Any) -> str:
    """A value in one line of a table; nothing for a missing one."""
    from wormdb.jobs.plain_text import plain_of  # commands that show no documents do not need what it needs

    if value is None:
        return "null"
    return one_line(plain_of(value) or "")


def one_line(text: str) -> str:
    """The text with · for every letter that takes no place of its own: newlines, controls, what changes the order."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in text)


def width_of(text: str) -> int:
    """How many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_places(letter) for letter in text)


def cut(text: str, width: int) -> str:
    """The text, or its beginning and … if it takes more places than there are."""
    if width_of(text) <= width:
        return text
    taken, kept = 1, []
    for letter in text:
        taken += _places(letter)
        if taken > width:
            break
        kept.append(letter)
    return "".join(kept) + "…"


def _places(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1


def counted(count: int, one: str, several: str) -> str:
    """A number with its word: 1 entry, 1,000 entries."""
    return f"{count:,} {one if count == 1 else several}"


def camel(value: Any) -> Any:
    """Plain values of a result, with the names of its fields in camelCase as in files."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {_camel_name(name): camel(item) for name, item in plain.items()}
    return [camel(item) for item in plain] if isinstance(plain, list) else plain


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def print_json(value: Any) -> None:
    """One indented JSON document on standard output."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_values(value: Any) -> None:
    """One indented document of extended JSON on standard output: values as they are stored."""
    from wormdb.format import json

    click.echo(msgspec.json.format(json.encode(value), indent=2).decode())


PLAIN = click.option(
    "--plain", is_flag=True, help='Plain JSON: times, decimals and ObjectIds are text, not {"$date": …}.'
)


def print_document(document: Mapping[str, Any], *, is_plain: bool) -> None:
    """One document on standard output, as it is stored or as other programs read it."""
    print_json(_plain(dict(document))) if is_plain else print_values(dict(document))


def _plain(value: Any) -> Any:
    """A value of JSON's own types; what JSON has no type for is text."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
        return value
    from wormdb.jobs.plain_text import plain_of

    return plain_of(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, styles: Sequence[str] = ()) -> None:
    """A table; `styles` names a colour for each row where the terminal has colours."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for number, row in enumerate(rows):
        style = styles[number] if number < len(styles) else ""
        table.add_row(*(Text("\n".join(map(one_line, cell.split("\n")))) for cell in row), style=style)
    is_terminal = sys.stdout.isatty()
    drawn = io.StringIO()
    # A pipe has no width: wrapping there would only hinder grep.
    width = shutil.get_terminal_size().columns if is_terminal else 200
    Console(file=drawn, force_terminal=is_terminal, width=width).print(table)
    write_own(drawn.getvalue())


# --- Tables as the seeds draw them: names, dashes below them, rows.

_GAP = "  "


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column: its name, how many places it has, and whether numbers stand at its right."""

    name: str
    width: int
    is_right: bool = False


def print_ruled(columns: Sequence[TextColumn], rows: Sequence[Sequence[str]]) -> None:
    """A whole table; columns grow with what is in them."""
    wide = [fit_column(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
    for line in ruled_head(wide):
        click.echo(line)
    for row in rows:
        click.echo(ruled_row(wide, row))


def fit_column(column: TextColumn, cells: Sequence[str], width_max: int | None = None) -> TextColumn:
    """A column wide enough for its name and some cells, at most `width_max`."""
    name = one_line(column.name)
    width = max([column.width, width_of(name), *(width_of(one_line(cell)) for cell in cells)])
    return TextColumn(name, width if width_max is None else min(width, width_max), column.is_right)


def ruled_head(columns: Sequence[TextColumn]) -> tuple[str, str]:
    """The names of columns, and the dashes below them."""
    return ruled_row(columns, [column.name for column in columns]), _GAP.join("-" * column.width for column in columns)


def ruled_row(columns: Sequence[TextColumn], cells: Sequence[str]) -> str:
    """One row; what is too long is cut, with … at its end."""
    return _GAP.join(_placed(column, cell) for column, cell in zip(columns, cells, strict=True)).rstrip()


def _placed(column: TextColumn, cell: str) -> str:
    shown = cut(one_line(cell), column.width)
    blanks = " " * (column.width - width_of(shown))
    return blanks + shown if column.is_right else shown + blanks
