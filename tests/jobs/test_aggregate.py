"""Sums of pieces are those of the whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.jobs.rig import customers, pipeline
from tests.spark.things import FIELDS, VALUES, database, follow, steps
from wormdb.api.document import stored
from wormdb.bql.aggregation import AggregationState, aggregate, parse_aggregation
from wormdb.errors import InvalidRequestError
from wormdb.format.values import normalize
from wormdb.jobs.aggregate import AggregateOptions

NAMES = ("sum", "avg", "min", "max", "distinct")

paths = st.sampled_from([*FIELDS, "c.x", "id", "c.0", "b.0.x"])
fields = st.one_of(paths, st.lists(paths, min_size=1, max_size=2))
functions = st.fixed_dictionaries(
    {"count": st.just(True)},
    optional={
        "group_by": st.one_of(paths, st.lists(paths, min_size=1, max_size=2)),
        **dict.fromkeys(
            ("sum", "avg", "min", "max", "distinct"), st.one_of(paths, st.lists(paths, min_size=1, max_size=2))
        ),
    },
)


@settings(max_examples=12, phases=[Phase.generate])
@given(taken=steps, asked=functions, tasks=st.integers(1, 5))
def test_the_result_is_that_of_the_documents(taken: list[tuple[str, Any]], asked: dict[str, Any], tasks: int) -> None:
    with database() as db:
        follow(db, taken)
        found = pipeline(db, collection="things").aggregate(asked, AggregateOptions(tasks=tasks))
        documents = [normalize(stored(document)) for document in db["things"].find_all()]
        assert repr(found) == repr(aggregate(parse_aggregation(asked), documents))


@settings(max_examples=60)
@given(values=st.lists(st.sampled_from(VALUES), max_size=9), cut=st.integers(0, 9))
def test_a_state_holds_all_that_was_taken_in(values: list[Any], cut: int) -> None:
    asked = parse_aggregation({"group_by": "g", "count": True, **dict.fromkeys(NAMES, "v")})
    documents = [{"_id": place, "g": place % 2, "v": value} for place, value in enumerate(values)]
    whole, merged = AggregationState(asked), AggregationState(asked)
    for document in documents:
        whole.add(document)
    for some in (documents[:cut], documents[cut:]):
        part = AggregationState(asked)
        for document in some:
            part.add(document)
        merged.take(part.state())
    assert repr(merged.result()) == repr(whole.result())


def test_filter_and_moment_are_those_of_aggregate() -> None:
    with customers() as db:
        jobs, model = pipeline(db, "Customer"), db.model("Customer")
        asked: dict[str, Any] = {"group_by": "status", "count": True, "sum": ["age", "balance"], "max": "orders.total"}
        found = jobs.aggregate(asked, AggregateOptions(filter="age>30", tasks=3))
        assert found == model.aggregate(filter="age>30", **asked)
        assert jobs.aggregate(asked, AggregateOptions(as_of="2")) == model.aggregate(as_of=2, **asked)


def test_mistakes_are_told_before_anything_is_read() -> None:
    with customers(count=3) as db, pytest.raises(InvalidRequestError, match="summ"):
        pipeline(db, "Customer").aggregate({"summ": "age"})
