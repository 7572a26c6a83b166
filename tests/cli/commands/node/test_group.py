"""worm node: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.jobs.node.node import Node
from wormdb.jobs.node.pace import Pace
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = str(tmp_path / "db")
    with wormdb.connect(place, settings=wormdb.Settings(forward="manual")) as database:
        database["notes"].insert({"id": 1})
        database["org/people"].insert({"id": 1})
    return place


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """As they were, after a command that changes them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_one_round(url: str) -> None:
    done = worm("node", "run", "--once", "--url", url)
    assert (done.code, done.lines) == (0, ["notes/: 1 entry, through 1", "org/people/: 1 entry, through 1"])
    done = worm("node", "run", "--once", "--json", "--url", url)
    assert [each["entries"] for each in json.loads(done.text)] == [0, 0]
    assert [each["through"] for each in json.loads(done.text)] == [1, 1]


def test_a_list_without_nodes_and_with(url: str) -> None:
    shown = worm("node", "list", "--url", url)
    assert shown.lines[0] == "no nodes: writers bring the log forward"
    worm("node", "run", "--once", "--id", "7", "--url", url)
    with wormdb.connect(url) as database:
        node = Node(database, node=3)
        node.start()
        shown = worm("node", "list", "--url", url)
        facts = json.loads(worm("node", "list", "--json", "--url", url).text)
    assert [line.split()[:2] for line in shown.lines[2:4]] == [["3", "live"], ["7", "stopped"]]
    assert [(each["node"], each["state"]) for each in facts["nodes"]] == [(3, "live"), (7, "stopped")]
    assert [(each["collection"], each["turn"], each["lagEntries"]) for each in facts["collections"]] == [
        ("notes/", 3, 0),
        ("org/people/", 3, 0),
    ]
    assert worm("node", "list", "--url", url).code == 0


def test_a_list_writes_nothing(url: str, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    worm("node", "list", "--url", url)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_mistakes_are_told_before_anything_is_written(url: str) -> None:
    refused = worm("node", "run", "--id", "300", "--url", url)
    assert (refused.code, refused.errors) == (2, "worm: node id 300: it must be an integer between 0 and 255\n")
    assert worm("node", "run", "--interval", "1", "--url", url).code == 2
    assert "one round is over before anybody asks" in worm("node", "run", "--once", "--port", "0", "--url", url).errors
    assert worm("node", "run", "--port", "99999", "--url", url).code == 2
    assert worm("node", "remove", "9", "--yes", "--url", url).code == 2
    assert worm("node", "list", "--url", url).lines[0].startswith("no nodes")


def test_a_node_whose_port_is_taken_leaves_its_id(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        printed = worm("node", "run", "--port", str(taken.getsockname()[1]), "--url", url)
    assert (printed.code, "port" in printed.errors) == (2, True)
    assert "stopped" in worm("node", "list", "--url", url).text


def test_a_signal_ends_a_node_and_marks_it_stopped(url: str) -> None:
    def end() -> None:
        clock = SystemClock()
        while "live" not in worm_list(url):
            clock.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    ender = threading.Thread(target=end)
    ender.start()
    done = worm("node", "run", "--interval", "100", "--port", "0", "--url", url)
    ender.join()
    assert done.code == 0
    assert done.lines[0].startswith("node 0 looks after file://")
    assert done.lines[1].startswith("health and metrics: http://127.0.0.1:")
    assert done.lines[2] == "node 0 has stopped"
    assert worm_list(url) == ["stopped"]


def worm_list(url: str) -> list[str]:
    from wormdb.jobs.node.overview import overview_of

    with wormdb.connect(url) as database:
        return [each.state for each in overview_of(database).nodes]


def run_until_lost(node: Node) -> None:
    with pytest.raises(wormdb.ConflictError):
        node.run()


def test_a_node_that_loses_its_id_says_so_and_ends(url: str) -> None:
    with wormdb.connect(url) as database:
        node = Node(database, node=5, pace=Pace(interval_ms=100))
        node.start()
        running = threading.Thread(target=run_until_lost, args=(node,))
        running.start()
        refused = worm("node", "run", "--id", "5", "--url", url)
        assert refused.code == 1
        assert "worm: node 5 is in use by process" in refused.errors
        removed = None
        while removed is None or removed.code:
            removed = worm("node", "remove", "5", "--yes", "--url", url)
        assert removed.text.startswith("node 5 is removed; it was process ")
        running.join()
        assert "node 5 was removed: by worm node remove" in str(node.lost)
