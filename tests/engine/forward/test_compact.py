"""Compaction changes no answer: not of documents, history or indexes, whoever writes and forwards meanwhile."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import MANUAL
from tests.engine.forward.compact_rig import LISTS, as_before, compact_list, compact_lists, planned
from tests.engine.rig import COLLECTION, PATHS, Rig, contents, ident, insert, remove, save
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.tiers import FANOUT
from wormdb.engine.forward.compact import Aim
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.forward.rebuild import publish_indexes
from wormdb.engine.log.root import Place
from wormdb.engine.state.view import id_key
from wormdb.errors import ConflictError, UnavailableError
from wormdb.maintenance.audit.verify import verify
from wormdb.maintenance.collection import StoredCollection
from wormdb.settings import UNPUBLISHED_MS_MAX
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.format.root import Root

SIZES = Sizes(block_target=300, run_smallest=100)
AIM = Aim(600)

Act = tuple[str, list[int], int]
"""What is done (save, remove, load, forward), to which ids, with which value."""

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "remove", "load", "forward", "forward"]),
        st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True),
        st.integers(0, 99),
    ),
    max_size=6,
)


def act(rig: Rig, ledger: Ledger, done: Act) -> None:
    """Do one thing; a load is staged as blocks."""
    verb, ids, value = done
    if verb == "forward":
        ledger.forward()
    elif verb == "load":
        rig.ledger(limits=MANUAL, sizes=SIZES, stage_bytes=1).commit(rig.batch(*(save(each, v=value) for each in ids)))
    else:
        made = (remove(each) if verb == "remove" else save(each, v=value, pad="x" * 40) for each in ids)
        ledger.commit(rig.batch(*made))


def past(ledger: Ledger, view: View) -> dict[int, list[Any]]:
    """All versions of all documents."""
    history = ledger.history(view)
    return {
        each: [(one.seq, one.rev, one.op, one.document) for one in history.versions(id_key(ident(each)))]
        for each in range(13)
    }


def root_of(rig: Rig) -> Root:
    root = rig.register.read().root
    assert root is not None
    return root


def check_sound(rig: Rig) -> None:
    found = verify(StoredCollection(COLLECTION, rig.ledger()._runtime))
    assert found.findings == ()


class Twins:
    """Two buckets where the same is done; one of them is compacted."""

    def __init__(self) -> None:
        self.compacted, self.plain = Rig(), Rig()
        self._pairs = [(rig, rig.ledger(limits=MANUAL, sizes=SIZES)) for rig in (self.compacted, self.plain)]

    def do(self, acts: list[Act]) -> None:
        for done in acts:
            for rig, ledger in self._pairs:
                act(rig, ledger, done)

    def check(self) -> None:
        """Whoever looks sees the same in both, also who has looked before; and all that is stored agrees."""
        for rig, ledger in self._pairs:
            assert contents(rig.ledger().view()) == contents(ledger.view())
        (one, view), (other, twin) = ((ledger, ledger.view()) for _, ledger in self._pairs)
        assert contents(view) == contents(twin)
        assert past(one, view) == past(other, twin)
        check_sound(self.compacted)


@given(ACTS, st.lists(ACTS, max_size=3), st.booleans())
@settings(max_examples=12)
@example([("save", [1], 1), ("forward", [0], 0)], [[("save", [1], 2), ("forward", [0], 0)]], True)
def test_no_answer_changes(before: list[Act], between: list[list[Act]], everything: bool) -> None:
    check_answers(before, between, everything=everything)


def check_answers(before: list[Act], between: list[list[Act]], *, everything: bool) -> None:
    """Others go on between all steps."""
    twins = Twins()
    twins.do([*before, ("forward", [0], 0)])
    waiting = iter(between)
    worker = twins.compacted.ledger(limits=MANUAL, sizes=SIZES)
    compact_lists(worker, Aim(600, everything=everything), lambda: twins.do(next(waiting, [])))
    twins.do([done for step in waiting for done in step])
    twins.check()


@pytest.mark.long
@given(ACTS, st.lists(ACTS, max_size=3), st.booleans())
@settings(max_examples=80)
def test_no_answer_changes_in_many_cases(before: list[Act], between: list[list[Act]], everything: bool) -> None:
    check_answers(before, between, everything=everything)


@given(ACTS)
@settings(max_examples=15)
def test_what_was_compacted_stays_so(before: list[Act]) -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, sizes=SIZES)
    for done in before:
        act(rig, ledger, done)
    ledger.forward()
    compact_lists(ledger, AIM)
    if rig.register.read().root is None:
        return
    for where in LISTS:
        plan = planned(ledger, where, AIM)
        assert plan is None or not plan.selection.pieces, "nothing is written a second time"
    root = root_of(rig)
    runs = Runs(Shelf(rig.store, ledger._runtime.pool, rig.register.paths.data), root.blocks, root.block_pages)
    blocks = sorted(runs.blocks(), key=lambda block: block.key_first)
    assert all(one.key_last < other.key_first for one, other in pairwise(blocks))


def two_runs(rig: Rig) -> Ledger:
    ledger = rig.ledger(limits=MANUAL, sizes=SIZES)
    ledger.commit(rig.batch(*(insert(each, pad="x" * 80) for each in range(20))))
    ledger.forward()
    ledger.commit(rig.batch(*(save(each, v=1) for each in range(0, 20, 7))))
    ledger.forward()
    return ledger


def test_what_it_replaces_is_retired_and_what_jobs_attached_is_not() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, sizes=SIZES, stage_bytes=1)
    ledger.commit(rig.batch(*(insert(each, pad="x" * 80) for each in range(20))))
    ledger.forward()
    loaded = {block.name for block in root_of(rig).blocks}
    logger = rig.ledger(limits=MANUAL, sizes=SIZES)
    logger.commit(rig.batch(save(3, v=1), save(17, v=1)))
    logger.forward()
    delta = {block.name for block in root_of(rig).blocks} - loaded
    before = root_of(rig)
    written, taken = compact_list(logger, "blocks", AIM)
    root = root_of(rig)
    assert written == taken > 0
    assert (root.applied, root.rows, root.attached) == (before.applied, before.rows, before.attached)
    names = {block.name for block in root.blocks}
    assert not names & delta
    retired = {each.name for each in root.retired} - {each.name for each in before.retired}
    gone = delta | (loaded - names)
    assert retired == {f"data/{name}.{ending}" for name in gone & delta for ending in ("parquet", "map")}
    assert {block.kind for block in root.blocks if block.name not in loaded} == {"base"}
    check_sound(rig)


def test_blocks_that_lie_alone_are_not_read() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, sizes=SIZES)
    ledger.commit(rig.batch(*(insert(each, pad="x" * 300) for each in range(40))))
    ledger.forward()
    ledger.commit(rig.batch(save(20, v=1, pad="x" * 300), save(21, v=1, pad="x" * 300)))
    ledger.forward()
    plan = planned(ledger, "blocks", Aim(300))
    assert plan is not None
    touched = {entry.name for piece in plan.selection.pieces for run in piece.runs for entry in run}
    assert 2 <= len(touched) <= 4
    assert len(plan.standing) > 30
    assert touched == plan.selection.consumed


def test_blocks_of_before_get_columns_of_frequent_paths() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, sizes=SIZES)
    with as_before():
        ledger.commit(rig.batch(*(insert(each, pad="x" * 300, v=each) for each in range(0, 40, 2))))
        ledger.forward()
    old = root_of(rig).blocks
    assert {stats.path for block in old for stats in block.columns} == {"_id"}
    ledger.commit(rig.batch(*(insert(50 + each, w=[each], v=each, pad="x" * 50) for each in range(40))))
    ledger.forward()
    before = contents(rig.ledger().view())
    written, taken = compact_list(ledger, "blocks", Aim(600))
    assert written == taken > 0
    blocks = root_of(rig).blocks
    assert {block.name for block in blocks}.isdisjoint(block.name for block in old)
    assert all("v" in {stats.path for stats in block.columns} for block in blocks if block.rows > 1)
    assert any("w" in {stats.path for stats in block.columns} for block in blocks)
    assert contents(rig.ledger().view()) == before
    plan = planned(ledger, "blocks", Aim(600))
    assert plan is None or not plan.selection.pieces, "nothing is written a second time"
    check_sound(rig)


def test_appended_blocks_only_change_their_run() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, sizes=Sizes(block_target=300, run_smallest=1))
    for start in range(0, 30, 10):
        ledger.commit(rig.batch(*(insert(start + each, pad="x" * 300) for each in range(10))))
        ledger.forward()
    store = rig.counted()
    worker = rig.ledger(store, limits=MANUAL, sizes=SIZES)
    before = {block.name for block in root_of(rig).blocks}
    assert len({block.run for block in root_of(rig).blocks}) > 1
    assert compact_list(worker, "blocks", Aim(300)) == (0, 0)
    assert {block.name for block in root_of(rig).blocks} == before
    assert len({block.run for block in root_of(rig).blocks}) == 1
    assert [trace.verb for trace in store.trace] == ["probe", "probe", "put"]
    assert len(contents(rig.ledger().view())) == 30
    check_sound(rig)


def test_a_newer_merge_of_its_blocks_wins() -> None:
    rig = Rig()
    two_runs(rig)
    merger = rig.ledger(limits=MANUAL, sizes=Sizes(block_target=300, run_smallest=1_000_000))

    turns = iter(range(FANOUT))

    def merge() -> None:
        for _ in turns:
            merger.commit(rig.batch(*(save(each, v=2) for each in range(20))))
            merger.forward()

    worker = rig.ledger(limits=MANUAL, sizes=SIZES)
    written, taken = compact_list(worker, "blocks", AIM, merge)
    assert written > 0
    assert taken == 0
    assert {values["v"] for _, _, values in contents(rig.ledger().view()).values() if values} == {2}


def test_two_compactions_at_once_do_it_once() -> None:
    rig = Rig()
    two_runs(rig)
    first, second = (rig.ledger(limits=MANUAL, sizes=SIZES) for _ in range(2))
    expected = contents(first.view())
    turns = iter([True])
    with pytest.raises(ConflictError, match="others wrote its blocks again"):
        compact_list(second, "blocks", AIM, lambda: next(turns, False) and compact_list(first, "blocks", AIM))
    assert contents(rig.ledger().view()) == expected
    check_sound(rig)


def test_what_was_written_too_long_ago_is_not_named() -> None:
    """Meanwhile it may have been removed as something that nobody names: that swaps the root first."""
    rig = Rig()
    ledger = two_runs(rig)
    expected = contents(ledger.view())

    def wait() -> None:
        rig.clock.advance(UNPUBLISHED_MS_MAX / 1000 + 1)
        ledger.commit(rig.batch(save("new", v=1)))
        ledger.forward()

    root = root_of(rig)
    with pytest.raises(UnavailableError, match="planned too long ago"):
        compact_list(rig.ledger(limits=MANUAL, sizes=SIZES), "blocks", Aim(100_000), wait)
    assert {block.name for block in root.blocks} <= {block.name for block in root_of(rig).blocks}
    found = contents(rig.ledger().view())
    assert {each: found[each] for each in expected} == expected
    # With the same root nobody can have removed anything, however long it took.
    again = compact_list(rig.ledger(), "blocks", Aim(100_000), lambda: rig.clock.advance(UNPUBLISHED_MS_MAX))
    assert again == (1, 1)


@pytest.mark.parametrize(("hours", "is_refused"), [(11, False), (13, True)])
def test_trees_that_may_be_gone_are_not_named(hours: int, is_refused: bool) -> None:
    """Rebuilt for a root that was replaced since, so long ago that they may have been removed as garbage."""
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL)
    ledger.commit(rig.batch(save("a", v=1)))
    ledger.forward()
    state = rig.register.read()
    assert state.root is not None
    place = Place(rig.store, SerialPool(), PATHS, state.root)
    rig.clock.advance(hours * 3_600)
    publish_indexes(rig.register, ledger.writer, (place, state), [])
    ledger.commit(rig.batch(save("a", v=2)))
    ledger.forward()
    with pytest.raises(UnavailableError, match="planned too long ago") if is_refused else nullcontext():
        publish_indexes(rig.register, ledger.writer, (place, state), [])
