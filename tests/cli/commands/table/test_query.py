"""worm table query: what it prints, in the shape that the seeds show."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from pathlib import Path


def test_query_as_in_the_seed(shop: str) -> None:
    arguments = ["--filter", "status=active", "--sort", "name:asc", "--limit", "3", "--select", "name,email"]
    printed = worm("table", "query", "Customer", *arguments, "--format", "table", "--url", shop)
    *table, count, page = printed.lines
    assert table == [
        "id     name       email",
        "-----  ---------  -----------",
        "c0000  name 0     c0@x.org",
        "c1002  name 1002  c1002@x.org",
        "c1005  name 1005  c1005@x.org",
    ]
    assert count == "(3 rows, there may be more)"
    token = page.removeprefix("next page: --page ")
    following = worm("table", "query", "Customer", *arguments, "--page", token, "--url", shop)
    assert following.lines[2].split()[0] == "c1008"


def test_the_number_of_all_rows_is_told(shop: str) -> None:
    assert worm("table", "query", "Customer", "--limit", "2", "--url", shop).lines[-2] == "(2 of 1,423 rows)"
    assert worm("table", "query", "notes", "--url", shop).lines[-1] == "(2 rows)"


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["status=active"], 475),
        (["status=active,tags~tag3"], 119),
        (["status=active", "tags~tag3"], 119),
        (['{"$or": [{"status": "new"}, {"email": "c0@x.org"}]}'], 475),
        (["email=c5@x.org", '{"status": "gone"}'], 1),
        ([], 1423),
    ],
)
def test_filters_hold_together(shop: str, filters: list[str], count: int) -> None:
    options = [word for text in filters for word in ("--filter", text)]
    assert worm("table", "query", "Customer", *options, "--count", "--url", shop).text == f"{count}\n"
    found = worm("table", "query", "Customer", *options, "--count", "--json", "--url", shop)
    assert json.loads(found.text) == {"count": count}


def test_one_document_with_the_next_page(shop: str) -> None:
    arguments = ["table", "query", "Customer", "--limit", "1000", "--json", "--select", "email", "--url", shop]
    first = json.loads(worm(*arguments).text)
    second = json.loads(worm(*arguments, "--page", first["nextPage"]).text)
    assert [len(page["rows"]) for page in (first, second)] == [1000, 423]
    assert second["nextPage"] is None
    assert second["rows"][0] == {"id": "c1000", "email": "c1000@x.org"}


def test_offset_and_order(shop: str) -> None:
    found = worm("table", "query", "Invoice", "--sort", "status:desc,total:desc", "--offset", "19", "--limit", "2",
                 "--select", "status,total", "--format", "ndjson", "--url", shop)  # fmt: skip
    rows = [json.loads(line) for line in found.lines]
    assert [(row["status"], row["total"]) for row in rows] == [("paid", 100), ("open", 3800)]


def test_a_projection_in_json(shop: str) -> None:
    found = worm("table", "query", "Customer", "--select", '{"tags": 0, "email": 0}', "--limit", "1", "--format",
                 "json", "--url", shop)  # fmt: skip
    (row,) = json.loads(found.text)
    assert set(row) == {"id", "name", "status", "createdAt", "updatedAt"}
    shown = worm("table", "query", "Customer", "--select", '{"_id": 0, "email": 1}', "--limit", "1", "--url", shop)
    assert shown.lines[:3] == ["email", "--------", "c0@x.org"]


def test_the_past(tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with wormdb.connect(url) as database:
        database["things"].insert({"id": 1, "n": 1})
        database["things"].save({"id": 1, "n": 2})
    assert json.loads(worm("table", "export", "things", "--as-of", "1", "--url", url).text)["n"] == 1
    assert json.loads(worm("table", "export", "things", "--url", url).text)["n"] == 2
    assert worm("table", "query", "things", "--as-of", "1", "--filter", "n=2", "--count", "--url", url).text == "0\n"


def test_how_it_is_found(shop: str) -> None:
    arguments = ["table", "query", "Customer", "--filter", "email=c5@x.org", "--url", shop]
    planned = worm(*arguments, "--explain")
    assert planned.lines[0].partition(":")[0] in STRATEGIES
    assert planned.lines[1].startswith("about ")
    assert worm(*arguments, "--analyze").lines[2].startswith("took ")
    found = json.loads(worm(*arguments, "--analyze", "--json", "--strategy", "index_lookup").text)
    assert (found["strategy"], found["rows"]) == ("index_lookup", 1)
    assert found["estimatedRequests"] >= 1
    forced = json.loads(worm(*arguments, "--explain", "--json", "--strategy", "full_scan").text)
    assert forced["strategy"] == "full_scan"
    for strategy in ("index_lookup", "manifest_fetch", "full_scan"):
        rows = worm(*arguments, "--strategy", strategy, "--format", "ndjson").lines
        assert [json.loads(row)["id"] for row in rows] == ["c0005"]


def test_the_nearest_vectors_are_shown_with_their_scores(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path) as database:
        database["things"].insert_many([{"id": "a", "v": [0, 1]}, {"id": "b", "v": [3, 0]}, {"id": "c"}])
    arguments = ("table", "query", "things", "--near", "v=[1, 0]", "--exact", "--select", "n", "--url", str(tmp_path))
    assert worm(*arguments).lines == ["id  n  _score", "--  -  ------", "b         1.0", "a         0.5", "(2 rows)"]
    assert json.loads(worm(*arguments, "--json").text) == {
        "rows": [{"id": "b", "_score": 1.0}, {"id": "a", "_score": 0.5}],
        "nextPage": None,
    }
    assert worm(*arguments, "--format", "csv").lines == ["id,n,_score", "b,,1.0", "a,,0.5"]
    written = '{"v": {"vector": [0, 1], "k": 1, "exact": true}}'
    assert worm("table", "query", "things", "--near", written, "--count", "--url", str(tmp_path)).text == "1\n"


@pytest.mark.parametrize("written", ["v=@{file}", "@{file}", "v=-", "-"])
def test_a_vector_may_come_from_a_file_or_by_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    with wormdb.connect(tmp_path / "db") as database:
        database["things"].insert_many([{"id": "a", "v": [0, 1]}, {"id": "b", "v": [3, 0]}])
    file, body = tmp_path / "asked.json", "[1, 0]\n" if "=" in written else '{"v": {"vector": [1, 0], "k": 1}}\n'
    file.write_text(body)
    piped = io.TextIOWrapper(io.BytesIO(body.encode()))
    monkeypatch.setattr("sys.stdin", piped)
    arguments = ("table", "query", "things", "--near", written.format(file=file), "--exact", "--limit", "1")
    found = worm(*arguments, "--format", "ndjson", "--url", str(tmp_path / "db"))
    assert found.code == 0, found.errors
    assert [json.loads(row)["id"] for row in found.lines] == ["b"]


def test_what_a_text_search_finds_is_shown_with_its_scores(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path) as database:
        database["things"].insert_many([{"id": n, "t": text} for n, text in enumerate(["red shoe", "blue", "red red"])])
    arguments = ("table", "query", "things", "--search", "Reds", "--in", "t^2", "--language", "english")
    place = ("--url", str(tmp_path))
    found = json.loads(worm(*arguments, "--json", *place).text)
    assert [row["id"] for row in found["rows"]] == [2, 0]
    assert all(row["_score"] > 0 for row in found["rows"])
    assert worm(*arguments, "--count", *place).text == "2\n"
    assert worm("table", "query", "things", "--search", "red", *place).code != 0


def test_vectors_and_words_on_s3_are_indexed_and_found_together(s3_url: str) -> None:
    with wormdb.connect(s3_url) as database:
        titles = ["red shoe", "blue shoe", "a lamp"]
        database["things"].insert_many([{"id": n, "t": text, "v": [n, 1]} for n, text in enumerate(titles)])
    on = ("--url", s3_url)
    assert worm("index", "create", "things", "v", "--vector", "--dimensions", "2", *on).code == 0
    assert worm("index", "create", "things", "--text", "t", "--language", "english", *on).code == 0
    arguments = ("table", "query", "things", "--search", "shoes", "--near", "v=[2, 1]", "--select", "t", *on)
    found = json.loads(worm(*arguments, "--json").text)
    assert [row["id"] for row in found["rows"]] == [0, 1, 2]
    assert worm(*arguments, "--explain").lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--exact"], "--exact needs --near"),
        (["--in", "title"], "--in needs --search"),
        (["--language", "english"], "--language needs --search"),
        (["--near", "v=oops"], "--near 'v=oops': the vector is not JSON"),
        (["--near", "{"], "the vector is not JSON"),
        (["--near", "v=@nowhere.json"], "file 'nowhere.json': it cannot be read"),
        (["--near", "v"], "it must name one field"),
        (["--search", '"red', "--in", "t"], "a quote is not closed"),
        (["--search", "", "--in", "t"], "it has no word that can be found"),
        (["--near", ""], "it must name one field"),
    ],
)
def test_mistakes_of_searches_are_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    with wormdb.connect(tmp_path) as database:
        database["things"].insert({"id": 1})
    printed = worm("table", "query", "things", *arguments, "--url", str(tmp_path))
    assert printed.code == 2
    assert words in printed.errors
