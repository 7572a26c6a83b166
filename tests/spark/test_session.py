"""What a session sets, and what is said when Spark cannot run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import wormdb.spark
from wormdb.errors import InvalidRequestError, MissingExtraError
from wormdb.spark import WriteResult, session
from wormdb.spark.needs import check_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


def test_a_session_has_the_settings_that_matter(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


def test_workers_run_this_python(spark: SparkSession) -> None:
    def executables(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"python": [sys.executable] * batch.num_rows})

    rows = spark.range(1).mapInArrow(executables, "python string").collect()
    assert [row.python for row in rows] == [sys.executable]


def test_a_setting_that_would_change_answers_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"spark\.sql\.session\.timeZone.*UTC"):
        session(settings={"spark.sql.session.timeZone": "Asia/Tokyo"})


def test_without_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"no java on the search path.*openjdk-17"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(MissingExtraError, match="JAVA_HOME="):
        check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('openjdk version "11.0.2"', "is Java 11"),
        ('java version "1.8.0_292"', "is Java 8"),
        ("hello", "does not tell its version"),
    ],
)
def test_a_java_that_is_too_old_is_named(tmp_path: Path, said: str, message: str) -> None:
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    with pytest.raises(MissingExtraError, match=message):
        check_java({"PATH": str(tmp_path)})
    program.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n")
    check_java({"PATH": str(tmp_path)})


def test_an_older_name_says_which_one_took_its_place() -> None:
    with pytest.warns(DeprecationWarning, match=r"wormdb\.spark\.WriteResult now"):
        assert wormdb.spark.Written is WriteResult  # type: ignore[attr-defined]  # the old name is for callers only
    with pytest.raises(AttributeError, match="Writing"):
        _ = wormdb.spark.Writing  # type: ignore[attr-defined]  # there is none
