"""Tables as the seeds draw them: names, dashes below them, rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from wormdb.cli.shown import cut, one_line, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Column", "fitted", "print_ruled", "ruled_head", "ruled_row"]

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, how many places it has, and whether numbers stand at its right."""

    name: str
    width: int
    is_right: bool = False


def print_ruled(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """A whole table; columns grow with what is in them."""
    wide = [fitted(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
    for line in ruled_head(wide):
        click.echo(line)
    for row in rows:
        click.echo(ruled_row(wide, row))


def fitted(column: Column, cells: Sequence[str], width_max: int | None = None) -> Column:
    """A column wide enough for its name and some cells, at most `width_max`."""
    name = one_line(column.name)
    width = max([column.width, width_of(name), *(width_of(one_line(cell)) for cell in cells)])
    return Column(name, width if width_max is None else min(width, width_max), column.is_right)


def ruled_head(columns: Sequence[Column]) -> tuple[str, str]:
    """The names of columns, and the dashes below them."""
    return ruled_row(columns, [column.name for column in columns]), _GAP.join("-" * column.width for column in columns)


def ruled_row(columns: Sequence[Column], cells: Sequence[str]) -> str:
    """One row; what is too long is cut, with … at its end."""
    return _GAP.join(_placed(column, cell) for column, cell in zip(columns, cells, strict=True)).rstrip()


def _placed(column: Column, cell: str) -> str:
    shown = cut(one_line(cell), column.width)
    blanks = " " * (column.width - width_of(shown))
    return blanks + shown if column.is_right else shown + blanks
