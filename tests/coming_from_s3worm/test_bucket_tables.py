"""The examples of S3WORM's page Bucket Tables, with our names: calls, files and commands.

docs/coming-from-s3worm.md promises what is held here, shape by shape. Values are those of the page where it shows some.
The tests follow the page from top to bottom.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.cli.printed import worm
from tests.coming_from_s3worm.crm import ACME, BEGIN, SCHEMA, TIME, WIDGETS, Crm
from wormdb.cli.commands.table import rebuild as table_rebuild
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from wormdb import Collection, Document


def checksum(content: dict[str, Any]) -> str:
    """SHA-256 over the JSON with sorted keys and without spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


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


def test_rows_have_the_id_where_fields_is_omitted() -> None:
    models = SCHEMA["models"]
    crm = Crm({**SCHEMA, "models": {**models, "Customer": {**models["Customer"], "manifest": {"enabled": True}}}})
    rows = crm.read("org/customers/.worm.manifest.json")["entities"]
    assert {text: row["id"] for text, row in rows.items()} == {ACME: ACME, WIDGETS: WIDGETS}
    assert rows[ACME].keys() >= {"id", "name", "email", "status", "tags", "createdAt", "updatedAt"}
    crm.database.close()
    drop_memory(crm.name)


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


def test_a_manifest_without_auto_update() -> None:
    """It is written when it is built, and not by saving."""
    models = SCHEMA["models"]
    manifest = {**models["Customer"]["manifest"], "autoUpdate": False}
    crm = Crm({**SCHEMA, "models": {**models, "Customer": {**models["Customer"], "manifest": manifest}}})
    crm.customers.build_manifest()
    crm.customers.insert({"name": "Cogs"})
    crm.clock.advance(3_600)
    assert crm.read("org/customers/.worm.manifest.json")["count"] == 2
    crm.customers.build_manifest()
    assert crm.read("org/customers/.worm.manifest.json")["count"] == 3
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
    assert status.pop("sizeBytes") == len(crm.database.store.get("org/customers/.worm.manifest.json").body)
    assert status.pop("columnsBytes") > 0
    assert status == {
        "exists": True,
        "fresh": True,
        "count": 2,
        "lastUpdated": TIME,
        "partitioned": False,
        "fields": ["name", "email", "status", "tags"],
        "lagEntries": 0,  # ours, and all below
        "state": "fresh",
        "reason": None,
        "columnsFresh": True,
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
    assert plan["manifestFields"] == ["name", "email", "status", "tags"]


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
        "Invoice 4 n/a status 2026-02-24T14:30:00Z",
        "OrgSettings 1 n/a -- 2026-02-24T14:30:00Z",
    ]
    inspected = words(worm("table", "inspect", "Customer").timeless)
    assert [line for line in inspected if not line.startswith(("Size:", "Columns:"))] == [
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
