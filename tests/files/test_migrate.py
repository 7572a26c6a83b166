"""Oplog, snapshots and trash move to other places: never in neither, resumable, beside other writers."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.engine.sweeps.test_sweep import Interrupted
from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from tests.jobs.rig import empty_place
from wormdb.cli.main import run
from wormdb.errors import InvalidRequestError
from wormdb.files.contents.sentinel import read_bucket_sentinel
from wormdb.files.write import publication
from wormdb.storage.memory import drop_memory
from wormdb.storage.store import WrappedStore
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wormdb.schema.model import Layout

PLACES: tuple[Layout, ...] = ("inline", "collection", "root")
SMALL: dict[str, Any] = {"indexes": {}, "manifest": {"enabled": True, "fields": ["name"]}}


def everywhere(place: Layout) -> dict[str, Layout]:
    return {"oplog": place, "snapshots": place, "trash": place}


def filled(world: World, layout: str = "root") -> Process:
    process = Process.on(world, schema_of({"layout": layout}, **SMALL), seed=4)
    for name in "abcd":
        process.customers.insert({"id": name, "name": name})
        process.customers.save({"id": name, "name": f"{name} {name}"})
    process.customers.delete("b")
    process.publish()
    return process


class Never(WrappedStore):
    """Looks after every delete whether a file of the oplog is in no place at all."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self.deleted = 0

    def delete_many(self, keys: Sequence[str]) -> None:
        self._inner.delete_many(keys)
        self.deleted += sum(".oplog/" in key for key in keys)
        assert isinstance(self._inner, World)
        found = {key.replace("org/customers/", "") for key in readable(self._inner) if ".oplog/" in key}
        there = {(name, key.rpartition("/")[2]) for key in found for name in "abcd" if name in key.split("/")}
        assert {name for name, _ in there} == set("abcd")
        assert len(there) == 9


@pytest.mark.parametrize(("one", "two"), list(itertools.permutations(PLACES, 2)))
def test_files_move_between_layouts(one: Layout, two: Layout) -> None:
    world = World()
    filled(world, one)
    store = Never(world)
    process = Process.on(store, schema_of({"layout": one}, **SMALL))
    done = process.database.files.migrate("Customer", wanted=everywhere(two))
    assert (done.before.oplog, done.after.trash, done.documents) == (one, two, 3)
    assert store.deleted >= 9
    check_files(world, schema_of(**SMALL))
    process.customers.save({"id": "c", "name": "new"})
    process.publish()
    check_files(world, schema_of(**SMALL))
    assert f'"layout": "{two}"'.encode() in readable(world)[".worm"]


def test_some_move_and_nothing_is_done_twice() -> None:
    world = World()
    process = filled(world)
    planned = process.database.files.migrate("Customer", wanted={"snapshots": "inline"}, dry_run=True)
    assert planned.to_dict()["moves"] == ["snapshots"]
    before = readable(world)
    assert process.customers._ledger.view().definition.files is not None
    process.database.files.migrate("Customer", wanted={"snapshots": "inline"})
    after = readable(world)
    assert {key for key in before if ".snapshots/" in key}.isdisjoint(after)
    assert {key for key in before if ".oplog/" in key or ".trash/" in key} < set(after)
    check_files(world, schema_of(**SMALL))
    number = process.customers._ledger.view().number
    process.database.files.migrate("Customer", wanted={"snapshots": "inline"})
    assert process.customers._ledger.view().number == number
    assert readable(world) == after


def test_a_collection_without_files_is_refused() -> None:
    world = World()
    process = Process.on(world, schema_of(files=False))
    process.customers.insert({"id": "a"})
    with pytest.raises(InvalidRequestError, match="keeps no readable files"):
        process.database.files.migrate("Customer", wanted=everywhere("inline"))


