"""Spark Connect: frames, jobs and a stream by a real server; and one line says what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkRuntimeError

from tests.cli.printed import fill, worm
from tests.spark.cluster_rig import ConnectServer, driver_environment
from wormdb.errors import InvalidRequestError, MissingExtraError, UnavailableError
from wormdb.spark import session
from wormdb.spark import session as opening
from wormdb.spark.register import store_variables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from wormdb.testing.s3_server import S3Server


def without(patch: pytest.MonkeyPatch, package: str) -> None:
    """As if a package were not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == package or "pyspark.sql.connect" in name]:
        patch.delitem(sys.modules, name)
    patch.setitem(sys.modules, package, None)


def test_without_its_packages_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "grpc")
    with pytest.raises(
        MissingExtraError, match=r"Spark Connect needs packages.*grpcio.*pip install 'wormdb\[connect\]'"
    ):
        session("sc://127.0.0.1:1")
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    fill("memory://connect", 5)
    done = worm("table", "aggregate", "Invoice", "--count", "--master", "sc://127.0.0.1:1", "--url", "memory://connect")
    assert done.code == 1
    assert done.errors.splitlines()[-1].startswith("worm: Spark Connect needs packages that are not installed: ")


def test_a_process_with_a_jvm_is_no_client(spark: SparkSession) -> None:
    with pytest.raises(InvalidRequestError, match=r"Spark Connect at sc://here.*with a JVM.*stop that one first"):
        session("sc://here")


class Builder:
    """A builder whose server does not answer."""

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - as Spark calls it
        raise PySparkRuntimeError("no answer\nand a long story")


def test_a_server_that_does_not_answer_is_named() -> None:
    module: Any = sys.modules[opening.__module__]
    with pytest.raises(UnavailableError, match=r"Spark Connect at sc://here: no answer \(check that its server runs"):
        module._reached(Builder(), "sc://here")


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("where", ["folder", "s3"])
def test_frames_jobs_and_a_stream(s3_server: S3Server, s3_url: str, tmp_path: Path, where: str) -> None:
    """Server and client have the keys of the store each in its own environment."""
    url = str(tmp_path / "db") if where == "folder" else s3_url
    with ConnectServer(tmp_path, s3_server.environment) as server:
        command = [sys.executable, "-m", "tests.spark.connect_child", server.url, url, str(tmp_path)]
        environment = driver_environment(s3_server.environment)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("refused").startswith("AlreadyExistsError: document 'k")
    assert (found["code"], json.loads(found.pop("printed"))) == (0, {"sum": sum(range(20)) + 100})
    assert found == {
        "all": 20,
        "large": 15,
        "pushed": 15,
        "sum": {"sum": sum(range(20)) + 100},
        "imported": [1, ["the id 'k1' exists already"]],
        "exported": 21,
        "changes": 21,
        "code": 0,
        "copied": True,
    }


@pytest.mark.parametrize(("jvm", "shipped"), [(object(), {"AWS_PROFILE": "own"}), (None, {})])
def test_keys_of_this_machine_are_not_sent_to_a_server(
    monkeypatch: pytest.MonkeyPatch, jvm: object, shipped: dict[str, str]
) -> None:
    """A server says that its master is local: to itself."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "own")
    spark: Any = SimpleNamespace(conf=SimpleNamespace(getAll={"spark.master": "local[2]"}), _jvm=jvm)
    assert store_variables(spark) == shipped
