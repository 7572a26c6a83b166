"""The pages about Spark are programs too; they run in the session that the tests have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from tests.test_docs import SPARK_PAGES, named, run_page

if TYPE_CHECKING:
    from pathlib import Path


def test_there_are_such_pages() -> None:
    assert "docs/how-to/spark.md" in [named(page) for page in SPARK_PAGES]


@pytest.mark.parametrize("page", SPARK_PAGES, ids=named)
def test_every_block_runs(page: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[SparkSession] = []

    def stop(session: SparkSession) -> None:
        stopped.append(session)

    monkeypatch.setattr(SparkSession, "stop", stop)
    run_page(page, tmp_path)
    assert stopped == [spark], "a page ends the session that it starts"
