"""worm table aggregate: groups and functions, the same in parts and in one go."""

from __future__ import annotations

import json

from tests.cli.printed import table, worm


def test_an_aggregation_in_parts_is_that_of_one_go(jobs_shop: str) -> None:
    for more in ([], ["--json"], ["--format", "csv"]):
        asked = ["aggregate", "Invoice", "--group-by", "status", "--count", "--sum", "total", "--avg", "total", *more]
        in_parts = table(jobs_shop, *asked, "--tasks", "3", "--progress")
        assert (in_parts.data, '"job":"aggregate"' in in_parts.errors) == (table(jobs_shop, *asked).data, True)


def test_groups_are_rows(shop: str) -> None:
    options = ["--group-by", "status", "--count", "--sum", "total", "--avg", "total", "--url", shop]
    assert worm("table", "aggregate", "Invoice", *options).text == (
        "status  count  sum(total)  avg(total)\n"
        "------  -----  ----------  ----------\n"
        "open       20      38,000     1,900.0\n"
        "paid       20      40,000     2,000.0\n"
    )
    found = json.loads(worm("table", "aggregate", "Invoice", *options, "--json").text)
    assert found["groups"]["open"] == {"count": 20, "sum": 38000, "avg": 1900.0}
    lines = worm("table", "aggregate", "Invoice", *options, "--format", "ndjson").lines
    assert json.loads(lines[1]) == {"status": "paid", "count": 20, "sum(total)": 40000, "avg(total)": 2000.0}
    csv = worm("table", "aggregate", "Invoice", *options, "--format", "csv").text
    assert csv.splitlines()[:2] == ["status,count,sum(total),avg(total)", "open,20,38000,1900.0"]


def test_several_groups_and_fields(shop: str) -> None:
    printed = worm(
        "table", "aggregate", "Invoice", "--group-by", "status,total", "--filter", "total<200", "--url", shop
    )
    assert printed.lines[2:] == ["open    0          1", "paid    100        1"]
    both = worm("table", "aggregate", "Invoice", "--max", "total,status", "--min", "total", "--url", shop)
    assert both.lines[0].split() == ["min(total)", "max(total)", "max(status)"]
    assert both.lines[2].split() == ["0", "3,900", "paid"]


def test_without_a_function_documents_are_counted(shop: str) -> None:
    assert worm("table", "aggregate", "Invoice", "--url", shop).lines[-1].strip() == "40"
