"""What a schema says, as values: frozen, and equal exactly when their canonical JSON is.

`to_json` gives the canonical form: the keys of `wormdb.schema.keys` in their order, in camelCase,
without those that have their default, paths written with the default signs. Loading it again gives an
equal definition. The order of keys and absent keys make no difference in definitions; in values (defaults,
enums) order counts, and 1, 1.0 and true differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec

from wormdb.format.json import encode
from wormdb.format.values import MISSING
from wormdb.schema.keys import TABLES, Key
from wormdb.schema.words import weighted_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.schema.path import PathTemplate

__all__ = [
    "SYSTEM_FIELDS",
    "Field",
    "FieldType",
    "HistoryDefinition",
    "IdStrategy",
    "IndexDefinition",
    "Layout",
    "ManifestDefinition",
    "Mode",
    "Model",
    "RefDefinition",
    "Schema",
    "SchemaPart",
    "SnapshotDefinition",
    "SoftDelete",
    "StorageDefinition",
    "ThroughDefinition",
    "duration_seconds",
    "strategy_of",
]

FieldType = Literal[
    "string", "number", "integer", "boolean", "datetime", "array", "object", "any", "decimal", "binary", "objectid"
]
IdStrategy = Literal["uuid", "ulid", "objectid", "seq", "given"]
Layout = Literal["inline", "collection", "root"]
Mode = Literal["readonly", "readwrite", "append"]

SYSTEM_FIELDS = ("_id", "createdAt", "updatedAt")
"""Fields that every document has without declaring them."""


class SchemaPart:
    """A part of a schema; compares by its canonical form."""

    __slots__ = ()
    _table: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The canonical form, in values that JSON has."""
        written = {}
        for key in TABLES[self._table]:
            value = self.json_value(key)
            if value is not MISSING:
                written[key.name] = value
        return written

    def canonical(self) -> bytes:
        """The canonical form as bytes, names sorted: equal definitions have equal bytes."""
        return msgspec.json.encode(_sorted(self._table, self.to_json()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.canonical() == other.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())

    def json_value(self, key: Key) -> Any:
        """The value of one key in JSON; MISSING leaves it out."""
        value = getattr(self, key.attribute)
        match key.shape:
            case "value":
                return value if value is MISSING else _extended(value)
            case "values":
                return MISSING if value is None else [_extended(item) for item in value]
            case "map":
                return {name: item.to_json() for name, item in value.items()} or MISSING
            case "texts":
                return dict(value) or MISSING
            case "object":
                return (value is not None and value.to_json()) or MISSING
            case "names":
                return MISSING if value is None else list(value)
            case _:
                return MISSING if value is None or value == key.default else value


def _sorted(table: str, written: dict[str, Any]) -> dict[str, Any]:
    """The canonical form with the names of maps in order; values keep theirs, because there it counts."""
    made = dict(written)
    for key in TABLES[table]:
        value = made.get(key.name)
        if key.shape == "map" and value is not None:
            made[key.name] = {name: _sorted(key.of, value[name]) for name in sorted(value)}
        elif key.shape == "object" and value is not None:
            made[key.name] = _sorted(key.of, value)
        elif key.shape == "texts" and value is not None:
            made[key.name] = dict(sorted(value.items()))
    return made


def _extended(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


@dataclass(frozen=True, slots=True, eq=False)
class Field(SchemaPart):
    """A declared field. `default` is MISSING where there is none: null is a value."""

    _table: ClassVar[str] = "field"

    type: FieldType = "any"
    description: str = ""
    required: bool = False
    default: Any = MISSING
    enum: tuple[Any, ...] | None = None
    ref: str | None = None
    items: Field | None = None
    properties: Mapping[str, Field] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ThroughDefinition(SchemaPart):
    """The model between the two of a manyToMany relation."""

    _table: ClassVar[str] = "through"

    model: str
    foreign_key: str
    target: str


@dataclass(frozen=True, slots=True, eq=False)
class RefDefinition(SchemaPart):
    """A relation to another model."""

    _table: ClassVar[str] = "ref"

    model: str
    type: Literal["belongsTo", "hasMany", "manyToMany"] = "belongsTo"
    field: str | None = None
    foreign_key: str | None = None
    through: ThroughDefinition | None = None
    on_delete: Literal["none", "cascade", "restrict", "setNull"] = "none"


@dataclass(frozen=True, slots=True, eq=False)
class SoftDelete(SchemaPart):
    """Whether deleted entities go to the trash; `ttl` in days, 0 and None keep them forever."""

    _table: ClassVar[str] = "softDelete"

    enabled: bool = False
    ttl: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftDelete) and (self.enabled, self.ttl) == (other.enabled, other.ttl)

    def __hash__(self) -> int:
        return hash((self.enabled, self.ttl))


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotDefinition(SchemaPart):
    """When snapshots are taken and how long they stay; `max_age` as written: 30d."""

    _table: ClassVar[str] = "snapshots"

    enabled: bool = False
    every: int | None = None
    max_age: str | None = None
    max_count: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HistoryDefinition(SchemaPart):
    """How much of a document's history is kept; `keep` as written: 30d. For ever without both."""

    _table: ClassVar[str] = "history"

    keep: str | None = None
    versions: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether something of it goes."""
        return self.keep is not None or self.versions is not None

    @property
    def keep_ms(self) -> int | None:
        """How long a version stays after another followed it; None if it is as long as it may be."""
        seconds = None if self.keep is None else duration_seconds(self.keep)
        return None if seconds is None else 1000 * seconds

    def __str__(self) -> str:
        limits = [] if self.keep is None else [f"keep={self.keep}"]
        limits += [] if self.versions is None else [f"versions={self.versions}"]
        return ", ".join(limits) or "for ever"


@dataclass(frozen=True, slots=True, eq=False)
class ManifestDefinition(SchemaPart):
    """Which fields are columns of blocks and of the manifest file; `fields` None means all declared."""

    _table: ClassVar[str] = "manifest"

    enabled: bool = False
    fields: tuple[str, ...] | None = None
    auto_update: bool = True
    partition_threshold: int = 10_000
    max_partitions: int = 16


@dataclass(frozen=True, slots=True, eq=False)
class IndexDefinition(SchemaPart):
    """An index over one dotted field, or over several in order."""

    _table: ClassVar[str] = "index"

    fields: tuple[str, ...]
    unique: bool = False
    type: Literal["standard", "multiValue", "compound", "vector", "text"] = "standard"
    sparse: bool = True
    bson_type: tuple[str, ...] = ()
    dimensions: int | None = None
    """Of vectors; None for other types."""
    distance: Literal["cosine", "euclidean", "dot_product"] | None = None
    weights: tuple[float, ...] = ()
    """Of the fields of a text index; empty if all are 1."""
    language: str | None = None
    stop_words: tuple[str, ...] | bool | None = None
    """Of a text index; True for those of the language."""

    @property
    def is_lists(self) -> bool:
        """Whether it is lists, and not a tree of values."""
        return self.type in {"vector", "text"}

    @property
    def weighted_fields(self) -> tuple[str, ...]:
        """The fields as they are written: with their weights."""
        weights = self.weights or (1.0,) * len(self.fields)
        return tuple(weighted_name(name, weight) for name, weight in zip(self.fields, weights, strict=True))

    def json_value(self, key: Key) -> Any:
        """The value of one key in JSON; MISSING leaves it out."""
        match key.name:
            case "field":
                return self.weighted_fields[0] if len(self.fields) == 1 else MISSING
            case "fields":
                return list(self.weighted_fields) if len(self.fields) > 1 else MISSING
            case "type":
                return self.type if self.is_lists or self.type == "multiValue" else MISSING
            case "stopWords":
                return list(self.stop_words) if isinstance(self.stop_words, tuple) else self.stop_words or MISSING
            case "bsonType":
                return _single_or_list(self.bson_type)
            case _:
                return SchemaPart.json_value(self, key)


def _single_or_list(names: tuple[str, ...]) -> Any:
    if not names:
        return MISSING
    return names[0] if len(names) == 1 else list(names)


@dataclass(frozen=True, slots=True, eq=False)
class StorageDefinition(SchemaPart):
    """Where oplog, snapshots and trash lie."""

    _table: ClassVar[str] = "storage"

    layout: Layout = "root"
    oplog: Layout | None = None
    snapshots: Layout | None = None
    trash: Layout | None = None

    def layout_of(self, kind: Literal["oplog", "snapshots", "trash"]) -> Layout:
        """The layout of one kind: its override, or the default."""
        override: Layout | None = getattr(self, kind)
        return self.layout if override is None else override


@dataclass(frozen=True, slots=True, eq=False)
class Model(SchemaPart):
    """One model, complete by itself: its JSON needs nothing of the schema around it.

    `id` is the strategy that makes ids, `dynamic_types` holds the types of its own that the path
    uses, `files` whether readable files are kept.
    """

    _table: ClassVar[str] = "model"

    name: str
    path: PathTemplate
    id: IdStrategy
    files: bool
    description: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    refs: Mapping[str, RefDefinition] = field(default_factory=dict)
    mode: Mode = "readwrite"
    oplog: bool = False
    soft_delete: SoftDelete = SoftDelete()
    ttl: str | None = None
    expire_at: str | None = None
    snapshots: SnapshotDefinition = SnapshotDefinition()
    history: HistoryDefinition = HistoryDefinition()
    manifest: ManifestDefinition = ManifestDefinition()
    indexes: Mapping[str, IndexDefinition] = field(default_factory=dict)
    dynamic_types: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None
    """The version of its fields, where the schema counts them itself."""

    @property
    def is_singleton(self) -> bool:
        """Whether it has one document only."""
        return self.path.id is None

    @property
    def expiry(self) -> tuple[str, int] | None:
        """The date after which documents end, and how many ms after it; None if they stay."""
        if self.ttl is None and self.expire_at is None:
            return None
        seconds = 0 if self.ttl is None else duration_seconds(self.ttl)
        return self.expire_at or "updatedAt", 1000 * (seconds or 0)

    @property
    def manifest_fields(self) -> tuple[str, ...]:
        """The fields of the manifest as configured: without _id, createdAt and updatedAt."""
        names = tuple(self.fields) if self.manifest.fields is None else self.manifest.fields
        return tuple(name for name in names if name not in {*SYSTEM_FIELDS, "id"})

    @property
    def columns(self) -> tuple[str, ...]:
        """Every dotted name that is a column of a block: declared, in the manifest, indexed, timestamps."""
        # Vectors and texts are long, and few filters ask for their values.
        ordered = (index for index in self.indexes.values() if not index.is_lists)
        indexed = [name for index in ordered for name in index.fields]
        names = dict.fromkeys([*self.fields, *self.manifest_fields, *indexed, "createdAt", "updatedAt"])
        return tuple(name for name in names if name not in {"_id", "id"})

    def field_at(self, dotted: str) -> Field | None:
        """The declaration of a dotted name; None where nothing is declared for it."""
        found: Field | None = None
        names: Mapping[str, Field] = self.fields
        for name in dotted.split("."):
            found = names.get(name)
            if found is None:
                return None
            inner = found.items if found.type == "array" and found.items is not None else found
            names = inner.properties
        return found

    def canonical(self) -> bytes:
        """The canonical form as bytes, with the name: equal definitions have equal bytes."""
        return msgspec.json.encode({self.name: _sorted(self._table, self.to_json())})

    def json_value(self, key: Key) -> Any:
        """The value of one key in JSON; MISSING leaves it out."""
        match key.name:
            case "path":
                return str(self.path)
            case "softDelete":
                return self.soft_delete.to_json() or self.soft_delete.enabled or MISSING
            case "files":
                kept = self.path.file is not None and not self.path.is_of_others
                return MISSING if self.files == kept else self.files
            case "id":
                return MISSING if self.id == strategy_of(self.path) else self.id
            case _:
                return SchemaPart.json_value(self, key)


def strategy_of(path: PathTemplate) -> IdStrategy:
    """The id strategy that a path implies by the type of its id."""
    kind = "" if path.id is None else path.id.type
    match kind:
        case "uuid" | "ulid" | "objectid" | "seq":
            return kind
        case _:
            return "given"


@dataclass(frozen=True, slots=True, eq=False)
class Schema(SchemaPart):
    """A whole schema. `extra` holds the keys that are kept but not interpreted."""

    _table: ClassVar[str] = "schema"

    models: Mapping[str, Model] = field(default_factory=dict)
    schema_version: str = "1.0"
    source_of_truth: Literal["local", "remote", "bidirectional"] = "local"
    dynamic_types: Mapping[str, str] = field(default_factory=dict)
    operators: Mapping[str, str] = field(default_factory=dict)
    storage: StorageDefinition = StorageDefinition()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def json_value(self, key: Key) -> Any:
        """The value of one key in JSON; MISSING leaves it out."""
        match key.name:
            case "schemaVersion" | "sourceOfTruth":
                return getattr(self, key.attribute)
            case "models":
                return {name: model.to_json() for name, model in self.models.items()}
            case "symbols":
                return MISSING
            case _ if key.shape == "kept":
                return self.extra.get(key.name, MISSING)
            case _:
                return SchemaPart.json_value(self, key)


# --- Durations as people write them: 30d.

_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhdw])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def duration_seconds(text: str) -> int | None:
    """The seconds of `90s`, `5m`, `12h`, `30d` or `2w`; None if it is not a duration."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _SECONDS[found[2]] if found else None
