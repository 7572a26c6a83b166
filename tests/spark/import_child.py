"""A driver of its own that imports, and is killed before or after its commit: `import_child.py <url> <in> <moment>`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from wormdb.api.imports import run
from wormdb.engine import load as bulk
from wormdb.jobs.import_ import FileRecords
from wormdb.spark import session
from wormdb.spark.jobs import pipeline


def main(url: str, source: str, moment: str) -> None:
    spark = session("local[2]", settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})

    def attach(*arguments: Any) -> None:
        if moment == "after":
            bulk.attach(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(run, "attach", attach)  # noqa: B010 - a name that the module does not offer
    pipeline(spark, url, collection="things").import_files(FileRecords((source,), job="load"))


if __name__ == "__main__":
    main(*sys.argv[1:])
