"""`df.write.format("worm")`: tasks write immutable blocks, the driver attaches them by one entry of the log.

Spark makes a `WormWriter` in a planning process, pickles it for each task, and asks it to commit in a third process.
All that it knows is in the target of the job, which was opened when the writer was made. A task, an
executor or a driver that dies leaves blocks that no entry names; a second run of the same job finds what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from wormdb.engine.blocks.memory import plain_memory
from wormdb.engine.bulk.columns import ColumnMaker, TaskChance, job_clock
from wormdb.engine.bulk.report import BulkTarget, ConflictRule
from wormdb.engine.bulk.rows import BatchWriter
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.load import BulkOutcome, JobSpec, abort, attach, open_job
from wormdb.errors import InvalidRequestError
from wormdb.jobs.place import Where
from wormdb.spark.types import KIND_METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from wormdb.api.access import Access
    from wormdb.system.clock import Chance, Clock

__all__ = ["WRITE_OPTIONS", "TaskMessage", "WormWriter", "task_number"]

WRITE_OPTIONS: Final = frozenset({"on_conflict", "job", "actor"})
"""What a writer takes beside where the collection is."""

KIND: Final = "spark"


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What one task tells the driver."""

    body: bytes


@dataclass(frozen=True)
class WormWriter(DataSourceArrowWriter):
    """One write of one frame. A value that Spark pickles."""

    where: Where
    target: BulkTarget | BulkOutcome
    """The outcome if the job was attached before: then rows are passed over."""
    texts: tuple[tuple[str, str], ...]
    """What columns of text stand for."""
    is_named: bool
    """Whether the caller named the job, so that it can be run again."""
    actor: str | None = None

    @classmethod
    def of(
        cls, options: Mapping[str, str], variables: Mapping[str, str], schema: StructType, *, overwrite: bool
    ) -> WormWriter:
        """Open the job that options name, or a new one. 2 GETs and 1 PUT; 1 GET for the schema.

        Raises InvalidRequestError for options and columns that cannot be, ConflictError for a job that was given up,
        SchemaMismatchError and PermissionDeniedError as any write.
        """
        where = Where.of(options, variables, WRITE_OPTIONS)
        rule = options.get("on_conflict", "error").lower()
        if rule not in get_args(ConflictRule):
            raise InvalidRequestError(
                f"option on_conflict={rule}",
                reason="there is no such rule",
                fix=f"use one of {', '.join(get_args(ConflictRule))}",
            )
        name, actor = options.get("job", ""), options.get("actor")
        access = where.access()
        spec = _spec(access, name, actor, rule, overwrite=overwrite)
        texts = [
            (field.name, str(field.metadata[KIND_METADATA])) for field in schema if KIND_METADATA in field.metadata
        ]
        return cls(where, open_job(access.ledger, spec), tuple(texts), bool(name), actor)

    def write(self, iterator: Iterator[RecordBatch]) -> TaskMessage:
        """Write the rows of one task as blocks; the report for the driver. Costs and raises as `BulkTask`."""
        if isinstance(self.target, BulkOutcome):
            for _ in iterator:
                pass
            return TaskMessage(b"")
        number = task_number()
        access = self.where.access()
        ledger = access.ledger
        model = access.writer.model
        clock, chance = _moment(access, self.target, number)
        task = BulkTask(ledger, self.target, access.writer.at(clock, chance), number)
        maker = ColumnMaker(model, clock, chance)
        writer = BatchWriter(task, model=model, texts=dict(self.texts), maker=maker)
        with plain_memory():
            for batch in iterator:
                writer.add(batch)
            return TaskMessage(writer.task.report())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Attach what all tasks wrote. Costs and raises as `wormdb.engine.load.attach`."""
        if isinstance(self.target, BulkOutcome):
            return
        access = self.where.access()
        reports = [message.body for message in messages if isinstance(message, TaskMessage)]
        overwrite, rule = self.target.overwrite, self.target.on_conflict
        spec = _spec(access, self.target.job, self.actor, rule, overwrite=overwrite)
        documents = access.writer.at(*_moment(access, self.target, 0))
        attach(access.ledger, self.target, reports, documents, spec)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - nothing is deleted
        """Give up a job that cannot be run again; Spark also calls this after a commit that landed. 1 PUT."""
        if isinstance(self.target, BulkTarget) and not self.is_named:
            abort(self.where.access().ledger, self.target.job, "the Spark job failed")


def task_number() -> int:
    """The number of the task that runs here, the same in every attempt at it."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _spec(access: Access[Any], job: str, actor: str | None, rule: Any, *, overwrite: bool) -> JobSpec:
    return access.job_spec(job, KIND, access.by(actor, None), on_conflict=rule, overwrite=overwrite)


def _moment(access: Access[Any], target: BulkTarget, task: int) -> tuple[Clock, Chance]:
    """Documents are of the job's moment, with ids of the task's own."""
    model = access.writer.model
    chance = access.ledger.writer.chance
    return job_clock(target.started_ms), TaskChance(chance, "ulid" if model is None else model.id, task)
