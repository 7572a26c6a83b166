"""An interrupt (Ctrl-C) may come at any moment: nobody waits for ever, and what happened is told truthfully."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.commit.test_group import Gate, Stop
from tests.engine.rig import HookStore, Rig, contents, insert, save
from wormdb.engine.commit.commit import CommitResult
from wormdb.engine.commit.operations import Pending
from wormdb.engine.commit.turns import GroupCommit
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.system.clock import ManualClock


class InterruptedOnce(GroupCommit):
    """Is interrupted the first time it leaves."""

    interrupts = 1

    def _leave(self, ticket: Any) -> None:
        if self.interrupts:
            self.interrupts -= 1
            raise Stop
        super()._leave(ticket)


def test_a_leader_that_is_interrupted_while_it_leaves_still_hands_over() -> None:
    gate = Gate()
    gate.go.set()
    group = InterruptedOnce(gate.commit, ManualClock())
    with pytest.raises(Stop):
        group.submit(Pending("a"), 10.0)
    assert isinstance(group.submit(Pending("b"), 10.0), CommitResult)


class InterruptedOnEntering(GroupCommit):
    interrupts = 1

    def _enter(self, ticket: Any) -> None:
        super()._enter(ticket)
        if self.interrupts:
            self.interrupts -= 1
            raise Stop


def test_one_that_is_interrupted_as_it_takes_the_lead_gives_it_back() -> None:
    gate = Gate()
    gate.go.set()
    group = InterruptedOnEntering(gate.commit, ManualClock())
    with pytest.raises(Stop):
        group.submit(Pending("a"), 10.0)
    assert isinstance(group.submit(Pending("b"), 10.0), CommitResult)
    assert gate.groups == [["b"]]


def test_company_of_an_interrupted_leader_can_ask_what_became_of_its_batch() -> None:
    rig = Rig()

    def interrupt(verb: str, key: str) -> None:
        if verb == "put" and "committed" in key:
            raise Stop

    store = HookStore(rig.store)
    store.after = interrupt
    ledger = rig.ledger(store)
    batches = [rig.batch(insert("a")), rig.batch(insert("b"))]
    committer = ledger._committer
    with pytest.raises(Stop):
        committer.commit(batches, 10.0)
    for batch in batches:
        commit_id = committer.fate_of(batch)
        assert isinstance(commit_id, str)
        assert rig.ledger().resolve(commit_id) == "committed"
    assert committer.fate_of(rig.batch(insert("c"))) is None


def test_what_landed_before_an_error_stays_committed() -> None:
    """The second batch needs what the first wrote, so it goes into an entry of its own, which cannot be prepared."""
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(save("x", n=1)))
    committer = ledger._committer
    check, calls = committer._check, []

    def failing(waiting: Any, *, takes: bool) -> Any:
        calls.append(len(waiting))
        if len(calls) > 1:
            raise UnavailableError("block", reason="the store is away")
        return check(waiting, takes=takes)

    committer._check = failing  # type: ignore[method-assign] # a store that goes away at the right moment
    first, second = committer.commit([rig.batch(insert("a")), rig.batch(insert("a"))], 10.0)
    assert isinstance(first, CommitResult)
    assert isinstance(second, UnavailableError)
    assert not isinstance(second, OutcomeUnknownError)
    assert contents(rig.ledger().view())["a"] == (2, 1, {})
