"""Files that another program keeps: a scan against the loop that people write, a manifest against its own decoding."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

import wormdb
from benchmarks.documents import make_documents
from benchmarks.measure import Count, Row, compare, take
from wormdb.files.foreign.collection import ForeignCollection
from wormdb.query.request import QueryRequest
from wormdb.schema.load import load_schema
from wormdb.storage.memory import MemoryStore
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.system.clock import SystemChance, SystemClock
from wormdb.testing.latency_store import Latency, LatencyProfile, LatencyStore

if TYPE_CHECKING:
    from wormdb.storage.store import Store

__all__ = ["TITLE", "run"]

TITLE = "files of another program"
SCANNED = 400
ROWS = 10_000
REQUEST_MS = 50
FIELDS = ("name", "email", "status", "age", "tags", "created")
FOLDER = "customers/"
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "remote",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)/[profile].json",
            "mode": "readonly",
            "fields": {
                "name": {"type": "string"},
                "email": {"type": "string"},
                "status": {"type": "string"},
                "age": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "created": {"type": "datetime"},
            },
            "manifest": {"enabled": True, "fields": list(FIELDS)},
        }
    },
}


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    return [_scan(), *_manifest()]


# --- every document ---


def _scan() -> Row:
    store = MemoryStore()
    for document in _written(SCANNED):
        store.put(f"{FOLDER}{document['id']}/profile.json", json.dumps(document).encode())
    profile = LatencyProfile(*(Latency(REQUEST_MS),) * 5)
    slow = LatencyStore(store, profile=profile, clock=SystemClock(), chance=SystemChance())
    pool = ThreadPool()
    files = ForeignCollection(
        slow,
        pool,
        SystemClock(),
        model=load_schema(SCHEMA).models["Customer"],
        collection=FOLDER,
        settings=wormdb.Settings(source="files"),
    )

    def ours() -> None:
        assert sum(1 for _ in files.answer().hits(QueryRequest(strategy="full_scan"))) == SCANNED

    def theirs() -> None:
        assert len(_loop(slow)) == SCANNED

    try:
        ours()  # the threads are there, and what decodes is imported
        what, reference = f"full scan, {REQUEST_MS} ms a request", "list, then get one after the other"
        return Row(what, reference, SCANNED, take(ours), take(theirs), at_least=20)
    finally:
        pool.close()


def _loop(store: Store) -> list[Any]:
    keys = [info.key for page in store.list(FOLDER) for info in page.objects]
    return [json.loads(store.get(key).body) for key in keys]


# --- the manifest ---


def _manifest() -> list[Row]:
    url = "memory://bench-files"
    store = open_store(url)
    rows = {each["id"]: {name: each[name] for name in FIELDS if name in each} for each in _written(ROWS)}
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    head = {"version": 1, "model": "Customer", "count": ROWS, "lastUpdated": "2026-02-24T14:30:00.000Z"}
    head["checksum"] = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    key = f"{FOLDER}.worm.manifest.json"
    body = (json.dumps(head)[:-1] + f', "entities": {text}}}').encode()
    store.put(key, body)
    # Without a cache the manifest is read, checked and decoded for every query.
    settings = wormdb.Settings(source="files", cache_bytes=0)
    with wormdb.connect(url, schema=SCHEMA, settings=settings) as database:
        customers = database.model("Customer")

        def find() -> None:
            found = customers.find_all({"status": "active"}, sort="name", limit=20, select=["name", "email"])
            assert len(found) == 20

        def everything() -> None:
            assert len(customers.find_all(select=["name", "email", "status"])) == ROWS

        def add_up() -> None:
            assert customers.aggregate(group_by="status", count=True, avg="age")["groups"]

        def theirs() -> None:
            assert len(msgspec.json.decode(store.get(key).body)["entities"]) == ROWS

        reference = f"msgspec decodes the {len(body) / 1e6:.1f} MB"
        return [
            compare("manifest: filter, sort, limit, select", find, reference, theirs, count=1, at_most=2),
            compare("manifest: groups", add_up, reference, theirs, count=1, at_most=2),
            compare("manifest: three fields of all rows", everything, reference, theirs, count=1),
        ]


def _written(count: int) -> list[dict[str, Any]]:
    """Documents as another program writes them."""
    return [
        {
            **{name: value for name, value in each.items() if name in FIELDS},
            "id": each["_id"],
            "created": "2026-01-15T09:00:00.000Z",
        }
        for each in make_documents(count)
    ]
