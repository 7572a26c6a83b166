"""Four writer processes that are killed, stopped and cut off: nothing acknowledged is lost or doubled.

WORMDB_LONG=1 runs it for minutes, with one pause that is longer than knowledge lasts; the figures are logged
(--log-cli-level=info). WORMDB_KILLS=20 makes as many kills, WORMDB_KILL_SEED=n another order of them.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.processes.evidence import judge, judge_state, read_log, steps_of
from tests.processes.fleet import Fleet
from tests.processes.writer import COLLECTION, COUNTERS, counter_id
from wormdb.settings import KNOWLEDGE_MS_MAX
from wormdb.system.clock import SeededChance, SystemClock
from wormdb.testing.fault_proxy import FaultProxy, WireFault

if TYPE_CHECKING:
    from pathlib import Path

    from tests.processes.journal import Deed
    from wormdb.testing.s3_server import S3Server

log = logging.getLogger(__name__)

LONG = bool(os.environ.get("WORMDB_LONG"))
ACTIONS = int(os.environ.get("WORMDB_KILLS", "100" if LONG else "2"))
"""Kills, and as many pauses."""
SEED = int(os.environ.get("WORMDB_KILL_SEED", "1"))
FAULTS_MIN = 30
ACKNOWLEDGED_MIN = 100
RESOLVED_MIN = 3
VERY_ROUGH = {
    WireFault.ANSWER_LOST: 0.05,
    WireFault.ANSWER_CUT: 0.02,
    WireFault.REQUEST_LOST: 0.03,
    WireFault.REQUEST_LATE: 0.06,
    WireFault.REQUEST_DELAYED: 0.02,
    WireFault.FRONT_DOOR: 0.02,
    WireFault.ANSWER_REPLACED: 0.02,
}
STEP_BYTES = 300
"""About two operations in a journal."""
PAUSE_SECONDS_MAX = 0.5
# Those who hurry give up while their write may still land, and have to resolve it.
COMMIT_SECONDS = [30.0, 0.05, 30.0, 0.0]
pytestmark = pytest.mark.timeout(3600 if ACTIONS > 2 else 300)


def prepare(url: str) -> None:
    with wormdb.connect(url) as db:
        db[COLLECTION].insert_many({"id": counter_id(number), "total": 0, "token": ""} for number in range(COUNTERS))


def torment(fleet: Fleet, seed: int) -> None:
    """Kill and stop writers in an order that the seed fixes, each after it got on."""
    chance, clock = SeededChance(seed), SystemClock()
    actions = ["kill", "pause"] * ACTIONS
    if LONG:
        actions.insert(len(actions) // 2, "long pause")
    while actions:
        action = actions.pop(int(chance.fraction() * len(actions)))
        writer = int(chance.fraction() * fleet.size)
        fleet.wait_for_steps(writer, STEP_BYTES)
        # So that it is not always hit at the same place, right after a line in its journal.
        clock.sleep(chance.fraction() * 0.02)
        if action == "kill":
            fleet.kill_and_restart(writer)
        else:
            seconds_min = KNOWLEDGE_MS_MAX / 1000 + 10 if action == "long pause" else 0.0
            fleet.pause(writer, seconds_min, max(seconds_min, PAUSE_SECONDS_MAX))
    for writer in range(fleet.size):
        fleet.wait_for_steps(writer, STEP_BYTES)
    fleet.wait_until(lambda: acknowledged(fleet.deeds()) >= ACKNOWLEDGED_MIN, "hardly anything is acknowledged")


def acknowledged(deeds: dict[str, Deed]) -> int:
    return sum(deed.outcome == "acknowledged" for deed in deeds.values())


def resolved(deeds: dict[str, Deed]) -> int:
    """How many unknown outcomes became known."""
    return sum(deed.told[:1] == ["unknown"] and len(deed.told) > 1 for deed in deeds.values())


def verdict(fleet: Fleet, url: str) -> Counter[str]:
    """Judge the run by what a process that saw nothing of it reads; how many operations had which outcome."""
    deeds = fleet.deeds()
    with wormdb.connect(url) as db:
        run = db[COLLECTION]
        last = read_log(db.store, run.prefix)
        steps = steps_of(run.watch())
        state = {document.id: dict(document) for document in run}
        assert judge(deeds, steps) == []
        assert judge_state(steps, state) == []
        assert run.count() == len(state)
        assert steps[-1].number <= last
    outcomes = Counter(deed.outcome or "never answered" for deed in deeds.values())
    outcomes["resolved"] = resolved(deeds)
    outcomes["entries"] = last
    # Nothing is trimmed here, so every question has an answer.
    assert not any(deed.told[1:] == ["unknown"] for deed in deeds.values())
    return outcomes


def check_figures(fleet: Fleet, outcomes: Counter[str]) -> None:
    log.info("kills %d, pauses %d, %s", fleet.kills, fleet.pauses, dict(outcomes))
    assert (fleet.kills, fleet.pauses) == (ACTIONS, ACTIONS + LONG)


def test_on_a_folder(tmp_path: Path) -> None:
    url, journals = str(tmp_path / "db"), tmp_path / "journals"
    journals.mkdir()
    prepare(url)
    with Fleet(url, journals, COMMIT_SECONDS) as fleet:
        torment(fleet, SEED)
        fleet.stop()
    check_figures(fleet, verdict(fleet, url))


@pytest.mark.s3
def test_on_s3_behind_a_proxy_that_loses_answers(tmp_path: Path, s3_server: S3Server, s3_url: str) -> None:
    prepare(s3_url)
    prefix = s3_url.partition("?")[0].rpartition("/")[2]
    with (
        FaultProxy(s3_server.endpoint, chance=SeededChance(SEED), rates=VERY_ROUGH) as proxy,
        Fleet(s3_server.url(prefix, endpoint=proxy.endpoint), tmp_path, COMMIT_SECONDS) as fleet,
    ):
        torment(fleet, SEED + 1)
        fleet.wait_until(lambda: proxy.faults.total() >= FAULTS_MIN, "the proxy meets no requests")
        fleet.wait_until(lambda: resolved(fleet.deeds()) >= RESOLVED_MIN, "no outcome is ever unknown")
        fleet.stop()
    # Only now: what was late has landed.
    met = Counter({str(fault): count for fault, count in proxy.faults.items()})
    check_figures(fleet, verdict(fleet, s3_url) + met)
