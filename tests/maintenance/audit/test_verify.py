"""verify: nothing in a sound collection, and every planted damage."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.sweeps.commits import World
from tests.maintenance.damage import BYTES, damage
from tests.maintenance.lies import LIES
from tests.maintenance.wreck import (
    PATHS,
    answers,
    collection_on,
    kind_of,
    make_small,
    named,
    objects_by_kind,
    root_of,
    site_on,
    thing,
    whole_world,
)
from tests.simulation.remembered import remembered_blocks
from wormdb.engine.forward.build import _Build
from wormdb.errors import WormError
from wormdb.maintenance.audit.chain import check_chain
from wormdb.maintenance.audit.lists import CheckedList, Where
from wormdb.maintenance.audit.report import AuditReport
from wormdb.maintenance.audit.verify import verify
from wormdb.storage.store import Always
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document


@pytest.fixture(autouse=True, scope="module")
def _remembered() -> Iterator[None]:
    with remembered_blocks():
        yield


KINDS = sorted(objects_by_kind(whole_world()))


@pytest.mark.parametrize("trimmed", [False, True])
def test_nothing_in_a_sound_collection(trimmed: bool) -> None:
    world = whole_world(trimmed=trimmed)
    found = verify(site_on(world), unreferenced=True)
    root = root_of(world)
    assert found.findings == ()
    assert found.checked.entries == root.applied - root.trimmed + 2
    assert found.checked.documents == collection_on(world).count()
    assert found.checked.versions > found.checked.documents


changes = st.tuples(st.sampled_from("abcdef"), st.sampled_from(["save", "delete", "forward"]))


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(changes, max_size=12))
def test_documents_are_counted_as_they_are(steps: list[tuple[str, str]]) -> None:
    """In blocks and in the log; none that was deleted."""
    world = World()
    things = collection_on(world)
    for name, what in steps:
        if what == "save":
            things.save({"id": name, "n": 1})
        elif what == "delete":
            things.delete_many({"id": name})
        else:
            things.forward()
        found = verify(site_on(world))
        assert (found.findings, found.checked.documents) == ((), things.count())


def test_an_empty_place_is_sound() -> None:
    assert verify(site_on(World()), unreferenced=True).findings == ()


def test_a_collection_that_was_never_brought_forward_is_sound() -> None:
    world = World()
    collection_on(world).insert(thing(1))
    assert verify(site_on(world)).findings == ()


def test_one_request_an_object_and_none_that_writes() -> None:
    world = whole_world()
    store = FaultStore(world)
    verify(site_on(world, store))
    root = root_of(world)
    keys = [request.key for request in store.trace]
    assert {request.verb for request in store.trace} <= {"get", "get_range", "probe"}
    # Blocks of jobs that were not merged are documents and history; nothing else is read twice.
    wheres: tuple[Where, ...] = ("attached", "blocks")
    lists = [CheckedList(site_on(world), where, root, AuditReport()) for where in wheres]
    attached, documents = [{key for run in one.runs for e in one.entries(run) for key in one.keys(e)} for one in lists]
    assert Counter(keys) - Counter(set(keys)) == Counter(attached & documents)
    assert set(named(world)) <= set(keys)
    assert len(set(keys)) == len(named(world)) + 3


def test_indexes_on_their_way_are_sound() -> None:
    world = whole_world()
    things = collection_on(world, seed=21)
    things.create_index("pad", name="byPad", wait=False)
    ledger = things._ledger
    ledger._advance.run()
    assert root_of(world).index("byPad").state == "waiting"  # type: ignore[union-attr]  # it is there
    assert verify(site_on(world)).findings == ()
    builder = replace(ledger._builder(), chunk_entries=10)
    build = _Build(builder, "byPad")
    build._begin(ledger.view().definition.indexes.known["byPad"])
    build._advance(ledger.view().definition.indexes.known["byPad"])
    found = root_of(world).index("byPad")
    assert found is not None
    assert (found.state, found.cursor is None, found.entries > 0) == ("building", False, True)
    assert verify(site_on(world)).findings == ()


@pytest.mark.parametrize("how", BYTES)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bytes_are_found_and_named(kind: str, how: str) -> None:
    world = whole_world()
    key = objects_by_kind(world)[kind]
    if not damage(world, key, how):
        pytest.skip("there is only one of this kind")
    found = verify(site_on(world))
    if key == PATHS.root and how == "delete":
        # The log is whole: without a root the answers are the same.
        assert answers(world).documents == answers(whole_world()).documents
        return
    assert key in {finding.key for finding in found.findings}
    assert not found.is_sound
    assert all(finding.what and finding.fix for finding in found.findings)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("trimmed", [False, True])
def test_lies_that_checksums_agree_with_are_found(lie: str, trimmed: bool) -> None:
    world = whole_world(trimmed=trimmed)
    plant, kind, _ = LIES[lie]
    before = world.get(PATHS.root).version
    plant(world)
    found = verify(site_on(world))
    if lie == "a_missing_mark" and trimmed:
        # What marks a snapshot is nowhere else: only the log could tell.
        assert found.is_sound
        return
    if lie == "a_changed_version" and trimmed:
        assert found.is_sound  # an old version that nothing else has
        return
    assert kind in {finding.kind for finding in found.findings}, (before, found.findings)


def test_damage_does_not_hide_other_damage() -> None:
    world = whole_world()
    by_kind = objects_by_kind(world)
    chosen = [by_kind[kind] for kind in ("documents block", "history sidecar", "byTag top", "applied entry")]
    for key in chosen:
        damage(world, key, "flip")
    assert set(chosen) <= {finding.key for finding in verify(site_on(world)).findings}


def test_every_entry_of_the_log_but_the_last() -> None:
    whole = whole_world()
    root = root_of(whole)
    log = sorted(key for key in named(whole) if key.startswith(PATHS.entries))
    for place, key in enumerate(log[:-1]):
        for how in ("flip", "delete", "swap"):
            world = whole.copy()
            damage(world, key, how)
            report = AuditReport()
            chain = check_chain(site_on(world), root, report)
            assert key in {finding.key for finding in report.findings}, (key, how)
            assert chain.broken
            assert place + 1 in chain.broken
    world = whole.copy()
    world.delete(log[-1])
    report = AuditReport()
    assert not check_chain(site_on(world), root, report).broken


def test_a_root_that_is_missing_with_the_beginning_of_the_log() -> None:
    world = whole_world(trimmed=True)
    world.delete(PATHS.root)
    (finding,) = verify(site_on(world)).findings
    assert (finding.kind, finding.key) == ("root", PATHS.root)


def test_objects_that_nobody_names_are_listed_on_request_and_do_no_harm() -> None:
    world = whole_world()
    world.put(f"{PATHS.data}stray.parquet", b"stray", Always())
    assert verify(site_on(world)).findings == ()
    found = verify(site_on(world), unreferenced=True)
    assert [finding.key for finding in found.findings] == [f"{PATHS.data}stray.parquet"]
    assert found.is_sound


def do(things: Collection[Document], verb: str, number: int) -> None:
    if verb == "save":
        things.save(thing(number, city=f"c{number}"))
    elif verb == "delete" and things.exists(f"t{number:03d}"):
        things.delete(f"t{number:03d}")
    elif verb == "load":
        with things.batch() as batch:
            for each in range(number, number + 4):
                batch.save(thing(each, pad="z" * 2_000))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_damage_is_found_or_changes_no_answer(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        world = World()
        things = collection_on(world)
        verbs = st.tuples(st.sampled_from(["save", "save", "delete", "load"]), st.integers(0, 9))
        for some in data.draw(st.lists(st.lists(verbs, min_size=1, max_size=5), min_size=1, max_size=3)):
            for verb, number in some:
                do(things, verb, number)
            things.forward()
        if data.draw(st.booleans()):
            things.save(thing(20))
        before = answers(world)
        assert verify(site_on(world)).findings == ()
        key = data.draw(st.sampled_from(named(world)))
        how = data.draw(st.sampled_from(BYTES))
        if not damage(world, key, how, at=data.draw(st.floats(0, 0.99)), mask=data.draw(st.integers(1, 255))):
            return
        if verify(site_on(world)).findings:
            return
        try:
            assert answers(world) == before, (key, how)
        except WormError:
            # A log that ends before its end is a log that was never longer.
            assert kind_of(key) == "committed"
