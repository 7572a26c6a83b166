from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.engine.rig import COLLECTION, PATHS, Rig
from wormdb.engine.log.root import ROOT_ATTEMPTS_MAX, Register, RootState
from wormdb.errors import ConflictError, CorruptionError, OutcomeUnknownError, UnavailableError
from wormdb.format.root import Root
from wormdb.system.types import StoreTime, Version, WriteId
from wormdb.testing.fault_store import Fault, FaultStore


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


# --- update ---


def test_an_update_reads_changes_and_swaps() -> None:
    rig = Rig()
    store = FaultStore(rig.store, {})
    state = Register(store, PATHS, COLLECTION).update(lambda found: root_after(found, "a"), what="a change")
    assert state.root == rig.register.read().root
    assert [trace.verb for trace in store.trace] == ["probe", "put"]


def test_an_update_from_a_root_that_is_known_reads_nothing() -> None:
    rig = Rig()
    empty = rig.register.read()
    store = FaultStore(rig.store, {})
    Register(store, PATHS, COLLECTION).update(lambda found: root_after(found, "a"), what="a change", current=empty)
    assert [trace.verb for trace in store.trace] == ["put"]


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    rig = Rig()
    store = FaultStore(rig.store, {})
    assert Register(store, PATHS, COLLECTION).update(lambda _: None, what="a change").root is None
    assert [trace.verb for trace in store.trace] == ["probe"]


@pytest.mark.parametrize("losses", [1, ROOT_ATTEMPTS_MAX - 1, ROOT_ATTEMPTS_MAX])
def test_an_update_begins_again_from_the_root_that_came_first(losses: int) -> None:
    rig = Rig()
    seen: list[int] = []

    def change(found: RootState) -> Root:
        seen.append(found.applied)
        if len(seen) <= losses:
            rig.register.swap(found, root_after(found, "b", applied=found.applied + 1))
        return root_after(found, "a", applied=found.applied)

    if losses < ROOT_ATTEMPTS_MAX:
        state = rig.register.update(change, what="a change")
        assert state.root == rig.register.read().root
        assert state.applied == losses
    else:
        with pytest.raises(UnavailableError, match=r"a change of .*: others were faster every time"):
            rig.register.update(change, what="a change")
        assert rig.register.read().applied == losses
    assert seen == list(range(min(losses + 1, ROOT_ATTEMPTS_MAX)))


def test_what_a_change_raises_ends_the_update() -> None:
    rig = Rig()

    def change(_: RootState) -> Root:
        raise ConflictError("the collection was made anew")

    with pytest.raises(ConflictError, match="made anew"):
        rig.register.update(change, what="a change")
    assert rig.register.read().root is None


def test_an_update_whose_answer_was_lost_is_made_once() -> None:
    rig = Rig()
    calls: list[RootState] = []

    def change(found: RootState) -> Root:
        calls.append(found)
        return root_after(found, "a")

    store = FaultStore(rig.store, {2: Fault.ANSWER_LOST})
    state = Register(store, PATHS, COLLECTION).update(change, what="a change")
    assert state.root == rig.register.read().root
    assert len(calls) == 1
    late = FaultStore(rig.store, {2: Fault.LANDS_LATE})
    with pytest.raises(OutcomeUnknownError):
        Register(late, PATHS, COLLECTION).update(lambda found: root_after(found, "c"), what="a change")
