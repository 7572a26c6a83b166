"""Health and metrics, for monitoring on the same machine."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.jobs.node.rig import Rig
from wormdb.errors import InvalidRequestError
from wormdb.jobs.node.endpoint import Endpoint, NodeMonitor, health_of, metrics_of

SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="([^"\\\n]|\\.)*"(,[a-z_]+="([^"\\\n]|\\.)*")*\})? -?[0-9.e+-]+')


def asked(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_health_and_metrics_on_loopback() -> None:
    rig = Rig()
    rig.database()["a"].insert({"id": 1})
    node = rig.started(4)
    node.work()
    with Endpoint(NodeMonitor(node)) as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}"
        status, kind, text = asked(f"{url}/health")
        facts: dict[str, Any] = json.loads(text)
        assert (status, kind) == (200, "application/json")
        assert (facts["status"], facts["node"], facts["collections"], facts["failing"]) == ("ok", 4, 1, {})
        status, kind, text = asked(f"{url}/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4")
        assert 'worm_collection_log_number{collection="a/"} 1' in text.splitlines()
        assert asked(f"{url}/")[0] == 404
        with pytest.raises(InvalidRequestError, match=f"port {endpoint.port}: "):
            Endpoint(NodeMonitor(node), endpoint.port)
        rig.clock.advance(100)
        status, _, text = asked(f"{url}/health")
        assert (status, json.loads(text)["status"]) == (503, "failing")


def test_metrics_are_lines_that_prometheus_reads() -> None:
    rig = Rig()
    node = rig.started()
    node.watchlist.add(['odd "name"\\/', "a/"])
    node.watchlist.known["a/"].failed(ValueError("what\never"), 0.0, node.pace)
    text = metrics_of(node)
    families = re.findall(r"^# TYPE (\w+) (gauge|counter)$", text, re.MULTILINE)
    assert len(families) == len(set(families)) >= 15
    assert all(name.endswith("_total") is (kind == "counter") for name, kind in families)
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples), samples
    assert 'worm_collection_errors_total{collection="a/"} 1' in samples
    assert health_of(node)[1]["failing"] == {"a/": "ValueError: what\never"}
