"""Make `format("worm")` known to a session, with what its workers need to reach the bucket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wormdb.spark.provider import WormStreams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["ENVIRONMENT_SETTING", "PUSHDOWN_SETTING", "is_local", "keeps_filters_apart", "register", "store_variables"]

PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
"""Off by default, and a source that takes filters is refused while it is."""
_KEEPER = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"

ENVIRONMENT_SETTING = "spark.wormdb.env."
_STORE_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


def is_local(master: str) -> bool:
    """Whether a Spark master is this machine."""
    return master.startswith("local")


def register(spark: SparkSession, *, environment: Mapping[str, str] | None = None) -> None:
    """Let `spark` read and write `format("worm")`. May be called again, then with new variables. No requests.

    Workers reach the bucket with the variables of their own environment, and before those with `environment`, or
    without it with the session's settings `spark.wormdb.env.NAME`, and where the workers run on this machine with
    the AWS_, AZURE_ and GOOGLE_ variables of this process. None of them shows in a plan or among the options.
    """
    shipped = dict(environment) if environment is not None else store_variables(spark)

    is_apart = keeps_filters_apart(spark)

    class Source(WormStreams):
        """The source with its variables: a class of its own, so that Spark ships it by value."""

        variables = shipped
        pushes = is_apart

    spark.conf.set(PUSHDOWN_SETTING, "true")
    spark.dataSource.register(Source)


def keeps_filters_apart(spark: SparkSession) -> bool:
    """Whether Spark plans each scan of a DataFrame with its own filters. No requests.

    Up to 4.3 it keeps the blocks that the filters of one scan chose, and takes them for the other scans of the same
    DataFrame: after `df.filter("age > 50").count()`, `df.count()` would count the blocks of the old only.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect does not tell
        return False
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    methods = jvm.java.lang.Class.forName(_KEEPER, False, loader).getMethods()
    return "setReadInfo" not in {method.getName() for method in methods}


def store_variables(spark: SparkSession) -> dict[str, str]:
    """The variables that workers of `spark` get to reach the store. No requests."""
    settings = spark.conf.getAll
    # A server of Spark Connect may be local to another machine, which has no business with the keys of this one.
    is_here = is_local(settings.get("spark.master", "")) and getattr(spark, "_jvm", None) is not None
    variables = dict(os.environ) if is_here else {}
    variables = {name: value for name, value in variables.items() if name.startswith(_STORE_VARIABLES)}
    named = {
        key.removeprefix(ENVIRONMENT_SETTING): v for key, v in settings.items() if key.startswith(ENVIRONMENT_SETTING)
    }
    return variables | named
