"""Each of these was first a seed of the simulation that failed; here it is as few steps."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest

import wormdb
from tests.engine.rig import PATHS, HookStore, Rig, contents, doc, ident, insert, remove, save
from wormdb.engine.index.unique import UniqueOwners, keys_of
from wormdb.engine.tree.definition import Index
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    UnavailableError,
)
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.settings import LOG_RETENTION_MS_MIN
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.ledger import Ledger

HOUR = LOG_RETENTION_MS_MIN / 1000


def entry(number: int, *changes: tuple[str, str | None, str | None]) -> Entry:
    name = WriteId("0" * 32)
    made = tuple(
        LoggedChange(
            id=ident(identity),
            seq=1,
            before=None if before is None else doc(identity, email=before),
            after=None if after is None else doc(identity, email=after),
        )
        for identity, before, after in changes
    )
    batch = LoggedBatch(id=name, changes=made)
    return Entry(number=number, write_id=name, misc=0, node=0, previous=bytes(32), batches=(batch,))


def test_a_value_held_in_passing_is_not_taken_from_its_owner() -> None:
    index = Index("email", ("email",), unique=True)
    keys = UniqueOwners(index)
    keys.apply(entry(1, ("owner", None, "x")))
    keys.apply(entry(2, ("other", None, "x"), ("other", "x", "y")))
    (x,), (y,) = (keys_of(index, doc("q", email=email)) for email in ("x", "y"))
    assert (keys.owner(x), keys.owner(y)) == (ident("owner"), ident("other"))


@pytest.mark.parametrize("ending", [".parquet", ".map"])
def test_a_block_that_was_sent_twice_is_no_error_of_the_caller(ending: str) -> None:
    rig = Rig()
    store = HookStore(rig.store)

    def twice(verb: str, key: str) -> None:
        if verb == "put" and key.endswith(ending):
            raise AlreadyExistsError(f"object {key}", reason="the second answer")

    store.after = twice
    worker = rig.ledger(store)
    worker.commit(rig.batch(save("x")))
    with pytest.raises(UnavailableError):
        worker.forward()
    store.after = None
    assert worker.forward() == 1


def test_two_trimmers_at_once_find_no_damage() -> None:
    rig = Rig()
    worker = rig.ledger()
    for part in range(2):
        for number in range(3):
            worker.commit(rig.batch(save("x", n=3 * part + number)))
        worker.forward()
        rig.clock.advance(HOUR / 2 + 1)
        worker.trim(0)
    rig.clock.advance(HOUR / 2)
    store = HookStore(rig.store)
    deleted = []

    def other_is_faster(verb: str, key: str) -> None:
        if verb == "probe" and key.startswith(PATHS.entries):
            store.before = None
            deleted.append(rig.ledger().trim(0))

    store.before = other_is_faster
    assert rig.ledger(store).trim(0) == 0
    assert deleted == [3]
    assert rig.slots() == [4, 5, 6]


def sleeper(rig: Rig, store: HookStore) -> Ledger:
    """A process that knows entry 1 and slept while 2 to 6 were written, applied and came of age."""
    slept = rig.ledger(store)
    slept.commit(rig.batch(save("x", n=1)))
    worker = rig.ledger()
    for number in range(2, 7):
        worker.commit(rig.batch(save("x", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(HOUR)
    return slept


def trimmed_behind(rig: Rig, store: HookStore, number: int) -> None:
    """The log is trimmed right after the entry `number` and the root were read."""
    seen = []

    def trim(verb: str, key: str) -> None:
        seen.append(key)
        if seen[-2:] == [PATHS.entry(LogNumber(number)), PATHS.root]:
            store.after = None
            assert rig.ledger().trim(0) > 0

    store.after = trim


def test_a_log_that_is_trimmed_while_a_sleeper_catches_up_is_not_taken_for_its_end() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    slept = sleeper(rig, store)
    trimmed_behind(rig, store, 2)
    assert contents(slept.view()) == {"x": (6, 6, {"n": 6})}


def test_a_feed_that_slept_is_told_that_the_log_was_trimmed_while_it_caught_up() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    feed = sleeper(rig, store).feed(LogNumber(1))
    trimmed_behind(rig, store, 2)
    with pytest.raises(SnapshotTooOldError):
        list(feed.poll())


def test_a_sleeper_that_was_cut_off_while_it_caught_up_does_not_write_into_a_trimmed_slot() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    slept = sleeper(rig, store)
    trimmed_behind(rig, store, 2)

    def cut_off(verb: str, key: str) -> None:
        if key == PATHS.entry(LogNumber(3)):
            store.before = None
            raise UnavailableError("probe 3")

    store.before = cut_off
    with pytest.raises(UnavailableError):
        slept.view()
    pending = rig.batch(save("y"))
    with pytest.raises(OutcomeUnknownError):
        slept.commit(pending)
    assert slept.commit(rig.batch(save("z"))).number == 7
    assert set(contents(rig.ledger().view())) == {"x", "z"}


def test_an_answer_that_came_late_says_nothing_about_the_slot_after_it() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    slow = rig.ledger(store)
    slow.commit(rig.batch(save("x", n=1)))

    def others_go_on(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.entry(LogNumber(2)):
            store.after = None
            worker = rig.ledger()
            for number in range(3, 7):
                worker.commit(rig.batch(save("x", n=number)))
            worker.forward()
            worker.trim(0)
            rig.clock.advance(HOUR - 1)
            raise OutcomeUnknownError("put", reason="the answer was lost")

    store.after = others_go_on
    assert slow.commit(rig.batch(save("x", n=2))).number == 2
    rig.clock.advance(1)
    assert rig.ledger().trim(0) == 6
    with pytest.raises(OutcomeUnknownError):
        slow.commit(rig.batch(save("y")))


def outcomes_of_a_group(rig: Rig, store: HookStore, *groups: tuple[Operation, ...]) -> list[str]:
    """What each batch of one group is told, as the name of a class."""
    worker = rig.ledger(store)
    worker.view()
    pending = [rig.batch(*operations) for operations in groups]
    found = worker._committer.commit(pending, rig.clock.monotonic() + 1)
    return [type(outcome).__name__ for outcome in found]


def test_nobody_is_refused_for_a_batch_that_did_not_land() -> None:
    rig = Rig()
    store = HookStore(rig.store)

    def refuse(verb: str, key: str) -> None:
        if verb == "put":
            raise UnavailableError("put", reason="503")

    store.before = refuse
    assert outcomes_of_a_group(rig, store, (insert("x"),), (insert("x"),)) == ["UnavailableError", "UnavailableError"]
    assert rig.slots() == []


def test_an_unknown_outcome_is_not_that_of_a_batch_that_was_not_sent() -> None:
    rig = Rig()
    store = HookStore(rig.store)

    def lose(verb: str, key: str) -> None:
        if verb == "put":
            raise OutcomeUnknownError("put", reason="lost")

    store.before = lose
    told = outcomes_of_a_group(rig, store, (insert("x"),), (insert("y"),), (insert("x"),))
    assert told == ["OutcomeUnknownError", "OutcomeUnknownError", "UnavailableError"]


def test_batches_of_a_group_that_exclude_each_other_are_judged_by_what_landed() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    rig.ledger().commit(rig.batch(save("gone")))
    told = outcomes_of_a_group(
        rig, store, (insert("x"),), (insert("x"),), (remove("gone"),), (remove("gone"),), (insert("y"),)
    )
    assert told == ["CommitResult", "AlreadyExistsError", "CommitResult", "CommitResult", "CommitResult"]
    assert rig.slots() == [1, 2]
    assert {name for name, (_, _, values) in contents(rig.ledger().view()).items() if values is not None} == {"x", "y"}


def test_an_index_that_is_dropped_while_it_is_created_is_a_conflict() -> None:
    clock, name = ManualClock(), "dropped-while-created"
    with wormdb.connect(f"memory://{name}", clock=clock) as one, wormdb.connect(f"memory://{name}", clock=clock) as two:
        one["things"].insert({"id": "x", "n": 1})
        ledger = one["things"]._ledger
        forward = ledger.forward

        def other_is_faster() -> LogNumber:
            number = forward()
            two["things"].drop_index("n")
            return number

        with mock.patch.object(ledger, "forward", other_is_faster), pytest.raises(ConflictError, match="dropped"):
            one["things"].create_index("n")
    drop_memory(name)


def test_a_transaction_changes_a_document_that_a_staged_batch_wrote_last() -> None:
    settings = wormdb.Settings(stage_bytes=600, forward="manual")
    with wormdb.connect("memory://staged-then-transacted", settings=settings) as db:
        things = db["things"]
        batch = things.batch()
        for name in ("a", "b"):
            batch.save(things.insert({"id": name, "n": 1}) | {"n": 2, "text": "x" * 400})
        batch.flush()
        with db.transaction() as tx:
            thing = tx["things"].find_by_id("a")
            assert thing is not None
            tx["things"].save(thing | {"n": 3})
            tx["others"].insert({"id": "a"})
        found = things.find_by_id("a")
        assert found is not None
        assert found["n"] == 3
    drop_memory("staged-then-transacted")
