"""Repair of list indexes with every fault at every request, and with a rival at every request.

Whatever happens to a repair, no document is lost and no answer is wrong. Another repair ends well: nothing is left of
the damage, and lists answer as pure functions do of all documents; what was half done before the damage goes on.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.forward.compact_rig import rebuild_trees
from tests.engine.sweeps.commits import World, digest_of
from tests.maintenance.damage import damage
from tests.maintenance.list_wreck import (
    PATHS,
    STAGES,
    check_answers,
    documents_in,
    indexes_in,
    made_world,
    opened,
    roles_in,
    site_of,
    small_objects,
    thing,
)
from tests.maintenance.rival_store import Before
from wormdb.engine.forward.compact import Aim
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.verify import verify
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.maintenance.audit.report import Repair

STRIDE = int(os.environ.get("WORMDB_STRIDE", "5"))
"""One in so many objects is damaged; a rival comes before one in so many requests times 5, or before each with 1."""
WRITES = frozenset({"put", "delete", "delete_many"})
FAULTS = (Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503, Fault.CONFLICT_409)
HOW = ("delete", "flip", "truncate", "swap")
DAY = 86_400.0

by_stage = pytest.mark.parametrize("stage", STAGES)


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with small_objects():
        yield


def wrecked(stage: str, turn: int) -> Iterator[tuple[str, World]]:
    """Buckets with an object damaged: one in so many roles, in each turn others and in other ways."""
    whole = made_world(stage)
    for place, (role, key) in enumerate(sorted(roles_in(whole).items()), turn):
        if place % min(STRIDE, len(roles_in(whole))):
            continue
        how, at = HOW[place // STRIDE % len(HOW)], (0.5, 0.9)[turn % 2]  # the directory is behind the pages
        world = whole.copy()
        yield f"{how} {role}", world if damage(world, key, how, at=at) else _without(world, key)


def _without(world: World, key: str) -> World:
    world.delete(key)
    return world


class Ending:
    """Lets another process end what a repair began, and looks at that: once for each root and log."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def __call__(self, world: World, documents: dict[Any, Any]) -> None:
        digest = digest_of(world, PATHS.root, PATHS.entries)
        if digest in self._seen:
            return
        self._seen.add(digest)
        world = world.copy()
        assert documents_in(world) == documents
        check_answers(opened(world, 60), documents, by_lists=False)
        reader = opened(world, 61)
        documents_in(world)
        done = repair(site_of(world, 62))
        assert (done.left, done.lost) == ((), ())
        assert verify(site_of(world, 63)).findings == ()
        check_answers(reader, documents, by_lists=True)
        self._go_on(world, documents)

    def _go_on(self, world: World, documents: dict[Any, Any]) -> None:
        """What was being built or made anew ends."""
        things = opened(world, 64)["things"]
        things.forward()
        assert {each.state for each in things.indexes()} == {"ready"}
        for each in [each.name for each in things.indexes() if each.name != "_id"]:
            things._ledger.tend_lists(lambda lists, name=each: lists.renew(name))
        assert all(index.successor is None for index in indexes_in(world))
        assert verify(site_of(world, 65)).findings == ()
        check_answers(opened(world, 66), documents, by_lists=True)


# --- faults ---


def requests_of(world: World) -> list[str]:
    store = FaultStore(world.copy())
    assert repair(site_of(store)).left == ()
    return [trace.verb for trace in store.trace]


def faulted(world: World, number: int, fault: Fault) -> Iterator[World]:
    """The bucket after a repair with one fault; once more after what was late has landed."""
    world = world.copy()
    store = FaultStore(world, {number: fault})
    with suppress(SimulatedCrash, UnavailableError, OutcomeUnknownError):
        assert repair(site_of(store)).left == ()
    yield world
    if store.land():
        yield world


@by_stage
def test_every_fault_at_every_write(stage: str) -> None:
    for turn in range(len(HOW)) if STRIDE == 1 else (0, 1):
        for role, world in wrecked(stage, turn):
            documents, ending = documents_in(world), Ending()
            ending(world, documents)
            verbs = requests_of(world)
            assert WRITES.intersection(verbs), role
            for number, verb in enumerate(verbs, 1):
                for fault in FAULTS if verb in WRITES else ():
                    for left in faulted(world, number, fault):
                        ending(left, documents)


@by_stage
def test_a_store_that_stays_away_from_any_request_on(stage: str) -> None:
    """A repair that cannot read says so, and has changed nothing that counts or all of it."""
    for place, (role, world) in enumerate(wrecked(stage, 1)):
        documents, ending = documents_in(world), Ending()
        requests = len(requests_of(world))
        # Roles meet the fault at other requests.
        for number in range(1 + place % (5 * STRIDE), requests + 1, 5 * STRIDE):
            hurt = world.copy()
            plan = dict.fromkeys(range(number, number + 1_000), Fault.UNAVAILABLE_503)
            with pytest.raises((UnavailableError, OutcomeUnknownError)):
                repair(site_of(FaultStore(hurt, plan)))
            ending(hurt, documents)
        assert requests > 20, role


# --- rivals ---


def saves(world: World) -> None:
    with opened(world, 20)["things"].batch() as batch:
        batch.save(thing(3, 5))
        batch.save(thing(30, 5))
        batch.delete("d05")


def forwards(world: World) -> None:
    saves(world)
    opened(world, 21)["things"].forward()


def repairs(world: World) -> None:
    repair(site_of(world, 22))


def repairs_and_forwards(world: World) -> None:
    repairs(world)
    forwards(world)


def drops(world: World) -> None:
    things = opened(world, 23)["things"]
    for name in ("v", "text"):
        things.drop_index(name)
    things.forward()


def renews(world: World) -> None:
    for index in indexes_in(world):
        opened(world, 24)["things"]._ledger.tend_lists(lambda lists, name=index.name: lists.renew(name))


def rebuilds(world: World) -> None:
    rebuild_trees(opened(world, 25)["things"]._ledger, Aim(400, everything=True))


def collects(world: World) -> None:
    """Two days later: what the repair wrote has no name, and is old."""
    world.manual.advance(2 * DAY)
    opened(world, 26)["things"].gc()


RIVALS: tuple[Callable[[World], None], ...] = (
    saves,
    forwards,
    repairs,
    repairs_and_forwards,
    drops,
    renews,
    rebuilds,
    collects,
)


def beside(world: World, rival: Callable[[World], None], number: int) -> tuple[World, Before, Repair]:
    """A repair before whose request of a number a rival acts, as far as the damage lets it."""
    world = world.copy()

    def act() -> None:
        with suppress(WormError):
            rival(world)

    store = Before(world, number, act)
    return world, store, repair(site_of(store))


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__)
@by_stage
def test_a_rival_before_every_request(stage: str, rival: Callable[[World], None]) -> None:
    every = 1 if STRIDE == 1 else 5 * STRIDE
    for place, (role, world) in enumerate(wrecked(stage, RIVALS.index(rival))):
        before = documents_in(world)
        alone = world.copy()
        with suppress(WormError):
            rival(alone)
        after = documents_in(alone)
        ending = Ending()
        for number in range(1 + place % every, 2_000, every):
            hurt, store, done = beside(world, rival, number)
            assert done.lost == ()
            if not store.has_acted:
                assert done.left == ()
                assert documents_in(hurt) == before, role
                break
            assert documents_in(hurt) == after, f"{role}: {rival.__name__} before request {number}"
            ending(hurt, after)
        else:
            raise AssertionError("it does not end")
