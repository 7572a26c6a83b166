"""The sink in a real Spark: frames, errors, and drivers and executors that die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.errors import AlreadyExistsError
from wormdb.spark import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(spark: SparkSession, tasks: int = 2) -> DataFrame:
    return spark.range(0, 4, 1, tasks).selectExpr("concat('k', id) as id", "id as n")


def state(url: str) -> dict[str, int]:
    with wormdb.connect(url) as db:
        return {document["id"]: document["n"] for document in db["things"].find_all()}


def test_frames_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    url, expected = str(tmp_path), {f"k{n}": n for n in range(4)}
    first = write(frame(spark), url, collection="things", job="load", partitions=2)
    assert write(frame(spark), url, collection="things", job="load") == first
    assert state(url) == expected
    rows = spark.read.format("worm").options(url=url, collection="things").load().collect()
    assert {row["id"]: row["n"] for row in rows} == expected
    with pytest.raises(AlreadyExistsError, match=r"document 'k\d' in things/: it exists already"):
        write(frame(spark), url, collection="things")
    few = frame(spark).where("n < 2").selectExpr("id", "n * 10 as n")
    few.write.format("worm").mode("overwrite").options(url=url, collection="things").save()
    assert state(url) == {"k0": 0, "k1": 10}


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
def test_whoever_dies_leaves_one_copy_or_none(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    """The child loses an executor, which is tried again; then it dies before the commit, or after it."""
    child = Path(__file__).with_name("sink_child.py")
    command = [sys.executable, str(child), str(tmp_path), "job", moment]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=250)
    assert done.returncode != 0
    expected = {f"k{n}": n for n in range(4)}
    assert state(str(tmp_path)) == (expected if moment == "after" else {})
    with wormdb.connect(str(tmp_path)) as db:
        assert db.status(["things"])[0].number == (2 if moment == "after" else 1), "the job was opened"
    write(frame(spark), str(tmp_path), collection="things", job="job")
    assert state(str(tmp_path)) == expected
