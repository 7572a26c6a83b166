"""Values as the names of an index file's entries: text that people read, equal exactly for equal values.

Text is itself, unless it could be taken for another value: then it is written with quotes. Everything else is compact
extended JSON. Numbers that are equal have one text whatever their type, as they have one key in an index.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.files.contents.values import iso_text
from wormdb.files.numbers import one_form
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["value_text", "values_text"]

_BEGINS: Final = frozenset('"[{-0123456789tfn')


def value_text(value: Any, *, plain_dates: bool = False) -> str:
    """The text of a normalized value; `plain_dates` if the field is declared a date. No requests."""
    if type(value) is datetime and plain_dates:
        return iso_text(value)
    if type(value) is str:
        return json.encode(value).decode() if _is_json(value) else value
    return json.encode(_comparable(value)).decode()


def values_text(values: Sequence[Any], plain_dates: Sequence[bool]) -> str:
    """The text of the values of several fields, in order: an array of JSON. No requests."""
    parts = [
        iso_text(value) if type(value) is datetime and plain else _comparable(value)
        for value, plain in zip(values, plain_dates, strict=True)
    ]
    return json.encode(parts).decode()


def _is_json(text: str) -> bool:
    """Whether text could be taken for the JSON of another value."""
    if text[:1] not in _BEGINS:
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _comparable(value: Any) -> Any:
    """A value with every number in one form."""
    if type(value) is dict:
        return {name: _comparable(item) for name, item in value.items()}
    if type(value) is list:
        return [_comparable(item) for item in value]
    return one_form(value)
