"""`format("worm")`: the source with its streams, and how a session gets to know it and what its workers need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from wormdb.errors import InvalidRequestError, MissingExtraError
from wormdb.jobs.place import Where
from wormdb.jobs.state import PinnedState
from wormdb.spark.read.source import WormReader, WormSource
from wormdb.spark.stream.changes import CHANGE_COLUMNS, ChangeTable, schema_of_changes
from wormdb.spark.stream.sink import StreamWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType


__all__ = [
    "ENVIRONMENT_SETTING",
    "FEED_OPTIONS",
    "PUSHDOWN_SETTING",
    "WormStreams",
    "is_local",
    "keeps_filters_apart",
    "register",
    "store_variables",
]


FEED_OPTIONS: Final = frozenset({"changes", "startingoffset", "maxentriespertrigger", "maxrowspertrigger"})
"""The options that only a change feed has: each of them says that one is wanted."""
_STREAM_OPTIONS: Final = FEED_OPTIONS | {"columns", "partitions"}
_UPGRADE: Final = "pip install --upgrade 'wormdb[spark]'"
_TRUTHS: Final = {"true": True, "false": False}


class WormStreams(WormSource):
    """A collection as a table of Spark, and as a stream of its changes."""

    def schema(self) -> StructType:
        """The columns of a scan, or with an option of a change feed those of its rows. Costs as `PinnedState.of`.

        Spark does not tell whether it is a stream that is wanted. Raises what a scan does.
        """
        if not self._is_feed():
            return super().schema()
        self._state = PinnedState.of(self._followed())
        return schema_of_changes(self._state.newest(), self._state.model(), self._names())

    def reader(self, schema: StructType) -> WormReader:
        """As for a scan; raises InvalidRequestError for options of a change feed."""
        if self._is_feed():
            raise InvalidRequestError(
                "a change feed by spark.read", reason="it is a stream", fix="use spark.readStream, or leave changes out"
            )
        return super().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Reads changes with the columns of `schema`. Costs as `schema` if that was given by the user.

        Raises InvalidRequestError, NotFoundError, and MissingExtraError for a pyspark that has no read limits.
        """
        is_given = self._state is None
        if not self._is_feed() and not (is_given and CHANGE_COLUMNS.keys() & set(schema.fieldNames())):
            raise InvalidRequestError(
                'readStream.format("worm")',
                reason="a stream has the changes of documents, and these columns would not tell them",
                fix='add option("changes", "true")',
            )
        try:
            from wormdb.spark.stream.source import EARLIEST, ChangeReader, Limits
        except ImportError as error:
            raise MissingExtraError(
                'readStream.format("worm")', reason="pyspark is too old: it needs 4.2 or newer", fix=_UPGRADE
            ) from error
        where = self._followed()
        state = self._state or PinnedState.of(where)
        return ChangeReader(
            where,
            ChangeTable.of(state.newest(), state.model(), schema),
            self.options.get("startingOffset", EARLIEST),
            Limits.of(self.options),
            self._tasks(),
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Writes micro-batches, each once. No requests. Raises InvalidRequestError for options and columns."""
        return StreamWriter.of(self.options, self.variables, schema, overwrite=overwrite)

    def _is_feed(self) -> bool:
        text = self.options.get("changes")
        if text is None:
            return any(name in self.options for name in FEED_OPTIONS)
        if text.lower() not in _TRUTHS:
            raise InvalidRequestError(
                f"option changes={text}", reason="it must be true or false", fix="give one of them"
            )
        return _TRUTHS[text.lower()]

    def _followed(self) -> Where:
        return Where.of(self.options, self.variables, _STREAM_OPTIONS)


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
