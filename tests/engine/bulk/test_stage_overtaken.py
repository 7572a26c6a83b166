"""A staged batch that others overtake again and again, without touching its documents."""

from __future__ import annotations

import pytest

from tests.engine.bulk.stage_rig import MANUAL, SCHEMA, logger, stager
from tests.engine.rig import HookStore, Rig, insert, save
from wormdb.engine.bulk import stage
from wormdb.engine.bulk.inserts import check_inserts
from wormdb.errors import AlreadyExistsError, UniqueViolationError
from wormdb.system.types import LogNumber


class Checks:
    """Counts how often a batch is checked in whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def counted(*given: object) -> object:
            self.count += 1
            return check_inserts(*given)  # type: ignore[arg-type] # handed on as it came

        monkeypatch.setattr(stage, "check_inserts", counted)


def test_forwarding_by_others_does_not_make_it_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    other = logger(rig, limits=MANUAL)
    other.commit(rig.batch(insert("x", email="x"), events=(SCHEMA,)))
    rounds = 3 * stage.CHECKS_MAX
    store = HookStore(rig.store)
    ledger = stager(rig, store, MANUAL)
    ledger.view()
    done: list[int] = []

    def overtake(verb: str, key: str) -> None:
        """Before each attempt to attach, somebody brings the log forward over what was checked."""
        if verb == "put" and "/committed/" in key and len(done) < rounds and rig.slots()[-1] > 1:
            done.append(other.commit(rig.batch(save("x", email=f"x{len(done)}"))).number)
            other.forward()

    checks = Checks(monkeypatch)
    store.before = overtake
    committed = ledger.commit(rig.batch(insert("a", email="a"), insert("b", email="b")), seconds=1e9)
    assert len(done) == rounds
    assert committed.number > done[-1]
    assert checks.count == 1
    view = rig.ledger().view()
    assert (view.number, view.count) == (LogNumber(committed.number), 3)


@pytest.mark.parametrize(
    ("rival", "error"), [(insert("a", email="z"), AlreadyExistsError), (insert("z", email="b"), UniqueViolationError)]
)
def test_what_concerns_it_is_found_behind_a_forwarding(
    rival: object, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    other = logger(rig, limits=MANUAL)
    other.commit(rig.batch(insert("x", email="x"), events=(SCHEMA,)))
    store = HookStore(rig.store)
    ledger = stager(rig, store, MANUAL)
    ledger.view()
    done: list[str] = []

    def overtake(verb: str, key: str) -> None:
        if verb == "put" and "/data/" in key and not done:
            done.append(key)
            other.commit(rig.batch(rival))  # type: ignore[arg-type] # one of the operations above
            other.forward()

    checks = Checks(monkeypatch)
    store.before = overtake
    with pytest.raises(error):
        ledger.commit(rig.batch(insert("a", email="a"), insert("b", email="b")))
    assert checks.count == 2
    assert rig.ledger().view().count == 2
