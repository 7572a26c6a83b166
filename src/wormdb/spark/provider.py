"""`format("worm")` with its streams: what Spark asks of a source that can also be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.errors import InvalidRequestError, MissingExtraError
from wormdb.jobs.place import Where
from wormdb.jobs.state import PinnedState
from wormdb.spark.read.source import WormSource
from wormdb.spark.stream.changes import CHANGE_COLUMNS, ChangeTable, schema_of_changes
from wormdb.spark.stream.sink import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from wormdb.spark.read.source import WormReader

__all__ = ["FEED_OPTIONS", "WormStreams"]

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
            raise InvalidRequestError(f"option changes={text}", reason="it is true or false", fix="give one of them")
        return _TRUTHS[text.lower()]

    def _followed(self) -> Where:
        return Where.of(self.options, self.variables, _STREAM_OPTIONS)
