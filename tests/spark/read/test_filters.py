"""Filters leave out what cannot match, never what does: those of Spark, and the option `filter`."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as pushed
from pyspark.sql import types as spark

from tests.spark.read.rig import read
from tests.spark.things import FIELDS, VALUES, database, expected, follow, sorted_rows, steps
from wormdb.format.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = spark.StructType(
    [
        spark.StructField("id", spark.StringType()),
        spark.StructField("a", spark.LongType()),
        spark.StructField("b", spark.StringType()),
        spark.StructField("c", spark.DoubleType()),
        spark.StructField("pad", spark.StringType()),
    ]
)
LITERALS: dict[str, list[Any]] = {
    "id": ["k00", "k05", "k05!", "k17", "k30", "k99", "zz", ""],
    "a": [0, 1, -7, 2**40, 5],
    "b": ["", "a", "ab", "b", "é", "a\0b", "q"],
    "c": [0.0, -0.0, 1.0, 1.5, nan, float("inf"), -3.0, 1e300],
}


def order(value: Any) -> Any:
    """Spark's: NaN is the greatest number and equal to itself."""
    return (isnan(value), 0.0 if isnan(value) else value) if type(value) is float else value


COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    pushed.EqualTo: lambda left, right: order(left) == order(right),
    pushed.EqualNullSafe: lambda left, right: order(left) == order(right),
    pushed.GreaterThan: lambda left, right: order(left) > order(right),
    pushed.GreaterThanOrEqual: lambda left, right: order(left) >= order(right),
    pushed.LessThan: lambda left, right: order(left) < order(right),
    pushed.LessThanOrEqual: lambda left, right: order(left) <= order(right),
    pushed.StringStartsWith: lambda left, right: left.startswith(right),
}


def holds(one: Any, row: dict[str, Any]) -> bool:
    if isinstance(one, pushed.Not):
        child: Any = one.child
        value = row[child.attribute[0]]
        return value is not None and not holds(child, row)
    value = row[one.attribute[0]]
    if isinstance(one, pushed.IsNull | pushed.IsNotNull):
        return (value is None) is isinstance(one, pushed.IsNull)
    if value is None:
        return False
    if isinstance(one, pushed.In):
        return any(order(value) == order(item) for item in one.value)
    return COMPARISONS[type(one)](value, one.value)


@st.composite
def filters(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(LITERALS)))
    kinds = [kind for kind in COMPARISONS if kind is not pushed.StringStartsWith or name in ("id", "b")]
    kind = draw(st.sampled_from([*kinds, pushed.In, pushed.IsNull, pushed.IsNotNull, pushed.Not]))
    literals = st.sampled_from(LITERALS[name])
    if kind in (pushed.IsNull, pushed.IsNotNull):
        return kind((name,))
    if kind is pushed.In:
        return pushed.In((name,), draw(st.lists(literals, max_size=4).map(tuple)))
    if kind is pushed.Not:
        return pushed.Not(pushed.EqualTo((name,), draw(literals)))
    return kind((name,), draw(literals))


@settings(max_examples=25)
@given(taken=steps, asked=st.lists(filters(), min_size=1, max_size=3), indexed=st.sampled_from([None, *FIELDS]))
def test_no_row_that_spark_wants_is_left_out(
    taken: list[tuple[str, Any]], asked: list[pushed.Filter], indexed: str | None
) -> None:
    with database() as db:
        follow(db, taken, indexed)
        every = expected(db, SCHEMA)
        found = sorted_rows(read(SCHEMA, pushed=asked, url=db.url, collection="things"))
        unread = [row for row in sorted_rows(every) if row not in found]
        values = {row["id"]: row for row in read(SCHEMA, url=db.url, collection="things")}
        assert not [row for row in unread if all(holds(one, values[row["id"]]) for one in asked)]
        assert len(found) == len({row["id"] for row in found})


conditions = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]), st.sampled_from(VALUES)),
    st.tuples(st.just("$in"), st.lists(st.sampled_from(VALUES), max_size=3)),
    st.tuples(st.just("$exists"), st.booleans()),
).map(lambda pair: {pair[0]: pair[1]})
by_field = st.dictionaries(st.sampled_from(FIELDS), conditions, min_size=1, max_size=2)
by_id = st.sampled_from([{"id": "k05"}, {"id": {"$gte": "k03", "$lt": "k2"}}, {"id": {"$in": ["k01", "k02!", "x"]}}])
written = st.one_of(by_field, by_id, st.lists(by_field, min_size=2, max_size=2).map(lambda both: {"$or": both}))


@settings(max_examples=25)
@given(taken=steps, asked=written, indexed=st.sampled_from([None, *FIELDS]))
def test_the_option_filter_is_that_of_find_all(
    taken: list[tuple[str, Any]], asked: dict[str, Any], indexed: str | None
) -> None:
    with database() as db:
        follow(db, taken, indexed)
        found = read(SCHEMA, url=db.url, collection="things", filter=encode(asked).decode())
        assert sorted_rows(found) == sorted_rows(expected(db, SCHEMA, filter=asked))
