"""Every kind of file, with every kind of damage: each call that reports says so, and each call that mends mends it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.cli.printed import worm
from tests.files.compare.test_check import FOLDER, faults_in, filled, synced
from tests.files.models import CUSTOMER
from tests.files.writer_rig import Process, World, check_files, names_in, readable, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.schema.model import Schema

WHOLE = schema_of(snapshots={"enabled": True, "every": 2})
PARTED = schema_of(
    snapshots={"enabled": True, "every": 2}, manifest={"enabled": True, "partitionThreshold": 2, "maxPartitions": 3}
)
SCHEMAS = {"whole": WHOLE, "parts": PARTED}
TABLES = ("manifest", "manifest_meta", "manifest_partition", "index", "index_meta", "index_partition")


class Bucket:
    """A bucket in two states, and one key of each kind of file."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.now = filled(schema)
        self.then = self.now.copy()
        process = Process.on(self.now, schema, seed=3)
        process.customers.save({"id": "a", "name": "Newest", "status": "gone", "tags": ["n"]})
        process.flush()
        ledger = process.customers._ledger
        names = names_in(ledger.view(), ledger.collection)
        self.kinds: dict[str, str] = {}
        before = readable(self.then)
        files = readable(self.now)
        for key in sorted(files, key=lambda key: (before.get(key, files[key]) == files[key], key)):
            found = names.parse(key)
            if not key.endswith(("d/profile.json", "customers/.worm")):
                self.kinds.setdefault("bucket" if key == ".worm" else "" if found is None else found.kind, key)
        self.kinds["sentinel"] = names.sentinel
        self.kinds["trashed"] = ".worm.trash/customers/d/profile.json"
        assert "" not in self.kinds


BUCKETS = {name: Bucket(schema) for name, schema in SCHEMAS.items()}


# --- damage ---


def missing(world: World, key: str, _: World) -> None:
    world.delete(key)


