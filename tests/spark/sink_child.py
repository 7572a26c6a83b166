"""A driver of its own for tests that kill it: `python sink_child.py <folder> <job> <moment>`.

It writes two tasks with four rows. One of them loses its worker in the first attempt; and when the driver is about
to commit, or has committed, its JVM is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyspark import TaskContext

from wormdb.spark import session
from wormdb.spark.read.source import WormSource
from wormdb.spark.sink import WormWriter


def main(url: str, job: str, moment: str) -> None:
    spark = session("local[2,3]", settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    assert spark._jvm is not None
    victim = int(spark._jvm.java.lang.ProcessHandle.current().pid())

    class Mortal(WormWriter):
        def write(self, iterator: Any) -> Any:
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                next(iterator)
                os._exit(1)
            return super().write(iterator)

        def commit(self, messages: Any) -> None:
            if moment == "before":
                os.kill(victim, signal.SIGKILL)
                os._exit(1)
            super().commit(messages)
            os.kill(victim, signal.SIGKILL)
            os._exit(1)

    class Source(WormSource):
        def writer(self, schema: Any, overwrite: bool) -> WormWriter:
            made = super().writer(schema, overwrite)
            return Mortal(made.where, made.target, made.texts, made.is_named, made.actor)

    spark.dataSource.register(Source)
    frame = spark.range(0, 4, 1, 2).selectExpr("concat('k', id) as id", "id as n")
    frame.write.format("worm").mode("append").options(url=url, collection="things", job=job).save()


if __name__ == "__main__":
    main(*sys.argv[1:])
