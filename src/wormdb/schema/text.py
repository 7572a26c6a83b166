"""From what a caller hands in as a schema to plain JSON values, with positions of mistakes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import isinf
from typing import Any, Final

import msgspec

from wormdb.errors import InvalidRequestError, WormError
from wormdb.format.json import encode
from wormdb.format.values import normalize
from wormdb.schema.problems import ProblemReport, join_path
from wormdb.settings import DOCUMENT_DEPTH_MAX, INT_MAX, INT_MIN, SCHEMA_BYTES_MAX

__all__ = ["UNREADABLE", "read_source"]

UNREADABLE: Final = object()
"""What `read_source` gives for a source that is not JSON."""

_VALUES_MAX: Final = 1_000_000
_DIGITS_MAX: Final = 20
_SIZE_REASON: Final = f"the schema is larger than {SCHEMA_BYTES_MAX} bytes"


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys occurred twice."""

    repeated: tuple[str, ...] = ()


def read_source(source: str | bytes | Mapping[str, Any], report: ProblemReport) -> Any:
    """The JSON value of text, bytes or a mapping; UNREADABLE after reporting why it has none.

    A key that occurs twice in one object is reported with its path, and the last one counts.
    """
    if isinstance(source, Mapping):
        source = _written(source, report)
    elif isinstance(source, bytes):
        source = _decoded(source, report)
    if not source:
        if not report.errors:
            report.error("", "the schema is empty", 'write at least {"models": {}}')
        return UNREADABLE
    if len(source) > SCHEMA_BYTES_MAX:
        report.error("", _SIZE_REASON, "split it into several databases")
        return UNREADABLE
    try:
        value = json.loads(
            source, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_float
        )
        _report_repeated(value, "", report)
        msgspec.json.encode(value)  # definitions are stored: what cannot be written again is refused here
    except json.JSONDecodeError as error:
        report.error("", f"invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}", "correct it there")
    except RecursionError:
        report.error("", "invalid JSON: nested too deep", "flatten it")
    except (ValueError, OverflowError) as error:  # numbers: too many digits, NaN; half a surrogate pair
        report.error("", f"invalid JSON: {error}", "correct it")
    else:
        return value
    return UNREADABLE


def _decoded(source: bytes, report: ProblemReport) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        report.error("", f"it is not UTF-8: {error.reason} at byte {error.start}", "save it as UTF-8")
        return ""


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        times = Counter(name for name, _ in pairs)
        made.repeated = tuple(name for name, count in times.items() if count > 1)
    return made


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _integer(text: str) -> int:
    value = int(text) if len(text) <= _DIGITS_MAX else INT_MAX + 1
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError(f"{text[:_DIGITS_MAX]} is over 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text[:_DIGITS_MAX]} is too large for a double")
    return value


def _report_repeated(value: Any, path: str, report: ProblemReport) -> None:
    if isinstance(value, _Object):
        for name in value.repeated:
            report.error(join_path(path, name), "the key occurs twice in one object", "remove one of them")
        for name, item in value.items():
            _report_repeated(item, join_path(path, name), report)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _report_repeated(item, join_path(path, position), report)


def _written(source: Mapping[str, Any], report: ProblemReport) -> str:
    """A mapping as JSON text: values that only Python has, such as dates, become extended JSON."""
    try:
        return msgspec.json.encode(_Plain().copy(source, 1, "")).decode()
    except WormError as error:
        report.error("", error.reason or error.what, error.fix)
        return ""


class _Plain:
    """Copies a mapping into values of JSON; bounded, so that a mapping inside itself ends."""

    def __init__(self) -> None:
        self._left = _VALUES_MAX

    def copy(self, value: Any, level: int, path: str) -> Any:
        self._left -= 1
        if level > DOCUMENT_DEPTH_MAX + 20 or self._left < 0:
            raise InvalidRequestError(f"{path}: nested too deep, or too large", fix="does it hold itself?")
        if isinstance(value, Mapping):
            return {
                self._name(name, path): self.copy(item, level + 1, f"{path}.{name}") for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.copy(item, level + 1, f"{path}.{position}") for position, item in enumerate(value)]
        return msgspec.json.decode(encode(normalize(value, path=path.removeprefix("."))))

    def _name(self, name: object, path: str) -> str:
        if isinstance(name, str):
            return name
        raise InvalidRequestError(f"{path.removeprefix('.')}: the key {name!r} is not text", fix="use strings as keys")
