"""A real cluster of two workers: a job of each kind, frames and streams, and what happens when parts of it die."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.cluster_rig import Cluster, driver_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.testing.s3_server import S3Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[Cluster]:
    """One for all tests; its workers have the keys of the store in their environment."""
    with Cluster(tmp_path_factory.mktemp("cluster"), s3_server.environment) as started:
        yield started


def run(what: str, cluster: Cluster, url: str, folder: Path, variables: Any) -> Any:
    """What a driver of its own found."""
    environment = {**driver_environment(variables), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "tests.spark.cluster_child", what, cluster.master, url, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("where", ["folder", "s3"])
def test_a_job_of_each_kind(cluster: Cluster, s3_server: S3Server, s3_url: str, tmp_path: Path, where: str) -> None:
    url = str(tmp_path / "db") if where == "folder" else s3_url
    found = run("jobs", cluster, url, tmp_path, s3_server.environment)
    assert found["codes"] == dict.fromkeys(found["verbs"], 0)
    assert (found["rejected"], found["exported"]) == (1, 90)
    expected = {"open": {"sum": sum(range(0, 90, 2))}, "paid": {"sum": sum(range(1, 90, 2))}}
    assert found["sums"]["groups"] == expected
    assert (found["read"], found["known"], found["copied"]) == (90, 90, True)
    assert found["paid"] == sum(n > 10 for n in range(1, 90, 2))


@pytest.mark.parametrize("trouble", ["slow", "killed"])
def test_a_copy_of_a_slow_task_and_an_executor_that_is_killed(
    cluster: Cluster, s3_server: S3Server, s3_url: str, tmp_path: Path, trouble: str
) -> None:
    """The write is one entry with each row once, also if other tasks wrote blocks for it."""
    found = run(trouble, cluster, s3_url, tmp_path, s3_server.environment)
    assert (found["rows"], found["number"]) == ({f"k{n}": n for n in range(4)}, 2)
    assert {"1-0", "1-1"} <= set(found["attempts"]), "the task was run twice"
