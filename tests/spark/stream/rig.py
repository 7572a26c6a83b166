"""A change feed read without Spark: offsets, plans and rows as Spark asks for them, in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.read.rig import sent
from wormdb.spark.register import WormStreams
from wormdb.spark.stream.source import ChangeReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

__all__ = ["Stream", "reader"]

Offset = dict[str, Any]


def reader(schema: StructType | None = None, **options: str) -> ChangeReader:
    """A reader as a start of a query makes one."""
    source = sent(WormStreams(CaseInsensitiveDict(options)))
    if schema is None:
        schema = source.schema()
        source = sent(source)
    made = source.streamReader(schema)
    assert isinstance(made, ChangeReader)
    return made


class Stream:
    """A query with a checkpoint: the ends of its micro-batches, the last of which may not be done."""

    def __init__(self, schema: StructType | None = None, **options: str) -> None:
        self.schema, self.options = schema, options
        self.ends: list[Offset] = []
        self.done = 0
        self.start()

    def start(self) -> None:
        """Begin again from the checkpoint, in another process."""
        self.reader = reader(self.schema, **self.options)

    def plan(self, *, everything: bool = False) -> bool:
        """Write the end of the next micro-batch into the checkpoint; whether there is one."""
        start = self.ends[-1] if self.ends else stored(self.reader.initialOffset())
        limit = ReadAllAvailable() if everything else self.reader.getDefaultReadLimit()
        end = stored(self.reader.latestOffset(start, limit))
        if end != start:
            self.ends.append(end)
        return end != start

    def run(self, *, crash: bool = False) -> list[dict[str, Any]]:
        """The rows of the micro-batch that is planned; unless it crashes, it is done."""
        number = self.done
        start = self.ends[number - 1] if number else stored(self.reader.initialOffset())
        partitions = [sent(each) for each in self.reader.partitions(start, self.ends[number])]
        worker: ChangeReader = sent(self.reader)
        rows = [row for each in partitions for batch in worker.read(each) for row in batch.to_pylist()]
        self.done += not crash
        return rows

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Micro-batches until nothing is new."""
        while self.done < len(self.ends) or self.plan():
            yield self.run()


def stored(offset: Offset) -> Offset:
    """As it comes back from a checkpoint."""
    known: Offset = json.loads(json.dumps(offset))
    return known
