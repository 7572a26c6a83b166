"""The pipeline of `make demo`, with few documents: it ends with an error if anything does not behave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples import pipeline

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession


def test_the_pipeline_of_the_demo(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    cities = [
        {
            "id": f"{number:04}",
            "name": f"city {number}",
            "countrycode": ("JP", "IT")[number % 2],
            "timezone": ("Asia/Tokyo", "Europe/Rome")[number % 2],
            "population": 400_000 + number * 1_000,
            "alternatenames": [f"町 {number}"],
        }
        for number in range(200)
    ]
    pipeline.run(tmp_path, cities, spark)
    told = capsys.readouterr().out
    assert "200 documents by log entry" in told
    assert "set aside, line 201: name: is required" in told
    assert "598,000  city 198" in told
    assert "N+1 loop:     201 requests" in told
    assert "200 rows in 3 files; Spark's own reader counts 200" in told
