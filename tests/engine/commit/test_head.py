"""What a process knows, how it learns more, and when it must not trust what it knows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import COLLECTION, PATHS, HookStore, Rig, TimedStore, contents, doc, entry_at, ident, insert, save
from wormdb.engine.commit.head import Head, is_recent
from wormdb.engine.log.entries import LogRecord
from wormdb.engine.state.view import sequence_of
from wormdb.errors import CorruptionError, SnapshotTooOldError, UnavailableError
from wormdb.format.entry import LoggedChange, decode_entry, entry_hash
from wormdb.settings import KNOWLEDGE_MS_MAX
from wormdb.system.types import LogNumber, Misc, StoreTime

if TYPE_CHECKING:
    from wormdb.storage.store import Store
    from wormdb.testing.fault_store import FaultStore

MINUTE = KNOWLEDGE_MS_MAX / 1000


def head_of(rig: Rig, store: Store | None = None) -> Head:
    """The head of a process that knows nothing yet."""
    return rig.ledger(store)._head


def verbs(store: FaultStore) -> list[str]:
    """The kinds of object asked for, in order: root or slot."""
    return ["root" if trace.key == PATHS.root else "slot" for trace in store.trace]


def record_of(body: bytes, number: int) -> LogRecord:
    return LogRecord(decode_entry(body, name="x", number=number, collection=COLLECTION), entry_hash(body), len(body))


# --- refresh ---


def test_the_first_refresh_reads_the_root_then_the_tail() -> None:
    rig = Rig()
    rig.fill(3)
    store = rig.counted()
    head = head_of(rig, store)
    assert not head.opened
    head.refresh()
    assert head.caught_up
    assert verbs(store)[:2] == ["root", "slot"]
    assert head.number == 3
    assert contents(head.view()) == {"x": (3, 3, {"n": 3})}


def test_a_refresh_with_nothing_new_is_one_request() -> None:
    rig = Rig()
    rig.fill(3)
    store = rig.counted()
    head = head_of(rig, store)
    head.refresh()
    before = store.requests
    head.refresh()
    assert verbs(store)[before:] == ["slot"]


def test_a_refresh_learns_what_others_wrote_since() -> None:
    rig = Rig()
    digest = rig.fill(3)
    head = head_of(rig)
    head.refresh()
    view = head.view()
    rig.fill(2, start=4, previous=digest)
    head.refresh()
    assert (view.number, head.number) == (3, 5)
    assert contents(view) == {"x": (3, 3, {"n": 3})}
    assert contents(head.view()) == {"x": (5, 5, {"n": 5})}


def test_an_answer_from_before_all_was_forgotten_does_not_make_it_caught_up() -> None:
    """It says that slot 4 is empty; then entry 4 comes, which another thread learns, and forgets with all the rest."""
    rig = Rig()
    digest = rig.fill(3)
    rig.ledger().forward()
    store = HookStore(rig.store)
    head = head_of(rig, store)
    head.refresh()

    def between(verb: str, key: str) -> None:
        store.after = None
        rig.fill(1, start=4, previous=digest)
        head.refresh()
        assert head.number == 4
        head.forget()
        store.before = refuse
        with pytest.raises(UnavailableError):
            head.refresh()  # the root is read again, and what comes after it is not known yet
        store.before = None
        assert (head.opened, head.caught_up, head.number) == (True, False, 3)

    def refuse(verb: str, key: str) -> None:
        if key != PATHS.root:
            raise UnavailableError(key)

    store.after = between
    head.look()
    assert not head.caught_up, "a reader that came after entry 4 would be shown the state before it"
    head.refresh()
    assert (head.caught_up, head.number) == (True, 4)


def test_names_made_after_a_refresh_are_above_those_seen() -> None:
    rig = Rig()
    body = entry_at(1, bytes(32))
    rig.store.put(PATHS.entry(LogNumber(1)), body)
    seen = record_of(body, 1).entry.misc
    ledger = rig.ledger()
    ledger.view()
    assert ledger._runtime.misc.next() > Misc(seen)


# --- knowledge expires, by the store's time ---


def test_recent_means_at_most_a_minute_by_the_stores_time() -> None:
    assert is_recent(StoreTime(0), StoreTime(KNOWLEDGE_MS_MAX))
    assert not is_recent(StoreTime(0), StoreTime(KNOWLEDGE_MS_MAX + 1))
    assert not is_recent(None, StoreTime(0))
    assert not is_recent(StoreTime(0), None)


def test_after_a_minute_the_root_is_read_behind_the_slot() -> None:
    rig = Rig()
    rig.fill(2)
    store = rig.counted()
    head = head_of(rig, store)
    head.refresh()
    rig.clock.advance(MINUTE + 1)
    before = store.requests
    head.refresh()
    assert verbs(store)[before:] == ["slot", "root"]
    head.refresh()
    assert verbs(store)[before:] == ["slot", "root", "slot"]


def test_the_local_clock_does_not_matter() -> None:
    """A suspended machine has a clock that stood still; the store's answers tell how long it really was."""
    rig = Rig()
    rig.fill(2)
    now = [0]
    store = rig.counted()
    head = head_of(rig, TimedStore(store, lambda: now[0]))
    head.refresh()
    rig.clock.advance(10_000)
    before = store.requests
    head.refresh()
    assert verbs(store)[before:] == ["slot"]
    now[0] += KNOWLEDGE_MS_MAX + 1
    head.refresh()
    assert verbs(store)[before:] == ["slot", "slot", "root"]


