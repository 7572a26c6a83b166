"""Some rows for people: a small table as text for a terminal, or as HTML for a notebook."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.json import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PREVIEW_ROWS", "html_table", "text_table"]

PREVIEW_ROWS: Final = 10
_COLUMNS_MAX: Final = 8
_CELL_CHARS: Final = 30
_NAME_CHARS: Final = 30


def text_table(rows: Sequence[dict[str, Any]], *, more: bool) -> str:
    """Rows as aligned columns, numbers to the right; `more` if there are others behind them. No requests."""
    if not rows:
        return "(no rows)"
    names, are_left_out = _columns(rows)
    lines = [[_short(name, _NAME_CHARS) for name in names], *([_cell(row, name) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    is_right = [all(_is_number(row.get(name)) for row in rows if name in row) for name in names]
    lines.insert(1, ["─" * width for width in widths])
    shown = ["  ".join(_aligned(line, widths, is_right)).rstrip() for line in lines]
    if are_left_out or more:
        shown.append(" ".join(["…"] * more + ["(more fields)"] * are_left_out))
    return "\n".join(shown)


def html_table(rows: Sequence[dict[str, Any]], *, more: bool) -> str:
    """Rows as a table in HTML; every text is escaped. No requests."""
    if not rows:
        return "<p>(no rows)</p>"
    names, are_left_out = _columns(rows)
    head = "".join(f"<th>{escape(_short(name, _NAME_CHARS))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(row, name))}</td>' for name in names)}</tr>" for row in rows)
    note = "<p>…</p>" if more or are_left_out else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _columns(rows: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    names.sort(key=lambda name: name != "id")
    return names[:_COLUMNS_MAX], len(names) > _COLUMNS_MAX


def _cell(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return ""
    value = row[name]
    if isinstance(value, str):
        return _short(value, _CELL_CHARS)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    return _short(encode(value).decode(), _CELL_CHARS)


def _short(text: str, chars: int) -> str:
    """One line without anything that a terminal would obey."""
    plain = "".join(letter if letter.isprintable() else "·" for letter in text[: chars + 1])
    return plain if len(plain) <= chars else f"{plain[: chars - 1]}…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _aligned(line: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> list[str]:
    return [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(line, widths, is_right, strict=True)
    ]
