"""Lists of vectors that are outgrown: found, made anew by steps beside those that answer, and nothing of it stays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import numpy as np
import pytest

from tests.engine.lists.vectors import as_rows, calibration_of, head_of, index_of, make_clusters, root_of
from tests.engine.sweeps.commits import World
from tests.jobs.node.rig import Rig, live
from tests.maintenance.damage import damage
from tests.maintenance.test_lists import PATHS, database_on, root_on, site_on
from tests.simulation.projections import check_succession
from wormdb.engine.forward import build
from wormdb.engine.lists import definition
from wormdb.engine.lists.definition import is_stale, list_index, why_join, why_renew
from wormdb.engine.lists.probes import share_needed
from wormdb.engine.lists.vector_kind import VectorKind
from wormdb.engine.state.successor import following_root
from wormdb.engine.tree.definition import encode_index
from wormdb.errors import ConflictError, CorruptionError
from wormdb.format.list_run import Calibration, ListHead, ListRun, TrainedRef
from wormdb.format.root import IndexRoot
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.forward.renew import ListRenewal
    from wormdb.engine.tree.definition import Index

DIMENSIONS = 8
OLD = make_clusters(600, DIMENSIONS, seed=1, clusters=5)
NEW = make_clusters(700, DIMENSIONS, seed=2, away=2.0)
"""Of another region."""
ASKED = make_clusters(730, DIMENSIONS, seed=2, away=2.0)[-30:]
STEP = 300


@pytest.fixture(autouse=True)
def _small_steps() -> Iterator[None]:
    """Lists are made in a few steps."""
    with mock.patch.object(build, "Builder", partial(build.Builder, chunk_entries=STEP)):
        yield


def filled(world: World) -> Collection[Document]:
    """A measured index."""
    things = database_on(world)["things"]
    things.insert_many(as_rows(OLD))
    things.create_vector_index("v", dimensions=DIMENSIONS)
    return things


def moved(things: Collection[Document]) -> dict[int, Any]:
    """The documents move to another region; what there is then."""
    things.insert_many(as_rows(NEW, start=1_000))
    things.delete_many({"_id": {"$gte": 300, "$lt": 600}})
    things.forward()
    return dict(enumerate(OLD[:300])) | dict(enumerate(NEW, 1_000))


def recall(things: Collection[Document], state: dict[int, Any]) -> float:
    """The share of the true ten nearest that is found."""
    ids, rows = list(state), np.array(list(state.values()))
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = 0
    for own in ASKED:
        best = {ids[place] for place in np.argsort(-(rows @ own))[:10]}
        found += len(best & {row["id"] for row in things.find(near={"v": {"vector": own}}, select=["_id"])})
    return found / (10 * len(ASKED))


def objects(world: World) -> set[str]:
    return {info.key for page in world.list(PATHS.indexes) for info in page.objects}


def named(world: World) -> set[str]:
    return {f"{PATHS.index(index.name)}{name}" for index in root_on(world).indexes for name in index.list_names}


def half_renewed(world: World) -> Collection[Document]:
    """An index whose lists are made anew, and have some documents."""
    things = filled(world)
    moved(things)
    things.analyze_index("v")

    def begin(lists: ListRenewal) -> None:
        assert lists._begin("v") is None
        assert lists._step("v") is None

    things._ledger.tend_lists(begin)
    assert things.describe_index("v").is_renewed
    return things


# --- the data moves ---


def test_data_that_moves_is_found_by_more_lists_until_they_are_made_anew() -> None:
    world = World()
    things = filled(world)
    first = things.describe_index("v")
    assert first.recall is not None
    assert (first.is_outgrown, things.index_tasks()) == (False, [])
    state = moved(things)
    # Much has changed since it was measured: as many lists are read as by the rule.
    assert recall(things, state) >= 0.95
    measured, needed = things.analyze_index("v"), share_needed(calibration_of(things))
    assert needed > 1.5 * calibration_of(things).first / 10_000
    assert measured.outgrown_reason is not None
    assert measured.outgrown_reason.endswith(f"and were {calibration_of(things).first / 10_000:.1%} when it was made")
    assert [(task.name, task.state, task.task) for task in things.index_tasks()] == [("v", "ready", "renew")]
    before = root_on(world)
    assert things.build_index("v").task is None
    renewed = things.describe_index("v")
    assert (renewed.is_outgrown, renewed.is_renewed, renewed.entries, renewed.runs) == (False, False, 1_000, 1)
    assert share_needed(calibration_of(things)) < needed
    assert recall(things, state) >= 0.95
    assert verify(site_on(world), unreferenced=True).findings == ()
    check_succession(world, PATHS, before, root_on(world))
    assert things.build_index("v").task is None
    assert root_on(world) == root_of(database_on(world)["things"])


def test_a_node_measures_lists_and_makes_them_anew() -> None:
    rig = Rig()
    things = rig.database()["things"]
    things.insert_many(as_rows(OLD))
    things.create_vector_index("v", dimensions=DIMENSIONS)
    node = rig.started()
    live(rig, 7_200, node)
    before = calibration_of(things)
    things.insert_many(as_rows(NEW, start=1_000))
    things.delete_many({"_id": {"$lt": 300}})
    live(rig, 2 * 7_200, node)
    things.refresh()
    found = calibration_of(things)
    assert found.learned > before.learned == before.changes
    assert (found.learned_from, index_of(things).successor) == (1_000, None)
    assert things.index_tasks() == []
    there = {info.key for page in rig.store.list(PATHS.indexes) for info in page.objects}
    assert there == {f"{PATHS.index('v')}{name}" for name in index_of(things).list_names}
    revision = root_of(things).revision
    live(rig, 3 * 7_200, node)
    things.refresh()
    assert root_of(things).revision == revision


def test_a_collection_that_was_small_learns_when_it_has_grown() -> None:
    things = database_on(World())["things"]
    things.create_vector_index("v", dimensions=DIMENSIONS)
    things.insert_many(as_rows(OLD[:500]))
    things.forward()
    assert not things.describe_index("v").is_outgrown
    things.insert_many(as_rows(OLD[500:], start=500))
    things.forward()
    assert things.describe_index("v").outgrown_reason == "it has 600 entries, and learned from 0"
    things.build_index("v")
    assert (calibration_of(things).learned_from, things.describe_index("v").lists) == (600, 5)


def test_lists_that_nothing_can_be_learned_for_are_not_made_anew_without_end() -> None:
    things = database_on(World())["things"]
    things.create_vector_index("v", dimensions=2, distance="dot_product")
    things.insert_many([{"id": number, "v": [0, 0]} for number in range(600)])
    things.forward()
    things.build_index("v")
    assert head_of(things).trained is None
    assert not things.describe_index("v").is_outgrown


# --- steps ---


def test_another_process_goes_on_where_one_stopped_and_the_old_lists_answer_meanwhile() -> None:
    world = World()
    things = half_renewed(world)
    begun = index_of(things).successor
    assert begun is not None
    things.save({"id": 100, "v": NEW[0].tolist()})
    things.delete(101)
    things.save({"id": 5_000, "v": NEW[1].tolist()})
    things.forward()
    other = database_on(world)["things"]
    assert other.index_tasks()[0].task == "renew"
    assert verify(site_on(world), unreferenced=True).findings == ()
    (nearest,) = other.find(near={"v": {"vector": NEW[1], "k": 2}}, select=["_id"], limit=1)
    assert nearest["id"] in {5_000, 1_001}
    other.build_index("v")
    made = head_of(other).trained
    assert made is not None
    assert made == begun.head.trained  # nothing was learned again
    assert verify(site_on(world), unreferenced=True).findings == ()
    assert other.describe_index("v").entries == 1_000


def test_two_processes_that_take_turns_make_one() -> None:
    world = World()
    one = half_renewed(world)
    other = database_on(world)["things"]
    done: list[bool | None] = []
    for turn in range(12):
        process = (one, other)[turn % 2]
        process._ledger.tend_lists(lambda lists: done.append(lists._step("v")))
    # 1,300 rows in steps of 300, of which the first is done; then the last one. What comes later finds it done.
    assert done == [*(None,) * 4, *(True,) * 8]
    assert calibration_of(one) == calibration_of(other)
    assert verify(site_on(world), unreferenced=True).findings == ()


def test_a_process_that_loses_every_race_leaves_only_garbage() -> None:
    """Two begin at once: one of the two swaps is lost, and both go on with what the other began."""
    world = World()
    things = filled(world)
    moved(things)
    other = database_on(world)["things"]

    def rival(lists: ListRenewal) -> None:
        swap = lists._swap

        def late(*args: Any) -> None:
            with mock.patch.object(type(lists), "_swap", original):
                other._ledger.tend_lists(lambda theirs: theirs._begin("v"))
            swap(*args)

        original = type(lists)._swap
        with mock.patch.object(type(lists), "_swap", lambda _, *args: late(*args)), pytest.raises(ConflictError):
            lists._begin("v")
        assert lists.renew("v")

    things._ledger.tend_lists(rival)
    assert things.describe_index("v").entries == 1_000
    assert len(objects(world) - named(world)) > 0
    collect(world)
    assert objects(world) == named(world)


def collect(world: World) -> None:
    for _ in range(3):
        database_on(world)["things"].gc()
        world.manual.advance(2 * 86_400)


def test_the_old_generation_is_collected_and_readers_of_it_go_on_until_then() -> None:
    world = World()
    things = filled(world)
    before = objects(world)
    old = database_on(world)["things"]
    expected = [row["id"] for row in old.find(near={"v": {"vector": OLD[0]}})]
    things._ledger.tend_lists(lambda lists: lists.renew("v"))
    assert before <= objects(world)
    assert [row["id"] for row in old.find(near={"v": {"vector": OLD[0]}})] == expected
    collect(world)
    assert not before & objects(world)
    assert objects(world) == named(world)


@pytest.mark.parametrize("how", ["drop", "forget"])
def test_what_was_begun_goes_with_the_index_or_with_a_release_that_does_not_know_it(how: str) -> None:
    world = World()
    things = half_renewed(world)
    if how == "drop":
        things.drop_index("v")
        things.forward()
    else:
        register = things._ledger._register
        state, index = register.read(), index_of(things)
        assert state.root is not None
        older = msgspec.structs.replace(state.root, indexes=(msgspec.structs.replace(index, successor=None),))
        writer = things._ledger.writer
        register.swap(state, following_root(state, older, (), writer, register.paths))
    collect(world)
    assert objects(world) == named(world)
    assert verify(site_on(world), unreferenced=True).findings == ()
    if how == "forget":
        fresh = database_on(world)["things"]
        fresh.build_index("v")
        assert (fresh.describe_index("v").is_outgrown, fresh.index_tasks()) == (False, [])


@pytest.mark.parametrize("how", ["flip", "delete"])
def test_damage_of_what_was_begun_is_found_and_mended(how: str) -> None:
    world = World()
    things = half_renewed(world)
    begun = index_of(things).successor
    assert begun is not None
    for victim in begun.head.names:
        hurt = world.copy()
        assert damage(hurt, f"{PATHS.index('v')}{victim}", how)
        assert {finding.kind for finding in verify(site_on(hurt)).findings} == {"index"}
        mended = hurt.copy()
        repair(site_on(mended))
        assert verify(site_on(mended)).findings == ()
        # Without a repair it ends with an error, and then begins anew.
        again = database_on(hurt)["things"]
        with pytest.raises(CorruptionError, match="index v cannot be made anew"):
            again.build_index("v")
        again = database_on(hurt)["things"]
        again.build_index("v")
        assert verify(site_on(hurt)).findings == ()


def test_nothing_of_an_erased_document_stays_in_what_was_begun() -> None:
    world = World()
    things = half_renewed(world)
    begun = index_of(things).successor
    assert begun is not None
    assert begun.head.entries == 300
    things.erase(30)
    found = index_of(things).successor
    assert found is not None
    assert [(run.entries, run.gone) for run in found.head.runs] == [(299, 0)]


# --- when ---


def measured(**facts: Any) -> Calibration:
    points = ((1, 5_000, 500), (4, 9_000, 1_000), (8, 10_000, 2_000), (10, 10_000, 10_000))
    told = {"entries": 1_000, "lists": 10, "longest": 150, "points": points, "first": 1_500, "learned_from": 1_000}
    return Calibration(**{**told, **facts})


@pytest.mark.parametrize(
    ("found", "changes", "why"),
    [
        (measured(), 5_000, None),
        (measured(learned_from=500), 5_000, "it has 1,000 entries, and learned from 500"),
        (measured(learned_from=501), 5_000, None),
        (measured(longest=801), 5_000, "one of its 10 lists has 801 of 1,000 entries"),
        (measured(longest=800), 5_000, None),
        (
            measured(first=1_000),
            5_000,
            "17.5% of its entries are needed for the usual recall, and were 10.0% when it was made",
        ),
        (measured(first=1_170), 5_000, None),
        # Lists that were made a moment ago are as good as they can be.
        (measured(longest=1_000, first=1, learned_from=1, learned=4_751), 5_000, None),
        (measured(longest=1_000, learned=4_750), 5_000, "one of its 10 lists has 1,000 of 1,000 entries"),
    ],
)
def test_lists_are_made_anew_when_they_grew_or_are_uneven(found: Calibration, changes: int, why: str | None) -> None:
    stored, index = stored_with(found)
    assert why_renew(stored, index, changes) == why
    building = msgspec.structs.replace(stored, state="building")
    assert why_renew(building, index, changes) is None


def stored_with(found: Calibration | None, gone: int = 0) -> tuple[IndexRoot, Index]:
    index = list_index("v", VectorKind("v", 8))
    trained = TrainedRef(name="x.trained", sha256=bytes(32), length=9, documents=1_000)
    newest = ListRun(number=2, parts=(), entries=gone, gone=gone)
    runs = (newest, ListRun(number=1, parts=(), entries=1_000))
    head = ListHead(runs=runs, trained=trained, calibration=found)
    return IndexRoot(name="v", definition=encode_index(index), state="ready", lists=head), index


def test_lists_are_measured_again_when_a_tenth_changed() -> None:
    stored, _ = stored_with(measured(changes=1_000))
    assert not is_stale(stored, 1_099)
    assert is_stale(stored, 1_100)
    unmeasured, _ = stored_with(None)
    assert is_stale(unmeasured, 0)


def test_runs_are_joined_when_three_tenths_count_no_longer() -> None:
    assert why_join(stored_with(None, gone=428)[0]) is None
    assert why_join(stored_with(None, gone=429)[0]) == "429 of its 1,429 entries count no longer"
    world = World()
    things = filled(world)
    for start in (0, 300):
        with things.batch() as batch:
            for row in as_rows(OLD[start : start + 130], start=start + 5):
                batch.save(row)
        things.forward()
    before = head_of(things)
    assert len(before.runs) > 1
    with mock.patch.object(definition, "TAKEN_BACK", 0.2), mock.patch.object(definition, "CHANGED", 9.0):
        things._ledger.tend_lists(lambda lists: lists.tend())
    after = head_of(things)
    assert (len(after.runs), after.entries, after.trained) == (1, 600, before.trained)
    assert verify(site_on(world), unreferenced=True).findings == ()
