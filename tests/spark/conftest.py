"""One quiet session for all Spark tests of this process: a JVM costs seconds and half a gigabyte."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tests.spark.stream_start import PATIENCE
from wormdb.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# The first tier of the compiler and the simplest collector start fastest; tests are short.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to its JVM to the garbage collector, which may come at any time."""
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="module", autouse=True)
def sockets() -> Iterator[None]:
    """Let them be collected before tests come that do not expect it."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores; stopped at the end."""
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
