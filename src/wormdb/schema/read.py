"""One object of schema.json against its table: shapes of values, unknown keys, missing keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

import msgspec

from wormdb.errors import WormError
from wormdb.format.bson_types import bson_type_of, stored_in_model, unknown_type
from wormdb.format.json import parse
from wormdb.format.values import MISSING
from wormdb.schema.duration import duration_seconds
from wormdb.schema.keys import TABLES, Key
from wormdb.schema.report import did_you_mean, find_nearest, join_path
from wormdb.settings import DOCUMENT_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.schema.report import ProblemReport

__all__ = ["SchemaReader"]

_CLOSED: Final = frozenset({"symbols", "storage", "ref", "through", "softDelete", "snapshots", "manifest", "index"})
"""Here a key that is nearly right is an error: a misspelt `unique` would silently allow duplicates."""


class SchemaReader:
    """Reads objects by table; what is wrong goes into the report and is left out of the answer."""

    def __init__(self, report: ProblemReport, build: Callable[[str, dict[str, Any], str], Any]) -> None:
        """Problems go into `report`; nested objects are made by `build(table, values, path)`."""
        self.report = report
        self._build = build
        self._level = 0

    def object(self, table: str, raw: Any, path: str) -> dict[str, Any] | None:
        """Attribute → value of every sound key of `raw`; None if it is no object."""
        if not isinstance(raw, dict):
            self.report.error(path, f"expected an object, got {_kind(raw)}", self._object_fix(table, raw))
            return None
        keys = {key.name: key for key in TABLES[table]}
        for name in raw:
            if name not in keys:
                self._unknown(table, name, keys, path)
        for key in keys.values():
            if key.required and key.name not in raw:
                self.report.error(join_path(path, key.name), "is missing", f"add it: {key.text}")
        found = {}
        for name, key in keys.items():
            if name in raw:
                value = self._value(key, raw[name], join_path(path, name))
                if value is not MISSING:
                    found[key.attribute] = value
        return found

    def _object_fix(self, table: str, raw: Any) -> str:
        if table == "field" and isinstance(raw, str):
            return f'write {{"type": "{raw[:40]}"}}'
        return f"write {{…}} with the keys {', '.join(key.name for key in TABLES[table][:6])}"

    def _unknown(self, table: str, name: str, keys: dict[str, Key], path: str) -> None:
        is_typo = table in _CLOSED and find_nearest(name, keys) is not None
        note = self.report.error if is_typo else self.report.warn
        note(join_path(path, name), f"unknown key {name[:60]!r}", did_you_mean(name, keys))

    def _value(self, key: Key, raw: Any, path: str) -> Any:
        match key.shape:
            case "object" | "switch":
                return self._nested(key, raw, path)
            case "map":
                return self._map(key, raw, path)
            case "string" | "choice" | "duration":
                return self._text(key, raw, path)
            case "boolean":
                return raw if isinstance(raw, bool) else self._wrong(path, "true or false", raw)
            case "count":
                return self._count(key, raw, path)
            case "names":
                return self._names(raw, path)
            case "types":
                return self._types(raw, path)
            case "texts" | "values" | "value" | "kept":
                return self._free(key.shape, raw, path)
            case _:
                assert_never(key.shape)

    def _free(self, shape: Literal["texts", "values", "value", "kept"], raw: Any, path: str) -> Any:
        match shape:
            case "texts":
                return self._texts(raw, path)
            case "values":
                return self._values(raw, path)
            case "value":
                return self._extended(raw, path)
            case "kept":
                return raw

    def _wrong(self, path: str, expected: str, raw: Any) -> Any:
        self.report.error(path, f"expected {expected}, got {_kind(raw)} {_short(raw)}", f"write {expected}")
        return MISSING

    def _text(self, key: Key, raw: Any, path: str) -> Any:
        if not isinstance(raw, str):
            example = f"one of {', '.join(key.choices)}" if key.choices else "text"
            return self._wrong(path, example, raw)
        if key.choices and raw not in key.choices:
            self.report.error(path, f"{raw[:60]!r} is not allowed", did_you_mean(raw, key.choices))
            return MISSING
        if key.shape == "duration" and duration_seconds(raw) is None:
            self.report.error(path, f"{raw[:60]!r} is no duration", "write a number and one of s m h d w: 30d")
            return MISSING
        return raw

    def _count(self, key: Key, raw: Any, path: str) -> Any:
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= key.minimum:
            return raw
        return self._wrong(path, f"a whole number from {key.minimum}", raw)

    def _names(self, raw: Any, path: str) -> Any:
        if not isinstance(raw, list):
            return self._wrong(path, "a list of names", raw)
        found: list[str] = []
        for position, name in enumerate(raw):
            place = join_path(path, position)
            if not isinstance(name, str):
                self._wrong(place, "a name", name)
            elif name in found:
                self.report.error(place, f"{name[:60]!r} occurs twice", "remove one of them")
            else:
                found.append(name)
        return tuple(found)

    def _types(self, raw: Any, path: str) -> Any:
        """The names as a model stores them."""
        found: list[str] = []
        for position, name in enumerate(raw if isinstance(raw, list) else [raw]):
            alias = bson_type_of(name)
            if alias is None:
                self.report.error(join_path(path, position), *unknown_type(name))
            else:
                found.append(stored_in_model(alias))
        return tuple(found)

    def _texts(self, raw: Any, path: str) -> Any:
        if not isinstance(raw, dict):
            return self._wrong(path, "an object of names and texts", raw)
        for name, text in raw.items():
            if not isinstance(text, str):
                self._wrong(join_path(path, name), "text", text)
        return {name: text for name, text in raw.items() if isinstance(text, str)}

    def _values(self, raw: Any, path: str) -> Any:
        if not isinstance(raw, list) or not raw:
            return self._wrong(path, "a list of at least one value", raw)
        found = (self._extended(item, join_path(path, position)) for position, item in enumerate(raw))
        return tuple(item for item in found if item is not MISSING)

    def _extended(self, raw: Any, path: str) -> Any:
        try:
            return parse(msgspec.json.encode(raw).decode())
        except WormError as error:
            self.report.error(path, f"it is no value: {error.reason or error.what}", "write a value of JSON")
            return MISSING

    def _nested(self, key: Key, raw: Any, path: str) -> Any:
        if key.shape == "switch" and isinstance(raw, bool):
            return raw
        return self._descend(key.of, raw, path)

    def _map(self, key: Key, raw: Any, path: str) -> Any:
        if not isinstance(raw, dict):
            return self._wrong(path, "an object of names", raw)
        made = {name: self._descend(key.of, item, join_path(path, name)) for name, item in raw.items()}
        return {name: item for name, item in made.items() if item is not MISSING}

    def _descend(self, table: str, raw: Any, path: str) -> Any:
        if self._level >= DOCUMENT_DEPTH_MAX:
            self.report.error(path, f"nested deeper than {DOCUMENT_DEPTH_MAX} levels", "flatten it")
            return MISSING
        self._level += 1
        try:
            values = self.object(table, raw, path)
            if values is None and table != "field":
                return MISSING
            # A declared field stays known, whatever is wrong with its definition.
            return self._build(table, values or {}, path)
        finally:
            self._level -= 1


_KINDS: Final = {str: "text", bool: "boolean", int: "number", float: "number", list: "list", type(None): "null"}


def _kind(raw: Any) -> str:
    return "an object" if isinstance(raw, dict) else _KINDS.get(type(raw), type(raw).__name__)


def _short(raw: Any) -> str:
    text = msgspec.json.encode(raw).decode()
    return text if len(text) <= 40 else f"{text[:37]}..."
