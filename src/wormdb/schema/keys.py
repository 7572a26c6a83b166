"""The one table of every key that schema.json may hold.

The loader, the canonical form and the JSON Schema for editors are all read from it, so none of them
can know a key that the others do not. A default written here is part of the format: stored
definitions leave it out, so it never changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from wormdb.format.bson_types import TYPE_NAMES
from wormdb.schema.words import LANGUAGES

__all__ = ["FIELD_TYPES", "ID_STRATEGIES", "LAYOUTS", "TABLES", "Key", "Shape"]

Shape = Literal[
    "string",  # text
    "choice",  # one of `choices`
    "boolean",
    "count",  # an integer of at least `minimum`
    "duration",  # "30d"
    "names",  # a list of distinct strings
    "words",  # true, false, or a list of distinct strings
    "types",  # the name of one of BSON's types, or a list of them
    "values",  # a list of any values
    "value",  # any value
    "object",  # an object of the table `of`
    "switch",  # true, false, or an object of the table `of`
    "map",  # name → an object of the table `of`
    "texts",  # name → text
    "kept",  # not interpreted here; kept as it is
]

FIELD_TYPES: Final = (
    "string",
    "number",
    "integer",
    "boolean",
    "datetime",
    "array",
    "object",
    "any",
    "decimal",
    "binary",
    "objectid",
)
ID_STRATEGIES: Final = ("uuid", "ulid", "objectid", "seq", "given")
LAYOUTS: Final = ("inline", "collection", "root")


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name in JSON, what it may hold, and its default (None: absent)."""

    name: str
    shape: Shape
    text: str
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    of: str = ""
    required: bool = False

    @property
    def attribute(self) -> str:
        """The name in Python: softDelete is soft_delete."""
        return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", self.name)


_SCHEMA = (
    Key("$schema", "kept", "Where editors find the JSON Schema of this file."),
    Key("schemaVersion", "string", "Version of this format.", default="1.0"),
    Key(
        "sourceOfTruth",
        "choice",
        "Which side wins if a file changed on both: what push and pull of the folder do by default.",
        default="local",
        choices=("local", "remote", "bidirectional"),
    ),
    Key("symbols", "object", "The signs of the path language.", of="symbols"),
    Key("dynamicTypes", "texts", "Types of dynamic segments: name and regular expression of the whole id."),
    Key("operators", "texts", "Names for id strategies, usable as `id` of a model."),
    Key("storage", "object", "Where readable files of oplog, snapshots and trash lie.", of="storage"),
    Key("models", "map", "The models by name.", of="model", required=True),
    Key("paths", "kept", "Further paths; kept, and used by nothing here."),
    Key("views", "kept", "Saved queries; kept, and used by nothing here."),
    Key("rules", "kept", "Rules for paths; kept, and used by nothing here."),
    Key("import", "kept", "Settings of the import; kept, and used by nothing here."),
    Key("generatedDir", "kept", "Folder of generated code; kept, and used by nothing here."),
    Key("acl", "kept", "Access rules; kept, and used by nothing here."),
)

_SYMBOLS = (
    Key("namespace", "string", "Sign before a namespace.", default="#"),
    Key("collection", "string", "Sign before a collection.", default="@"),
    Key("dynamic", "string", "Pair of signs around a dynamic segment.", default="()"),
    Key("requiredFile", "string", "Pair of signs around the name of the required file.", default="[]"),
)

_STORAGE = (
    Key("layout", "choice", "Default place of the three below.", default="root", choices=LAYOUTS),
    Key("oplog", "choice", "Place of the oplog, if not that of `layout`.", choices=LAYOUTS),
    Key("snapshots", "choice", "Place of snapshots, if not that of `layout`.", choices=LAYOUTS),
    Key("trash", "choice", "Place of the trash, if not that of `layout`.", choices=LAYOUTS),
)

_MODEL = (
    Key("path", "string", "Where documents lie, e.g. #org/@customers/(id:uuid)/[profile].json.", required=True),
    Key("description", "string", "What the model is, for people.", default=""),
    Key("fields", "map", "Declared fields; others are kept as well.", of="field"),
    Key("refs", "map", "Relations to other models, for populate.", of="ref"),
    Key(
        "mode",
        "choice",
        "Which operations are allowed.",
        default="readwrite",
        choices=("readonly", "readwrite", "append"),
    ),
    Key("oplog", "boolean", "Keep every change of an entity as a readable file too.", default=False),
    Key("softDelete", "switch", "Deleted entities go to the trash.", of="softDelete"),
    Key("snapshots", "object", "Versions of an entity that are kept to go back to.", of="snapshots"),
    Key("history", "object", "How much of the history of a document is kept; default: all of it.", of="history"),
    Key(
        "ttl",
        "duration",
        "How long documents stay after the date in `expireAt`, or after their last change: 7d, 12h; units s m h d w.",
    ),
    Key("expireAt", "string", "The field with the date at which a document ends, or from which `ttl` counts."),
    Key(
        "manifest",
        "object",
        "Which fields the manifest file has; they are columns of the blocks too.",
        of="manifest",
    ),
    Key("indexes", "map", "Indexes by name: queries use them, and unique ones are enforced.", of="index"),
    Key(
        "files",
        "boolean",
        "Keep readable files beside the engine; default: whether the path names a file.",
    ),
    Key("id", "string", "How ids are made: a strategy or an operator; default: by the type in the path."),
    Key("dynamicTypes", "texts", "As in the schema, for this model alone."),
    Key(
        "version",
        "count",
        "Version of the fields, which are frozen once it was applied; default: the database counts.",
        minimum=1,
    ),
)

