"""A state that was pinned is the same in every process that unpins it, whatever was committed since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rig import PATHS, Rig, contents, remove, save
from wormdb.engine.commit import pinned
from wormdb.errors import SnapshotTooOldError
from wormdb.system.types import LogNumber

steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.integers(0, 6)),
        st.tuples(st.just("remove"), st.integers(0, 6)),
        st.tuples(st.just("forward"), st.none()),
    ),
    min_size=1,
    max_size=10,
)


def follow(rig: Rig, ledger: Any, taken: list[tuple[str, Any]], value: int) -> None:
    for verb, identity in taken:
        if verb == "forward":
            ledger.forward()
        else:
            operation = remove(identity) if verb == "remove" else save(identity, value=value)
            ledger.commit(rig.batch(operation))


@settings(max_examples=15)
@given(before=steps, after=steps, is_sent=st.booleans())
def test_a_pinned_state_does_not_move(
    before: list[tuple[str, Any]], after: list[tuple[str, Any]], is_sent: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinned, "ENTRIES_BYTES_MAX", 1_000_000 if is_sent else 0)
        rig = Rig()
        ledger = rig.ledger()
        follow(rig, ledger, before, 1)
        view = ledger.view()
        expected = contents(view)
        sent = ledger.pin(view)
        assert (sent.entries is not None) is (is_sent or view.number == view.base_number)
        follow(rig, ledger, after, 2)
        found = rig.ledger().unpin(sent)
        assert contents(found) == expected
        assert (found.number, found.count, found.definition.body) == (view.number, view.count, view.definition.body)


def test_a_tail_that_was_trimmed_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "ENTRIES_BYTES_MAX", 0)
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(save(1)))
    sent = ledger.pin(ledger.view())
    for number in rig.slots():
        rig.store.delete(PATHS.entry(LogNumber(number)))
    with pytest.raises(SnapshotTooOldError, match="through entry 1"):
        rig.ledger().unpin(sent)
