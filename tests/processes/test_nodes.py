"""Real nodes and writers on a real server: killed, stopped, with one id twice. Nothing is lost, nothing happens twice.

`pytest -m long` runs it for minutes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.processes.evidence import judge, judge_state, read_log, steps_of
from tests.processes.fleet import Fleet
from tests.processes.node_fleet import NodeFleet
from tests.processes.writer import COLLECTION, COUNTERS, counter_id
from wormdb.engine.log.peers import Peers
from wormdb.jobs.node.overview import overview_of
from wormdb.system.clock import SeededChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX = 180.0


def wait_until(is_so: Callable[[], bool], complaint: Callable[[], str]) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert clock.monotonic() < deadline, complaint()
        clock.sleep(0.05)


def states(database: wormdb.Database) -> list[str]:
    return [each.state for each in overview_of(database).nodes]


def lag(database: wormdb.Database) -> int:
    return max(each.lag_entries for each in overview_of(database).collections)


def incarnation(database: wormdb.Database, node: int) -> str:
    """Of the process that holds an id and has not said that it stops; nothing if there is none."""
    peer = Peers(database.store, SystemClock()).read(node)
    return peer.heartbeat.incarnation if peer is not None and peer.heartbeat is not None else ""


def is_held(database: wormdb.Database, node: int, others: set[str]) -> bool:
    return incarnation(database, node) not in others


def torment(nodes: NodeFleet, writers: Fleet, database: wormdb.Database, actions: int) -> None:
    """Kill and stop nodes in an order that a seed fixes, each when it has its id, while writers get on."""
    chance, clock = SeededChance(1), SystemClock()
    waiting, killed = ["kill", "pause"] * actions, dict.fromkeys(nodes.ids, "")
    while waiting:
        action = waiting.pop(int(chance.fraction() * len(waiting)))
        node = nodes.ids[int(chance.fraction() * len(nodes.ids))]
        others = {"", killed[node]}
        wait_until(partial(is_held, database, node, others), nodes.errors)
        writers.wait_for_steps(0, 300)
        clock.sleep(chance.fraction() * nodes.interval)
        if action == "kill":
            killed[node] = incarnation(database, node)
            nodes.kill_and_restart(node)
        else:
            nodes.pause(node, nodes.interval * (1.5 + 3 * chance.fraction()))


def double(nodes: NodeFleet) -> None:
    """A second process with an id that is in use: one of the two has to go, and says why."""
    node = nodes.ids[0]
    first, second = nodes.processes[node], nodes.start(node)
    try:
        # Who is kept from beating for three intervals, on a machine with too much to do, loses to the second.
        wait_until(lambda: {first.poll(), second.poll()} != {None}, nodes.errors)
        assert sorted([first.poll() or 0, second.poll() or 0]) == [0, 1], nodes.errors()
        assert f"node {node} is in use by process" in nodes.errors()
        nodes.processes[node], second = (first, second) if first.poll() is None else (second, first)
    finally:
        second.kill()
        second.wait()


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


def play(url: str, nodes: NodeFleet, folder: Path, actions: int, acknowledged_min: int) -> None:
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual")) as database:
        database[COLLECTION].insert_many(
            {"id": counter_id(number), "total": 0, "token": ""} for number in range(COUNTERS)
        )
        with Fleet(url, folder, [30.0]) as writers, nodes:
            all_live = ["live"] * len(nodes.ids)
            torment(nodes, writers, database, actions)
            wait_until(lambda: states(database) == all_live, nodes.errors)
            double(nodes)
            writers.stop()
            wait_until(lambda: lag(database) == 0, nodes.errors)
            nodes.stop()
            assert states(database) == ["stopped"] * len(nodes.ids)
    acknowledged = check(writers, url)
    log.info("kills %d, pauses %d, acknowledged %d", nodes.kills, nodes.pauses, acknowledged)
    assert (nodes.kills, nodes.pauses) == (actions, actions)
    assert acknowledged >= acknowledged_min


@pytest.mark.s3
@pytest.mark.timeout(300)
def test_a_few_kills_and_pauses(tmp_path: Path, s3_url: str) -> None:
    play(s3_url, NodeFleet(s3_url, tmp_path, [0, 1], 500), tmp_path, 2, acknowledged_min=10)


@pytest.mark.long
@pytest.mark.s3
@pytest.mark.timeout(3600)
def test_many_kills_and_pauses(tmp_path: Path, s3_url: str) -> None:
    play(s3_url, NodeFleet(s3_url, tmp_path, [0, 1, 2], 1000), tmp_path, 50, acknowledged_min=300)
