"""One quiet session for all Spark tests of this process: a JVM costs seconds and half a gigabyte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.stream.start import PATIENCE
from wormdb.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# The first tier of the compiler and the simplest collector start fastest; tests are short.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session on two cores; stopped at the end."""
    # PySpark leaves the sockets of threads that ended to the garbage collector, which comes in any later test.
    request.config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    folder = tmp_path_factory.mktemp("spark")
    started = session(
        "local[2]",
        name="tests",
        settings={
            **PATIENCE,
            "spark.driver.extraJavaOptions": _QUICK_JAVA,
            "spark.driver.memory": "1g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    yield started
    started.stop()