def truncated(world: World, key: str, _: World) -> None:
    body = world.get(key).body
    world.put(key, body[: len(body) // 2])


def foreign(world: World, key: str, _: World) -> None:
    """As another program would write it for its own model."""
    body = {"version": 1, "model": "Other", "count": 0, "field": "x", "type": "standard", "unique": False}
    empty = {"entities": {}, "entries": {}, "models": ["Other"], "partitionCount": 0, "totalCount": 0}
    world.put(key, json.dumps(body | empty).encode())


def edited(world: World, key: str, _: World) -> None:
    """As a person with an editor does: the first text of the content is another one."""
    value = json.loads(world.get(key).body)
    assert _change(value), key
    world.put(key, json.dumps(value).encode())


def _change(value: dict[str, Any]) -> bool:
    content = ("entities", "entries", "checksums", "models", "model", "name", "diff", "snapshot", "actor", "deletedAt")
    for name in (*(each for each in content if each in value), *value):
        inner = value[name]
        if isinstance(inner, dict) and inner and _change(inner):
            return True
        if isinstance(inner, list) and inner and isinstance(inner[0], str):
            value[name] = ["eve", *inner[1:]]
            return True
        if isinstance(inner, str):
            value[name] = "eve"
            return True
    return False


def stale(world: World, key: str, then: World) -> None:
    """As a backup that was put back."""
    world.put(key, then.get(key).body)


DAMAGE: dict[str, Callable[[World, str, World], None]] = {
    each.__name__: each for each in (missing, truncated, foreign, edited, stale)
}


def _cases() -> list[Any]:
    cases = []
    for where, bucket in BUCKETS.items():
        for kind, key in bucket.kinds.items():
            for name in DAMAGE:
                before, now = readable(bucket.then), readable(bucket.now)
                # An older sentinel of the collection is lag, and what never changed is never stale.
                if name == "stale" and (before.get(key, now[key]) == now[key] or kind == "sentinel"):
                    continue
                if where == "whole" or (kind in TABLES and kind not in BUCKETS["whole"].kinds):
                    cases.append(pytest.param(where, kind, name, id=f"{where}-{kind}-{name}"))
    return cases


CASES = _cases()


def damaged(where: str, kind: str, name: str) -> tuple[World, str]:
    bucket = BUCKETS[where]
    world, key = bucket.now.copy(), bucket.kinds[kind]
    DAMAGE[name](world, key, bucket.then)
    return world, key


# --- what is said of it ---


def test_every_kind_of_file_is_there() -> None:
    kinds = {*BUCKETS["whole"].kinds, *BUCKETS["parts"].kinds}
    assert kinds == {*TABLES, "entity", "oplog", "snapshot", "trashed", "tombstone", "sentinel", "bucket"}
    assert sum(case.id.endswith("stale") for case in CASES) >= 5


@pytest.mark.parametrize(("where", "kind", "name"), CASES)
def test_it_is_reported_and_synced(where: str, kind: str, name: str) -> None:
    world, key = damaged(where, kind, name)
    schema = SCHEMAS[where]
    assert key in faults_in(world, schema)
    done = synced(world, schema)
    assert (key in {fault.key for fault in done.mended}, done.left) == (True, [])
    assert faults_in(world, schema) == {}
    check_files(world, schema)
    said, meant = (json.loads(each.get(".worm").body) for each in (world, BUCKETS[where].now))
    # Models of others are not ours to judge.
    assert {**said, "models": set(said["models"]) & {"Customer"}} == {**meant, "models": {"Customer"}}


@pytest.mark.parametrize(("where", "kind", "name"), [case for case in CASES if case.values[1] in TABLES])
def test_tables_tell_and_are_built_again(where: str, kind: str, name: str) -> None:
    world, _ = damaged(where, kind, name)
    schema = SCHEMAS[where]
    customers = Process.on(world, schema, seed=5).customers
    sizes = sum(len(body) for each, body in readable(world).items() if ".worm.manifest" in each)
    status = customers.get_manifest_status()
    indexes = {each.name: customers.describe_index(each.name).file for each in customers.indexes()}
    assert (status.size_bytes, status.partitioned) == (sizes, where == "parts")
    wrong = {index: said for index, said in indexes.items() if said not in (None, "fresh")}
    expected = (
        {"missing": "missing", "stale": "stale"}.get(name, "damaged") if kind in {"manifest", "index"} else "damaged"
    )
    if kind.startswith("manifest"):
        assert (status.state, status.fresh, status.exists) == (expected, False, expected != "missing")
        assert status.reason
        assert wrong == {}
        assert customers.build_manifest().fresh
    else:
        assert (status.state, status.reason) == ("fresh", None)
        assert list(wrong.values()) == [expected]
        (index,) = wrong
        if name == "missing":
            customers.build_indexes()
        else:
            customers.build_index(index)
        assert customers.describe_index(index).file == "fresh"
    assert faults_in(world, schema) == {}
    check_files(world, schema)


def test_a_file_that_is_behind_says_so() -> None:
    world, schema = BUCKETS["whole"].now.copy(), WHOLE
    process = Process.on(world, schema, seed=5)
    process.customers.save({"id": "a", "name": "Later"})
    status = process.customers.get_manifest_status()
    assert (status.state, status.reason) == ("stale", "1 log entry is not in it")
    process.publish()
    assert process.customers.get_manifest_status().fresh
    world.delete(process.customers._ledger.collection + ".worm.db/files")
    again = Process.on(world, schema, seed=6).customers
    assert (again.get_manifest_status().state, again.describe_index("byStatus").file) == ("stale", "stale")
    assert again.build_manifest().fresh


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"manifest": {"enabled": False}}, "the model has no manifest"),
        ({"files": False}, "no readable files are kept"),
    ],
)
def test_a_model_without_a_manifest_says_so(changes: dict[str, Any], reason: str) -> None:
    customers = Process.on(World(), schema_of(**changes)).customers
    customers.insert({"id": "a"})
    status = customers.build_manifest()
    assert (status.state, status.exists, status.fresh, status.reason) == ("none", False, False, reason)


def test_commands_show_what_the_file_is(tmp_path: Path) -> None:
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Customer": CUSTOMER}}
    url = str(tmp_path / "crm")
    with wormdb.connect(url, schema=schema, apply=True) as database:
        database.model("Customer").insert({"id": "a", "name": "A", "status": "new"})
    manifest, index = (tmp_path / "crm" / FOLDER / name for name in (".worm.manifest.json", ".worm.index/status.json"))

    def shown() -> tuple[str, str]:
        (listed,) = json.loads(worm("table", "list", "--url", url, "--json").text)
        text = worm("table", "inspect", "Customer", "--url", url).text
        assert f"Status: {listed['manifest']} (" in " ".join(text.split())
        assert listed["manifest"] in worm("table", "list", "--url", url).text
        return listed["manifest"], next(line for line in text.splitlines() if "byStatus:" in line)

    assert shown()[0] == "fresh"
    for file in (manifest, index):
        file.write_text(file.read_text().replace('"a"', '"eve"'))
    state, line = shown()
    assert (state, "file damaged (it is not what was written: its checksum is wrong)" in line) == ("damaged", True)
    manifest.unlink()
    index.unlink()
    state, line = shown()
    assert (state, "file missing (it was deleted)" in line) == ("missing", True)
    assert worm("table", "rebuild", "Customer", "--url", url).code == 0
    assert (shown()[0], index.exists()) == ("fresh", True)