_FIELD = (
    Key("type", "choice", "Type of the value.", default="any", choices=FIELD_TYPES),
    Key("description", "string", "What the field is, for people.", default=""),
    Key("required", "boolean", "Refuse documents where it is missing or null.", default=False),
    Key("default", "value", "Value of new documents that do not give one."),
    Key("enum", "values", "The only values allowed."),
    Key("ref", "string", "Model whose id it holds, for populate; that the id exists is not checked."),
    Key("items", "object", "Definition of the elements of an array.", of="field"),
    Key("properties", "map", "Declared fields of an object.", of="field"),
)

_REF = (
    Key(
        "type",
        "choice",
        "Kind of relation.",
        default="belongsTo",
        choices=("belongsTo", "hasMany", "manyToMany"),
    ),
    Key("model", "string", "The other model.", required=True),
    Key("field", "string", "Own field that holds the other's id."),
    Key("foreignKey", "string", "Field of the other model that holds the own id."),
    Key("through", "object", "Model between the two of a manyToMany.", of="through"),
    Key(
        "onDelete",
        "choice",
        "What becomes of the others on delete; only `none` is done: others are kept as they are.",
        default="none",
        choices=("none", "cascade", "restrict", "setNull"),
    ),
)

_THROUGH = (
    Key("model", "string", "The model between.", required=True),
    Key("foreignKey", "string", "Its field that holds the own id.", required=True),
    Key("target", "string", "Its field that holds the other's id.", required=True),
)

_SOFT_DELETE = (Key("ttl", "count", "Days after which `purge_expired` takes it out of the trash; 0 keeps it forever."),)

_SNAPSHOTS = (
    Key("enabled", "boolean", "Take snapshots.", default=False),
    Key("every", "count", "How many changes of an entity make one; without it only those taken by hand.", minimum=1),
    Key("maxAge", "duration", "Older ones are not listed, but for the newest: 30d, 12h; units s m h d w."),
    Key("maxCount", "count", "How many of an entity are listed at most.", minimum=1),
)

_HISTORY = (
    Key("keep", "duration", "How long a version stays after another followed it: 30d, 12h; units s m h d w."),
    Key("versions", "count", "How many versions of a document stay at most, with the newest.", minimum=1),
)

_MANIFEST = (
    Key("enabled", "boolean", "Keep the manifest.", default=False),
    Key("fields", "names", "Fields it holds; default: all declared ones."),
    Key("autoUpdate", "boolean", "Update it with every change.", default=True),
    Key("partitionThreshold", "count", "Entities before it is split.", default=10_000, minimum=1),
    Key("maxPartitions", "count", "How many parts it has at most.", default=16, minimum=1),
)

_INDEX = (
    Key("field", "string", "Dotted name of the indexed field."),
    Key("fields", "names", "Dotted names of a compound index, in order; of type text each may have a weight: title^3."),
    Key("unique", "boolean", "Refuse a second document with the same value.", default=False),
    Key(
        "type",
        "choice",
        "multiValue: each element of an array; several fields: compound; unique: as `unique`; vector: the nearest; "
        "text: words.",
        default="standard",
        choices=("standard", "unique", "multiValue", "compound", "vector", "text"),
    ),
    Key("sparse", "boolean", "Leave out missing and null; false makes them count for unique.", default=True),
    Key(
        "bsonType",
        "types",
        "Refuse values of another type on write, null and missing apart; a list, one for each field, for compound.",
        choices=TYPE_NAMES,
    ),
    Key("dimensions", "count", "Of type vector: how many numbers a vector has.", minimum=1),
    Key(
        "distance",
        "choice",
        "Of type vector: how far vectors are from each other; default: cosine.",
        choices=("cosine", "euclidean", "dot_product"),
    ),
    Key(
        "language",
        "choice",
        "Of type text: whose stems are compared; default: none, words as they are.",
        choices=LANGUAGES,
    ),
    Key("stopWords", "words", "Of type text: words that are left out; true for those of the language."),
)

TABLES: Final[dict[str, tuple[Key, ...]]] = {
    "schema": _SCHEMA,
    "symbols": _SYMBOLS,
    "storage": _STORAGE,
    "model": _MODEL,
    "field": _FIELD,
    "ref": _REF,
    "through": _THROUGH,
    "softDelete": _SOFT_DELETE,
    "snapshots": _SNAPSHOTS,
    "history": _HISTORY,
    "manifest": _MANIFEST,
    "index": _INDEX,
}
"""Every kind of object in schema.json and its keys."""
