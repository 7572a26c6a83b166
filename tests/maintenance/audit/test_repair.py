"""repair: what was planted is gone, the answers are as before, and what is lost is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.engine.rig import HookStore
from tests.maintenance.damage import damage
from tests.maintenance.lies import LIES
from tests.maintenance.wreck import (
    PATHS,
    Answers,
    answers,
    collection_on,
    database_on,
    objects_by_kind,
    root_of,
    site_on,
    thing,
    whole_world,
)
from tests.simulation.remembered import remembered_blocks
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError
from wormdb.format.root import AppliedMark
from wormdb.maintenance.audit.lists import CheckedList, Where
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.report import AuditReport
from wormdb.maintenance.audit.verify import verify
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.sweeps.commits import World


@pytest.fixture(autouse=True, scope="module")
def _remembered() -> Iterator[None]:
    with remembered_blocks():
        yield


TOGETHER = (
    ("documents sidecar", "history sidecar", "attached sidecar", "byTag top", "byEmail filter", "data retired"),
    ("documents page", "byCityAge top"),
    ("history block", "leaf"),
    ("documents merged",),
    ("attached page",),
)
"""Objects that are damaged at once."""

LIES_TOGETHER = (
    ("a_changed_document", "a_missing_index_entry", "an_index_entry_too_many", "retired_lists_in_disorder"),
    ("a_missing_document", "a_filter_without_keys"),
    ("wrong_statistics", "an_index_entry_of_another", "a_unique_value_twice"),
    ("a_missing_version", "a_changed_version", "a_wrong_count", "a_wrong_sample"),
    ("a_missing_last_version", "a_missing_mark", "a_wrong_sequence"),
    ("wrong_counts_in_the_list",),
    ("a_block_left_out",),
)


def test_every_lie_that_can_be_put_right_is() -> None:
    told = {lie for lies in LIES_TOGETHER for lie in lies}
    assert told == {name for name, (_, _, repairable) in LIES.items() if repairable}


def everything_but_times(world: World) -> Answers:
    """What a collection says, without who wrote versions and when."""
    found = answers(world)
    histories = [
        (key, [(version.seq, version.rev, version.document) for version in versions])
        for key, versions, _ in found.histories
    ]
    return replace(found, histories=histories)


@pytest.mark.parametrize("how", ["delete", "swell"])
@pytest.mark.parametrize("kinds", TOGETHER, ids=" ".join)
def test_what_the_log_still_has_is_made_again_without_a_trace(kinds: tuple[str, ...], how: str) -> None:
    world = whole_world()
    before, by_kind = answers(world), objects_by_kind(world)
    for kind in kinds:
        damage(world, by_kind[kind], how)
    done = repair(site_on(world))
    assert (done.left, done.lost) == ((), ())
    assert {by_kind[kind] for kind in kinds} <= {finding.key for finding in done.repaired}
    assert verify(site_on(world)).findings == ()
    assert answers(world) == before


@pytest.mark.parametrize("kinds", TOGETHER, ids=" ".join)
def test_what_only_history_or_documents_have(kinds: tuple[str, ...]) -> None:
    """The log is trimmed: of some versions nobody knows any more who made them, and that is said."""
    world = whole_world(trimmed=True)
    before, by_kind = everything_but_times(world), objects_by_kind(world)
    for kind in kinds:
        if kind in by_kind:
            damage(world, by_kind[kind], "flip")
    done = repair(site_on(world))
    assert done.left == ()
    assert not any(loss.is_document for loss in done.lost)
    assert verify(site_on(world)).findings == ()
    after = everything_but_times(world)
    assert [msgspec.structs.replace(held, trash=None) for _, held in after.documents] == [
        msgspec.structs.replace(held, trash=None) for _, held in before.documents
    ]
    assert after == before or done.lost


@pytest.mark.parametrize("lies", LIES_TOGETHER, ids=lambda lies: lies[0])
def test_lies_are_put_right(lies: tuple[str, ...]) -> None:
    world = whole_world()
    before = answers(world)
    for lie in lies:
        LIES[lie][0](world)
    done = repair(site_on(world))
    assert (done.left, done.lost) == ((), ())
    assert {LIES[lie][1] for lie in lies} <= {finding.kind for finding in done.repaired}
    assert verify(site_on(world)).findings == ()
    assert answers(world) == before


def test_a_sound_collection_is_left_alone() -> None:
    world = whole_world()
    root = world.get(PATHS.root).version
    done = repair(site_on(world))
    assert (done.repaired, done.lost, done.left) == ((), (), ())
    assert world.get(PATHS.root).version == root


# --- roots ---


@pytest.mark.parametrize("how", ["flip", "truncate", "swell"])
def test_a_root_is_made_from_a_whole_log(how: str) -> None:
    world = whole_world()
    before = everything_but_times(world)
    damage(world, PATHS.root, how)
    done = repair(site_on(world))
    assert (done.left, done.lost) == ((), ())
    assert verify(site_on(world)).findings == ()
    # The new root goes through the tail, so the indexes have more.
    assert replace(everything_but_times(world), indexes=[]) == replace(before, indexes=[])


@pytest.mark.parametrize("how", ["flip", "delete"])
def test_a_root_is_not_made_from_a_part_of_the_log(how: str) -> None:
    world = whole_world(trimmed=True)
    damage(world, PATHS.root, how)
    with pytest.raises(CorruptionError, match="does not reach back to entry 1") as caught:
        repair(site_on(world))
    assert caught.value.key == PATHS.root


# --- losses ---


def unmerged_job() -> tuple[World, str]:
    """A collection whose newest batch lies only in the blocks of its job; the key of one."""
    world = whole_world()
    things = collection_on(world, seed=9)
    things.insert_many([thing(number, pad="r" * 600) for number in range(70, 80)])
    things.forward()
    wheres: tuple[Where, ...] = ("attached", "blocks")
    lists = [CheckedList(site_on(world), where, root_of(world), AuditReport()) for where in wheres]
    attached, documents = [{entry.name for entry in one.entries(one.runs[0])} for one in lists]
    assert attached == documents
    return world, f"{PATHS.data}{min(attached)}.parquet"


def test_documents_are_not_given_up_without_leave() -> None:
    world, key = unmerged_job()
    before = answers(world)
    damage(world, key, "delete")
    root = world.get(PATHS.root).version
    with pytest.raises(InvalidRequestError) as caught:
        repair(site_on(world))
    assert world.get(PATHS.root).version == root
    named = {problem.path for problem in caught.value.problems}
    done = repair(site_on(world, seed=79), accept_loss=True)
    gone = {loss.id for loss in done.lost if loss.is_document}
    assert {f"document {name}" for name in gone} == named
    assert done.left == ()
    assert verify(site_on(world)).findings == ()
    after = answers(world)
    assert after.counts == before.counts - len(gone)
    assert '"t070"' in gone


def test_history_that_is_gone_is_not_pretended() -> None:
    world = whole_world(trimmed=True)
    root = root_of(world)
    things = collection_on(world, seed=8)
    assert things.find_by_id("t010", as_of=20) is not None
    for page in root.history_pages:
        damage(world, f"{PATHS.history}{page.name}.list", "delete")
    for block in root.history:
        damage(world, f"{PATHS.history}{block.name}.parquet", "delete")
    done = repair(site_on(world))
    assert done.left == ()
    assert done.lost
    assert not any(loss.is_document for loss in done.lost)
    assert root_of(world).history_from > root.history_from
    things = collection_on(world, seed=8)
    with pytest.raises(SnapshotTooOldError):
        things.find_by_id("t010", as_of=20)
    assert things.get_history("t010")[-1].seq == 2
    assert verify(site_on(world)).findings == ()


# --- the log ---


def test_a_broken_entry_that_was_applied_is_given_up_after_an_hour() -> None:
    world = whole_world()
    before = everything_but_times(world)
    damage(world, objects_by_kind(world)["applied entry"], "delete")
    assert [finding.kind for finding in repair(site_on(world)).left] == ["log"]
    world.manual.advance(3_000)
    assert [finding.kind for finding in repair(site_on(world)).left] == ["log"]
    things = collection_on(world, seed=8)
    things.insert(thing(90))
    things.forward()
    world.manual.advance(4_000)
    assert any(isinstance(mark, AppliedMark) for mark in root_of(world).marks)
    things.delete("t090")
    assert repair(site_on(world)).left == ()
    assert root_of(world).trimmed == 1
    assert verify(site_on(world)).findings == ()
    assert len(answers(world).documents) == len(before.documents) + 1


def test_a_broken_entry_of_the_tail_is_left() -> None:
    world = whole_world()
    damage(world, objects_by_kind(world)["tail entry"], "flip")
    done = repair(site_on(world))
    assert [finding.key for finding in done.left] == [objects_by_kind(whole_world())["tail entry"]]


# --- others at the same time, and crashes ---


def test_a_forwarding_that_comes_first_makes_it_start_again() -> None:
    world = whole_world()
    damage(world, objects_by_kind(world)["documents sidecar"], "delete")
    store = HookStore(world)
    raced: list[str] = []

    def race(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.root and not raced:
            raced.append(key)
            collection_on(world, seed=12).forward()

    store.before = race
    done = repair(site_on(world, store))
    assert raced
    assert done.left == ()
    assert verify(site_on(world)).findings == ()
    assert root_of(world).applied == 32


def test_a_crash_at_any_write_leaves_the_old_root_or_a_sound_one() -> None:
    damaged = whole_world()
    before = answers(damaged)
    damage(damaged, objects_by_kind(damaged)["history sidecar"], "delete")
    calm = FaultStore(damaged.copy())
    repair(site_on(damaged, calm))
    writes = [request.number for request in calm.trace if request.verb == "put"]
    assert len(writes) >= 2
    for number in writes:
        world = damaged.copy()
        with pytest.raises(SimulatedCrash):
            repair(site_on(world, FaultStore(world, {number: Fault.CRASH_AFTER})))
        assert repair(site_on(world, seed=78)).left == ()
        assert answers(world) == before


def test_an_open_database_reads_on_after_its_repair() -> None:
    world = whole_world()
    database = database_on(world, world, seed=3)
    things = database.model("Thing")
    assert things.find_by_id("t004") is not None
    damage(world, objects_by_kind(world)["byCityAge top"], "delete")
    (found,) = database.verify(["Thing"])
    assert not found.is_sound
    (done,) = database.repair(["Thing"])
    assert (done.collection, done.left) == ("things/", ())
    assert things.find_by_id("t004") is not None
    assert all(each.is_sound for each in database.verify())