def test_a_run_that_was_cut_off_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_CHUNK_DOCUMENTS", 1)
    prepared = World()
    filled(prepared)
    schema = schema_of(**SMALL)
    for number in range(1, 200, 3):
        world = prepared.copy()
        store = FaultStore(world, {number: Fault.CRASH_AFTER})
        with suppress(SimulatedCrash):
            Process.on(store, schema).database.files.migrate("Customer", wanted=everywhere("inline"))
        Process.on(world, schema, seed=6).database.files.migrate("Customer", wanted=everywhere("inline"))
        check_files(world, schema, label=f"cut off after request {number}")
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def test_others_write_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who opened the bucket before it began knows only the old places."""
    monkeypatch.setattr(publication, "_CHUNK_DOCUMENTS", 1)
    prepared = World()
    filled(prepared)
    schema = schema_of(**SMALL)
    for number in range(1, 200, 5):
        world = prepared.copy()
        other = Process.on(world, schema, seed=8)
        other.customers.count()

        def act(other: Process = other) -> None:
            other.customers.save({"id": "a", "name": "meanwhile"})
            other.customers.delete("d")
            other.publish()

        store = Interrupted(world, number, act)
        Process.on(store, schema).database.files.migrate("Customer", wanted=everywhere("collection"))
        Process.on(world, schema, seed=9).publish()
        check_files(world, schema, label=f"before request {number}")
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def test_who_is_overtaken_by_a_migration_leaves_nothing_in_the_old_places() -> None:
    prepared = World()
    process = filled(prepared)
    process.customers.save({"id": "a", "name": "late"})
    process.bring()
    schema = schema_of(**SMALL)
    for number in range(1, 200, 5):
        world = prepared.copy()

        def act(world: World = world) -> None:
            database = Process.on(world, schema, seed=8).database
            database.files.migrate("Customer", wanted=everywhere("inline"))

        store = Interrupted(world, number, act)
        Process.on(store, schema).publish()
        Process.on(world, schema, seed=9).publish()
        check_files(world, schema, label=f"before request {number}")
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "db")
    with wormdb.connect(url, schema=schema_of({"layout": "root"}, **SMALL)) as database:
        database.model("Customer").insert({"id": "a", "name": "x"})
    assert run(["layout", "migrate", "--url", url, "--to", "inline", "--oplog", "collection", "--dry-run"]) == 0
    moves = "oplog root → collection, snapshots root → inline, trash root → inline"
    assert capsys.readouterr().out == f"org/customers/: would move {moves} (1 document)\n"
    assert run(["layout", "migrate", "Customer", "--url", url, "--oplog", "inline", "--json"]) == 0
    (moved,) = json.loads(capsys.readouterr().out)["collections"]
    assert moved["moves"] == ["oplog"]
    assert (tmp_path / "db/org/customers/a/.oplog/0001.json").is_file()
    assert run(["layout", "migrate", "--url", url]) == 0
    assert "moved oplog inline → root" in capsys.readouterr().out
    assert (tmp_path / "db/.oplog/customers/a/0001.json").is_file()
    assert run(["layout", "migrate", "--url", url]) == 0
    assert capsys.readouterr().out == "org/customers/: nothing to move\n"


# --- the sentinel of the bucket ---

layouts = st.sampled_from(["inline", "collection", "root"])
kinds = st.sampled_from(["oplog", "snapshots", "trash"])


@settings(max_examples=settings().max_examples // 10)
@given(
    first=layouts,
    steps=st.lists(
        st.tuples(st.sampled_from(["Customer", "Order", "User"]), st.dictionaries(kinds, layouts, min_size=1)),
        max_size=4,
    ),
)
def test_the_bucket_says_where_every_collection_lies(first: str, steps: list[tuple[str, dict[str, Layout]]]) -> None:
    paths = {"Customer": "#org/@customers/(id:string)/[c].json", "Order": "#org/@orders/(id:string)/[o].json"}
    paths["User"] = "#org/(tenant:slug)/@users/(id:string)/[u].json"
    models = {name: {"path": path, "oplog": True} for name, path in paths.items()}
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "storage": {"layout": first}, "models": models}
    url = empty_place()
    with wormdb.connect(url, schema=schema, apply=True) as database:
        folders = {"Customer": "org/customers/", "Order": "org/orders/", "User": "org/b/users/"}
        for collection in (database.model("Customer"), database.model("Order")):
            collection.insert({"id": "x"})
        for tenant in "ab":
            database.model("User", tenant=tenant).insert({"id": "x"})
        database.forward()
        for name, wanted in steps:
            database.files.migrate(folders[name], wanted=wanted)
            said = read_bucket_sentinel(database.store.get(".worm").body, key=".worm")
            assert said.models == ("Customer", "Order", "User")
            states = database.files.status([*folders.values(), "org/a/users/"])
            for status in states:
                storage = said.places.get(status.collection, said.storage)
                placed = [storage.get(kind, storage["layout"]) for kind in ("oplog", "snapshots", "trash")]
                assert placed == [status.oplog, status.snapshots, status.trash]
            assert [finding for each in database.verify() for finding in each.findings] == []
    drop_memory(url.removeprefix("memory://"))


def test_the_bucket_says_in_few_words_where_all_lie() -> None:
    """Who reads only `storage` finds the folders after everything was moved."""
    models = {name: {"path": f"#org/@{name}s/(id:string)/[x].json", "oplog": True} for name in ("One", "Two")}
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": models}
    url = empty_place()
    with wormdb.connect(url, schema=schema, apply=True) as database:
        for name in models:
            database.model(name).insert({"id": "x"})
        database.forward()
        for name in models:
            database.files.migrate(name, wanted={"oplog": "inline", "snapshots": "inline", "trash": "inline"})
        said = read_bucket_sentinel(database.store.get(".worm").body, key=".worm")
        assert (said.storage, said.places) == ({"layout": "inline"}, {})
    drop_memory(url.removeprefix("memory://"))
