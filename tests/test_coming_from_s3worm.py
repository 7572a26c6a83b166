"""The examples of S3WORM's two pages, Bucket Tables and Storage Layout, with our names: calls, files and commands.

docs/coming-from-s3worm.md promises what is held here, shape by shape. Values are those of the pages where the pages
show some. The tests follow the pages from top to bottom.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.cli.commands import table_rebuild
from wormdb.clock import ManualClock
from wormdb.schema.layout import StorageResolver
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb import Collection, Database, Document

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


def checksum(content: dict[str, Any]) -> str:
    """SHA-256 over the JSON with sorted keys and without spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


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


@pytest.fixture
def crm() -> Iterator[Crm]:
    made = Crm()
    yield made
    made.database.close()
    drop_memory(made.name)


@pytest.fixture
def invoices(crm: Crm) -> Collection[Document]:
    found = crm.database.model("Invoice")
    rows = [("paid", 50, 90), ("paid", 25_000, 10), ("draft", 800, 85), ("void", 70, None)]
    found.insert_many(
        [
            {"id": f"inv-{number:03}", "status": status, "amount": amount, "currency": "USD", "score": score}
            for number, (status, amount, score) in enumerate(rows, 1)
        ]
    )
    return found


# --- Bucket Tables ---


def test_the_manifest_file(crm: Crm) -> None:
    stamps = {"createdAt": TIME, "updatedAt": TIME}
    rows = {
        ACME: {"name": "Acme Corp", "email": "hi@acme.com", "status": "active", "tags": ["vip", "enterprise"]} | stamps,
        WIDGETS: {"name": "Widgets Inc", "email": "hello@widgets.com", "status": "inactive", "tags": []} | stamps,
    }
    assert crm.read("org/customers/.worm.manifest.json") == {
        "version": 1,
        "model": "Customer",
        "count": 2,
        "lastUpdated": TIME,
        "checksum": checksum(rows),
        "entities": rows,
        "fields": ["name", "email", "status", "tags"],  # ours
        "log": 3,  # ours
    }


def test_a_partitioned_manifest() -> None:
    models = SCHEMA["models"]
    manifest = {**models["Customer"]["manifest"], "partitionThreshold": 1, "maxPartitions": 4}
    crm = Crm({**SCHEMA, "models": {**models, "Customer": {**models["Customer"], "manifest": manifest}}})
    meta = crm.read("org/customers/.worm.manifest/_meta.json")
    assert (meta["partitionCount"], meta["partitionBy"], meta["totalCount"]) == (2, "id_prefix", 2)
    parts = [crm.read(f"org/customers/.worm.manifest/partition-{number}.json") for number in range(2)]
    assert [list(part["entities"]) for part in parts] == [[ACME], [WIDGETS]]
    assert "org/customers/.worm.manifest.json" not in crm.listed()
    crm.database.close()
    drop_memory(crm.name)


def test_find_all(crm: Crm) -> None:
    asked: dict[str, Any] = {"filter": {"status": "active"}, "sort": {"field": "name", "order": "asc"}, "limit": 20}
    (found,) = crm.customers.find_all(**asked)
    assert found == {
        "id": ACME,
        "name": "Acme Corp",
        "email": "hi@acme.com",
        "status": "active",
        "tags": ["vip", "enterprise"],
        "createdAt": BEGIN,
        "updatedAt": BEGIN,
    }
    assert crm.customers.find_all(**asked, strategy="full_scan") == [found]
    crm.database.forward()
    assert crm.customers.find_all(**asked) == crm.customers.find_all(**asked, strategy="full_scan") == [found]


def test_the_status_of_the_manifest(crm: Crm) -> None:
    crm.customers.build_manifest()
    status = crm.customers.get_manifest_status().to_dict()
    assert status.pop("sizeBytes") > 0
    assert status == {
        "exists": True,
        "fresh": True,
        "count": 2,
        "lastUpdated": TIME,
        "partitioned": False,
        "fields": ["name", "email", "status", "tags"],
        "lagEntries": 0,  # ours
    }
    crm.customers.invalidate_manifest()
    assert crm.customers.count() == 2


