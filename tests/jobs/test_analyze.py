"""A report is what the documents say, however the work is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import customers, empty_place, pipeline
from tests.spark.things import database, follow, steps
from wormdb.errors import InvalidRequestError
from wormdb.jobs import analyze
from wormdb.jobs.analyze import AnalyzeOptions, FieldReport


@settings(max_examples=10, phases=[Phase.generate])
@given(taken=steps, tasks=st.integers(2, 6))
def test_a_report_does_not_depend_on_the_cut(taken: list[tuple[str, Any]], tasks: int) -> None:
    with database() as db:
        follow(db, taken)
        jobs = pipeline(db, collection="things")
        whole = jobs.analyze(AnalyzeOptions(tasks=1))
        assert jobs.analyze(AnalyzeOptions(tasks=tasks)) == whole
        documents = [dict(document) for document in db["things"].find_all()]
        assert whole.documents == len(documents)
        assert [field.name for field in whole.fields] == ["id", *sorted({n for d in documents for n in d} - {"id"})]
        for field in whole.fields:
            assert field.missing == sum(field.name not in document for document in documents)
            assert sum(field.kinds.values()) + field.missing == len(documents)
            assert field.distinct == len([v for v in db["things"].distinct(field.name) if v is not None])


def test_kinds_ends_and_frequent_values_are_told() -> None:
    with customers() as db:
        found = pipeline(db, "Customer").analyze(AnalyzeOptions(fields=("status", "age", "orders.total"), top=1))
        status, age, totals = found.fields
        groups = db.model("Customer").aggregate(group_by="status", count=True)["groups"]
        assert status.kinds == {"null": groups["null"]["count"], "string": found.documents - groups["null"]["count"]}
        best = max(("active", "new"), key=lambda name: groups[name]["count"])
        assert [(each.value, each.count) for each in status.top] == [(f'"{best}"', groups[best]["count"])]
        ends = db.model("Customer").aggregate(min="age", max="age")
        assert (age.low, age.high) == (str(ends["min"]), str(ends["max"]))
        assert totals.kinds["array"] == found.documents
        assert sum(bucket.rows for bucket in age.histogram) == found.documents
        highs = [int(bucket.high) for bucket in age.histogram]
        assert highs == sorted(highs)


def test_many_values_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "VALUES_MAX", 100)
    with wormdb.connect(empty_place(), settings=wormdb.Settings(forward="manual")) as db:
        db["logs"].insert_many([{"id": f"{number:05}", "n": number % 3_000} for number in range(6_000)])
        (found,) = pipeline(db, collection="logs").analyze(AnalyzeOptions(fields=("n",), tasks=3)).fields
    assert isinstance(found, FieldReport)
    assert not found.is_exact
    assert found.top == ()
    assert 2_700 < found.distinct < 3_300
    assert abs(int(found.histogram[4].high) - 1_500) < 200


def test_a_field_that_is_none_is_refused() -> None:
    with customers(count=3) as db, pytest.raises(InvalidRequestError, match="has no column 'statis'"):
        pipeline(db, "Customer").analyze(AnalyzeOptions(fields=("statis",)))
