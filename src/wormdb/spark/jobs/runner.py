"""Pieces of work in the workers of Spark: one task each, by `mapInArrow` over their numbers. Nothing is shuffled."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from wormdb.errors import WormError
from wormdb.jobs.history import HistoryTable
from wormdb.jobs.pipeline import Pipeline
from wormdb.jobs.place import Where
from wormdb.jobs.work import Course, Item, ProgressListener, Result, Work, attempt, bodies_of
from wormdb.spark.register import store_variables
from wormdb.spark.session import session
from wormdb.spark.write import error_in
from wormdb.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow import RecordBatch
    from pyspark import SparkContext
    from pyspark.sql import DataFrame


__all__ = ["SparkRunner", "history", "pipeline", "spark_at"]

_POLL_SECONDS: Final = 0.2


def pipeline(
    spark: SparkSession,
    url: str,
    model: str | None = None,
    *,
    collection: str | None = None,
    outer: Mapping[str, Any] | None = None,
    told: ProgressListener | None = None,
) -> Pipeline:
    """The jobs of one collection, done by `spark`; `told` hears how far they are. No requests.

    Its workers reach the store as those of `format("worm")` do. Raises InvalidRequestError unless either `model` or
    `collection` is given.
    """
    where = Where.named(url, model, collection, outer, store_variables(spark))
    return Pipeline(where, SparkRunner(spark), told)


def history(
    spark: SparkSession,
    url: str,
    model: str | None = None,
    *,
    collection: str | None = None,
    outer: Mapping[str, Any] | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Every change of a collection as one DataFrame: id, seq, log, op, time, actor, metadata, changed, before, after.

    It is of the state now, whatever is written later. Costs as `PinnedState.of`; an action costs a scan of history.
    """
    table = HistoryTable.of(Where.named(url, model, collection, outer, store_variables(spark)))
    bodies = [item.body for item in table.items(tasks)]

    def read(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from table.batches(bodies[number])

    return spark.range(0, len(bodies), 1, len(bodies)).mapInArrow(read, from_arrow_schema(table.schema()))


@contextmanager
def spark_at(master: str) -> Iterator[SparkSession]:
    """A session on `master` for one job: the one that runs already, or one that ends with the job.

    No requests. Raises MissingExtraError if Java is missing or too old.
    """
    running = SparkSession.getActiveSession()
    spark = session(master)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


class SparkRunner:
    """Runs each item as a task. A task that dies is Spark's to repeat; an error in the data is not."""

    def __init__(self, spark: SparkSession, *, clock: Clock | None = None) -> None:
        """`spark` may be a session of Spark Connect: then nothing is told between begin and end."""
        self._spark = spark
        self._clock = clock or SystemClock()

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
        """What each item came to, in their order. All are tried; then the error of the first that failed is raised."""
        course = Course(job, items, self._clock, told)
        if not items:
            return []
        bodies = [item.body for item in items]

        def do(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
            import pyarrow as pa

            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = attempt(work, number, bodies[number]).encode()
                    yield pa.record_batch({"result": pa.array([result], pa.binary())})

        frame = self._spark.range(0, len(items), 1, len(items)).mapInArrow(do, "result binary")
        results = [Result.decode(body) for body in self._collected(job, frame, course)]
        course.at(len(items))
        return bodies_of(job, items, results)

    def _collected(self, job: str, frame: DataFrame, course: Course) -> list[bytes]:
        context: SparkContext | None = getattr(self._spark, "_sc", None)
        try:
            if context is None:
                return [bytes(row.result) for row in frame.collect()]
            return _followed(context, job, frame, course)
        except WormError:
            raise
        except Exception as error:
            found = error_in(str(error)) or WormError(f"{job} failed on Spark", reason=str(error).partition("\n")[0])
            raise found from error


def _followed(context: SparkContext, job: str, frame: DataFrame, course: Course) -> list[bytes]:
    """Collect in a thread of its own, and look meanwhile how many tasks are done."""
    group = f"wormdb {job} {id(frame)}"

    def collect() -> list[bytes]:
        context.setJobGroup(group, f"wormdb {job}")
        return [bytes(row.result) for row in frame.collect()]

    with ThreadPoolExecutor(1, thread_name_prefix="wormdb-spark") as pool:
        future: Future[list[bytes]] = pool.submit(collect)
        try:
            while not wait([future], _POLL_SECONDS).done:
                course.at(_tasks_done(context, group))
            return future.result()
        except BaseException:
            context.cancelJobGroup(group)
            raise


def _tasks_done(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
    stages = [tracker.getStageInfo(stage) for info in jobs for stage in info.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
