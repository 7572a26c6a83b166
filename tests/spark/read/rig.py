"""A source read without Spark: planned, pickled and read as Spark does it, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict

from wormdb.spark.read.source import PushingReader, WormReader, WormSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

__all__ = ["Read", "plan", "read"]


class Read:
    """A planned scan."""

    def __init__(self, reader: WormReader, schema: StructType) -> None:
        self.reader: WormReader = sent(reader)
        self.schema = schema
        self.shares = [sent(partition) for partition in reader.partitions()]

    def rows(self) -> list[dict[str, Any]]:
        """All rows of all tasks, in order of tasks."""
        batches = [batch for share in self.shares for batch in self.reader.read(share)]
        assert all(batch.schema.names == self.schema.fieldNames() for batch in batches)
        return [row for batch in batches for row in batch.to_pylist()]


def plan(schema: StructType | None = None, *, pushed: Sequence[Filter] = (), **options: str) -> Read:
    """Plan a scan with options, and perhaps a schema of the user and filters of Spark."""
    if pushed:
        options["pushdown"] = "on"
    source = sent(WormSource(CaseInsensitiveDict(options)))
    if schema is None:
        schema = source.schema()
        source = sent(source)
    reader = source.reader(schema)
    if pushed:
        assert isinstance(reader, PushingReader)
        assert list(reader.pushFilters(list(pushed))) == list(pushed), "Spark gets every filter back"
    return Read(reader, schema)


def read(schema: StructType | None = None, *, pushed: Sequence[Filter] = (), **options: str) -> list[dict[str, Any]]:
    """The rows of such a scan."""
    return plan(schema, pushed=pushed, **options).rows()


def sent(value: Any) -> Any:
    """As another process gets it."""
    return cloudpickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # it has no types
