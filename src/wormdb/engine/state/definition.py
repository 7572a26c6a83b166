"""The definition in force at a log number: it changes by log entries, like everything else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blob_state import NO_BLOBS, BlobStates
from wormdb.engine.function_state import after_function
from wormdb.engine.state.indexes import IndexStates
from wormdb.engine.state.upgrade import NO_UPGRADES, Upgrades
from wormdb.format.columns import ColumnSpec
from wormdb.format.event import (
    FilesSwitched,
    FunctionDropped,
    FunctionRegistered,
    IndexBuilding,
    IndexCreated,
    IndexDropped,
    IndexFailed,
    IndexReady,
    SchemaChanged,
)
from wormdb.format.root import SchemaVersion
from wormdb.schema.load import load_model
from wormdb.schema.version import following_version
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.state.indexes import IndexStatus
    from wormdb.engine.tree.definition import Index
    from wormdb.format.event import Event
    from wormdb.format.root import FunctionEntry, Root
    from wormdb.schema.model import Model

__all__ = ["COLUMN_TYPES_OF", "Definition", "settled"]

NO_INDEXES = IndexStates()


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
    """A collection's model since log number `number`, and its indexes; without a model anything may be stored."""

    number: LogNumber
    body: bytes
    model: Model | None
    indexes: IndexStates = NO_INDEXES
    files: FilesSwitched | None = None
    """Whether readable files are kept, and where; None if nobody ever said."""
    versions: tuple[SchemaVersion, ...] = ()
    """Those after the first, in the order of their entries."""
    upgrades: Upgrades = NO_UPGRADES
    """The mappings that they brought."""
    blobs: BlobStates = NO_BLOBS
    """Which blobs are condemned."""
    functions: tuple[FunctionEntry, ...] = ()
    """The names that stand for filters, in order."""
    _columns: tuple[ColumnSpec, ...] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """The typed columns of this collection's blocks: declared, in the manifest, or indexed."""
        if self._columns is None:  # made once: every query asks for them
            declared = () if self.model is None else self.model.columns
            indexed = [name for index in self.indexes.ready for name in index.fields if name not in {"_id", "id"}]
            made = tuple(_column(self.model, path) for path in dict.fromkeys([*declared, *indexed]))
            object.__setattr__(self, "_columns", made)
            return made
        return self._columns

    @property
    def unique(self) -> tuple[Index, ...]:
        """The indexes that refuse duplicates."""
        return self.indexes.unique

    @property
    def unbuilt(self) -> tuple[IndexStatus, ...]:
        """The indexes that a build has to go on with."""
        return self.indexes.unbuilt

    @property
    def keeps_files(self) -> bool:
        """Whether readable files are kept."""
        return self.model is not None and self.files is not None and self.files.enabled

    @property
    def version(self) -> int:
        """Of the model's fields."""
        if self.versions:
            return self.versions[-1].version
        return 1 if self.model is None or self.model.version is None else self.model.version

    def begun_at(self, body: bytes) -> int | None:
        """From which entry on documents of a writer with this model have to be mapped; None if nobody says how.

        That is one before the version that followed it; of the model in force, the newest entry of all.
        """
        if body == self.body:
            return self.number
        digest = sha256(body).digest()
        places = [place for place, version in enumerate(self.versions) if version.before == digest]
        if not places or any(version.mapping is None for version in self.versions[places[-1] :]):
            return None
        return self.versions[places[-1]].number - 1

    @classmethod
    def none(cls) -> Definition:
        """Of a collection that has no schema."""
        return cls(LogNumber(0), b"", None)

    @classmethod
    def of_root(cls, root: Root) -> Definition:
        """What a root says; raises SchemaError, CorruptionError."""
        model = _model(root.definition) if root.definition else None
        indexes = IndexStates.from_roots(root.indexes, model, source=f"the root of {root.path}")
        return cls(
            LogNumber(root.applied),
            root.definition,
            model,
            indexes,
            root.files,
            root.versions,
            Upgrades.of(root.versions),
            blobs=BlobStates.of_root(root),
            functions=root.functions,
        )

    def after(self, events: Iterable[Event], number: LogNumber) -> Definition:
        """What is in force after the events of entry `number`: the same object if nothing changed.

        Raises SchemaError, and CorruptionError for an event that cannot come now.
        """
        events = tuple(events)
        if not events:  # as nearly all entries, of which a reader may take in a hundred thousand
            return self
        definition = self
        blobs = self.blobs.after(events, number)
        if blobs is not self.blobs:
            definition = replace(self, number=number, blobs=blobs)
        for event in events:
            match event:
                case SchemaChanged(definition=body) if body != definition.body or event.mapping is not None:
                    definition = _after_schema(definition, event, number)
                case IndexCreated():
                    indexes = definition.indexes.after(event, number, is_empty=event.empty)
                    definition = replace(definition, number=number, indexes=indexes)
                case IndexBuilding() | IndexReady() | IndexFailed() | IndexDropped():
                    indexes = definition.indexes.after(event, number, is_empty=False)
                    definition = replace(definition, number=number, indexes=indexes)
                case FunctionRegistered() | FunctionDropped():
                    functions = after_function(definition.functions, event, number)
                    definition = replace(definition, number=number, functions=functions)
                case FilesSwitched() if event != definition.files:
                    definition = replace(definition, number=number, files=event)
                case _:
                    pass
        return definition


def _after_schema(before: Definition, event: SchemaChanged, number: LogNumber) -> Definition:
    """A definition with another model, which may be a new version."""
    model, is_mapped = _model(event.definition), event.mapping is not None
    indexes = before.indexes.after_model(model, number, is_empty=event.empty)
    version = following_version(before.version, before.model, model, is_mapped=is_mapped)
    versions, upgrades = before.versions, before.upgrades
    if version > before.version and (before.body or is_mapped):
        digest = sha256(before.body).digest()
        added = SchemaVersion(number=number, version=version, before=digest, mapping=event.mapping)
        versions = (*versions, added)
        upgrades = Upgrades.of(versions)
        indexes = indexes.after_mapping(lambda path: upgrades.touches(path, number - 1), number, event.empty)
    return replace(
        before,
        number=number,
        body=event.definition,
        model=model,
        indexes=indexes,
        versions=versions,
        upgrades=upgrades,
    )


def settled(events: Iterable[Event], *, is_empty: bool) -> tuple[Event, ...]:
    """The events as they are written: those that bring indexes say whether there were documents before them."""
    return tuple(
        msgspec.structs.replace(event, empty=is_empty) if isinstance(event, SchemaChanged | IndexCreated) else event
        for event in events
    )


def _column(model: Model | None, path: str) -> ColumnSpec:
    declared = None if model is None else model.field_at(path)
    if model is not None and path in {"createdAt", "updatedAt"} and declared is None:
        return ColumnSpec(path, "date")
    if declared is None or declared.type not in COLUMN_TYPES_OF:
        return ColumnSpec(path)
    return ColumnSpec(path, COLUMN_TYPES_OF[declared.type])


@lru_cache(maxsize=256)
def _model(body: bytes) -> Model:
    ((name, source),) = msgspec.json.decode(body).items()
    return load_model(name, source)
