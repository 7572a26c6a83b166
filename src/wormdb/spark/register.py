"""Make `format("worm")` known to a session, with what its workers need to reach the bucket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wormdb.spark.source import WormSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["ENVIRONMENT_SETTING", "is_local", "register", "store_variables"]

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

    class Source(WormSource):
        """The source with its variables: a class of its own, so that Spark ships it by value."""

        variables = shipped

    spark.dataSource.register(Source)


def store_variables(spark: SparkSession) -> dict[str, str]:
    """The variables that workers of `spark` get to reach the store. No requests."""
    settings = spark.conf.getAll
    variables = dict(os.environ) if is_local(settings.get("spark.master", "")) else {}
    variables = {name: value for name, value in variables.items() if name.startswith(_STORE_VARIABLES)}
    named = {
        key.removeprefix(ENVIRONMENT_SETTING): v for key, v in settings.items() if key.startswith(ENVIRONMENT_SETTING)
    }
    return variables | named
