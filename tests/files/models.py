"""Models that the tests of readable files share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from wormdb.files.contents.names import FileNames, Placement
from wormdb.schema.load import load_schema
from wormdb.schema.model import Layout

if TYPE_CHECKING:
    from wormdb.schema.model import Model

CUSTOMER: dict[str, Any] = {
    "path": "#org/@customers/(id:any)/[profile].json",
    "oplog": True,
    "softDelete": {"enabled": True, "ttl": 30},
    "snapshots": {"enabled": True, "every": 2, "maxCount": 3},
    "fields": {
        "name": {"type": "string"},
        "email": {"type": "string"},
        "status": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "born": {"type": "datetime"},
        "visits": {"type": "array", "items": {"type": "datetime"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}, "since": {"type": "datetime"}}},
        "credit": {"type": "decimal"},
    },
    "manifest": {"enabled": True, "fields": ["name", "email", "status", "tags"]},
    "indexes": {
        "byStatus": {"field": "status"},
        "byEmail": {"field": "email", "unique": True},
        "byTags": {"field": "tags", "type": "multiValue"},
        "byCity": {"fields": ["address.city", "born"]},
    },
}
SETTINGS: dict[str, Any] = {"path": "#org/@settings/[data].json", "fields": {"theme": {"type": "string"}}}
TENANT: dict[str, Any] = {"path": "#org/(tenant:slug)/@users/(id:string)/[user].json"}


def model_of(definition: dict[str, Any], name: str = "Customer", **changes: Any) -> Model:
    """One model, as its schema says."""
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {name: {**definition, **changes}}}
    return load_schema(schema).models[name]


def layouts() -> list[Placement]:
    """The three layouts and a mix."""
    same = [Placement(layout, layout, layout, "customers/") for layout in get_args(Layout)]
    return [*same, Placement("root", "inline", "collection", "archive/customers/")]


def names_of(model: Model, placement: Placement, **outer: Any) -> FileNames:
    """The keys of the model's collection."""
    return FileNames(model, model.path.collection_prefix(outer), placement)