def test_index_files(crm: Crm) -> None:
    crm.customers.build_indexes()
    assert crm.customers.build_index("byStatus").state == "ready"
    entries: dict[str, dict[str, Any]] = {
        "status": {"active": [ACME], "inactive": [WIDGETS]},
        "email": {"hi@acme.com": ACME, "hello@widgets.com": WIDGETS},
        "tags": {"vip": [ACME], "enterprise": [ACME]},
    }
    for field, wanted in entries.items():
        assert crm.read(f"org/customers/.worm.index/{field}.json") == {
            "version": 1,
            "model": "Customer",
            "field": field,
            "type": "multiValue" if field == "tags" else "standard",
            "unique": field == "email",
            "lastUpdated": TIME,
            "entries": wanted,
            "checksum": checksum(wanted),  # ours
            "log": 3,  # ours
        }


def test_a_unique_constraint(crm: Crm) -> None:
    with pytest.raises(wormdb.UniqueViolationError) as caught:
        crm.customers.save(crm.customers.create({"email": "hi@acme.com"}))
    assert str(caught.value) == (f"Unique constraint violation: email='hi@acme.com' already exists on entity '{ACME}'")


def test_aggregations(crm: Crm, invoices: Collection[Document]) -> None:
    assert crm.customers.aggregate(count=True) == {"count": 2}
    assert crm.customers.aggregate(group_by="status", count=True) == {
        "groups": {"active": {"count": 1}, "inactive": {"count": 1}}
    }
    revenue = invoices.aggregate(group_by="status", sum="amount", avg="amount", filter={"currency": "USD"})
    assert revenue == {
        "groups": {
            "draft": {"sum": 800, "avg": 800},
            "paid": {"sum": 25_050, "avg": 12_525},
            "void": {"sum": 70, "avg": 70},
        }
    }
    assert invoices.aggregate(min="amount", max="amount") == {"min": 50, "max": 25_000}


OPERATORS: tuple[tuple[dict[str, Any], list[int]], ...] = (
    ({"status": "paid"}, [1, 2]),
    ({"status": {"$eq": "paid"}}, [1, 2]),
    ({"status": {"$ne": "paid"}}, [3, 4]),
    ({"amount": {"$gt": 70}}, [2, 3]),
    ({"amount": {"$gte": 70}}, [2, 3, 4]),
    ({"amount": {"$lt": 70}}, [1]),
    ({"amount": {"$lte": 70}}, [1, 4]),
    ({"status": {"$in": ["draft", "void"]}}, [3, 4]),
    ({"status": {"$nin": ["void"]}}, [1, 2, 3]),
    ({"missing": {"$exists": True}}, []),
    ({"currency": {"$startsWith": "US"}}, [1, 2, 3, 4]),
    ({"$and": [{"status": "paid"}, {"score": {"$gte": 80}}]}, [1]),
    ({"$or": [{"$and": [{"status": "paid"}, {"score": {"$gte": 80}}]}, {"status": "void"}]}, [1, 4]),
    ({"$not": {"status": "paid"}}, [3, 4]),
)


def test_filter_operators(invoices: Collection[Document]) -> None:
    for given, numbers in OPERATORS:
        found = [row["id"] for row in invoices.find(given, sort="id")]
        assert found == [f"inv-{number:03}" for number in numbers], given


def test_filters_of_arrays(crm: Crm) -> None:
    for given in (
        {"tags": {"$contains": "vip"}},
        {"status": "active", "tags": {"$in": ["vip"]}},
        {"$or": [{"status": "active", "tags": {"$contains": "vip"}}, {"tags": {"$contains": "startup"}}]},
    ):
        assert [each.id for each in crm.customers.find(given)] == [ACME]


