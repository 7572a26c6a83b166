"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from wormdb.cli.shown import one_line
from wormdb.cli.terminal import write_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["camel", "counted", "print_json", "print_table", "print_values"]


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
    # A pipe has no width: wrapping there would only hurt whoever greps.
    width = shutil.get_terminal_size().columns if is_terminal else 200
    Console(file=drawn, force_terminal=is_terminal, width=width).print(table)
    write_own(drawn.getvalue())
