"""worm table: what each command prints, in the shapes that the seeds show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import wormdb
from tests.cli.printed import fill, worm
from wormdb.cli.show.text import size_text, width_of
from wormdb.query.request import STRATEGIES


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shop that tests only read; its customers are brought forward, and have files."""
    url = str(tmp_path_factory.mktemp("cli") / "shop")
    fill(url, files=True)
    assert worm("forward", url, "Customer").code == 0
    return url


def collapsed(text: str) -> list[str]:
    """Lines without the blanks that align them, as the seeds have come down to us."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_list_looks_as_in_the_seed(shop: str) -> None:
    printed = worm("table", "list", "--url", shop)
    assert printed.code == 0
    assert printed.timeless == (
        "Model              Count  Manifest    Indexes               Last Updated\n"
        "--------------  --------  ----------  --------------------  ----------------------\n"
        "Customer           1,423  fresh       status, email, tags   2026-02-24T14:30:00Z\n"
        "Invoice               40  n/a         --                    2026-02-24T14:30:00Z\n"
        "OrgSettings            0  n/a         --                    2026-02-24T14:30:00Z\n"
        "notes                  2  n/a         --                    2026-02-24T14:30:00Z\n"
        "org/acme/users         1  n/a         --                    2026-02-24T14:30:00Z\n"
    )


def test_list_for_programs(shop: str) -> None:
    customer, *others = json.loads(worm("table", "list", "--url", shop, "--json").text)
    assert (customer["model"], customer["count"], customer["lagEntries"]) == ("Customer", 1423, 0)
    assert customer["indexes"][1] == {"name": "byEmail", "fields": ["email"], "unique": True, "state": "ready"}
    assert [each["model"] for each in others] == ["Invoice", "OrgSettings", "notes", "org/acme/users"]


def test_nothing_to_list(tmp_path: Path) -> None:
    assert worm("table", "list", "--url", str(tmp_path)).text == "no collections\n"


def test_the_url_comes_from_the_environment(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORM_URL", shop)
    assert worm("table", "query", "Customer", "--count").text == "1423\n"
    assert worm("status").code == 0
    monkeypatch.delenv("WORM_URL")
    printed = worm("table", "query", "Customer", "--count")
    assert (printed.code, printed.errors.count("\n")) == (2, 1)
    assert "WORM_URL" in printed.errors


def test_inspect_looks_as_in_the_seed(shop: str) -> None:
    with wormdb.connect(shop) as database:
        customers = database.model("Customer")
        size = size_text(customers.parquet_files().size_bytes)
        status = customers.get_manifest_status()
    file = Path(shop, "org/customers/.worm.manifest.json").stat().st_size
    printed = worm("table", "inspect", "Customer", "--url", shop)
    assert collapsed(printed.timeless) == [
        "Model: Customer",
        "Path: #org/@customers/(id:string)",
        "Mode: readwrite",
        "Collection:",
        "Count: 1,423",
        f"Size: ~{size} (estimated from blocks)",
        f"Columns: {size_text(status.columns_bytes)}, complete",
        "Last Updated: 2026-02-24T14:30:00Z",
        "Manifest:",
        "Status: fresh (checksum verified)",
        f"Size: {size_text(file)}",
        "Fields: name, email, status, tags, createdAt, updatedAt",
        "Auto-update: enabled",
        "Indexes:",
        "byStatus: status (standard) 3 distinct values",
        "byEmail: email (unique) 1,423 entries",
        "byTags: tags (multiValue) 12 distinct values",
    ]


def test_inspect_what_was_never_brought_forward(shop: str) -> None:
    lines = collapsed(worm("table", "inspect", "notes", "--url", shop).text)
    assert "Columns: none: 1 entry of the log, never brought forward" in lines
    assert "Status: n/a (the collection has no model)" in lines
    assert lines[-1] == "Indexes: none"
    found = json.loads(worm("table", "inspect", "notes", "--url", shop, "--json").text)
    assert (found["path"], found["collection"]["count"], found["manifest"]["lagEntries"]) == ("notes/", 2, 1)


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


def test_rebuild_looks_as_in_the_seed(tmp_path: Path) -> None:
    url = str(tmp_path / "shop")
    fill(url, files=True)
    manifest = Path(url, "org/customers/.worm.manifest.json")
    manifest.unlink()
    printed = worm("table", "rebuild", "Customer", "--url", url)
    with wormdb.connect(url) as database:
        assert database.model("Customer").get_manifest_status().lag_entries == 0
    assert printed.code == 0
    assert printed.timeless == (
        "Scanning collection: org/customers/\n"
        "Found 1,423 entities\n"
        f"Building manifest... done ({size_text(manifest.stat().st_size)})\n"
        "Building index: status... done (3 values)\n"
        "Building index: email... done (1,423 entries)\n"
        "Building index: tags... done (12 values)\n"
        "Rebuild complete in 12.3s\n"
    )
    found = json.loads(worm("table", "rebuild", "Invoice", "--url", url, "--json").text)
    assert (found["count"], found["manifest"]["columnsFresh"], found["indexes"]) == (40, True, [])


def test_an_index_that_cannot_be_rebuilt(tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with wormdb.connect(url) as database:
        database["things"].insert({"id": 1, "a": [1, 2], "b": [3, 4]})
        with pytest.raises(wormdb.InvalidRequestError, match="are arrays"):
            database["things"].create_index(["a", "b"], name="both")
    printed = worm("table", "rebuild", "things", "--url", url)
    assert printed.code == 1
    assert printed.lines[-2].startswith("Building index: a, b... failed (")
    assert printed.lines[-1].endswith(", 1 index failed")
    assert worm("index", "list", "things", "--url", url).lines[-1].startswith("both: ")
    assert worm("index", "tasks", "things", "--url", url).lines[2].split()[4] == "failed"


def test_wide_letters_and_long_values_keep_their_columns(tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with wormdb.connect(url) as database:
        rows = [{"id": 1, "city": "東京", "note": "x" * 99}, {"id": 2, "city": "Ålesund", "note": "é\u0301\x1b[31m"}]
        database["places"].insert_many([*rows, {"id": 3, "city": "東京タワー" * 9, "note": None}])
    head, rule, *lines, _ = worm("table", "query", "places", "--url", url).lines
    assert rule.split() == ["--", "-" * 40, "-" * 40]
    assert head.index("note") == 46
    assert lines[0].endswith("x" * 39 + "…")
    assert "\x1b" not in lines[1]
    assert [width_of(line[: line.rindex("  ")]) <= 46 for line in lines] == [True] * 3
    assert "…" in lines[2]
    assert lines[2].endswith("null")


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


def test_only_so_many_columns_as_a_terminal_has_room_for(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from wormdb.cli.show import rows

    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(rows, "_is_terminal", lambda: True)
    lines = worm("table", "query", "Customer", "--filter", "id=c0001", "--url", shop).lines
    assert lines[2] == "c0001  name 1  c1@x.org"
    assert lines[3] == "(no room for status, tags, createdAt, updatedAt: --select some, or --format json)"


def test_files_say_how_far_they_are(shop: str) -> None:
    head, _, row, count = worm("table", "files", "Customer", "--url", shop).lines
    assert head.split() == ["Run", "Rows", "Deleted", "Size", "File"]
    assert row.split()[:3] == ["2", "1,423", "0"]
    assert row.endswith(".parquet")
    assert count.startswith("(1 file, ")
    assert count.endswith("through 2)")
    found = json.loads(worm("table", "files", "Customer", "--url", shop, "--json").text)
    assert (found["through"], found["lagEntries"], found["files"][0]["rows"]) == (2, 0, 1423)
    printed = worm("table", "files", "notes", "--url", shop)
    assert (printed.code, "worm table rebuild notes" in printed.errors) == (1, True)


def test_a_reader_that_goes_away_is_no_error(shop: str) -> None:
    program = [sys.executable, "-m", "wormdb.cli", "table", "export", "Customer", "--url", shop]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 1
