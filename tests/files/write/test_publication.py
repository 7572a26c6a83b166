"""When the log alone does not tell what to write: lost records, trimmed logs, new definitions, attached jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rig import HookStore
from tests.files.models import CUSTOMER, SETTINGS, TENANT, model_of
from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.engine.tree.definition import Index
from wormdb.errors import UnavailableError
from wormdb.files import keeper
from wormdb.files.contents.index import IndexTexts, index_texts
from wormdb.files.write import publication
from wormdb.files.write.guard import FileDraft, put_guarded
from wormdb.files.write.tables import BEGINNING, has_parts, is_uneven, lows_of, part_of, parts_of
from wormdb.format.json import encode_document
from wormdb.schema.load import load_schema
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import Always
from wormdb.testing.fault_store import Fault, FaultStore
from wormdb.testing.strategies import values

if TYPE_CHECKING:
    from wormdb.schema.model import Schema

RECORD = "org/customers/.worm.db/files"


def some(process: Process) -> None:
    for name in "abcdef":
        process.customers.insert({"id": name, "name": name, "status": "active", "tags": [name, "all"]})
    process.customers.save({"id": "a", "name": "again"})
    process.customers.delete("b")
    process.publish()


@pytest.mark.parametrize("body", [None, b"", b"no record"])
def test_without_a_record_everything_is_written_again(body: bytes | None) -> None:
    schema, world = schema_of(), World()
    process = Process.on(world, schema)
    some(process)
    if body is None:
        world.delete(RECORD)
    else:
        world.put(RECORD, body, Always())
    process.customers.delete("c")
    world.delete("org/customers/d/profile.json")
    Process.on(world, schema, seed=2).publish()
    check_files(world, schema)


def test_many_documents_are_written_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_CHUNK_DOCUMENTS", 2)
    monkeypatch.setattr(keeper, "_FILL_DOCUMENTS", 4)
    schema, world = schema_of(), World()
    process = Process.on(world, schema)
    process.customers.insert_many([{"id": f"{number}", "name": "x"} for number in range(9)])
    process.publish()
    assert sum(key.endswith("/profile.json") for key in readable(world)) == 4
    process.customers.delete("0")
    process.publish()
    process.publish()
    check_files(world, schema)


def test_entries_that_are_gone_are_no_loss() -> None:
    schema, world = schema_of(), World()
    process = Process.on(world, schema)
    some(process)
    ledger = process.customers._ledger
    record = world.get(RECORD).body
    process.customers.delete("e")
    process.customers.save({"id": "f", "name": "new"})
    process.publish()
    world.manual.advance(7200)
    process.customers.save({"id": "a", "name": "newest"})
    process.publish()
    world.manual.advance(7200)
    assert ledger.trim(0) > 2
    world.put(RECORD, record, Always())
    Process.on(world, schema, seed=3).publish()
    check_files(world, schema)


def test_the_log_waits_for_the_files() -> None:
    schema, world = schema_of(), World()
    process = Process.on(world, schema)
    some(process)
    through = process.database._ledgers.files.trimmed_floor("org/customers/")
    process.customers.save({"id": "a", "name": "later"})
    process.bring()
    world.manual.advance(7200)
    process.customers.save({"id": "a", "name": "latest"})
    process.bring()
    world.manual.advance(7200)
    process.customers._ledger.trim(0)
    process = Process.on(world, schema, seed=2)
    place = process.customers._ledger.view().place
    assert place is not None
    assert through is not None
    assert 0 < place.root.trimmed <= through
    process.publish()
    check_files(world, schema)


def test_another_definition_writes_all_documents_again() -> None:
    world = World()
    first: dict[str, Any] = {
        "oplog": False,
        "snapshots": {},
        "fields": {"name": {"type": "string"}},
        "manifest": {"enabled": True},
        "indexes": {},
    }
    process = Process.on(world, schema_of(**first))
    some(process)
    assert not any(".oplog/" in key for key in readable(world))
    for changes in (first | {"oplog": True}, {}, first):
        schema = schema_of(**changes)
        process = Process.on(world, schema)
        process.database.apply_schema()
        process.publish()
        check_files(world, schema, label=str(changes))


def test_what_a_job_attached_has_files() -> None:
    schema, world = schema_of(), World()
    process = Process.on(world, schema, stage_bytes=500)
    some(process)
    with process.customers.batch() as batch:
        for name in "abcdxyz":
            batch.save({"id": name, "name": "staged " * 20})
    with process.customers.batch() as batch:
        for name in "dxe":
            batch.delete(name)
        for name in "fgh":
            batch.save({"id": name, "name": "more " * 200})
    process.publish()
    check_files(world, schema)


def test_files_that_were_off_for_a_while_are_complete_again() -> None:
    world = World()
    process = Process.on(world, schema_of())
    some(process)
    for files in (False, True):
        process = Process.on(world, schema_of(files=files))
        process.database.apply_schema()
        process.customers.save({"id": "a", "name": f"{files}"})
        process.customers.delete("e")
        process.publish()
    check_files(world, schema_of(files=True))


def test_an_id_that_no_key_can_hold_has_no_files() -> None:
    world = World()
    plain: dict[str, Any] = {"oplog": False, "snapshots": {}}
    process = Process.on(world, schema_of(files=False, **plain))
    process.customers.insert({"id": "ü" * 200, "name": "too long"})
    process.customers.insert({"id": "g", "name": "g"})
    process = Process.on(world, schema_of(files=True, **plain))
    process.database.apply_schema()
    process.publish()
    process.customers.insert({"id": "h", "name": "g"})
    process.publish()
    found = readable(world)
    assert {key for key in found if key.endswith("profile.json")} == {
        "org/customers/g/profile.json",
        "org/customers/h/profile.json",
    }
    assert b'"count":2' in found["org/customers/.worm.manifest.json"]


def singletons() -> Schema:
    models = {"Customer": {**SETTINGS, "oplog": True}, "User": TENANT}
    return load_schema({"schemaVersion": "1.0", "sourceOfTruth": "remote", "models": models})


def test_singletons_and_tenants_have_files() -> None:
    world = World()
    process = Process.on(world, singletons())
    process.customers.save({"theme": "dark"})
    process.publish()
    users = process.database.model("User", tenant="t1")
    users.insert({"id": "u", "name": "x"})
    users.forward()
    assert sorted(readable(world)) == [
        ".oplog/settings/singleton/0001.json",
        ".worm",
        "org/settings/.worm",
        "org/settings/data.json",
        "org/t1/users/.worm",
        "org/t1/users/u/user.json",
    ]


# --- parts ---


@given(st.dictionaries(st.sampled_from(["status", "tags", "address", "x"]), values(), max_size=4))
def test_fast_texts_of_indexes_are_the_slow_ones(fields: dict[str, Any]) -> None:
    model = model_of(CUSTOMER)
    indexes = [
        Index("s", ("status",)),
        Index("t", ("tags",), multi_valued=True, sparse=False),
        Index("c", ("address.city", "status")),
    ]
    document = encode_document({"_id": 1, **fields})
    texts = IndexTexts(indexes, model)
    try:
        slow = [index_texts(index, document, model) for index in indexes]
    except Exception as error:  # noqa: BLE001 - whatever it is, the other one raises the same
        with pytest.raises(type(error)):
            texts.of(document)
        return
    assert texts.of(document) == slow
    assert texts.of(document) == slow


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), unique=True), st.integers(1, 9))
def test_parts_cover_everything_evenly(places: list[tuple[str, str]], parts: int) -> None:
    lows = lows_of(sorted(places), parts)
    assert lows[0] == BEGINNING
    assert lows == sorted(set(lows))
    assert len(lows) <= parts
    counts = [0] * len(lows)
    for place in places:
        number = part_of(lows, place)
        assert lows[number] <= place
        assert number + 1 == len(lows) or place < lows[number + 1]
        counts[number] += 1
    if BEGINNING not in places:
        assert max(counts) <= -(-len(places) // len(lows)) + 1


def test_how_many_parts() -> None:
    assert [parts_of(count, 10, 4) for count in (0, 10, 11, 20, 39, 400)] == [1, 1, 2, 2, 4, 4]
    assert [has_parts(count, 10, is_parted=False) for count in (10, 11)] == [False, True]
    assert [has_parts(count, 10, is_parted=True) for count in (7, 8, 11)] == [False, True, True]
    assert not is_uneven([30, 1], 10, 4)
    assert is_uneven([31, 1], 10, 4)
    assert is_uneven([5, 5, 5], 10, 2)


def test_an_older_state_never_replaces_a_newer_one() -> None:
    store = MemoryStore()
    new, old = (FileDraft("k", b'{"_rev": %d}' % number, number, is_entity=True, is_new=True) for number in (7, 5))
    version = put_guarded(store, new).version
    assert put_guarded(store, old).is_newer
    assert put_guarded(store, new).version == version
    assert store.get("k").body == new.body
    store.put("k", b"edited by hand", Always())
    put_guarded(store, old)
    assert store.get("k").body == old.body


def test_a_newer_state_that_comes_between_look_and_write_stays() -> None:
    store = HookStore(MemoryStore())
    older, mine, newer = (FileDraft("k", b'{"_rev": %d}' % number, number, is_entity=True) for number in (3, 5, 7))
    put_guarded(store, older)

    def rival(verb: str, _: str) -> None:
        assert verb == "probe"
        store.after = None
        put_guarded(store, newer)

    store.after = rival
    assert put_guarded(store, mine).is_newer
    assert store.get("k").body == newer.body


def test_a_refusal_now_and_then_stops_nothing() -> None:
    for fault in (Fault.UNAVAILABLE_503, Fault.THROTTLED_429, Fault.CONFLICT_409, Fault.ANSWER_LOST):
        store = FaultStore(MemoryStore(), {1: fault})
        put_guarded(store, FileDraft("k", b'{"log": 1}', 1, is_new=True))
        assert store.get("k").body == b'{"log": 1}'
    store = FaultStore(MemoryStore(), dict.fromkeys(range(1, 20, 2), Fault.UNAVAILABLE_503))
    with pytest.raises(UnavailableError):
        put_guarded(store, FileDraft("k", b"{}", 1, is_new=True))