def test_a_store_that_shows_no_time_costs_the_root_at_every_refresh() -> None:
    rig = Rig()
    rig.fill(2)
    store = rig.counted()
    head = head_of(rig, TimedStore(store, lambda: None))
    head.refresh()
    assert head.number == 2
    before = store.requests
    head.refresh()
    assert verbs(store)[before:] == ["slot", "root"]


def test_a_sleeper_does_not_take_a_trimmed_slot_for_the_end_of_the_log() -> None:
    """The heart of slot-never-reused: its next slot is empty, because it was trimmed while it slept."""
    rig = Rig()
    sleeper, worker = rig.ledger(), rig.ledger()
    worker.commit(rig.batch(insert("a", n=1)))
    assert contents(sleeper.view())["a"][0] == 1
    for number in range(2, 5):
        worker.commit(rig.batch(save("a", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    assert worker.trim(0) == 4
    assert rig.slots() == []
    assert contents(sleeper.view()) == {"a": (4, 4, {"n": 4})}


def test_a_sleeper_does_not_believe_what_lies_in_a_trimmed_slot() -> None:
    """A late write of somebody who slept even longer may lie there."""
    rig = Rig()
    sleeper, worker = rig.ledger(), rig.ledger()
    worker.commit(rig.batch(insert("a", n=1)))
    sleeper.view()
    first = rig.store.get(PATHS.entry(LogNumber(1))).body
    for number in range(2, 5):
        worker.commit(rig.batch(save("a", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    worker.trim(0)
    zombie = entry_at(2, entry_hash(first), LoggedChange(id=ident("z"), seq=1, after=doc("z")))
    rig.store.put(PATHS.entry(LogNumber(2)), zombie)
    assert contents(sleeper.view()) == {"a": (4, 4, {"n": 4})}


def test_a_sleeper_whose_slot_was_not_trimmed_goes_on_from_what_it_knows() -> None:
    rig = Rig()
    store = rig.counted()
    sleeper, worker = rig.ledger(store), rig.ledger()
    for number in range(1, 4):
        worker.commit(rig.batch(save("a", n=number)))
    sleeper.view()
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    assert worker.trim(0) == 3
    worker.commit(rig.batch(save("a", n=4)))
    before = store.requests
    view = sleeper.view()
    assert verbs(store)[before:] == ["slot", "root", "slot", "slot"]
    assert contents(view) == {"a": (4, 4, {"n": 4})}


def trimmed_before(rig: Rig, store: HookStore, slot: int) -> None:
    """A log of six entries, all applied long ago; they are trimmed right before `slot` is looked at."""
    worker = rig.ledger()
    for number in range(2, 7):
        worker.commit(rig.batch(save("a", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)

    def trim(verb: str, key: str) -> None:
        if key == PATHS.entry(LogNumber(slot)):
            store.before = None
            assert worker.trim(0) == 6

    store.before = trim


@pytest.mark.parametrize("slot", [2, 3, 4, 5, 6])
def test_a_sleeper_notices_that_the_log_is_trimmed_while_it_catches_up(slot: int) -> None:
    """The entries it finds are old, so what comes behind them may go at any moment."""
    rig = Rig()
    store = HookStore(rig.store)
    sleeper = rig.ledger(store)
    sleeper.commit(rig.batch(insert("a", n=1)))
    trimmed_before(rig, store, slot)
    assert contents(sleeper.view()) == {"a": (6, 6, {"n": 6})}
    assert store.before is None


def test_a_root_of_another_history_drops_the_view() -> None:
    rig = Rig()
    head = head_of(rig)
    rig.fill(2)
    head.refresh()
    for number in (1, 2):
        rig.store.delete(PATHS.entry(LogNumber(number)))
    other = rig.ledger()
    other.commit(rig.batch(insert("b", n=1)))
    other.commit(rig.batch(insert("c", n=1)))
    other.forward()
    rig.clock.advance(MINUTE + 1)
    reopened = head_of(rig)
    reopened.refresh()
    head.refresh()
    assert contents(head.view()) == contents(reopened.view())


# --- contradictions ---


def test_an_entry_that_does_not_chain_is_damage() -> None:
    rig = Rig()
    rig.fill(1)
    rig.store.put(PATHS.entry(LogNumber(2)), entry_at(2, b"\x01" * 32))
    with pytest.raises(CorruptionError, match="does not follow entry 1") as caught:
        head_of(rig).refresh()
    assert caught.value.key == PATHS.entry(LogNumber(2))


def test_another_entry_where_one_was_known_is_damage() -> None:
    rig = Rig()
    rig.fill(2)
    head = head_of(rig)
    head.refresh()
    other = entry_at(1, bytes(32), write_id="f" * 32)
    with pytest.raises(CorruptionError, match="another entry was found there before"):
        head.absorb(record_of(other, 1), None)
    assert head.number == 2


def test_the_same_entry_twice_changes_nothing() -> None:
    rig = Rig()
    rig.fill(2)
    head = head_of(rig)
    head.refresh()
    record, _ = rig.log.read(LogNumber(2))
    assert record is not None
    head.absorb(record, None)
    assert contents(head.view()) == {"x": (2, 2, {"n": 2})}
    assert head.view().count == 1


def test_an_entry_out_of_reach_is_left_for_a_refresh() -> None:
    rig = Rig()
    rig.fill(3)
    head = head_of(rig)
    record, _ = rig.log.read(LogNumber(3))
    assert record is not None
    head.absorb(record, None)
    assert not head.opened
    head.refresh()
    assert head.number == 3
    rig.fill(2, start=4, previous=head.hash)
    far, _ = rig.log.read(LogNumber(5))
    assert far is not None
    head.absorb(far, None)
    assert head.number == 3


def test_a_tail_that_never_fits_its_root_is_damage_and_no_endless_loop() -> None:
    """Every root read says that more was trimmed than the one before said was applied."""
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    ledger.forward()
    store = HookStore(rig.store)
    head = head_of(rig, store)

    def move(verb: str, key: str) -> None:
        if key != PATHS.root:
            ledger.commit(rig.batch(save("a", n=rig.clock.now_ms())))
            ledger.forward()
            ledger.trim(0)
            rig.clock.advance(7_200)
            ledger.trim(0)

    store.before = move
    with pytest.raises(CorruptionError, match="does not fit its root"):
        head.refresh()


# --- rebase, forget ---


def test_a_newer_root_changes_the_base_but_no_view() -> None:
    rig = Rig()
    ledger = rig.ledger()
    for number in range(1, 6):
        ledger.commit(rig.batch(save(f"k{number % 2}", n=number)))
    before = ledger.view()
    expected = contents(before)
    ledger.forward()
    after = ledger.view()
    assert (before.base_number, after.base_number) == (0, 5)
    assert contents(before) == contents(after) == expected
    assert ledger._head.tail_bytes == 0
    ledger.commit(rig.batch(save("k0", n=9)))
    assert contents(before) == contents(after) == expected
    assert ledger._head.tail_bytes > 0


def test_an_older_or_a_too_new_root_is_not_taken() -> None:
    rig = Rig()
    ledger, other = rig.ledger(), rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    ledger.forward()
    old = rig.register.read()
    head = ledger._head
    head.rebase(old)
    assert head.applied == 1
    other.commit(rig.batch(insert("b")))
    other.forward()
    head.rebase(rig.register.read())
    assert (head.applied, head.number) == (1, 1)


def test_a_head_that_forgot_opens_again() -> None:
    rig = Rig()
    rig.fill(2)
    head = head_of(rig)
    head.refresh()
    head.forget()
    assert (head.opened, head.caught_up, head.number) == (False, False, 0)
    head.refresh()
    assert head.number == 2


def test_a_head_that_is_opening_again_is_not_caught_up() -> None:
    """A reader that may be stale must not be served the root alone while another thread reads the tail."""
    rig = Rig()
    rig.fill(2)
    store = HookStore(rig.store)
    head = head_of(rig, store)
    head.refresh()
    seen: list[tuple[bool, bool]] = []
    store.before = lambda verb, key: seen.append((head.opened, head.caught_up))
    head.forget()
    head.refresh()
    assert seen[0] == (False, False)
    assert set(seen[1:]) == {(True, False)}
    assert head.caught_up


def test_readers_that_refresh_at_once_all_get_the_whole_tail() -> None:
    rig = Rig()
    digest = rig.fill(20)
    head = head_of(rig)
    numbers: list[int] = []

    def read() -> None:
        for _ in range(20):
            head.refresh()
            numbers.append(head.view().number)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    rig.fill(30, start=21, previous=digest)
    for thread in threads:
        thread.join()
    head.refresh()
    assert head.number == 50
    assert min(numbers) >= 20
    assert contents(head.view()) == {"x": (50, 50, {"n": 50})}


# --- ids of digits ---


@pytest.mark.parametrize(
    ("identity", "number"),
    [("0000000042", 42), ("7", 7), ("", 0), ("7a", 0), (7, 0), ("9" * 18, 10**18 - 1), ("9" * 19, 0), ("٣", 0)],
)
def test_the_number_in_an_id(identity: object, number: int) -> None:
    assert sequence_of(ident(identity)) == number


@pytest.mark.parametrize("seconds", [1, 120])
@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("written", range(1, 8))
def test_a_collection_that_was_made_anew_is_never_mixed_with_the_old_one(
    written: int, is_forwarded: bool, seconds: int
) -> None:
    """Removed by hand and filled again, while a process stands on the old one."""
    rig = Rig()
    old, new = rig.ledger(), rig.ledger()
    for number in range(5):
        old.commit(rig.batch(insert(f"old{number}")))
    if is_forwarded:
        old.forward()
    rig.store.delete_many([info.key for page in rig.store.list(COLLECTION) for info in page.objects])
    for number in range(written):
        new.commit(rig.batch(insert(f"new{number}")))
    new.forward()
    rig.clock.advance(seconds)
    new.commit(rig.batch(insert("last")))
    is_asked = seconds > MINUTE and (is_forwarded or written <= 5)
    try:
        found = set(contents(old.view()))
    except (CorruptionError, SnapshotTooOldError):
        # Within a minute the root is not asked; nor does it tell if none was known, and it is ahead of what was.
        assert not is_asked
        return
    everything = {*(f"new{number}" for number in range(written)), "last"}
    assert found == everything or (not is_asked and found == {f"old{number}" for number in range(5)})
