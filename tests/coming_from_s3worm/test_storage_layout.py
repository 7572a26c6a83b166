"""The examples of S3WORM's page Storage Layout, with our names: calls and files.

docs/coming-from-s3worm.md promises what is held here, shape by shape. Values are those of the page where it shows some.
The tests follow the page from top to bottom.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.coming_from_s3worm.crm import ACME, ACTOR, SCHEMA, TIME, Crm
from wormdb.schema.layout import StorageResolver
from wormdb.schema.load import load_schema
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from wormdb import Collection, Document


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
    taken = f"{snapshots}2026-02-24T15:00:00.000000Z.json"
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
    kept = crm.read(f".snapshots/customers/{ACME}/2026-02-24T15:00:00.000000Z.json")
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
