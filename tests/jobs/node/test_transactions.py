"""Nodes finish transactions that their coordinators left, and collect the records of those that are over."""

from __future__ import annotations

from tests.engine.transact.bank import FIRST, NAMES, Bank, balances
from tests.jobs.node.rig import Rig, live
from wormdb.jobs.node.pace import Pace

HOUR = 3600.0


def rig_of(bank: Bank) -> Rig:
    """Nodes on the bucket of a bank."""
    rig = Rig(clock=bank.clock)
    rig.store = bank.store
    return rig


def test_a_node_finishes_what_is_decided_and_what_is_abandoned() -> None:
    bank = Bank().open()
    bank.process().move(5)
    bank.process().abandon(1)
    rig = rig_of(bank)
    live(rig, 600.0, rig.started(pace=Pace(probe_seconds_max=60)))
    for name in NAMES:
        assert not bank.process()[name].view().pending
    assert balances(bank.process()) == [FIRST - 5, FIRST + 5]


def test_a_node_collects_records_some_hours_later() -> None:
    bank = Bank().open()
    bank.process().move(5)
    rig = rig_of(bank)
    pace = Pace(interval_ms=120_000, look_seconds=600, probe_seconds_max=600, upkeep_seconds_idle=1_800.0)
    live(rig, 6 * HOUR, rig.started(pace=pace))
    assert bank.keys(".worm.tx/") == [".worm.tx/floor"]
    assert balances(bank.process()) == [FIRST - 5, FIRST + 5]
