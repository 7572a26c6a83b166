"""A driver of its own that imports, and is killed before or after its commit: `import_child.py <url> <in> <moment>`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from wormdb.jobs import import_
from wormdb.jobs.import_ import FileRecords
from wormdb.spark import session
from wormdb.spark.jobs import pipeline


def main(url: str, source: str, moment: str) -> None:
    spark = session("local[2]", settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    real = import_.attach

    def attach(*arguments: Any) -> Any:
        if moment == "after":
            real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    import_.attach = attach  # type: ignore[assignment] # it never answers
    pipeline(spark, url, collection="things").import_files(FileRecords((source,), job="load"))


if __name__ == "__main__":
    main(*sys.argv[1:])
