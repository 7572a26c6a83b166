"""worm table analyze: a report of each field, and where it is kept."""

from __future__ import annotations

import json

from tests.cli.printed import fill, table, worm


def test_a_report_shows_each_field(jobs_shop: str) -> None:
    text = table(jobs_shop, "analyze", "Customer", "--fields", "status,tags").text
    assert text.startswith("Customer: 200 documents\n")
    assert any(line.split()[:4] == ["status", "string", "0", "3"] for line in text.splitlines())
    told = json.loads(table(jobs_shop, "analyze", "Customer", "--fields", "status", "--top", "1", "--json").text)
    assert told["fields"][0]["top"] == [{"value": '"active"', "count": 67}]


def test_a_report_is_kept_and_inspect_shows_it(memory: str) -> None:
    fill(memory, 12)
    asked = ["analyze", "Customer", "--fields", "status"]
    assert "not kept: the collection was never brought forward" in table(memory, *asked).text
    worm("forward", "--url", memory)
    assert "kept" not in table(memory, *asked, "--no-save").text
    assert "kept" not in table(memory, *asked, "--filter", "status=active").text
    inspected = json.loads(worm("table", "inspect", "Customer", "--json", "--url", memory).text)
    assert inspected["analyzed"] is None
    assert "\nkept for plans of queries, as of entry " in table(memory, *asked).text
    inspected = json.loads(worm("table", "inspect", "Customer", "--json", "--url", memory).text)
    assert inspected["analyzed"]["fields"] == ["status"]
    text = worm("table", "inspect", "Customer", "--url", memory).text
    assert f"Analyzed:\n  Time:    {inspected['analyzed']['time']}\n  Fields:  status\n" in text
    assert json.loads(table(memory, *asked, "--json").text)["isSaved"] is True
