"""Sixteen workers in four processes transfer money over four collections while processes are killed and stopped.

At every moment that a snapshot shows, all the money is there, and where the receipts say; every transfer that was
acknowledged is there in the end, and none that was refused. WORMDB_LONG=1 makes 100 kills, WORMDB_KILLS=20 as many; the
figures are logged (--log-cli-level=info).
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.processes.banker import ACCOUNTS, BALANCE, BANKS, RECEIPTS, THREADS, check_moment, judge_receipts
from tests.processes.fleet import Fleet
from tests.processes.journal import Deed
from tests.processes.test_kills import ACTIONS, SEED, VERY_ROUGH, acknowledged
from wormdb.system.clock import SeededChance, SystemClock
from wormdb.testing.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.testing.s3_server import S3Server

log = logging.getLogger(__name__)

ACKNOWLEDGED_MIN = 40
STEP_BYTES = 200
PAUSE_SECONDS_MAX = 0.5
COMMIT_SECONDS = [30.0, 2.0, 30.0, 0.3]
PROGRAM = "tests.processes.banker"
pytestmark = pytest.mark.timeout(3600 if ACTIONS > 2 else 300)


def prepare(url: str) -> None:
    with wormdb.connect(url) as db:
        for bank in BANKS:
            db[bank].insert_many({"id": account, "balance": BALANCE} for account in ACCOUNTS)


def torment(fleet: Fleet, seed: int) -> None:
    """Kill and stop bankers in an order that the seed fixes, each after it got on."""
    chance, clock = SeededChance(seed), SystemClock()
    actions = ["kill", "pause"] * ACTIONS
    while actions:
        action = actions.pop(int(chance.fraction() * len(actions)))
        banker = int(chance.fraction() * fleet.size)
        fleet.wait_for_steps(banker, STEP_BYTES)
        clock.sleep(chance.fraction() * 0.05)
        if action == "kill":
            fleet.kill_and_restart(banker)
        else:
            fleet.pause(banker, 0.0, PAUSE_SECONDS_MAX)
    fleet.wait_until(lambda: acknowledged(fleet.deeds()) >= ACKNOWLEDGED_MIN, "hardly anything is acknowledged")


def check(fleet: Fleet, url: str) -> None:
    """Judge the run by what a process that saw nothing of it reads, before and after a forwarding."""
    deeds = fleet.deeds()
    with wormdb.connect(url) as db:
        for _ in range(2):
            with db.snapshot([*BANKS, RECEIPTS]) as moment:
                check_moment(moment, receipts=True)
            assert judge_receipts(deeds, [dict(receipt) for receipt in db[RECEIPTS].find({})]) == []
            db.forward()
        assert all(found.is_sound for found in db.verify())
    log.info("kills %d, pauses %d, %s", fleet.kills, fleet.pauses, Counter(deed.outcome for deed in deeds.values()))
    assert (fleet.kills, fleet.pauses) == (ACTIONS, ACTIONS)


def test_transfers_on_a_folder(tmp_path: Path) -> None:
    url, journals = str(tmp_path / "db"), tmp_path / "journals"
    journals.mkdir()
    prepare(url)
    with Fleet(url, journals, COMMIT_SECONDS, program=PROGRAM, threads=THREADS) as fleet:
        torment(fleet, SEED)
        fleet.stop()
    check(fleet, url)


@pytest.mark.s3
def test_transfers_on_s3_behind_a_proxy_that_loses_answers(tmp_path: Path, s3_server: S3Server, s3_url: str) -> None:
    prepare(s3_url)
    prefix = s3_url.partition("?")[0].rpartition("/")[2]
    rates = {fault: rate / 4 for fault, rate in VERY_ROUGH.items()}
    with (
        FaultProxy(s3_server.endpoint, chance=SeededChance(SEED), rates=rates) as proxy,
        Fleet(
            s3_server.url(prefix, endpoint=proxy.endpoint), tmp_path, COMMIT_SECONDS, program=PROGRAM, threads=THREADS
        ) as fleet,
    ):
        torment(fleet, SEED + 1)
        fleet.stop()
    check(fleet, s3_url)


def test_a_lost_transfer_and_one_that_was_refused_are_noticed() -> None:
    receipt = {"id": "t2", "payer": ["bank/east", "account-0"], "payee": ["bank/west", "account-1"], "amount": 1}
    deeds = {name: Deed(name, "transfer", name, outcome, told=[outcome]) for name, outcome in
             (("t1", "acknowledged"), ("t2", "refused"))}  # fmt: skip
    problems = judge_receipts(deeds, [receipt])
    assert len(problems) == 2
    assert "lost" in problems[0]
    assert "it happened" in problems[1]
