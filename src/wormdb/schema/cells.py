"""Cells of a table that is text only: which values they stand for. No I/O.

What a model declares decides. A text that does not fit its type stays text, so that validation tells what is wrong
with it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.format.json import parse
from wormdb.format.path import parse_path
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.schema.model import Model

__all__ = ["CellReader", "guess_value"]

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+", re.ASCII)
_IDS: Final = frozenset({"id", "_id"})
_TIMES: Final = frozenset({"createdAt", "updatedAt"})
_BOOLEANS: Final = {"true": True, "false": False}


def guess_value(text: str) -> Any:
    """The value of a text that nothing is declared for.

    Numbers as JSON writes them, true, false, and objects and lists of JSON; all else is text: 007 and +1 too.
    """
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        number = int(text)
        return number if INT_MIN <= number <= INT_MAX else text
    if _DECIMAL.fullmatch(text):
        value = float(text)
        # Digits that a float would lose are kept as text.
        return value if repr(value) == text else text
    return _container(text)


def _container(text: str) -> Any:
    if text[:1] in {"{", "["}:
        with suppress(InvalidRequestError):
            return parse(text)
    return text


def _integer(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return text
    return value if isfinite(value) else text


def _boolean(text: str) -> Any:
    return _BOOLEANS.get(text.strip().lower(), text)


def _text(text: str) -> Any:
    return text


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": _text,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "array": _container,
    "object": _container,
    "binary": _container,
    # ISO text, digits and hex digits are taken by validation as they are.
    "datetime": _container,
    "decimal": _container,
    "objectid": _container,
}


class CellReader:
    """What rows of text say, by the types of a model; dotted columns are fields of objects."""

    def __init__(self, model: Model | None) -> None:
        """No requests."""
        self._model = model
        self._columns: dict[str, tuple[tuple[str, ...], Callable[[str], Any], bool]] = {}

    def document(self, cells: Mapping[str, str]) -> dict[str, Any]:
        """The values of one row; empty text counts only where text may be.

        Raises InvalidRequestError for a column that can be none, or is a part of another.
        """
        values: dict[str, Any] = {}
        for name, text in cells.items():
            path, read, keeps_empty = self._columns.get(name) or self._column(name)
            if not text and not keeps_empty:
                continue
            inner = values
            for part in path[:-1]:
                inner = inner.setdefault(part, {})
            inner[path[-1]] = read(text)
        return values

    def _column(self, name: str) -> tuple[tuple[str, ...], Callable[[str], Any], bool]:
        path = parse_path(name)
        for other, _, _ in self._columns.values():
            length = min(len(path), len(other))
            if path[:length] == other[:length]:
                raise InvalidRequestError(
                    f"columns {'.'.join(path)!r:.100} and {'.'.join(other)!r:.100}",
                    reason="one of them would be a part of the other",
                    fix="leave one of them out",
                )
        self._columns[name] = path, self._reader(name), self._keeps_empty(name)
        return self._columns[name]

    def _reader(self, name: str) -> Callable[[str], Any]:
        model = self._model
        if name in _IDS:
            is_free = model is None or (model.path.id is not None and model.path.id.type == "any")
            return guess_value if is_free else _text
        field = None if model is None else model.field_at(name)
        return guess_value if field is None or field.type == "any" else _READERS[field.type]

    def _keeps_empty(self, name: str) -> bool:
        if self._model is None:
            return name not in _IDS
        field = self._model.field_at(name)
        if field is None:
            return name not in _IDS | _TIMES
        return name not in _IDS and field.type in {"string", "any"}
