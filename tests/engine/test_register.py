from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.engine.rig import COLLECTION, PATHS, Rig
from wormdb.engine.register import Register, RootState
from wormdb.errors import ConflictError, CorruptionError, OutcomeUnknownError, UnavailableError
from wormdb.format.root import Root
from wormdb.testing.fault_store import Fault, FaultStore
from wormdb.types import StoreTime, Version, WriteId


def root_after(state: RootState, write_id: str, applied: int = 0) -> Root:
    before = state.root
    if before is None:
        return Root(
            path=COLLECTION,
            collection=WriteId("0" * 32),
            revision=1,
            write_id=WriteId(write_id * 32),
            misc=1,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
            applied=applied,
        )
    return msgspec.structs.replace(before, revision=before.revision + 1, write_id=write_id * 32, applied=applied)


def test_there_is_no_root_at_first() -> None:
    rig = Rig()
    assert rig.register.read() == RootState(None, None, StoreTime(rig.clock.now_ms()))


def test_a_swap_replaces_what_was_read() -> None:
    rig = Rig()
    first = rig.register.swap(rig.register.read(), root_after(rig.register.read(), "a"))
    second = rig.register.swap(first, root_after(first, "b", applied=4))
    found = rig.register.read()
    assert found.root == second.root
    assert found.version == second.version
    assert found.root is not None
    assert (found.root.revision, found.root.applied) == (2, 4)


def test_of_two_swaps_from_one_root_the_second_loses_and_changes_nothing() -> None:
    rig = Rig()
    before = rig.register.swap(rig.register.read(), root_after(rig.register.read(), "a"))
    winner = rig.register.swap(before, root_after(before, "b"))
    with pytest.raises(ConflictError) as caught:
        rig.register.swap(before, root_after(before, "c"))
    assert caught.value.key == PATHS.root
    assert rig.register.read().root == winner.root


def test_of_two_first_roots_the_second_loses() -> None:
    rig = Rig()
    empty = rig.register.read()
    rig.register.swap(empty, root_after(empty, "a"))
    with pytest.raises(ConflictError):
        rig.register.swap(empty, root_after(empty, "b"))


def test_a_swap_whose_answer_was_lost_is_found_by_reading() -> None:
    rig = Rig()
    empty = rig.register.read()
    store = FaultStore(rig.store, {1: Fault.ANSWER_LOST})
    state = Register(store, PATHS, COLLECTION).swap(empty, root_after(empty, "a"))
    assert state.root == rig.register.read().root
    assert [trace.verb for trace in store.trace] == ["put", "probe"]


def test_a_swap_that_may_still_land_is_unknown() -> None:
    rig = Rig()
    empty = rig.register.read()
    store = FaultStore(rig.store, {1: Fault.LANDS_LATE})
    with pytest.raises(OutcomeUnknownError) as caught:
        Register(store, PATHS, COLLECTION).swap(empty, root_after(empty, "a"))
    assert caught.value.key == PATHS.root


def test_a_swap_that_was_refused_and_did_nothing_may_be_tried_again() -> None:
    rig = Rig()
    empty = rig.register.read()
    store = FaultStore(rig.store, {1: Fault.UNAVAILABLE_503})
    with pytest.raises(UnavailableError):
        Register(store, PATHS, COLLECTION).swap(empty, root_after(empty, "a"))
    assert rig.register.read().root is None


def test_a_root_of_another_folder_is_damage() -> None:
    rig = Rig()
    empty = rig.register.read()
    rig.register.swap(empty, root_after(empty, "a"))
    rig.store.put("others/.worm.db/block0", rig.store.get(PATHS.root).body)
    other = Register(rig.store, replace(PATHS, folder="others/.worm.db/"), "others/")
    with pytest.raises(CorruptionError):
        other.read()


def test_a_root_must_follow_the_one_that_was_read() -> None:
    rig = Rig()
    empty = rig.register.read()
    following = msgspec.structs.replace(root_after(empty, "a"), revision=2)
    with pytest.raises(AssertionError):
        rig.register.swap(RootState(None, Version("1"), None), following)
