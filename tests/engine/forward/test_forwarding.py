"""Forwarding as processes see it: what is opened from a root, and what a crash or a rival leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.commit.test_validate import EMAIL
from tests.engine.rig import PATHS, HookStore, Rig, contents, insert, remove, save
from wormdb.engine.blocks.tiers import FANOUT
from wormdb.errors import SnapshotTooOldError, UnavailableError, UniqueViolationError
from wormdb.format.event import SchemaChanged
from wormdb.system.types import LogNumber
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

OPERATIONS = st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(0, 9)), max_size=25)


@given(OPERATIONS, st.sets(st.integers(0, 25), max_size=4))
def test_a_collection_opened_from_a_forwarding_is_the_same(
    operations: list[tuple[int, int | None]], forwardings: set[int]
) -> None:
    rig = Rig()
    ledger = rig.ledger()
    expected: dict[int, tuple[int, int, dict[str, int] | None]] = {}
    for place, (identity, value) in enumerate(operations):
        operation = remove(identity) if value is None else save(identity, v=value)
        if ledger.commit(rig.batch(operation)).changes:
            seq = expected[identity][1] + 1 if identity in expected else 1
            expected[identity] = (ledger.known().number, seq, None if value is None else {"v": value})
        if place in forwardings:
            ledger.forward()
    alive = sum(values is not None for _, _, values in expected.values())
    for process in (ledger, rig.ledger()):
        view = process.view()
        assert contents(view) == expected
        assert view.count == alive


def test_opening_reads_the_root_and_the_tail_behind_it_only() -> None:
    rig = Rig()
    ledger = rig.ledger()
    for number in range(20):
        ledger.commit(rig.batch(save("a", n=number)))
    assert ledger.forward() == 20
    store = rig.counted()
    rig.ledger(store).view()
    assert [trace.key for trace in store.trace] == [PATHS.root, PATHS.entry(LogNumber(21))]


def test_what_a_forwarding_costs() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store)
    ledger.commit(rig.batch(insert("a")))
    before = store.requests
    ledger.forward()
    traces = store.trace[before:]
    assert [trace.verb for trace in traces] == ["probe", "probe", "put", "put", "put", "put", "put"]
    assert [trace.key.removeprefix(PATHS.folder).partition("/")[0] for trace in traces[2:]] == [
        "data",
        "data",
        "history",
        "history",
        "block0",
    ], "the root comes last"


def test_the_definition_is_kept() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", email="x"), events=(SchemaChanged(definition=EMAIL),)))
    ledger.forward()
    opened = rig.ledger()
    assert opened.view().definition.body == EMAIL
    with pytest.raises(UniqueViolationError):
        opened.commit(rig.batch(insert("b", email="x")))


def test_a_collection_in_which_everything_was_deleted_keeps_its_counts() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    ledger.commit(rig.batch(remove("a")))
    ledger.forward()
    opened = rig.ledger()
    assert (opened.view().count, contents(opened.view())) == (0, {"a": (2, 2, None)})
    opened.commit(rig.batch(insert("a")))
    assert contents(rig.ledger().view()) == {"a": (3, 3, {})}


def test_an_empty_collection_can_be_forwarded() -> None:
    rig = Rig()
    assert rig.ledger().forward() == 0
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    assert contents(rig.ledger().view()) == {"a": (1, 1, {})}


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_crash_before_the_swap_leaves_the_old_root(number: int) -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(save("a", n=1)))
    ledger.forward()
    ledger.commit(rig.batch(save("a", n=2)))
    before = rig.register.read()
    opening = rig.counted()
    rig.ledger(opening).view()
    crashing = FaultStore(rig.store, {opening.requests + 2 + number: Fault.CRASH_BEFORE})
    crashed = rig.ledger(crashing)
    crashed.view()
    with pytest.raises(SimulatedCrash):
        crashed.forward()
    assert crashing.trace[-1].verb == "put"
    assert rig.register.read().root == before.root
    assert contents(rig.ledger().view()) == {"a": (2, 2, {"n": 2})}
    assert rig.ledger().forward() == 2


def test_a_lost_answer_about_the_block_means_that_nothing_changed() -> None:
    rig = Rig()
    rig.ledger().commit(rig.batch(insert("a")))
    store = FaultStore(rig.store, {6: Fault.ANSWER_LOST})
    with pytest.raises(UnavailableError, match="the state is as before"):
        rig.ledger(store).forward()
    assert [trace.verb for trace in store.trace] == ["probe"] * 5 + ["put"]
    assert rig.register.read().root is None


def test_two_forwardings_of_one_state_make_one_root() -> None:
    rig = Rig()
    first, second = rig.ledger(), rig.ledger()
    first.commit(rig.batch(insert("a")))
    second.view()
    first.forward()
    root = rig.register.read().root
    assert second.forward() == 1
    assert rig.register.read().root == root
    assert second._head.applied == 1, "it stands on the other's root"


def test_a_forwarding_that_lost_stands_on_the_winners_root() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    loser, winner = rig.ledger(store), rig.ledger()
    loser.commit(rig.batch(insert("a")))

    def rival(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.root:
            store.before = None
            winner.forward()

    store.before = rival
    assert loser.forward() == 1
    root = rig.register.read().root
    assert root is not None
    assert root.revision == 1
    assert loser._head.applied == 1
    assert contents(loser.view()) == {"a": (1, 1, {})}


def test_the_blocks_of_the_root_before_are_noted_as_retired() -> None:
    rig = Rig()
    ledger = rig.ledger()
    for number in range(FANOUT):
        ledger.commit(rig.batch(save("a", n=number)))
        ledger.forward()
    root = rig.register.read().root
    assert root is not None
    (block,) = root.blocks
    names = {retired.name for retired in root.retired}
    for folder, kept in (("data/", block.name), ("history/", root.history[0].name)):
        gone = {name for name in names if name.startswith(folder)}
        assert len(gone) == 2 * (FANOUT - 1), "the newest was merged with those before it as it was written"
        assert not any(kept in name for name in gone)
    assert len(names) == 4 * (FANOUT - 1)
    assert all(rig.store.head(PATHS.folder + name) for name in names), "retired is not deleted"


def test_a_block_that_is_gone_tells_a_reader_to_start_again() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    ledger.forward()
    view = rig.ledger().view()
    root = rig.register.read().root
    assert root is not None
    rig.store.delete(PATHS.block(root.blocks[0].name))
    with pytest.raises(SnapshotTooOldError, match="start again"):
        contents(view)
