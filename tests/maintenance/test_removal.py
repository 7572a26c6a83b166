"""The rules of a removal, one by one: what the root refuses, what waits, and what no process writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.engine.sweeps.commits import World, database_on
from tests.maintenance.removal_rig import PATHS, SETTINGS, documents, filled, keys
from wormdb.engine.commit.operations import CommitId
from wormdb.engine.commit.resolve import Fate
from wormdb.engine.log.root import Register
from wormdb.engine.state.trim import is_held
from wormdb.errors import RemovedError
from wormdb.maintenance import removal
from wormdb.settings import REMOVED_MS
from wormdb.system.types import LogNumber, StoreTime, WriteId

if TYPE_CHECKING:
    from wormdb.format.root import Root


def register(world: World) -> Register:
    return Register(world, PATHS, "things/")


def root_of(world: World) -> Root:
    root = register(world).read().root
    assert root is not None
    return root


def closed(world: World) -> Root:
    """Removed, and a purge that broke off before it deleted anything."""
    database = database_on(world, **SETTINGS)
    database.removal("things").remove()
    site = database._ledgers.site("things/")
    removal._close_root(site, database["things"]._ledger.view())
    return root_of(world)


def test_a_closed_root_names_nothing_and_is_swapped_by_its_purge_only() -> None:
    world = filled()
    before = root_of(world)
    root = closed(world)
    assert (root.applied, root.trimmed, root.removed, root.history_from) == (9, 9, 9, 9)
    assert (root.collection, root.revision) == (before.collection, before.revision + 1)
    assert not any((root.blocks, root.history, root.attached, root.indexes, root.retired, root.jobs, root.rows))
    assert (root.blob_newest, root.blob_floor) == (9, 9)
    state = register(world).read()
    following = msgspec.structs.replace(root, revision=root.revision + 1)
    with pytest.raises(RemovedError, match="entry 9 removed it"):
        register(world).swap(state, following)
    with pytest.raises(RemovedError):
        register(world).update(lambda _: following, what="a test")


def test_a_tombstone_has_another_incarnation_and_goes_on_with_the_numbers() -> None:
    world = filled()
    root = closed(world)
    assert database_on(world, **SETTINGS).drop("things") is not None
    tombstone = root_of(world)
    assert tombstone.collection != root.collection
    assert (tombstone.applied, tombstone.trimmed, tombstone.removed) == (9, 9, 9)
    assert (tombstone.hash_applied, tombstone.hash_trimmed) == (root.hash_applied, root.hash_trimmed)
    assert (tombstone.definition, tombstone.files, tombstone.closed) == (b"", None, None)
    assert tombstone.removed_at is not None


def test_entries_wait_by_the_time_of_the_store_alone() -> None:
    world = filled()
    closed(world)
    database_on(world, **SETTINGS).drop("things")
    root = root_of(world)
    assert root.removed_at is not None
    now = StoreTime(root.removed_at)
    assert is_held(root, now)
    assert is_held(root, StoreTime(now + REMOVED_MS - 1))
    assert not is_held(root, StoreTime(now + REMOVED_MS))
    assert is_held(root, None), "an answer without a time tells nothing"
    assert not is_held(msgspec.structs.replace(root, removed_at=None), now)


def test_trim_and_forward_let_the_last_entries_wait_and_then_forget_the_time() -> None:
    world = filled()
    database = database_on(world, **SETTINGS)
    database.drop("things")
    there = [key for key in keys(world) if key.startswith(PATHS.entries)]
    assert len(there) == 9
    ledger = database["things"]._ledger
    assert ledger.trim(0) == 0
    database["things"].insert({"id": "new"})
    ledger.forward()
    assert root_of(world).removed_at is not None
    world.manual.advance(REMOVED_MS / 1000)
    assert ledger.trim(0) == 9
    assert root_of(world).removed_at is None
    assert [key for key in keys(world) if key.startswith(PATHS.entries)] == [PATHS.entry(LogNumber(10))]
    assert documents(world) == {"new": None}


def test_old_entries_go_with_the_first_pass() -> None:
    world = filled()
    database = database_on(world, **SETTINGS)
    database["things"].forward()
    database["things"].save({"id": "t0", "n": 8})
    database["things"].forward()  # its root knows when the one before had applied entry 8
    world.manual.advance(REMOVED_MS / 1000)
    done = database.drop("things")
    assert done is not None
    assert done.waiting == 2
    assert [int(key[-4:]) for key in keys(world) if key.startswith(PATHS.entries)] == [9, 10]


def test_settling_a_slot_writes_nothing_behind_the_end() -> None:
    world = filled()
    database = database_on(world, **SETTINGS)
    database.removal("things").remove()
    asked = str(CommitId(LogNumber(10), WriteId("0" * 32), "1" * 32))
    assert database["things"].resolve(asked, settle=True) is Fate.UNKNOWN
    assert PATHS.entry(LogNumber(10)) not in keys(world)
    database.removal("things").purge()
    assert database["things"].resolve(asked, settle=True) is Fate.NOT_COMMITTED
    assert database["things"].insert({"id": "new"}).rev == 11
