"""One quiet session for all Spark tests of this process: a JVM costs seconds and half a gigabyte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wormdb.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# The first tier of the compiler and the simplest collector start fastest; tests are short.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All Spark tests go to one worker of a parallel run, so that only one starts a JVM."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores; stopped at the end."""
    folder = tmp_path_factory.mktemp("spark")
    started = session(
        "local[2]",
        name="tests",
        settings={
            "spark.driver.extraJavaOptions": _QUICK_JAVA,
            "spark.driver.memory": "1g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    yield started
    started.stop()
