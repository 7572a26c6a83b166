"""The way from a root to the head: by stages, because what a job attached lies between what came before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engine.commit.test_head import head_of
from tests.engine.rig import PATHS, Rig, contents, save
from wormdb.engine.forward.keeper import TailLimits
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.commit.head import Head


def staged_log(rig: Rig) -> None:
    """Entries 1, 2 (a job opened), 3 (attached), 4, 5, 6 (opened), 7 (attached), all touching one document."""
    limits = TailLimits(interval_ms=0, mode="manual")
    plain, staging = rig.ledger(limits=limits), rig.ledger(limits=limits, stage_bytes=1)
    for number, ledger in enumerate((plain, staging, plain, plain, staging)):
        ledger.commit(rig.batch(save("a", n=number), save(f"k{number}")))


def cuts(head: Head, applied: int) -> list[tuple[int, list[int]]] | None:
    stages = head.stages(LogNumber(applied))
    if stages is None:
        return None
    return [(stage.view.number, [entry.number for entry in stage.entries]) for stage in stages]


def test_what_a_job_attached_is_a_stage_of_its_own() -> None:
    rig = Rig()
    head = head_of(rig)
    head.refresh()
    staged_log(rig)
    head.refresh()
    assert (head.number, head.applied, head.has_attached) == (7, 0, True)
    assert cuts(head, 0) == [(2, [1, 2]), (3, [3]), (6, [4, 5, 6]), (7, [7])]
    assert cuts(head, 2) == [(3, [3]), (6, [4, 5, 6]), (7, [7])]
    assert cuts(head, 3) == [(6, [4, 5, 6]), (7, [7])]
    assert cuts(head, 5) == [(6, [6]), (7, [7])]
    assert cuts(head, 7) == []
    assert cuts(head, 8) is None


def test_stages_are_the_states_that_were() -> None:
    rig = Rig()
    head = head_of(rig)
    head.refresh()
    staged_log(rig)
    head.refresh()
    stages = head.stages(LogNumber(0))
    assert stages is not None
    seen = [contents(stage.view) for stage in stages]
    assert [state["a"] for state in seen] == [(1, 1, {"n": 0}), (3, 2, {"n": 1}), (5, 4, {"n": 3}), (7, 5, {"n": 4})]
    assert [stage.view.count for stage in stages] == [2, 3, 5, 6]
    assert [len(state) for state in seen] == [2, 3, 5, 6]
    for stage in stages:
        record, _ = rig.log.read(stage.view.number)
        assert record is not None
        assert stage.digest == record.hash
    assert [sorted(job.state for job in stage.jobs.outcomes()) for stage in stages] == [
        ["open"],
        ["attached"],
        ["attached", "open"],
        ["attached", "attached"],
    ]


def test_below_the_root_and_while_it_is_opened_no_way_is_known() -> None:
    rig = Rig()
    staged_log(rig)
    rig.ledger().forward()
    head = head_of(rig)
    assert head.stages(LogNumber(0)) is None, "nothing is known yet"
    head.refresh()
    assert (cuts(head, 6), cuts(head, 7)) == (None, [])
    assert not head.has_attached
    head.forget()
    assert cuts(head, 0) is None


def test_a_forwarding_of_all_stages_at_once_equals_one_after_each_entry() -> None:
    roots = []
    for is_stepwise in (False, True):
        rig = Rig()
        stepping = rig.ledger(limits=TailLimits(interval_ms=0, mode="manual"))
        staging = rig.ledger(limits=TailLimits(interval_ms=0, mode="manual"), stage_bytes=1)
        reader = rig.ledger(limits=TailLimits(interval_ms=0, mode="manual"))
        reader.view()
        for number in range(8):
            (staging if number % 3 == 1 else stepping).commit(rig.batch(save("a", n=number), save(f"k{number % 5}")))
            if is_stepwise:
                stepping.forward()
        if not is_stepwise:
            rig.store.delete(PATHS.root)
        assert reader.forward() == reader.view().number
        state = rig.register.read()
        assert state.root is not None
        roots.append((state.root.applied, state.root.rows, contents(rig.ledger().view())))
    assert roots[0] == roots[1]
