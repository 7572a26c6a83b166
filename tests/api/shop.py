"""The schema that the tests of the API share."""

from __future__ import annotations

from typing import Any

__all__ = ["SHOP"]

SHOP: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:uuid)/[profile].json",
            "fields": {
                "name": {"type": "string", "required": True},
                "email": {"type": "string"},
                "status": {"type": "string", "default": "new", "enum": ["new", "active"]},
                "born": {"type": "datetime"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "indexes": {
                "byEmail": {"field": "email", "unique": True},
                "byTags": {"field": "tags", "type": "multiValue"},
            },
        },
        "OrgSettings": {
            "path": "#org/@settings/[settings].json",
            "fields": {"theme": {"type": "string", "default": "dark"}},
        },
        "User": {"path": "#org/(tenant:slug)/@users/(id:slug)"},
        "AuditLog": {"path": "#org/@audit/(id:ulid)", "mode": "append"},
        "ExternalFeed": {"path": "#org/@feed/(id:string)", "mode": "readonly"},
        "Invoice": {"path": "#org/@invoices/(id:seq)"},
        "Country": {"path": "#org/@countries/(id:string)", "id": "given"},
    },
}
