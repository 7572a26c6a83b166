"""Each of these was first a seed of the simulation that failed; here it is as few steps."""

from __future__ import annotations

import pytest

from tests.engine.rig import PATHS, HookStore, Rig, doc, ident, save
from wormdb.engine.definition import UniqueIndex
from wormdb.engine.unique import UniqueKeys, keys_of
from wormdb.errors import AlreadyExistsError, UnavailableError
from wormdb.format.entry import Batch, Change, Entry
from wormdb.limits import LOG_RETENTION_MS_MIN
from wormdb.types import WriteId

HOUR = LOG_RETENTION_MS_MIN / 1000


def entry(number: int, *changes: tuple[str, str | None, str | None]) -> Entry:
    name = WriteId("0" * 32)
    made = tuple(
        Change(
            id=ident(identity),
            seq=1,
            before=None if before is None else doc(identity, email=before),
            after=None if after is None else doc(identity, email=after),
        )
        for identity, before, after in changes
    )
    batch = Batch(id=name, changes=made)
    return Entry(number=number, write_id=name, misc=0, node=0, previous=bytes(32), batches=(batch,))


def test_a_value_held_in_passing_is_not_taken_from_its_owner() -> None:
    index = UniqueIndex("email", ("email",), (("email",),), sparse=True)
    keys = UniqueKeys(index)
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
        worker.checkpoint()
    store.after = None
    assert worker.checkpoint() == 1


def test_two_trimmers_at_once_find_no_damage() -> None:
    rig = Rig()
    worker = rig.ledger()
    for part in range(2):
        for number in range(3):
            worker.commit(rig.batch(save("x", n=3 * part + number)))
        worker.checkpoint()
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
