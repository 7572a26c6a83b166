"""Empty collections, made with their indexes by one entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.api.create import create_collection, create_indexes
from wormdb.api.indexes import read_index
from wormdb.errors import AlreadyExistsError, InvalidRequestError, UniqueViolationError
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import SystemClock
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from wormdb.engine.tree.definition import Index
    from wormdb.storage.store import Store


FAULTS = [fault for fault in Fault if fault is not Fault.RACE_412]  # a rival that no reader can read


def index(field: str, *, unique: bool = False) -> Index:
    return read_index(field, None, unique=unique, sparse=False, bson_type=None)


def test_it_is_there_empty_and_its_indexes_are_ready(url: str) -> None:
    with wormdb.connect(url) as database:
        things = database["things"]
        assert things.refresh() == 0
        assert create_collection(things, [index("a"), index("b", unique=True)]) == 1
        assert things.refresh() == 1
        assert things.count() == 0
        assert {each.name: each.state for each in things.indexes()} == {"_id": "ready", "a": "ready", "b": "ready"}
        assert "things/" in database.collections()
        things.insert({"b": 1})
        with pytest.raises(UniqueViolationError):
            things.insert({"b": 1})
        things.forward()
        assert things.find_all({"b": 1})[0]["b"] == 1
        assert [each.findings for each in database.verify(["things"])] == [()]


def test_one_entry_and_two_requests() -> None:
    with wormdb.connect("memory://") as database:
        database["other"].insert({"id": "x"})  # the store is tried before the first write
        before = database.cost()
        create_collection(database["things"], [index("a")])
        taken = database.cost()
        assert (taken.puts - before.puts, taken.gets - before.gets) == (1, 2)


def test_what_is_there_is_refused_and_stays(url: str) -> None:
    with wormdb.connect(url) as database, wormdb.connect(url) as other:
        create_collection(database["things"])
        with pytest.raises(AlreadyExistsError):
            create_collection(other["things"], [index("a")])
        assert [each.name for each in other["things"].indexes()] == ["_id"]
        database["filled"].insert({"id": "a"})
        with pytest.raises(AlreadyExistsError):
            create_collection(other["filled"])


def test_an_index_that_cannot_be_leaves_nothing(url: str) -> None:
    with wormdb.connect(url) as database:
        with pytest.raises(InvalidRequestError):
            create_collection(database["things"], [index("a"), index("a")])
        assert database["things"].refresh() == 0
        create_collection(database["things"])
        with pytest.raises(InvalidRequestError):
            create_indexes(database["things"], [index("a"), index("a")])
        assert [each.name for each in database["things"].indexes()] == ["_id"]
        create_indexes(database["things"], [index("a"), index("b")])
        assert {each.name for each in database["things"].indexes()} == {"_id", "a", "b"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_request(fault: Fault) -> None:
    def create(store: Store) -> int:
        with wormdb.connect(store) as database:
            return create_collection(database["things"], [index("a")])

    def check(case: SweepCase[int]) -> None:
        with wormdb.connect(f"memory://{case.inner.name.partition('//')[2]}") as database:
            things = database["things"]
            number = things.refresh()
            assert number == 1 if case.error is None else number in (0, 1), case.label
            if number:  # all of it is there, or nothing
                assert [each.name for each in things.indexes()] == ["_id", "a"], case.label

    made: list[str] = []

    def make() -> Store:
        made.append(f"create-{fault.name}-{len(made)}")
        return MemoryStore(made[-1], clock=SystemClock())

    assert sweep(make, create, check, faults=[fault]) > 3
