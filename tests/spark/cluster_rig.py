"""Servers of Spark from the wheel, on loopback: a cluster of a master and two workers of one core; Spark Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark

from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Cluster", "ConnectServer", "driver_environment"]

_HOME = Path(pyspark.__file__).parent
_START_SECONDS = 180
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def driver_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What a driver, a master and workers need: where they are, and which Python workers run."""
    # Each Python process of Spark would compile the whole package again where bytecode may not be kept.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **own,
        **variables,
        "SPARK_HOME": str(_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK_JAVA,
        "SPARK_DAEMON_MEMORY": "256m",
    }


class Cluster:
    """Started on entry, ended by process id on exit."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """`variables` are added to the environment of workers: the credentials of the store."""
        self._folder = folder
        self._variables = variables
        self._resources = ExitStack()
        self.master = ""

    def __enter__(self) -> Self:
        try:
            # Two hosts: Spark runs no second copy of a task where the first one runs.
            log = self._start("master", "127.0.0.1", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = _found(log, r"Starting Spark master at (spark://\S+)")
            for host in ("127.0.0.2", "127.0.0.3"):
                own = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
                log = self._start("worker", host, *own, "--work-dir", str(self._folder / host), self.master)
                _found(log, "Successfully registered with master")
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()

    def _start(self, kind: str, host: str, *arguments: str) -> Path:
        log = self._folder / f"{kind}-{host}.log"
        name = f"org.apache.spark.deploy.{kind}.{kind.title()}"
        environment = {**driver_environment(self._variables), "SPARK_LOCAL_IP": host}
        self._resources.callback(_end, _started("spark-class", [name, *arguments], environment, log))
        return log


class ConnectServer:
    """A server of Spark Connect with two cores. Started on entry, ended by process id on exit."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """`variables` are added to its environment: the credentials of the store."""
        self._log = folder / "connect.log"
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "1g"}  # it counts as a daemon, and is a driver
        self._environment = {**driver_environment(variables), **own}
        self._resources = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.extraJavaOptions": _QUICK_JAVA,
            "spark.python.authenticate.socketTimeout": "120s",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        pairs = [text for item in settings.items() for text in ("--conf", "=".join(item))]
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        process = _started(
            "spark-submit", ["--class", name, "--master", "local[2]", *pairs], self._environment, self._log
        )
        self._resources.callback(_end, process)
        try:
            self.url = "sc://127.0.0.1:" + _found(self._log, r"Spark Connect server started at: \S*:(\d+)")
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()


def _started(program: str, arguments: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [str(_HOME / "bin" / program), *arguments], stdout=out, stderr=subprocess.STDOUT, env=environment
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # a worker ends its executors
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _found(log: Path, pattern: str) -> str:
    """What a log says, when it says so."""
    for _ in range(_START_SECONDS * 5):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[found.re.groups]
        SystemClock().sleep(0.2)
    raise AssertionError(f"{log} never said {pattern}:\n{log.read_text(errors='replace')[-2_000:]}")
