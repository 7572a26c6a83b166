"""When readable files are kept is said by the log: at the beginning, and by schemas that are applied."""

from __future__ import annotations

from typing import Any

import pytest

import wormdb
from wormdb.files.write.record import CLAIMS, claim_name
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import Always

Model = dict[str, Any]


def customers(**more: Any) -> Model:
    return {"path": "#org/@customers/(id:any)/[profile].json", **more}


def schema(models: dict[str, Model], **more: Any) -> dict[str, Any]:
    return {"schemaVersion": "1.0", "sourceOfTruth": "remote", "models": models, **more}


def files_of(db: wormdb.Database, model: str, **outer: str) -> Any:
    return db.model(model, **outer)._ledger.view().definition.files


def test_a_new_collection_says_where_its_files_lie(tmp_path: Any) -> None:
    storage = {"layout": "collection", "snapshots": "inline"}
    with wormdb.connect(tmp_path, schema=schema({"Customer": customers()}, storage=storage)) as db:
        db.model("Customer").insert({"id": "a"})
        found = files_of(db, "Customer")
    assert (found.enabled, found.oplog, found.snapshots, found.trash) == (True, "collection", "inline", "collection")
    assert found.name == "org/customers/"


@pytest.mark.parametrize("model", [{"path": "@things/(id:any)"}, customers(files=False)])
def test_without_a_file_in_its_path_or_if_the_model_says_so_none_are_kept(tmp_path: Any, model: Model) -> None:
    with wormdb.connect(tmp_path, schema=schema({"Thing": model})) as db:
        db.model("Thing").insert({"id": "a"})
        assert files_of(db, "Thing") is None
        assert not list((tmp_path).glob(f"{CLAIMS}*"))


def test_only_one_collection_has_the_short_name(tmp_path: Any) -> None:
    models = {
        "Customer": customers(),
        "Archived": {"path": "#archive/@customers/(id:any)/[profile].json"},
        "Tenant": {"path": "#org/(tenant:any)/@users/(id:any)/[user].json"},
    }
    with wormdb.connect(tmp_path, schema=schema(models)) as db:
        db.model("Archived").insert({"id": "a"})
        db.model("Customer").insert({"id": "a"})
        db.model("Tenant", tenant="t").insert({"id": "a"})
        assert files_of(db, "Archived").name == "customers/"
        assert files_of(db, "Customer").name == "org/customers/"
        assert files_of(db, "Tenant", tenant="t").name == "org/t/users/"


def test_a_schema_that_is_applied_switches_files(tmp_path: Any) -> None:
    storage = {"layout": "inline"}
    with wormdb.connect(tmp_path, schema=schema({"Customer": customers()}, storage=storage)) as db:
        db.model("Customer").insert({"id": "a"})
    for enabled in (False, True):
        changed = schema({"Customer": customers(files=enabled, oplog=True)})
        with wormdb.connect(tmp_path, schema=changed, apply=True) as db:
            found = files_of(db, "Customer")
            assert (found.enabled, found.oplog) == (enabled, "inline")
    with wormdb.connect(tmp_path, schema=schema({"Customer": customers()}), apply=True) as db:
        assert files_of(db, "Customer").enabled


def test_a_name_is_claimed_once() -> None:
    store = MemoryStore()
    assert claim_name(store, "customers", "org/customers/") == "customers/"
    assert claim_name(store, "customers", "archive/customers/") == "archive/customers/"
    assert claim_name(store, "customers", "org/customers/") == "customers/"


def test_a_claim_that_nobody_can_read_is_nobodys() -> None:
    store = MemoryStore()
    store.put(f"{CLAIMS}customers", b"{", Always())
    assert claim_name(store, "customers", "org/customers/") == "org/customers/"
