"""Real nodes and writers on a real server: killed, stopped, with one id twice. Nothing is lost, nothing happens twice.

`pytest -m long` runs it for minutes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.processes.evidence import judge, judge_state, read_log, steps_of
from tests.processes.fleet import WAIT_SECONDS_MAX, Fleet
from tests.processes.node_fleet import NodeFleet
from tests.processes.writer import COLLECTION, COUNTERS, counter_id
from wormdb.clock import SeededChance, SystemClock
from wormdb.service.overview import Overview, overview_of

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

INTERVAL_MS = 300
PAUSE_SECONDS = 3 * INTERVAL_MS / 1000
"""Longer than windows, and about as long as a node may be silent."""


def overview(url: str) -> Overview:
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual")) as database:
        return overview_of(database, window_ms=INTERVAL_MS)


def wait_for(url: str, what: str, states: list[str], lag_max: int, seconds: float = WAIT_SECONDS_MAX) -> Overview:
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while True:
        found = overview(url)
        lag = max((each.lag_entries for each in found.collections), default=0)
        if [each.state for each in found.nodes] == states and lag <= lag_max:
            return found
        assert clock.monotonic() < deadline, f"{what}: {found}"
        clock.sleep(0.1)


def torment(nodes: NodeFleet, writers: Fleet, actions: int) -> None:
    """Kill and stop nodes in an order that a seed fixes, while writers get on."""
    chance, clock = SeededChance(1), SystemClock()
    waiting = ["kill", "pause"] * actions
    while waiting:
        action = waiting.pop(int(chance.fraction() * len(waiting)))
        node = nodes.ids[int(chance.fraction() * len(nodes.ids))]
        writers.wait_for_steps(0, 300)
        clock.sleep(chance.fraction() * 0.3)
        if action == "kill":
            nodes.kill_and_restart(node)
        else:
            nodes.pause(node, PAUSE_SECONDS * (0.5 + chance.fraction()))


def check(writers: Fleet, url: str) -> int:
    """Judge the run by what a process that saw nothing of it reads; how many writes were acknowledged."""
    deeds = writers.deeds()
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual")) as database:
        run = database[COLLECTION]
        steps = steps_of(run.watch())
        state = {document.id: dict(document) for document in run}
        assert judge(deeds, steps) == []
        assert judge_state(steps, state) == []
        assert steps[-1].number <= read_log(database.store, run.prefix)
        (found,) = database.verify([COLLECTION])
        assert found.is_sound, found
    return sum(deed.outcome == "acknowledged" for deed in deeds.values())


def play(url: str, folder: Path, ids: list[int], actions: int, acknowledged_min: int) -> None:
    all_live = ["live"] * len(ids)
    with wormdb.connect(url) as database:
        database[COLLECTION].insert_many(
            {"id": counter_id(number), "total": 0, "token": ""} for number in range(COUNTERS)
        )
    with Fleet(url, folder, [30.0]) as writers, NodeFleet(url, folder, ids, INTERVAL_MS) as nodes:
        wait_for(url, "nodes do not start", all_live, 10_000)
        torment(nodes, writers, actions)
        wait_for(url, "nodes do not come back", all_live, 10_000)
        rival = nodes.start(ids[0])
        try:
            assert rival.wait(WAIT_SECONDS_MAX) == 1, nodes.errors()
        finally:
            rival.kill()
            rival.wait()
        assert "node 0 is in use by process" in nodes.errors()
        writers.stop()
        wait_for(url, "the log is not brought forward", all_live, 0)
        nodes.stop()
        assert [each.state for each in overview(url).nodes] == ["stopped"] * len(ids)
    acknowledged = check(writers, url)
    log.info("kills %d, pauses %d, acknowledged %d", nodes.kills, nodes.pauses, acknowledged)
    assert (nodes.kills, nodes.pauses) == (actions, actions)
    assert acknowledged >= acknowledged_min


@pytest.mark.s3
@pytest.mark.timeout(300)
def test_a_few_kills_and_pauses(tmp_path: Path, s3_url: str) -> None:
    play(s3_url, tmp_path, [0, 1], 2, acknowledged_min=10)


@pytest.mark.long
@pytest.mark.s3
@pytest.mark.timeout(3600)
def test_many_kills_and_pauses(tmp_path: Path, s3_url: str) -> None:
    play(s3_url, tmp_path, [0, 1, 2], 50, acknowledged_min=300)
