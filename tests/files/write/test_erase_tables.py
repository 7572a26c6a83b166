"""Manifest and index files in parts, after documents were erased: no row, value or bound of them is left, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.write.test_tables import customer, parted, partitions
from tests.files.writer_rig import Process, World, check_files, readable
from wormdb.engine.log.paths import ENGINE_FOLDER, INDEX_FILES, MANIFEST_FILES
from wormdb.files.write import tables

if TYPE_CHECKING:
    from wormdb.schema.model import Schema

TABLES = (f"/{INDEX_FILES}", f"/{MANIFEST_FILES}", f"{ENGINE_FOLDER}files")
SMALL = {"partitionThreshold": 2, "maxPartitions": 8}


def filled(schema: Schema, ids: list[Any]) -> tuple[World, Process]:
    world = World()
    process = Process.on(world, schema)
    process.customers.insert_many([customer(identity, place) for place, identity in enumerate(ids)])
    process.flush()
    return world, process


def traces(process: Process, identity: Any) -> list[str]:
    """What tables, and the record of their bounds, have of a document."""
    found = process.database.find_traces("Customer", identity, values=[f"{identity}@x"])
    return [f"{each.key}: {each.what}" for each in found if any(part in each.key for part in TABLES)]


def named(number: int) -> str:
    return f"document-{number:02}"


@pytest.mark.parametrize("make", [named, int, float, lambda number: f"Größe {number}", lambda number: f"{number}\\x"])
def test_no_document_is_left_as_a_bound(make: Any) -> None:
    ids = [make(number) for number in range(10)]
    before, _ = filled(parted(**SMALL), ids)
    assert partitions(before) > 2
    for victim in ids[::2]:  # where parts begin
        world = before.copy()
        process = Process.on(world, parted(**SMALL), seed=3)
        assert traces(process, victim)
        process.customers.erase(victim)
        assert traces(process, victim) == []
        process.flush()
        check_files(world, parted(**SMALL))


def test_an_object_id_is_left_nowhere() -> None:
    ids = [ObjectId(f"{number:024x}") for number in range(10)]
    world, process = filled(parted(**SMALL), ids)
    for victim in ids[::3]:
        assert traces(process, victim)
        process.customers.erase(victim)
        assert traces(process, victim) == []
    check_files(world, parted(**SMALL))


def test_a_document_that_was_deleted_long_ago_is_left_nowhere() -> None:
    world, process = filled(parted(**SMALL), [named(number) for number in range(10)])
    for number in range(0, 10, 2):
        process.customers.delete(named(number))
        process.flush()
        process.customers.insert(customer(f"other-{number}", number))
        process.flush()
    for number in range(0, 10, 2):
        process.customers.erase(named(number))
        assert traces(process, named(number)) == []
    check_files(world, parted(**SMALL))


def test_rows_that_wait_to_be_written_do_not_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    schema = parted(partitionThreshold=60, maxPartitions=4)
    world, process = filled(schema, [named(number) for number in range(99)])
    assert partitions(world) == 2
    process.customers.erase(named(7))
    assert traces(process, named(7)) == []
    process.customers.delete(named(8))
    process.publish()
    assert traces(process, named(8)), "its delete waits for others"
    process.customers.erase(named(8))
    assert traces(process, named(8)) == []


def test_a_manifest_that_is_not_updated_by_itself_does_not_keep_it() -> None:
    for limits in ({}, SMALL):
        schema = parted(autoUpdate=False, **limits)
        world, process = filled(schema, [named(number) for number in range(10)])
        process.customers.insert(customer("new"))
        process.publish()
        assert traces(process, named(4))
        process.customers.erase(named(4))
        assert traces(process, named(4)) == []
        assert any(b'"document-05":' in body for key, body in readable(world).items() if "/.worm.manifest" in key)
        process.customers.insert(customer("newer"))
        process.publish()
        assert not any(b'"newer":' in body for key, body in readable(world).items() if "/.worm.manifest" in key)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "delete", "erase", "erase", "publish", "flush", "switch", "wait"]),
        st.integers(0, 11),
    ),
    min_size=3,
    max_size=14,
)


@settings(max_examples=10)
@given(STEPS)
def test_whatever_happened_before_no_table_has_what_was_erased(steps: list[tuple[str, int]]) -> None:
    schema = parted(**SMALL)
    world, process = filled(schema, [named(number) for number in range(8)])
    erased: set[str] = set()
    for turn, (kind, number) in enumerate(steps):
        name = named(number)
        if kind == "save":
            process.customers.save(customer(name, turn))
            erased.discard(name)
        elif kind == "delete":
            process.customers.delete(name)
        elif kind == "erase":
            process.customers.erase(name, missing_ok=True)
            assert traces(process, name) == [], turn
            erased.add(name)
        elif kind == "publish":
            process.publish()
        elif kind == "flush":
            process.flush()
        elif kind == "switch":
            process.database.files.off("Customer")
            process.customers.save(customer("another", turn))
            process.database.files.on("Customer")
        else:
            world.manual.advance(3_601)
            process.database.gc(["Customer"])
    process.flush()
    check_files(world, schema)
    assert all(traces(process, victim) == [] for victim in erased)
