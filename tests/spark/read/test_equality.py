"""What the source gives is what `find_all` gives: for any documents, states, schemas and number of tasks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

from tests.spark.read.rig import read
from tests.spark.things import FIELDS, OTHERS, SCHEMA, database, expected, follow, sorted_rows, steps


@settings(max_examples=25)
@given(taken=steps, kinds=st.lists(st.sampled_from(OTHERS), min_size=3, max_size=3), tasks=st.integers(1, 9))
def test_rows_are_those_of_find_all(taken: list[tuple[str, Any]], kinds: list[spark.DataType], tasks: int) -> None:
    other = spark.StructType([SCHEMA["id"], *(spark.StructField(f, k) for f, k in zip(FIELDS, kinds, strict=True))])
    with database() as db:
        follow(db, taken)
        for schema in (SCHEMA, other):
            found = read(schema, url=db.url, collection="things", partitions=str(tasks))
            assert sorted_rows(found) == sorted_rows(expected(db, schema))


@settings(max_examples=10)
@given(taken=steps, tasks=st.integers(1, 4))
def test_every_moment_of_the_past_is_told(taken: list[tuple[str, Any]], tasks: int) -> None:
    with database() as db:
        follow(db, taken)
        for moment in range(1, db.status(["things"])[0].number + 1):
            found = read(SCHEMA, url=db.url, collection="things", partitions=str(tasks), as_of=str(moment))
            assert sorted_rows(found) == sorted_rows(expected(db, SCHEMA, as_of=moment))
