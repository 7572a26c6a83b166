"""A frame written without Spark: as tasks and a driver that know only what was pickled for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import CaseInsensitiveDict

from tests.spark.read.rig import sent
from wormdb.spark import sink
from wormdb.spark.read.source import WormSource
from wormdb.spark.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest
    from pyspark.sql.types import StructType

    from wormdb.spark.sink import TaskMessage, WormWriter

__all__ = ["Frame"]

Rows = list[dict[str, Any]]


class Frame:
    """Rows of a schema, in tasks."""

    def __init__(self, schema: StructType, tasks: Sequence[Rows]) -> None:
        self.schema = schema
        self.tasks = tasks

    def writer(self, where: Mapping[str, str], rule: str = "error", *, overwrite: bool = False) -> WormWriter:
        """As Spark's planner makes it; `where` are its options."""
        source = sent(WormSource(CaseInsensitiveDict({"on_conflict": rule, **where})))
        writer: WormWriter = sent(source.writer(self.schema, overwrite))
        return writer

    def run(self, writer: WormWriter, patch: pytest.MonkeyPatch, *, every: int = 3) -> list[TaskMessage]:
        """All tasks of it, each in batches of a few rows."""
        import pyarrow as pa

        reports = []
        for number, rows in enumerate(self.tasks):
            with patch.context() as patched:
                patched.setattr(sink, "task_number", lambda number=number: number)
                parts = [rows[start : start + every] for start in range(0, len(rows), every)]
                batches = [pa.RecordBatch.from_pylist(part, schema=arrow_schema(self.schema)) for part in parts]
                reports.append(sent(sent(writer).write(iter(batches))))
        return reports

    def write(
        self, patch: pytest.MonkeyPatch, where: Mapping[str, str], rule: str = "error", *, overwrite: bool = False
    ) -> None:
        """All of it."""
        writer = self.writer(where, rule, overwrite=overwrite)
        reports: list[Any] = list(self.run(writer, patch))
        sent(writer).commit(reports)
