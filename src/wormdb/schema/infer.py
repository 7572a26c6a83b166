"""A model from documents: what all of them have in common. No I/O.

What was seen fits the model: types that differ become `any`, a field is required if every document has it. Memory is
bounded by the fields that there are, however many documents are seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Binary, Decimal128, ObjectId
from wormdb.format.values import are_field_names
from wormdb.schema.cells import guess_value
from wormdb.schema.identity import BUILT_IN_TYPES
from wormdb.schema.validate import parse_datetime

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Inference"]

_FIELDS_MAX: Final = 1_000
"""Names on one level; an object with more is not a record but a map."""
_DEPTH_MAX: Final = 20
_ENUM_MAX: Final = 20
_IDS: Final = ("id", "_id")
_OWN: Final = frozenset({"_rev", "_doc"})
_TIMES: Final = frozenset({"createdAt", "updatedAt"})
_KINDS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    datetime: "datetime",
    Decimal128: "decimal",
    ObjectId: "objectid",
    bytes: "binary",
    Binary: "binary",
    list: "array",
    dict: "object",
}
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.]\d{1,3})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
"""Text that is a date: to the millisecond, because more would be lost."""
_ID_TYPES: Final = {name: re.compile(BUILT_IN_TYPES[name]) for name in ("uuid", "ulid", "objectid")} | {
    "seq": re.compile("[0-9]{10}")
}


@dataclass(slots=True)
class _FieldShape:
    """What was seen in one place."""

    depth: int = 1
    cells: int = 0
    """Cells of text among the values."""
    present: int = 0
    """Values that are not null."""
    empty: int = 0
    """Cells with empty text, which are nothing where no text is meant."""
    kinds: set[str] = field(default_factory=set)
    is_moment: bool = True
    """Whether all text is a date."""
    texts: dict[str, None] | None = field(default_factory=dict)
    """The different ones; None if there are too many."""
    fields: dict[str, _FieldShape] = field(default_factory=dict)
    is_map: bool = False
    objects: int = 0
    items: _FieldShape | None = None

    def see_cell(self, text: str) -> None:
        """A cell of text, which is text in the end if others look differently."""
        self.cells += 1
        self._see_text(text)
        if text:
            self.see(guess_value(text))
        else:
            self.empty += 1

    def see(self, value: Any) -> None:
        """A value; null says nothing."""
        if value is None:
            return
        self.present += 1
        kind = _KINDS.get(type(value), "other")
        self.kinds.add(kind)
        if kind == "string":
            self.is_moment = self.is_moment and _is_moment(value)
            self._see_text(value)
        elif kind == "object":
            self.objects += 1
            self._see_fields(value)
        elif kind == "array":
            self._see_items(value)

    def _see_text(self, text: str) -> None:
        if self.texts is not None:
            self.texts[text] = None
            self.texts = self.texts if len(self.texts) <= _ENUM_MAX else None

    def _see_fields(self, values: dict[str, Any]) -> None:
        if self.depth >= _DEPTH_MAX or self.is_map:
            return
        for name, value in values.items():
            shape = self.fields.get(name)
            if shape is None:
                shape = self.fields[name] = _FieldShape(self.depth + 1)
            shape.see(value)
        if len(self.fields) > _FIELDS_MAX:
            self.fields, self.is_map = {}, True

    def _see_items(self, values: list[Any]) -> None:
        if self.depth >= _DEPTH_MAX:
            return
        if self.items is None:
            self.items = _FieldShape(self.depth + 1)
        for value in values:
            self.items.see(value)

    # --- what it comes to ---

    @property
    def type(self) -> str:
        kinds = self.kinds
        if not kinds:
            return "string" if self.empty else "any"
        if kinds <= {"string", "datetime"}:
            return "datetime" if self.is_moment else "string" if kinds == {"string"} else "any"
        if len(kinds) == 1:
            (kind,) = kinds
            return "any" if kind == "other" else kind
        if kinds <= {"integer", "number", "decimal"}:
            return "number"
        return "string" if self.cells == self.present + self.empty else "any"

    def declared(self, total: int, *, enums: bool) -> dict[str, Any]:
        """The definition of a field that `total` objects could have; 0 for elements of an array."""
        kind = self.type
        made: dict[str, Any] = {"type": kind}
        # An array may have any number of elements: null may be one of them.
        if total and self.present + (self.empty if kind == "string" else 0) == total:
            made["required"] = True
        if kind == "object" and self.fields:
            names = [name for name in self.fields if are_field_names((name,))]
            made["properties"] = {name: self.fields[name].declared(self.objects, enums=enums) for name in names}
        if kind == "array" and self.items is not None and self.items.type != "any":
            made["items"] = self.items.declared(0, enums=enums)
        if enums and kind == "string" and self.texts and self.present + self.empty >= 2 * len(self.texts):
            made["enum"] = list(self.texts)
        return made


def _is_moment(text: str) -> bool:
    return _MOMENT.fullmatch(text) is not None and parse_datetime(text) is not None


class Inference:
    """Sees documents one after the other. Not thread-safe."""

    def __init__(self, *, id_field: str | None = None, enums: bool = False) -> None:
        """`id_field` is the field that is the id; with `enums` few different texts are the only ones allowed."""
        self._id_names = _IDS if id_field is None or id_field in _IDS else (id_field,)
        self._enums = enums
        self._fields: dict[str, _FieldShape] = {}
        self._with_id = 0
        self._is_text_id = True
        self._id_types = set(_ID_TYPES)
        self.count = 0
        """Documents seen so far."""

    def see(self, values: Mapping[str, Any]) -> None:
        """One document, with values of any type. No requests."""
        self._begin([values.get(name) for name in self._id_names])
        for name, value in values.items():
            if (shape := self._shape(name)) is not None:
                shape.see(value)

    def see_cells(self, cells: Mapping[str, str]) -> None:
        """One row of text: what cells look like decides, and those that look differently are text. No requests."""
        self._begin([cells.get(name) for name in self._id_names])
        for name, text in cells.items():
            if (shape := self._shape(name)) is not None:
                shape.see_cell(text)

    def _begin(self, ids: list[Any]) -> None:
        self.count += 1
        given = [value for value in ids if value is not None and value != ""]
        if not given:
            return
        self._with_id += 1
        self._is_text_id = self._is_text_id and isinstance(given[0], str)
        if self._is_text_id and self._id_types:
            self._id_types = {name for name in self._id_types if _ID_TYPES[name].fullmatch(given[0])}

    def _shape(self, name: str) -> _FieldShape | None:
        """What is known of a field; None if it is not one to be declared."""
        if name in self._id_names or name in _OWN:
            return None
        if name not in self._fields and len(self._fields) < _FIELDS_MAX:
            self._fields[name] = _FieldShape()
        return self._fields.get(name)

    def model(self, folder: str) -> dict[str, Any]:
        """The model of what was seen, as in schema.json; `folder` is the path to the id, such as `@customers`."""
        kind, strategy = self._identity()
        made: dict[str, Any] = {"path": f"{folder}/(id:{kind})/[data].json"}
        if strategy is not None:
            made["id"] = strategy
        # Files for each document are written only if a model asks for them.
        made["files"] = False
        fields = [(name, shape) for name, shape in self._fields.items() if self._is_declared(name, shape)]
        made["fields"] = _nested({name: shape.declared(self.count, enums=self._enums) for name, shape in fields})
        return made

    def _is_declared(self, name: str, shape: _FieldShape) -> bool:
        # Times are dates without being declared, so they are only if they are something else.
        return name not in _IDS and (name not in _TIMES or (bool(shape.kinds) and shape.type != "datetime"))

    def _identity(self) -> tuple[str, str | None]:
        """The type of ids in the path, and the strategy where the type does not say it."""
        if not self._with_id:
            return "ulid", None
        kind = "any" if not self._is_text_id else min(self._id_types, default="string")
        if self._with_id < self.count and kind in {"any", "string"}:
            return kind, "ulid"
        return kind, None


def _nested(fields: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Fields with dotted ones, columns of a table, put into objects."""
    made: dict[str, Any] = {}
    for name, definition in fields.items():
        *outer, last = name.split(".")
        inner = made
        for part in outer:
            holder = inner.setdefault(part, {"type": "object"})
            inner = holder.setdefault("properties", {})
        inner[last] = definition
    return {name: definition for name, definition in made.items() if are_field_names((name,))}
