"""The definition in force at a log number: it changes by log entries, like everything else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.state.indexes import IndexStates
from wormdb.engine.state.upgrade import NO_UPGRADES, Upgrades
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.format import json
from wormdb.format.blob import BlobKey
from wormdb.format.columns import ColumnSpec
from wormdb.format.event import (
    BlobCondemned,
    CollectionClosed,
    ExpirySet,
    FilesSwitched,
    FunctionDropped,
    FunctionRegistered,
    HistoryRetained,
    IndexBuilding,
    IndexCreated,
    IndexDropped,
    IndexFailed,
    IndexReady,
    ListsCreated,
    SchemaChanged,
)
from wormdb.format.root import CondemnedBlob, ExpiryEntry, FunctionEntry, SchemaVersion
from wormdb.settings import BLOB_CONDEMNED_MAX
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.bql.functions import Functions
    from wormdb.bql.tree import Filter
    from wormdb.engine.state.expiry import ExpiryRule
    from wormdb.engine.state.indexes import IndexStatus
    from wormdb.engine.tree.definition import Index
    from wormdb.format.event import Event
    from wormdb.format.root import Root
    from wormdb.schema.model import HistoryDefinition, Model

__all__ = [
    "COLUMN_TYPES_OF",
    "NO_BLOBS",
    "BlobStates",
    "Definition",
    "after_function",
    "body_of",
    "expiry_of",
    "functions_of",
    "settled",
]


# --- Which blobs are condemned at a log number: their keys are never written, nor referred to, again.
#
# An entry condemns a key that no document refers to; only then is the object deleted, perhaps much later by a process
# that slept. So a key that was condemned stays so for ever, and the same content is written under another one: the
# suffix of a new key is `newest`, the number of the newest entry that condemned anything, and so it is not a condemned
# key's.
#
# The root names the condemned keys of a while. Those that it forgets had suffixes below `floor`: from then on a key
# with such a suffix is used only if a document owns it, because what is owned was never condemned.


@dataclass(frozen=True, slots=True)
class BlobStates:
    """The condemned keys, each with the entry that condemned it. A value: events make new ones."""

    condemned: Mapping[BlobKey, LogNumber] = field(default_factory=dict)
    newest: int = 0
    floor: int = 0

    @classmethod
    def of_root(cls, root: Root) -> BlobStates:
        """As a root has them."""
        if not root.condemned and not root.blob_newest:
            return NO_BLOBS
        known = {BlobKey(one.sha256.hex(), one.suffix): LogNumber(one.number) for one in root.condemned}
        return cls(known, root.blob_newest, root.blob_floor)

    def after(self, events: Iterable[Event], number: LogNumber) -> BlobStates:
        """What the events of entry `number` make of them: the same object if nothing."""
        told = [BlobKey(each.sha256.hex(), each.suffix) for each in events if isinstance(each, BlobCondemned)]
        if not told:
            return self
        # What two collectors condemn, the first of them did.
        return BlobStates({**dict.fromkeys(told, number), **self.condemned}, number, self.floor)

    def kept(self, trimmed: int) -> dict[str, object]:
        """The fields of a root whose log is trimmed through `trimmed`: what was condemned by then, it forgets."""
        ages = sorted(((number, key) for key, number in self.condemned.items()), reverse=True)
        kept = sorted(key for number, key in ages[:BLOB_CONDEMNED_MAX] if number > trimmed)
        forgotten = self.condemned.keys() - set(kept)
        return {
            "condemned": tuple(
                CondemnedBlob(sha256=bytes.fromhex(key.sha256), suffix=key.suffix, number=self.condemned[key])
                for key in kept
            ),
            "blob_newest": self.newest,
            "blob_floor": max([self.floor, *(key.suffix + 1 for key in forgotten)]),
        }

    def fresh(self, sha256: str) -> BlobKey:
        """The key under which content without an owner is written: never one that was condemned, known or forgotten."""
        return BlobKey(sha256, self.newest)

    def is_usable(self, key: BlobKey) -> bool | None:
        """Whether a document may begin to refer to a key; None if only an owner can tell: what is owned is not gone."""
        if key in self.condemned:
            return False
        return True if key.suffix >= self.floor else None


NO_BLOBS = BlobStates()


# --- The functions of a collection: names that stand for filters, as entries of the log change them.


def after_function(
    functions: tuple[FunctionEntry, ...], event: FunctionRegistered | FunctionDropped, number: LogNumber
) -> tuple[FunctionEntry, ...]:
    """What an event makes of them. Raises CorruptionError for one that cannot come now. No requests."""
    known = {each.name: each for each in functions}
    if isinstance(event, FunctionRegistered):
        known[event.name] = FunctionEntry(name=event.name, filter=event.filter, number=number)
    elif known.pop(event.name, None) is None:
        raise CorruptionError(f"log entry {number}", reason=f"it drops function {event.name}, which is not there")
    return tuple(known[name] for name in sorted(known))


def body_of(entry: FunctionEntry) -> Filter:
    """The filter that a function stands for. Raises CorruptionError. No requests."""
    try:
        return _parsed(entry.filter)
    except InvalidRequestError as error:
        raise CorruptionError(f"function {entry.name}", reason=str(error)) from error


def functions_of(definition: Definition, collection: str) -> Functions:
    """The functions of a definition, to be used in filters. Raises CorruptionError. No requests."""
    from wormdb.bql.functions import Functions  # without functions the query language is not loaded

    return Functions({each.name: body_of(each) for each in definition.functions}, collection.rstrip("/"))


@lru_cache(maxsize=1_024)
def _parsed(body: bytes) -> Filter:
    from wormdb.bql.parse import parse_filter

    return parse_filter(json.parse(body.decode(), operators=True))


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
    """Whether readable files are kept, and where; None if that was never said."""
    versions: tuple[SchemaVersion, ...] = ()
    """Those after the first, in the order of their entries."""
    upgrades: Upgrades = NO_UPGRADES
    """The mappings that they brought."""
    blobs: BlobStates = NO_BLOBS
    """Which blobs are condemned."""
    functions: tuple[FunctionEntry, ...] = ()
    """The names that stand for filters, in order."""
    expiries: tuple[ExpiryEntry, ...] = ()
    """What was said about the end of documents, in order; the last is in force. Empty: nothing ever was."""
    retained: HistoryRetained | None = None
    """How much of history is kept, where the model does not say; None if all of it is."""
    closed: CollectionClosed | None = None
    """Set if the collection was removed: it has no documents and takes none. The rest is what it was."""
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
    def expiry(self) -> ExpiryRule | None:
        """When documents end by themselves; None if they stay."""
        if not self.expiries:
            return None
        from wormdb.engine.state.expiry import rule_of  # few collections have one

        return rule_of(self.expiries)

    @property
    def retention(self) -> HistoryDefinition | None:
        """How much of history is kept, by the model or as it was said; None if all of it is."""
        if self.model is not None and self.model.history.is_limited:
            return self.model.history
        if self.retained is None:
            return None
        from wormdb.schema.model import HistoryDefinition

        return HistoryDefinition(keep=self.retained.keep, versions=self.retained.versions)

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
        return self.model is not None and self.files is not None and self.files.enabled and self.closed is None

    @property
    def version(self) -> int:
        """Of the model's fields."""
        if self.versions:
            return self.versions[-1].version
        return 1 if self.model is None or self.model.version is None else self.model.version

    def begun_at(self, body: bytes) -> int | None:
        """From which entry on documents of a writer with this model have to be mapped; None if no mapping says how.

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
            expiries=root.expiries,
            retained=root.retained,
            closed=root.closed,
        )

    def after(self, events: Iterable[Event], number: LogNumber) -> Definition:  # noqa: C901 - one case for each kind
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
                case IndexCreated() | ListsCreated():
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
                case ExpirySet():
                    from wormdb.engine.state.expiry import after_expiry

                    expiries = after_expiry(definition.expiries, event, number)
                    definition = replace(definition, number=number, expiries=expiries)
                case HistoryRetained():
                    rule = event if event.keep is not None or event.versions is not None else None
                    definition = replace(definition, number=number, retained=rule)
                case CollectionClosed():
                    definition = replace(definition, number=number, closed=event)
                case _:
                    pass
        return definition


def _after_schema(before: Definition, event: SchemaChanged, number: LogNumber) -> Definition:
    """A definition with another model, which may be a new version."""
    from wormdb.schema.difference import next_version

    model, is_mapped = _model(event.definition), event.mapping is not None
    indexes = before.indexes.after_model(model, number, is_empty=event.empty)
    version = next_version(before.version, before.model, model, is_mapped=is_mapped)
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


def expiry_of(model: Model) -> tuple[Event, ...]:
    """When the documents of a new collection end, as its model says. No requests."""
    if model.expiry is None:
        return ()
    from wormdb.engine.state.expiry import expiry_events

    return expiry_events(None, model, 0)


def settled(events: Iterable[Event], *, is_empty: bool) -> tuple[Event, ...]:
    """The events as they are written: those that bring indexes say whether there were documents before them."""
    bringing = (SchemaChanged, IndexCreated, ListsCreated)
    return tuple(
        msgspec.structs.replace(event, empty=is_empty) if isinstance(event, bringing) else event for event in events
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
    from wormdb.schema.load import load_model  # a collection without a model does not wait for it

    ((name, source),) = msgspec.json.decode(body).items()
    return load_model(name, source)
