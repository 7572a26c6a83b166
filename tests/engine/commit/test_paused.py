"""Somebody stops before one of his requests, others finish, and he goes on: nothing changes, and nothing is lost."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.engine.sweeps.commits import Scenario, World, collection_of, database_on, insert_model, put_model
from tests.engine.sweeps.projections import BUILDS, FORWARDS, STAGED
from tests.engine.sweeps.test_projections import PATHS, Inspector, make, model, run
from tests.engine.sweeps.test_sweep import Interrupted, Rival
from tests.simulation.nodes import tiny_objects
from wormdb.errors import AlreadyExistsError
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

REQUESTS_MAX = 300
STRIDE = int(os.environ.get("WORMDB_STRIDE", "3"))
"""Others come before one in this many requests, in each test before others; before all of them with 1."""


@pytest.fixture(autouse=True, scope="module")
def _tiny() -> Iterator[None]:
    ensure_conditions(World(), SeededChance(0))
    with tiny_objects(step_entries=4):
        yield


def what_counts(world: World) -> dict[str, bytes]:
    """The root and the log: everything else is named by them, or by nobody."""
    keys = [key for key in world._shelf.entries if key == PATHS.root or key.startswith(PATHS.entries)]
    return {key: world.get(key).body for key in keys}


def one_newer(things: Collection[Document]) -> None:
    """A newer root, with everything that the paused one has and more."""
    things.save({"id": "b", "n": 7})
    things.forward()


def many_newer(things: Collection[Document]) -> None:
    """So many newer roots that what the paused one reads was merged away since."""
    for turn in range(4):
        things.save({"id": "bd"[turn % 2], "n": turn})
        things.forward()


def paused_runs(scenario: Scenario, others: Callable[[Collection[Document]], object]) -> Iterator[tuple[World, str]]:
    """The bucket after each run that was paused before one of its requests; what counted when it went on is checked."""
    for number in range(1 + len(scenario.name + others.__name__) % STRIDE, REQUESTS_MAX, STRIDE):
        world = make(scenario)
        left: list[dict[str, bytes]] = []

        def act(world: World = world, left: list[dict[str, bytes]] = left) -> None:
            others(collection_of(database_on(world, seed=11, **scenario.settings), scenario.collection))
            left.append(what_counts(world))

        store = Interrupted(world, number, act)
        run(scenario, store)
        if not left:
            return
        assert what_counts(world) == left[0], f"paused before request {number}"
        yield world, f"paused before request {number}"
    raise AssertionError("it does not end")


@pytest.mark.parametrize("others", [one_newer, many_newer])
@pytest.mark.parametrize("scenario", [*FORWARDS, BUILDS[0]], ids=str)
def test_what_goes_on_after_something_newer_finished_changes_nothing(
    scenario: Scenario, others: Callable[[Collection[Document]], None]
) -> None:
    inspector = Inspector(scenario)
    runs = 0
    for world, label in paused_runs(scenario, others):
        assert inspector.finish(world)["b"][0] > model(scenario)[0]["b"][0], label
        runs += 1
    assert runs > 20 // STRIDE


def _takes_the_id(things: Collection[Document]) -> None:
    things.insert({"id": "y", "n": 5})
    things.forward()


def _takes_the_value(things: Collection[Document]) -> None:
    things.insert({"id": "w", "u": "y@"})


def _goes_on(things: Collection[Document]) -> None:
    many_newer(things)
    things.create_index("n", name="byN")


LOAD_RIVALS = (
    Rival("forwards", lambda c: c.forward(), lambda state: state),
    Rival("writes and forwards", one_newer, put_model("b", {"n": 7})),
    Rival("takes an id", _takes_the_id, insert_model(("y", {"n": 5}))),
    Rival("takes a value", _takes_the_value, insert_model(("w", {"u": "y@"}))),
)


@pytest.mark.parametrize("rival", LOAD_RIVALS, ids=str)
@pytest.mark.parametrize("scenario", STAGED, ids=str)
def test_a_load_that_was_paused_is_there_or_refused(scenario: Scenario, rival: Rival) -> None:
    """Whoever came second is told so: both are there, or the one who came first."""
    before, after = model(scenario)
    alone = rival.model(before)
    assert alone is not None
    excludes = rival.name.startswith("takes")
    inspector = Inspector(scenario)
    told = set()
    for number in range(1 + len(rival.name) % STRIDE, REQUESTS_MAX, STRIDE):
        world = make(scenario)
        outcomes: list[str] = []

        def act(world: World = world, outcomes: list[str] = outcomes) -> None:
            outcomes.append("rival refused")
            with suppress(AlreadyExistsError):
                rival.act(collection_of(database_on(world, seed=11, **scenario.settings), scenario.collection))
                outcomes[-1] = "rival done"

        store = Interrupted(world, number, act)
        try:
            run(scenario, store)
        except AlreadyExistsError:
            outcomes.append("load refused")
        if store.requests < number:
            break
        state = inspector.see(world)
        if not excludes:
            assert state in (rival.model(after), scenario.model(alone)), f"{rival} before request {number}"
        else:
            is_loaded = "load refused" not in outcomes
            assert is_loaded == ("rival refused" in outcomes), f"{rival} before request {number}: {outcomes}"
            assert state == (after if is_loaded else alone), f"{rival} before request {number}"
        assert inspector.finish(world) == state
        told.update(outcomes)
    assert ("load refused" in told) == excludes


def test_a_load_that_was_paused_while_the_definition_changed_is_checked_again() -> None:
    (scenario,) = STAGED
    inspector = Inspector(scenario)
    after = model(scenario)[1]
    for number in range(1, REQUESTS_MAX, STRIDE):
        world = make(scenario)

        def act(world: World = world) -> None:
            _goes_on(collection_of(database_on(world, seed=11, **scenario.settings), scenario.collection))

        store = Interrupted(world, number, act)
        run(scenario, store)
        if store.requests < number:
            return
        loaded = {name: inspector.see(world)[name] for name in "xyz"}
        assert loaded == {name: after[name] for name in "xyz"}, f"before request {number}"
    raise AssertionError("it does not end")