def test_explain(crm: Crm) -> None:
    crm.customers.build_manifest()
    plan = crm.customers.explain({"status": "active"}, select=["name", "email"]).to_dict()
    assert (plan["strategy"], plan["reason"]) == ("manifest_scan", "manifest has all needed fields")
    assert plan["estimatedRequests"] == 1
    assert set(plan["manifestFields"]) == {"name", "email", "status", "tags", "createdAt", "updatedAt"}


# --- the commands of Bucket Tables ---


def words(text: str) -> list[str]:
    """Lines without the blanks that align them, as the pages have come down to us."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_table_commands(crm: Crm, invoices: Collection[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rebuild, "MANUAL", Settings(forward="manual", forward_interval_ms=0))
    monkeypatch.setenv("WORM_URL", crm.url)
    crm.database.model("OrgSettings").save({"theme": "dark"})

    rebuilt = words(worm("table", "rebuild", "Customer").timeless)
    assert rebuilt[2].startswith("Building manifest... done (")
    assert [*rebuilt[:2], *rebuilt[3:]] == [
        "Scanning collection: org/customers/",
        "Found 2 entities",
        "Building index: status... done (2 values)",
        "Building index: email... done (2 entries)",
        "Building index: tags... done (2 values)",
        "Rebuild complete in 12.3s",
    ]
    assert words(worm("table", "list").timeless)[:5] == [
        "Model Count Manifest Indexes Last Updated",
        "------------- -------- ---------- -------------------- ----------------------",
        "Customer 2 fresh status, email, tags 2026-02-24T14:30:00Z",
        "Invoice 4 stale status 2026-02-24T14:30:00Z",
        "OrgSettings 1 n/a -- 2026-02-24T14:30:00Z",
    ]
    inspected = words(worm("table", "inspect", "Customer").timeless)
    assert [line for line in inspected if "Size:" not in line] == [
        "Model: Customer",
        "Path: #org/@customers/(id:uuid)/[profile].json",
        "Mode: readwrite",
        "Collection:",
        "Count: 2",
        "Last Updated: 2026-02-24T14:30:00Z",
        "Manifest:",
        "Status: fresh (checksum verified)",
        "Fields: name, email, status, tags, createdAt, updatedAt",
        "Auto-update: enabled",
        "Indexes:",
        "byStatus: status (standard) 2 distinct values",
        "byEmail: email (unique) 2 entries",
        "byTags: tags (multiValue) 2 distinct values",
    ]


def test_query_and_export_commands(crm: Crm, invoices: Collection[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORM_URL", crm.url)
    options = "--filter status=active --sort name:asc --limit 10 --select name,email --format table"
    assert words(worm("table", "query", "Customer", *options.split()).text) == [
        "id name email",
        f"{'-' * 36} --------- -----------",
        f"{ACME} Acme Corp hi@acme.com",
        "(1 row)",
    ]
    shown = {
        "status=paid": ["inv-001", "inv-002"],
        "amount>100": ["inv-002", "inv-003"],
        "status=paid,currency~US": ["inv-001", "inv-002"],
    }
    for text, wanted in shown.items():
        found = json.loads(worm("table", "query", "Invoice", "--filter", text, "--format", "json").text)
        assert [row["id"] for row in found] == wanted
    paged = worm("table", "query", "Invoice", "--offset", "1", "--limit", "1", "--select", "amount", "--format", "csv")
    assert paged.lines == ["id,amount", "inv-002,25000"]

    exported = worm("table", "export", "Customer", "--format", "csv", "--filter", "status=active")
    assert exported.lines == [
        "id,name,email,status,tags,createdAt,updatedAt",
        f'{ACME},Acme Corp,hi@acme.com,active,"[""vip"",""enterprise""]",{TIME},{TIME}',
    ]
    lines = worm("table", "export", "Invoice", "--format", "ndjson").lines
    assert [json.loads(line)["id"] for line in lines] == ["inv-001", "inv-002", "inv-003", "inv-004"]
    selected = json.loads(worm("table", "export", "Customer", "--format", "json", "--select", "name,email,status").text)
    assert selected[0] == {"id": ACME, "name": "Acme Corp", "email": "hi@acme.com", "status": "active"}


# --- Storage Layout ---


@pytest.mark.parametrize(
    ("storage", "oplog", "snapshots", "trash"),
    [
        (
            {"layout": "root"},
            ".oplog/customers/abc-123/",
            ".snapshots/customers/abc-123/",
            ".worm.trash/customers/abc-123/",
        ),
        (
            {"layout": "collection"},
            "org/customers/.oplog/abc-123/",
            "org/customers/.snapshots/abc-123/",
            "org/customers/.worm.trash/abc-123/",
        ),
        (
            {"layout": "inline"},
            "org/customers/abc-123/.oplog/",
            "org/customers/abc-123/.snapshots/",
            "org/customers/abc-123/.worm.trash/",
        ),
        (
            {"layout": "root", "snapshots": "inline"},
            ".oplog/customers/abc-123/",
            "org/customers/abc-123/.snapshots/",
            ".worm.trash/customers/abc-123/",
        ),
    ],
)
def test_where_files_lie(storage: dict[str, str], oplog: str, snapshots: str, trash: str) -> None:
    """What the resolver says is where the files are found, in each layout."""
    customer = {**SCHEMA["models"]["Customer"], "path": "#org/@customers/(id:string)/[profile].json"}
    schema = {**SCHEMA, "storage": storage, "models": {"Customer": customer}}
    resolver = StorageResolver(load_schema(schema))
    assert resolver.oplog_path("Customer", "abc-123") == oplog
    assert resolver.snapshot_path("Customer", "abc-123") == snapshots
    assert resolver.trash_path("Customer", "abc-123") == trash

    crm = Crm(schema)
    crm.customers.insert({"id": "abc-123", "name": "x"})
    crm.clock.advance(1_800)
    crm.customers.snapshot("abc-123")
    crm.database.forward()
    taken = f"{snapshots}2026-02-24T15:00:00Z.json"
    kept = {"org/customers/abc-123/profile.json", f"{oplog}0001.json", taken}
    assert kept == {key for key in crm.listed() if "abc-123" in key}
    crm.customers.delete("abc-123")
    crm.database.forward()
    gone = {f"{oplog}0001.json", f"{oplog}0002.json", taken, f"{trash}profile.json", f"{trash}.worm.tombstone"}
    assert gone == {key for key in crm.listed() if "abc-123" in key}
    crm.database.close()
    drop_memory(crm.name)


def changed(crm: Crm) -> Collection[Document]:
    """The four changes of the page: created, renamed, switched to inactive, deleted."""
    customers = crm.customers
    acme = customers.find_by_id(ACME)
    assert acme is not None
    customers.save(acme | {"name": "Acme Inc"})
    customers.modify(ACME, lambda each: each | {"status": "inactive"}, actor="api:service-xyz")
    customers.delete(ACME)
    return customers


def test_oplog_files(crm: Crm) -> None:
    changed(crm)
    whole = {
        "id": ACME,
        "name": "Acme Corp",
        "email": "hi@acme.com",
        "status": "active",
        "tags": ["vip", "enterprise"],
        "createdAt": TIME,
        "updatedAt": TIME,
    }
    head = {"ts": TIME, "actor": ACTOR}
    wanted = [
        head | {"seq": 1, "op": "create", "snapshot": whole, "log": 2},
        head | {"seq": 2, "op": "update", "diff": {"name": ["Acme Corp", "Acme Inc"]}, "log": 4},
        head
        | {"seq": 3, "op": "update", "actor": "api:service-xyz", "diff": {"status": ["active", "inactive"]}, "log": 5},
        head | {"seq": 4, "op": "delete", "snapshot": whole | {"name": "Acme Inc", "status": "inactive"}, "log": 6},
    ]
    assert [crm.read(f".oplog/customers/{ACME}/{seq:04}.json") for seq in range(1, 5)] == wanted


def test_history_calls(crm: Crm) -> None:
    customers = changed(crm)
    history = customers.get_history(ACME)
    assert [(each.seq, each.op, each.actor) for each in history] == [
        (1, "create", ACTOR),
        (2, "update", ACTOR),
        (3, "update", "api:service-xyz"),
        (4, "delete", ACTOR),
    ]
    assert history[1].diff == {"name": ("Acme Corp", "Acme Inc")}
    assert customers.diff(ACME, 1, 3) == {"name": ("Acme Corp", "Acme Inc"), "status": ("active", "inactive")}
    assert customers.rollback(ACME, to_seq=2)["status"] == "active"
    last = customers.get_history(ACME)[-1]
    assert (last.seq, last.op, last.metadata) == (5, "restore", {"rollbackTo": 2})


def test_snapshot_calls(crm: Crm) -> None:
    crm.clock.advance(1_800)
    crm.customers.snapshot(ACME)
    (taken,) = crm.customers.list_snapshots(ACME)
    assert (taken.ts, taken.size > 0) == (datetime(2026, 2, 24, 15, tzinfo=UTC), True)
    crm.customers.modify(ACME, lambda each: each | {"name": "Acme Inc"})
    assert crm.customers.restore_snapshot(ACME, "2026-02-24T15:00:00Z")["name"] == "Acme Corp"
    kept = crm.read(f".snapshots/customers/{ACME}/2026-02-24T15:00:00Z.json")
    assert (kept["id"], kept["name"]) == (ACME, "Acme Corp")


def test_snapshots_by_themselves(crm: Crm) -> None:
    for number in range(1, 12):
        crm.customers.update_one({"id": ACME}, {"$set": {"name": f"Acme {number}"}})
    assert [each.seq for each in crm.customers.list_snapshots(ACME)] == [10]


def test_trash_calls_and_files(crm: Crm) -> None:
    customers = crm.customers
    assert customers.delete(ACME) is True
    assert [(each.id, each.deleted_by) for each in customers.list_trashed()] == [(ACME, ACTOR)]
    folder = f".worm.trash/customers/{ACME}/"
    assert crm.read(f"{folder}.worm.tombstone") == {
        "deletedAt": TIME,
        "deletedBy": ACTOR,
        "restorePath": f"org/customers/{ACME}/profile.json",
        "log": 4,  # ours
    }
    assert crm.read(f"{folder}profile.json")["name"] == "Acme Corp"
    assert customers.restore(ACME)["name"] == "Acme Corp"
    customers.delete(ACME)
    customers.purge(ACME)
    assert customers.list_trashed() == customers.purge_expired() == []


def test_sentinels(crm: Crm, invoices: Collection[Document]) -> None:
    crm.database.model("OrgSettings").save({"theme": "dark"})
    assert crm.read(".worm") == {
        "schema": "1.0",
        "bucket": crm.name,
        "models": ["AuditLog", "Customer", "Invoice", "OrgSettings"],  # those whose files these are
        "storage": {"layout": "root"},
    }
    assert crm.read("org/customers/.worm") == {
        "model": "Customer",
        "idType": "uuid",
        "mode": "readwrite",
        "oplog": True,
        "softDelete": True,
        "count": 2,
        "lastModified": "2026-02-24T14:30:00Z",
        "log": 3,  # ours
    }


def test_access_modes(crm: Crm) -> None:
    assert crm.customers.mode == "readwrite"
    feed = crm.database.model("ExternalFeed")
    assert feed.mode == "readonly"
    with pytest.raises(wormdb.PermissionDeniedError, match=r"^ExternalFeed is read-only: "):
        feed.save({"id": "x"})
    assert (feed.find_by_id("x"), feed.find_all(), feed.count(), feed.exists("x")) == (None, [], 0, False)
    audit = crm.database.model("AuditLog")
    event = audit.insert({"id": "x", "what": "opened"})
    for call in (lambda: audit.save(event | {"what": "closed"}), lambda: audit.delete("x")):
        with pytest.raises(wormdb.PermissionDeniedError, match=r"^AuditLog is append-only"):
            call()
