"""`writeStream.format("worm")`: each micro-batch is one change of the collection, written once.

Tasks only make documents of their rows, and send them to the driver; it commits them as one batch, with an event that
says which micro-batch of which query it is. So a micro-batch is there or it is not, and one that Spark repeats after a
crash is found in the log, or in the root, and not written again. Nothing else is put into the bucket, so that there is
nothing to clean up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from wormdb.engine.bulk.columns import job_clock
from wormdb.engine.commit.operations import Insert, InsertNext, Operation, ReadVersion, Save
from wormdb.engine.state.view import View, id_key
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError
from wormdb.format import json
from wormdb.format.event import StreamAdvanced
from wormdb.jobs.place import Where
from wormdb.spark.stream.rows import RowOperation, StreamRows, check_columns
from wormdb.spark.types import KIND_METADATA
from wormdb.system.types import WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from wormdb.api.access import Access
    from wormdb.api.write import Writer

__all__ = ["StreamWriter", "TaskRows"]

STREAM_OPTIONS: Final = frozenset({"actor", "checkpointlocation", "queryname"})
"""What a stream takes beside where the collection is; the last two are Spark's own."""

TRIES_MAX: Final = 20
"""How often a micro-batch is made anew because others changed the same documents."""
FORWARD_ENTRIES: Final = 64
"""Entries of the tail from which on the log is brought forward: each commit begins with reading the tail."""
_QUERY: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class TaskRows(WriterCommitMessage):
    """What one task sends to the driver."""

    query: str
    given: tuple[RowOperation, ...]
    now_ms: int
    """When its documents were made."""


@dataclass(frozen=True)
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query. A value that Spark pickles."""

    where: Where
    schema: StructType
    actor: str | None = None

    @classmethod
    def of(
        cls, options: Mapping[str, str], variables: Mapping[str, str], schema: StructType, *, overwrite: bool
    ) -> StreamWriter:
        """No requests. Raises InvalidRequestError for options and columns that cannot be, and for complete output."""
        if overwrite:
            raise InvalidRequestError(
                'outputMode("complete")',
                reason="each micro-batch would replace the whole collection",
                fix='use outputMode("append"), or outputMode("update") with foreachBatch and on_conflict="replace"',
            )
        check_columns(schema)
        return cls(Where.of(options, variables, STREAM_OPTIONS), schema, options.get("actor"))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskRows:
        """Make documents of the rows of one task. No requests, but for the schema.

        Raises InvalidRequestError naming a row that cannot be a document of the collection.
        """
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        if context is None or query is None:
            raise InvalidRequestError('writeStream.format("worm")', reason="it must run in a task of a streaming query")
        access = self.where.access()
        now_ms = access.clock.now_ms()
        texts = {f.name: str(f.metadata[KIND_METADATA]) for f in self.schema if KIND_METADATA in f.metadata}
        rows = StreamRows(_made_at(access, now_ms), texts, f"of task {context.partitionId()}")
        given = tuple(one for batch in iterator for one in rows.given(batch))
        return TaskRows(query, given, now_ms)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a micro-batch, unless it was before. 1 PUT without competing writers, and a look-up of its ids.

        Raises what a commit raises; then it may be tried again.
        """
        told = [message for message in messages if isinstance(message, TaskRows)]
        if not any(rows.given for rows in told):
            return
        advanced = StreamAdvanced(stream=WriteId(told[0].query.replace("-", "")), batch=batchId)
        access = self.where.access()
        by = access.by(self.actor, None)
        newest = _newest(told, access.name)
        for _ in range(TRIES_MAX):
            view = access.present()
            if _is_written(view, advanced):
                return
            operations = list(_operations(access, view, newest))
            try:
                committed = access.commit(operations, by, advanced) if operations else None
                if committed is None or not committed.changes:
                    access.commit_event(advanced, by)
            except AlreadyExistsError:
                if not _is_written(access.present(), advanced):
                    raise
            except ConflictError:
                continue
            _forward(access)
            return
        raise ConflictError(
            f"batch {batchId} of a stream to {access.name}",
            reason=f"others changed its documents {TRIES_MAX} times in a row",
            fix="start the query again when fewer write",
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: Spark also calls this after a commit that landed, and rows that did not are nowhere. No requests."""


def _newest(told: Iterable[TaskRows], name: str) -> list[tuple[RowOperation, int]]:
    """Of each document the last row, and when it was made; raises InvalidRequestError if that cannot be told."""
    found: dict[bytes, tuple[RowOperation, int]] = {}
    numbered: list[tuple[RowOperation, int]] = []
    for rows in told:
        for given in rows.given:
            if isinstance(given.operation, InsertNext):
                numbered.append((given, rows.now_ms))
                continue
            before = found.get(given.operation.id)
            if before is not None and (before[0].seq is None or given.seq is None or before[0].seq == given.seq):
                raise InvalidRequestError(
                    f"document {json.decode(given.operation.id, name='document id')!r} of {name}",
                    reason="two rows of one micro-batch are of it, and no column _seq says which is the later one",
                    fix="keep one of them, as with dropDuplicates or an aggregation, or number them in a column _seq",
                )
            if before is None or (before[0].seq or 0) < (given.seq or 0):
                found[given.operation.id] = given, rows.now_ms
    return [*found.values(), *numbered]


def _operations(access: Access[Any], view: View, newest: Sequence[tuple[RowOperation, int]]) -> Iterator[Operation]:
    """What is to be done in the state of a view: a document that is there is replaced, and keeps its `createdAt`."""
    inserts = [given.operation for given, _ in newest if isinstance(given.operation, Insert)]
    held = view.get_many(sorted(id_key(insert.id) for insert in inserts if not insert.fresh))
    writers = {now_ms: _made_at(access, now_ms) for _, now_ms in newest}
    for given, now_ms in newest:
        operation = given.operation
        if not isinstance(operation, Insert) or operation.fresh:
            yield operation
            continue
        there = held.get(id_key(operation.id))
        if there is None or there.document is None:
            yield Save(operation.id, operation.document)
            continue
        body = writers[now_ms].replaced(operation.document, there)
        if body is not None:
            yield Save(operation.id, body, ReadVersion(there, view.number, access.writer.origin))


def _made_at(access: Access[Any], now_ms: int) -> Writer[Any]:
    """Makes documents of one moment, so that times of it are known not to have been given."""
    return access.writer.at(job_clock(now_ms), access.ledger.writer.chance)


def _is_written(view: View, advanced: StreamAdvanced) -> bool:
    known = view.jobs.known.get(advanced.stream)
    return known is not None and known.batch >= advanced.batch


def _forward(access: Access[Any]) -> None:
    view = access.ledger.known()
    if view.number - view.base_number >= FORWARD_ENTRIES:
        access.log.forward()
