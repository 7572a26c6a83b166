"""Start a query until it ends, on a machine that may have much to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["PATIENCE", "run_through"]

PATIENCE = {"spark.python.authenticate.socketTimeout": "120s"}
"""Settings of Spark: how long a Python process may take until it is connected."""
# What Spark says of a process that did not start within the seconds that it allows.
_BUSY = ("failed to connect back", "CANNOT_OPEN_SOCKET")
_TRIES = 10


def run_through(sink: DataStreamWriter) -> None:
    """Follow a stream with `availableNow` to its end; only if Python did not start in time it is started again."""
    for tries in range(1, _TRIES + 1):
        try:
            sink.start().awaitTermination()
        except StreamingQueryException as error:
            if tries == _TRIES or not any(sign in str(error) for sign in _BUSY):
                raise
        else:
            return
