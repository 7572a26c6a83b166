"""A Spark session with the settings that wormdb's answers and its speed depend on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from wormdb.errors import InvalidRequestError, UnavailableError
from wormdb.spark.needs import check_connect, check_java
from wormdb.spark.register import PUSHDOWN_SETTING, is_local, register

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NEEDED", "session"]

NEEDED = {
    # Dates are instants: any other zone would move them when they become text.
    "spark.sql.session.timeZone": "UTC",
    PUSHDOWN_SETTING: "true",
}
"""What every session must have that reads or writes `format("worm")`."""

_USEFUL = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Fewer, larger batches between the JVM and Python; the default is 10,000.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
_LOCAL = {
    # One machine: nothing listens on the network, and nothing is drawn over the caller's output.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session(
    master: str = "local[*]", *, name: str = "wormdb", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on `master` (local[n], a cluster's URL, or sc://… of Spark Connect) that knows `format("worm")`.

    Sets the time zone to UTC, filter push-down on, and the Python of the workers to this one, unless PYSPARK_PYTHON
    or `settings` names another. `settings` are Spark's own and win over ours, except those without which answers
    would be wrong. A session that runs already is taken, and keeps what only a start can set. No requests.
    Raises MissingExtraError when Java is missing or too old, or the packages of Spark Connect are, InvalidRequestError
    for such a setting, and for Spark Connect beside a session with a JVM, UnavailableError if no server of it answers.
    """
    given = dict(settings or {})
    _check(given)
    configuration = dict(_USEFUL)
    builder = SparkSession.Builder().appName(name)
    is_remote = master.startswith("sc://")
    if is_remote:
        check_connect()
        _check_client(master)
        builder = builder.remote(master)
    else:
        python = os.environ.setdefault("PYSPARK_PYTHON", given.get("spark.pyspark.python", sys.executable))
        configuration["spark.pyspark.python"] = python
        if SparkSession.getActiveSession() is None:
            check_java()
        if is_local(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            configuration |= _LOCAL
            given[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {given.get(_JAVA_OPTIONS, '')}"
        builder = builder.master(master)
    for key, value in {**configuration, **given, **NEEDED}.items():
        builder = builder.config(key, value)
    spark = _reached(builder, master) if is_remote else builder.getOrCreate()
    if is_local(master) and "spark.log.level" not in given:
        spark.sparkContext.setLogLevel("ERROR")  # PySpark raises what the file says to warnings
    register(spark)
    return spark


def _check_client(master: str) -> None:
    running = SparkSession.getActiveSession()
    if running is not None and getattr(running, "_jvm", None) is not None:
        raise InvalidRequestError(
            f"Spark Connect at {master}",
            reason="this process has a session with a JVM of its own",
            fix="stop that one first, or connect in another process",
        )


def _reached(builder: SparkSession.Builder, master: str) -> SparkSession:
    """A session of a server that answers."""
    try:
        spark = builder.getOrCreate()
        spark.version  # noqa: B018 - the first question that is sent
    except (PySparkException, RuntimeError) as error:
        raise UnavailableError(
            f"Spark Connect at {master}",
            reason=str(error).partition("\n")[0],
            fix="check that its server runs, and that its address is right",
        ) from error
    return spark


def _check(given: Mapping[str, str]) -> None:
    for key, value in NEEDED.items():
        if str(given.get(key, value)).lower() != value.lower():
            raise InvalidRequestError(
                f"setting {key}={given[key]}", reason=f"wormdb needs {value} there", fix="leave it out"
            )
