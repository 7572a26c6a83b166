"""A driver of its own that rebuilds, and is killed in or after a step: `rebuild_child.py <url> <step>`."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from wormdb.engine.forward import rebuild_lists
from wormdb.jobs.rebuild import RebuildOptions
from wormdb.spark import session
from wormdb.spark.jobs import pipeline

if TYPE_CHECKING:
    from wormdb.jobs.work import JobProgress


def main(url: str, step: str) -> None:
    setattr(rebuild_lists, "SPAN_BYTES", 2_500)  # noqa: B010 - a constant
    setattr(rebuild_lists, "PACKED_SPAN_BYTES", 2_500)  # noqa: B010 - a constant
    spark = session("local[2]", settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})

    def told(progress: JobProgress) -> None:
        if progress.job == step and progress.done:
            os.kill(os.getpid(), signal.SIGKILL)

    pipeline(spark, url, collection="things", told=told).rebuild(RebuildOptions(block_bytes=10_000))


if __name__ == "__main__":
    main(*sys.argv[1:])
