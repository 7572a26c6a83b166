"""Filters that Spark pushes leave out no row that Spark wants, whatever state a collection is in. No JVM is started."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as pushed
from pyspark.sql import types as spark

from tests.query.execute.faces import WorldState
from tests.query.execute.worlds import WORLDS, as_large_blocks
from tests.spark.read.test_filters import COMPARISONS, holds
from wormdb.jobs.scan import share_portions
from wormdb.jobs.shares import shares
from wormdb.spark.read.cells import batches, names_of
from wormdb.spark.read.filters import narrowing_of
from wormdb.spark.read.infer import columns_of_schema
from wormdb.spark.types import arrow_schema

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from tests.query.execute.world import World

Row = dict[str, Any]

TYPES: list[spark.DataType] = [spark.LongType(), spark.StringType(), spark.DoubleType(), spark.TimestampType()]


@st.composite
def schemas(draw: st.DrawFn) -> spark.StructType:
    """Columns of types that documents may have, or not."""
    fields = [spark.StructField(name, draw(st.sampled_from(TYPES))) for name in ("a", "b", "n", "t", "a.b")]
    return spark.StructType([spark.StructField("id", draw(st.sampled_from(TYPES))), *fields])


def rows(world: World, schema: spark.StructType, asked: list[pushed.Filter], tasks: int | None) -> dict[str, list[Row]]:
    """The rows that a reader of a source hands to Spark, by document."""
    state = WorldState.at(world)
    columns = tuple(columns_of_schema(state.newest(), None, schema))
    several = shares(state, narrowing_of(asked, columns), tasks=tasks)
    found: dict[str, list[Row]] = {}
    for share in several:
        for portion in share_portions(state, share, [*names_of(columns), "_id"], None):
            told = [
                row for batch in batches(iter([portion]), columns, arrow_schema(schema)) for row in batch.to_pylist()
            ]
            for identity, row in zip(portion.values("_id"), told, strict=True):
                found.setdefault(repr(identity), []).append(row)
    return found


@st.composite
def filters(draw: st.DrawFn, values: dict[str, list[Any]]) -> Any:
    """One filter, mostly with a value that a row has in that column."""
    name = draw(st.sampled_from(sorted(values)))
    of_text = all(type(value) is str for value in values[name])
    kinds = [kind for kind in COMPARISONS if kind is not pushed.StringStartsWith or of_text]
    kind = draw(st.sampled_from([*kinds, pushed.In, pushed.IsNull, pushed.IsNotNull, pushed.Not]))
    if kind in (pushed.IsNull, pushed.IsNotNull):
        return kind((name,))
    literals: SearchStrategy[Any] = st.sampled_from(values[name])
    if kind is pushed.In:
        return pushed.In((name,), draw(st.lists(literals, max_size=3).map(tuple)))
    if kind is pushed.Not:
        return pushed.Not(pushed.EqualTo((name,), draw(literals)))
    return kind((name,), draw(literals))


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_no_row_that_spark_wants_is_left_out_in_any_state(data: st.DataObject) -> None:
    with as_large_blocks() if data.draw(st.booleans()) else nullcontext():
        world, schema = data.draw(WORLDS), data.draw(schemas())
        note(repr(world))
        every = rows(world, schema, [], None)
        assert all(len(several) == 1 for several in every.values())
        assert len(every) == len(world.documents)
        values = {
            name: known
            for name in schema.fieldNames()
            if (known := [row[name] for (row,) in every.values() if row[name] is not None])
        }
        for _ in range(3 if values else 0):
            asked = data.draw(st.lists(filters(values), min_size=1, max_size=3))
            note(repr(asked))
            found = rows(world, schema, asked, data.draw(st.sampled_from([1, 2, 3, None])))
            wanted = {identity for identity, (row,) in every.items() if all(holds(one, row) for one in asked)}
            assert wanted <= found.keys()
            assert all(repr(several) == repr(every[identity]) for identity, several in found.items())
