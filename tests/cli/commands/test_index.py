"""worm index: made, shown, measured and dropped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import fill, worm
from tests.engine.lists.vectors import as_rows, make_clusters

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = str(tmp_path / "shop")
    fill(place, customers=30)
    return place


def test_made_and_dropped(url: str) -> None:
    printed = worm("index", "create", "Invoice", "total", "--unique", "--sparse", "--name", "byTotal", "--url", url)
    assert (printed.code, printed.text) == (0, "byTotal: total (unique) 40 entries\n")
    both = worm("index", "create", "Invoice", "status", "total", "--url", url, "--json")
    assert json.loads(both.text)["fields"] == ["status", "total"]
    lines = worm("index", "list", "Invoice", "--url", url).lines
    assert lines == [
        "Index         Fields         Type      State  Entries  Distinct",
        "------------  -------------  --------  -----  -------  --------",
        "_id           _id            unique    ready       --        --",
        "byTotal       total          unique    ready       40        40",
        "status_total  status, total  compound  ready       40        40",
    ]
    assert worm("index", "drop", "Invoice", "byTotal", "--url", url).text == "dropped byTotal\n"
    assert json.loads(worm("index", "drop", "Invoice", "status_total", "--json", "--url", url).text) == {
        "dropped": "status_total"
    }
    assert len(json.loads(worm("index", "list", "Invoice", "--json", "--url", url).text)) == 1


def test_built_by_whoever_comes(url: str) -> None:
    printed = worm("index", "create", "notes", "text", "--no-wait", "--url", url)
    assert printed.text == "text: text (standard) waiting\n"
    assert worm("index", "tasks", "notes", "--url", url).lines[-1].split() == [
        "text", "text", "standard", "waiting", "--", "--",
    ]  # fmt: skip
    assert worm("table", "rebuild", "notes", "--url", url).code == 0
    assert worm("index", "tasks", "notes", "--url", url).text == "nothing to do\n"
    assert json.loads(worm("index", "tasks", "notes", "--json", "--url", url).text) == []


def test_of_vectors_and_of_words(url: str) -> None:
    note = '{"id": "n1", "title": "Red shoes", "text": "light", "v": [1, 0, 0]}'
    assert worm("insert", "notes", note, "--url", url).code == 0
    vector = ["v", "--vector", "--dimensions", "3", "--distance", "euclidean"]
    assert worm("index", "create", "notes", *vector, "--url", url).text == "v: v (vector) 1 entry\n"
    text = ["--text", "title^3, text", "--language", "english", "--stop-words", "the,a", "--name", "words"]
    assert worm("index", "create", "notes", *text, "--no-wait", "--url", url).text == (
        "words: title^3, text (text) waiting\n"
    )
    assert worm("table", "rebuild", "notes", "--url", url).code == 0
    listed = [line.split() for line in worm("index", "list", "notes", "--url", url).lines[3:]]
    assert [(line[0], line[-4], line[-3]) for line in listed] == [("v", "vector", "ready"), ("words", "text", "ready")]
    described = worm("index", "describe", "notes", "v", "--url", url).lines
    assert described[:8] == [
        "Index:      v",
        "Fields:     v",
        "Type:       vector",
        "Made by:    create",
        "State:      ready",
        "Entries:    1",
        "Dimensions: 3",
        "Distance:   euclidean",
    ]
    assert described[8].startswith("Runs:       1, ")
    described = worm("index", "describe", "notes", "words", "--url", url).lines
    assert {"Fields:     title^3, text", "Type:       text", "Language:   english", "Stop words: a, the"} <= {
        *described
    }
    found = worm("table", "query", "notes", "--search", "shoe", "--select", "title", "--format", "ndjson", "--url", url)
    assert json.loads(found.text)["id"] == "n1"
    found = worm("table", "query", "notes", "--near", "v=[1,0,0]", "--select", "title", "--json", "--url", url)
    assert [row["_score"] for row in json.loads(found.text)["rows"]] == [1.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["v", "--vector"], "--vector needs one field, and --dimensions"),
        (["v", "w", "--vector", "--dimensions", "3"], "--vector needs one field, and --dimensions"),
        (["v", "--dimensions", "3"], "--dimensions needs --vector"),
        (["v", "--language", "english"], "--language needs --text"),
        (["v", "--vector", "--dimensions", "3", "--unique"], "--unique is of an index of values alone"),
        (["title", "--text", "body"], "--text names the fields: write --text title,body"),
        (["v", "--vector", "--dimensions", "3", "--text", "body"], "--vector and --text are two indexes"),
        (["v", "--vector", "--dimensions", "5000"], "dimensions must be a whole number from 1 to 4,096"),
        (["--text", "title^x"], "a weight must be a number above 0"),
        (["--text", "title", "--language", "klingon"], "there is no language 'klingon'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(url: str, arguments: list[str], words: str) -> None:
    printed = worm("index", "create", "notes", *arguments, "--url", url)
    assert printed.code == 2
    assert words in printed.text + printed.errors
    assert len(json.loads(worm("index", "list", "notes", "--json", "--url", url).text)) == 1


def test_in_detail(url: str) -> None:
    before = json.loads(worm("index", "describe", "Customer", "byTags", "--json", "--url", url).text)
    assert (before["state"], before["entries"], before["arrays"]) == ("ready", 0, [])
    assert worm("index", "analyze", "Customer", "byTags", "--url", url).lines == [
        "Index:      byTags",
        "Fields:     tags",
        "Type:       multiValue, sparse",
        "Made by:    model",
        "State:      ready",
        "Entries:    30",
        "Distinct:   12",
        "Histogram:  30 buckets",
        "Arrays:     tags",
        "Height:     1 level",
    ]
    after = json.loads(worm("index", "describe", "Customer", "byTags", "--json", "--url", url).text)
    assert (after["entries"], after["distinct"], after["arrays"], after["height"]) == (30, 12, [True], 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["describe", "Customer", "byMail"], 1, "Unknown index 'byMail' on model Customer (did you mean 'byEmail'?)"),
        (["drop", "Customer", "byEmail"], 2, "remove it from the model"),
        (["create", "Invoice", "totl"], 2, "did you mean 'total'"),
        (["create", "Invoice"], 2, "Missing argument 'FIELDS...'"),
        (["create", "Invoice", "status", "--unique"], 2, "is on 20 documents"),
        (["list", "Invoyce"], 2, "Unknown model: Invoyce"),
    ],
)
def test_what_cannot_be_done_is_one_line(url: str, arguments: list[str], code: int, words: str) -> None:
    printed = worm("index", *arguments, "--url", url)
    assert (printed.code, printed.data) == (code, b"")
    assert printed.errors.count("\n") == 1
    assert words in printed.errors


def test_answers_are_the_same_with_and_without(url: str) -> None:
    asked = ["table", "query", "Invoice", "--filter", "total>=3000", "--sort", "total:desc", "--format", "ndjson"]
    before = worm(*asked, "--url", url).data
    assert worm("index", "create", "Invoice", "total", "--url", url).code == 0
    assert worm(*asked, "--url", url).data == before
    with wormdb.connect(url) as database:
        assert before.count(b"\n") == database.model("Invoice").count({"total": {"$gte": 3000}}) == 10


def test_an_index_of_vectors_tells_what_it_finds_and_that_it_is_outgrown(tmp_path: Path) -> None:
    url = str(tmp_path / "shop")
    vectors = make_clusters(1_200, 8, seed=5)
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual")) as database:
        things = database["things"]
        things.insert_many(as_rows(vectors[:600]))
        things.create_vector_index("v", dimensions=8)
        share = things.describe_index("v").read_share
    shown = dict(line.split(":", 1) for line in worm("index", "describe", "things", "v", "--url", url).lines)
    assert {name: value.strip() for name, value in shown.items()} | {"Runs": ""} == {
        "Index": "v",
        "Fields": "v",
        "Type": "vector",
        "Made by": "create",
        "State": "ready",
        "Entries": "600",
        "Dimensions": "8",
        "Distance": "cosine",
        "Runs": "",
        "Recall": f"about 1: {share:.0%} of all entries are read, in 5 lists",
    }
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual")) as database:
        database["things"].insert_many(as_rows(vectors[600:], start=600))
        database["things"].forward()
    why = "it has 1,200 entries, and learned from 600"
    assert f"Outgrown:   {why}; worm index build" in worm("index", "analyze", "things", "v", "--url", url).lines
    assert worm("index", "tasks", "things", "--url", url).lines[-2:] == [
        "v      v       vector  ready    1,200        --",
        f"v: {why}; worm index build makes it anew",
    ]
    assert "v ready (outgrown: worm index build)" in worm("status", "--url", url).text
    assert worm("index", "build", "things", "v", "--url", url).text == "v: v (vector) 1,200 entries\n"
    assert worm("index", "tasks", "things", "--url", url).text == "nothing to do\n"
    assert json.loads(worm("index", "describe", "things", "v", "--json", "--url", url).text)["lists"] == 9
