"""The definition in force at a log number: it changes by log entries, like everything else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from wormdb.format.columns import ColumnSpec
from wormdb.format.event import Closed, SchemaChanged
from wormdb.index.definition import Index
from wormdb.schema.load import load_model
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.format.event import Event
    from wormdb.schema.model import Model

__all__ = ["Definition"]


COLUMN_TYPES_OF = {
    "string": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
    "datetime": "date",
    "binary": "binary",
    "objectid": "objectid",
    "decimal": "decimal",
    "object": "json",
}
"""The column type of a declared field; what is not here takes the type that most values have."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A collection's model since log number `number`; without a model anything may be stored."""

    number: LogNumber
    body: bytes
    model: Model | None
    unique: tuple[Index, ...] = ()
    closed: Closed | None = None

    @property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """The typed columns of this collection's blocks: declared, in the manifest, or indexed."""
        if self.model is None:
            return ()
        return tuple(_column(self.model, path) for path in self.model.columns)

    @classmethod
    def none(cls) -> Definition:
        """Of a collection that has no schema."""
        return cls(LogNumber(0), b"", None)

    @classmethod
    def decode(cls, body: bytes, number: LogNumber) -> Definition:
        """From the JSON in a root or an entry; raises SchemaError."""
        model = _model(body) if body else None
        return cls(number, body, model, () if model is None else _unique(model))

    def after(self, events: Iterable[Event], number: LogNumber) -> Definition:
        """What is in force after the events of entry `number`: the same object if nothing changed."""
        definition = self
        for event in events:
            match event:
                case SchemaChanged(definition=body) if body != definition.body:
                    definition = Definition.decode(body, number)
                case Closed():
                    definition = Definition(number, definition.body, definition.model, definition.unique, event)
                case _:
                    pass
        return definition


def _column(model: Model, path: str) -> ColumnSpec:
    field = model.field_at(path)
    if path in {"createdAt", "updatedAt"} and field is None:
        return ColumnSpec(path, "date")
    if field is None or field.type not in COLUMN_TYPES_OF:
        return ColumnSpec(path)
    return ColumnSpec(path, COLUMN_TYPES_OF[field.type])


@lru_cache(maxsize=256)
def _model(body: bytes) -> Model:
    ((name, source),) = msgspec.json.decode(body).items()
    return load_model(name, source)


def _unique(model: Model) -> tuple[Index, ...]:
    return tuple(Index.of(name, index) for name, index in model.indexes.items() if index.unique)
