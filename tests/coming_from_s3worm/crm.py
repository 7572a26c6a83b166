"""The CRM of S3WORM's pages, in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import wormdb
from wormdb.settings import Settings
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from wormdb import Collection, Database, Document

__all__ = ["ACME", "ACTOR", "BEGIN", "SCHEMA", "TIME", "WIDGETS", "Crm"]

ACME, WIDGETS = "a1b2c3d4-0000-4000-8000-000000000001", "e5f6a7b8-0000-4000-8000-000000000002"
BEGIN = datetime(2026, 2, 24, 14, 30, tzinfo=UTC)
TIME = "2026-02-24T14:30:00.000Z"
ACTOR = "user:0xabc"
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "storage": {"layout": "root"},
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:uuid)/[profile].json",
            "mode": "readwrite",
            "oplog": True,
            "softDelete": True,
            "fields": {
                "name": {"type": "string"},
                "email": {"type": "string"},
                "status": {"type": "string"},
                "tags": {"type": "array"},
            },
            "snapshots": {"enabled": True, "every": 10, "maxAge": "30d", "maxCount": 50},
            "manifest": {
                "enabled": True,
                "fields": ["name", "email", "status", "tags"],
                "autoUpdate": True,
                "partitionThreshold": 10000,
                "maxPartitions": 16,
            },
            "indexes": {
                "byStatus": {"field": "status"},
                "byEmail": {"field": "email", "unique": True},
                "byTags": {"field": "tags", "type": "multiValue"},
            },
        },
        "Invoice": {
            "path": "#org/@invoices/(id:string)/[data].json",
            "fields": {
                "status": {"type": "string"},
                "amount": {"type": "number"},
                "currency": {"type": "string"},
                "score": {"type": "number"},
            },
            "indexes": {"byStatus": {"field": "status"}},
        },
        "OrgSettings": {"path": "#org/@settings/[settings].json", "fields": {"theme": {"type": "string"}}},
        "ExternalFeed": {"path": "#org/@feed/(id:string)/[data].json", "mode": "readonly"},
        "AuditLog": {"path": "#org/@audit/(id:string)/[data].json", "mode": "append"},
    },
}
_PLACES = count()


class Crm:
    """A bucket in memory with the two customers of the pages; time stands still."""

    def __init__(self, schema: dict[str, Any] = SCHEMA) -> None:
        self.name = f"coming-{next(_PLACES)}"
        self.url = f"memory://{self.name}"
        self.clock = ManualClock(int(BEGIN.timestamp() * 1_000))
        self.database = self.connect(schema)
        acme = {"id": ACME, "name": "Acme Corp", "email": "hi@acme.com", "status": "active"}
        widgets = {"id": WIDGETS, "name": "Widgets Inc", "email": "hello@widgets.com", "status": "inactive", "tags": []}
        self.customers.save(self.customers.create({**acme, "tags": ["vip", "enterprise"]}))
        self.customers.save(self.customers.create(widgets))

    def connect(self, schema: dict[str, Any]) -> Database:
        settings = Settings(forward="manual", forward_interval_ms=0)
        return wormdb.connect(self.url, schema=schema, apply=True, actor=ACTOR, clock=self.clock, settings=settings)

    @property
    def customers(self) -> Collection[Document]:
        return self.database.model("Customer")

    def listed(self) -> set[str]:
        """Everything in the bucket that is not for wormdb alone."""
        pages = self.database.store.list()
        keys = {found.key for page in pages for found in page.objects}
        return {key for key in keys if ".worm.db/" not in key and not key.startswith((".worm.names/", ".worm.schema"))}

    def read(self, key: str) -> dict[str, Any]:
        """A readable file, after all of them were brought up to date."""
        self.database.forward()
        found: dict[str, Any] = json.loads(self.database.store.get(key).body)
        return found
