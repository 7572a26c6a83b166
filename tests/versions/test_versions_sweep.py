"""A fault, or a rival, at every request of a change of version and of the work that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.sweeps.test_sweep import Interrupted
from tests.versions.rig import World, database_on, schema_of, shown
from wormdb.errors import WormError
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Store

Documents = dict[str, dict[str, Any]]

FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST)
MAPPING = {"$rename": {"a": "full"}, "$inc": {"n.x": 1}}
INDEXES = {"indexes": {"byX": {"field": "n.x"}}}
BEFORE: Documents = {f"t{number}": {"a": number, "n": {"x": number}} for number in range(4)}
AFTER: Documents = {f"t{number}": {"full": number, "n": {"x": number + 1}} for number in range(4)}


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    ensure_conditions(World(), SeededChance(0))


def filled() -> World:
    """Documents of version 1, in a block and in the tail."""
    world = World()
    database = database_on(world, schema_of(1, **INDEXES))
    database.apply_schema()
    things = database.model("Thing")
    for number in range(4):
        things.insert({"id": f"t{number}", "a": number, "n": {"x": number}})
        if number == 2:
            database.forward(["Thing"])
    return world


def mapped() -> World:
    """The same, after the version 2 was applied."""
    world = FILLED.copy()
    database_on(world, schema_of(2, **INDEXES)).apply_schema(mappings={"Thing": MAPPING})
    return world


def forwarded() -> World:
    """The same, in blocks that are to be written again."""
    world = MAPPED.copy()
    database_on(world, schema_of(2, **INDEXES)).model("Thing")._ledger._advance.run()
    return world


FILLED = filled()
MAPPED = mapped()
FORWARDED = forwarded()


def migrate(document: dict[str, Any]) -> dict[str, Any]:
    """By a function what the mapping does."""
    made = {name: value for name, value in document.items() if name != "a"}
    if "a" in document:
        made["full"] = document["a"]
    return {**made, "n": {"x": document.get("n", {}).get("x", 0) + 1}}


def apply_mapping(store: Store) -> object:
    """Apply the next version by a mapping."""
    return database_on(store, schema_of(2, **INDEXES), seed=2).apply_schema(mappings={"Thing": MAPPING})


def apply_function(store: Store) -> object:
    """Apply it by a function."""
    return database_on(store, schema_of(2, **INDEXES), seed=3).apply_schema(migrate={"Thing": migrate})


def go_on(store: Store) -> object:
    """Bring it forward, build indexes, and write blocks again."""
    return database_on(store, schema_of(2, **INDEXES), seed=4).forward(["Thing"])


@dataclass(frozen=True)
class Case:
    """What is swept."""

    name: str
    start: World
    act: Callable[[Store], object]

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("mapping", FILLED, apply_mapping),
    Case("function", FILLED, apply_function),
    Case("forward", MAPPED, go_on),
    Case("rewrite", FORWARDED, go_on),
]


def found(world: Store) -> tuple[int, Documents]:
    """The version, and what a new process with it finds."""
    (status,) = database_on(world, None, seed=98).status(["things"])
    database = database_on(world, schema_of(status.version, **INDEXES), seed=99)
    return status.version, {one["id"]: shown(one) for one in database.model("Thing").scan()}


def finish(world: Store, act: Callable[[Store], object], more: Documents) -> None:
    """Do it again if it was not done, and all that follows; then all must be right."""
    version, _ = found(world)
    if version == 1:
        if act is apply_mapping:
            apply_mapping(world)
        else:
            database = database_on(world, schema_of(2, **INDEXES), seed=77)
            database.apply_schema(migrate={"Thing": migrate})
    database = database_on(world, schema_of(2, **INDEXES), seed=97)
    for _ in range(3):
        database.forward(["Thing"])
    assert found(world) == (2, AFTER | more)
    (status,) = database.status(["Thing"])
    assert status.older_blocks == 0
    assert {index.state for index in status.indexes} == {"ready"}
    by_index = database.model("Thing").find({"n.x": {"$gte": 0}}, strategy="index_lookup")
    assert {one["id"] for one in by_index} == set(AFTER | more)


def swept(case: Case, faults: tuple[Fault, ...], *, stride: int) -> int:
    """Sweep; of so many runs one is brought to its end by another process."""

    def check(run: SweepCase[object]) -> None:
        version, documents = found(run.inner)
        assert documents == (BEFORE if version == 1 else AFTER), run.label
        if run.error is None:
            assert version == 2, run.label
        if run.number % stride == 0:
            finish(run.inner, case.act, {})

    return sweep(case.start.copy, case.act, check, faults=faults)


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_a_death_at_every_request(case: Case) -> None:
    assert swept(case, (Fault.CRASH_AFTER,), stride=6) > 5


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_at_every_request(case: Case) -> None:
    assert swept(case, (*FAULTS, Fault.LANDS_LATE), stride=1) > 20


@pytest.mark.parametrize(
    "case", [CASES[0], *(pytest.param(case, marks=pytest.mark.long) for case in CASES[1:])], ids=str
)
def test_a_rival_at_every_request(case: Case) -> None:
    """An older program inserts and changes documents at any moment."""
    for number in range(1, 300):
        world = case.start.copy()

        def rival(world: World = world) -> None:
            if case.act is apply_function and found(world)[0] == 2:
                return  # after a function the older program is refused
            things = database_on(world, schema_of(1, **INDEXES), seed=11).model("Thing")
            things.insert({"id": "r", "a": "rival", "n": {"x": 7}})
            things.update_one({"id": "t1"}, {"$set": {"s": 1}})

        store = Interrupted(world, number, rival)
        try:
            case.act(store)
        except WormError as error:
            raise AssertionError(f"a rival before request {number}") from error
        if store.requests < number:
            return
        more = {"r": {"full": "rival", "n": {"x": 8}}, "t1": {**AFTER["t1"], "s": 1}}
        if "r" not in found(world)[1]:
            more = {}
        assert found(world) == (2, AFTER | more), number
        finish(world, case.act, more)
    raise AssertionError("it does not end")
