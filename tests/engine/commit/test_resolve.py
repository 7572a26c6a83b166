"""What became of a commit: never a guess, and final once it is settled."""

from __future__ import annotations

import pytest

from tests.engine.rig import PATHS, HookStore, Rig, contents, doc, entry_at, ident, insert, save
from wormdb.engine.commit.operations import CommitId
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.format.entry import LoggedChange
from wormdb.format.event import Nothing
from wormdb.storage.store import IfAbsent
from wormdb.system.types import LogNumber, WriteId
from wormdb.testing.fault_store import Fault, FaultStore

A, B, C = "a" * 32, "b" * 32, "c" * 32


def commit_id(slot: int, batch: str = B) -> str:
    return str(CommitId(LogNumber(slot), WriteId(A), batch))


def applied_and_trimmed(rig: Rig, count: int) -> None:
    """A log of `count` entries, all of them applied, trimmed and deleted."""
    worker = rig.ledger()
    for number in range(count):
        worker.commit(rig.batch(save("x", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    assert worker.trim(0) == count


def test_a_batch_that_is_in_its_slot_was_committed() -> None:
    rig = Rig()
    batch = rig.batch(insert("a"))
    rig.ledger().commit(batch)
    for settle in (False, True):
        assert rig.ledger().resolve(commit_id(1, batch.id), settle=settle) is Fate.COMMITTED
    assert rig.slots() == [1]


def test_a_slot_with_anothers_entry_says_no() -> None:
    rig = Rig()
    rig.ledger().commit(rig.batch(insert("a")))
    for settle in (False, True):
        assert rig.ledger().resolve(commit_id(1), settle=settle) is Fate.NOT_COMMITTED


def test_an_empty_slot_stays_unknown_until_it_is_settled() -> None:
    rig = Rig()
    rig.ledger().commit(rig.batch(insert("a")))
    ledger = rig.ledger()
    assert ledger.resolve(commit_id(2)) is Fate.UNKNOWN
    assert ledger.resolve(commit_id(2)) is Fate.UNKNOWN
    assert rig.slots() == [1]
    assert ledger.resolve(commit_id(2), settle=True) is Fate.NOT_COMMITTED
    assert ledger.resolve(commit_id(2)) is Fate.NOT_COMMITTED
    record, _ = rig.log.read(LogNumber(2))
    assert record is not None
    assert record.entry.events == (Nothing(write_id=WriteId(A)),)
    with pytest.raises(WormError):
        rig.store.put(PATHS.entry(LogNumber(2)), b"late", IfAbsent())


def test_the_log_goes_on_behind_a_settled_slot() -> None:
    rig = Rig()
    ledger = rig.ledger()
    assert ledger.resolve(commit_id(1), settle=True) is Fate.NOT_COMMITTED
    assert ledger.commit(rig.batch(insert("a"))).number == 2
    assert rig.ledger().resolve(commit_id(3), settle=True) is Fate.NOT_COMMITTED
    assert contents(rig.ledger().view()) == {"a": (2, 1, {})}
    assert rig.ledger().view().number == 3
    assert [change for record in ledger.feed(LogNumber(0)).poll() for change in record.entry.batches] != []


def test_the_slot_is_read_first_and_the_root_last() -> None:
    rig = Rig()
    store = rig.counted()
    rig.ledger(store).resolve(commit_id(1))
    assert [trace.key for trace in store.trace] == [PATHS.entry(LogNumber(1)), PATHS.root]


def test_a_slot_that_was_trimmed_is_unknown_for_good_even_if_something_lies_there() -> None:
    rig = Rig()
    applied_and_trimmed(rig, 3)
    for settle in (False, True):
        assert rig.ledger().resolve(commit_id(2), settle=settle) is Fate.UNKNOWN
        assert rig.slots() == [], "a trimmed slot is never written again"
    rig.store.put(PATHS.entry(LogNumber(2)), entry_at(2, bytes(32), write_id=B))
    assert rig.ledger().resolve(commit_id(2)) is Fate.UNKNOWN


def test_settling_right_behind_the_trimmed_part_chains_to_the_root() -> None:
    rig = Rig()
    applied_and_trimmed(rig, 3)
    assert rig.ledger().resolve(commit_id(4), settle=True) is Fate.NOT_COMMITTED
    ledger = rig.ledger()
    assert ledger.commit(rig.batch(save("x", n=9))).number == 5
    assert contents(rig.ledger().view()) == {"x": (5, 4, {"n": 9})}


def test_settling_does_not_chain_to_a_late_write_in_a_trimmed_slot() -> None:
    """Else the log would break for everybody who knows the true hash."""
    rig = Rig()
    applied_and_trimmed(rig, 3)
    reader = rig.ledger()
    reader.view()
    late = entry_at(3, bytes(32), LoggedChange(id=ident("z"), seq=1, after=doc("z")))
    rig.store.put(PATHS.entry(LogNumber(3)), late)
    assert rig.ledger().resolve(commit_id(4), settle=True) is Fate.NOT_COMMITTED
    assert contents(reader.view()) == contents(rig.ledger().view())
    reader.commit(rig.batch(insert("a")))


def test_settling_behind_what_the_root_applied_but_did_not_trim() -> None:
    rig = Rig()
    ledger = rig.ledger()
    for number in range(3):
        ledger.commit(rig.batch(save("x", n=number)))
    ledger.forward()
    assert rig.ledger().resolve(commit_id(4), settle=True) is Fate.NOT_COMMITTED
    assert rig.ledger().view().number == 4


def test_a_slot_far_beyond_the_end_cannot_be_settled() -> None:
    rig = Rig()
    rig.ledger().commit(rig.batch(insert("a")))
    assert rig.ledger().resolve(commit_id(7), settle=True) is Fate.UNKNOWN
    assert rig.slots() == [1]


def test_whatever_fills_the_slot_first_decides() -> None:
    """The write lands while it is being settled: then it was committed, and settling says so."""
    rig = Rig()
    store = HookStore(rig.store)
    late = FaultStore(rig.store, {3: Fault.LANDS_LATE, 4: Fault.UNAVAILABLE_503})
    batch = rig.batch(insert("a", n=1))
    with pytest.raises(OutcomeUnknownError) as caught:
        rig.ledger(late).commit(batch, seconds=0)
    assert caught.value.commit_id is not None
    resolver = rig.ledger(store)

    def land(verb: str, key: str) -> None:
        if verb == "put":
            assert late.land() == 1

    store.before = land
    assert resolver.resolve(caught.value.commit_id, settle=True) is Fate.COMMITTED
    assert contents(rig.ledger().view()) == {"a": (1, 1, {"n": 1})}


def test_after_settling_the_write_can_no_longer_land() -> None:
    rig = Rig()
    late = FaultStore(rig.store, {3: Fault.LANDS_LATE, 4: Fault.UNAVAILABLE_503})
    with pytest.raises(OutcomeUnknownError) as caught:
        rig.ledger(late).commit(rig.batch(insert("a", n=1)), seconds=0)
    assert caught.value.commit_id is not None
    assert rig.ledger().resolve(caught.value.commit_id, settle=True) is Fate.NOT_COMMITTED
    late.land()
    assert rig.ledger().resolve(caught.value.commit_id) is Fate.NOT_COMMITTED
    assert contents(rig.ledger().view()) == {}


def test_settling_whose_answer_was_lost_is_read_back() -> None:
    rig = Rig()
    ledger = rig.ledger(FaultStore(rig.store, {3: Fault.ANSWER_LOST}))
    assert ledger.resolve(commit_id(1), settle=True) is Fate.NOT_COMMITTED
    assert rig.slots() == [1]


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE_503, Fault.LANDS_LATE])
def test_settling_that_did_nothing_so_far_can_be_repeated(fault: Fault) -> None:
    rig = Rig()
    store = FaultStore(rig.store, {3: fault})
    ledger = rig.ledger(store)
    with pytest.raises(UnavailableError) as caught:
        ledger.resolve(commit_id(1), settle=True)
    assert caught.value.key == PATHS.entry(LogNumber(1))
    store.land()
    assert ledger.resolve(commit_id(1), settle=True) is Fate.NOT_COMMITTED
    assert rig.slots() == [1]


def test_every_batch_of_a_group_is_found_by_its_own_id() -> None:
    rig = Rig()
    ledger = rig.ledger()
    batches = [rig.batch(insert("a")), rig.batch(insert("b"))]
    ledger._committer.commit(batches, 1e9)
    assert [ledger.resolve(commit_id(1, batch.id)) for batch in batches] == [Fate.COMMITTED] * 2
    assert ledger.resolve(commit_id(1, C)) is Fate.NOT_COMMITTED
