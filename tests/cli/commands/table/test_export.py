"""worm table export: the same files in parts and in one go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.printed import table, worm

if TYPE_CHECKING:
    from pathlib import Path


def test_files_have_the_lines_of_standard_output(jobs_shop: str, tmp_path: Path) -> None:
    asked = ["Customer", "--format", "ndjson", "--filter", "status=active", "--select", "name,tags"]
    done = table(jobs_shop, "export", *asked, "--to", str(tmp_path / "out"), "--tasks", "2")
    assert done.text == f"67 documents in 1 file (3.2 KB): {tmp_path / 'out'}\n"
    written = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").glob("part-*")))
    assert written == worm("table", "export", *asked, "--url", jobs_shop).data


def test_an_export_tells_its_files_and_how_far_it_is(jobs_shop: str, tmp_path: Path) -> None:
    done = table(
        jobs_shop,
        "export",
        "Invoice",
        "--to",
        str(tmp_path),
        "--partition-by",
        "status",
        "--tasks",
        "2",
        "--json",
        "--progress",
    )
    told = json.loads(done.text)
    assert {file["name"] for file in told["files"]} == {
        f"status={status}/part-{part:05}.parquet" for status in ("open", "paid") for part in (0, 1)
    }
    lines = [json.loads(line) for line in done.errors.splitlines()]
    assert (lines[0]["done"], lines[-1]["done"], lines[-1]["items"]) == (0, 2, 2)
    assert lines[-1]["secondsLeft"] == 0


def test_an_export_in_parts_is_that_of_one_go(jobs_shop: str) -> None:
    for form in ("ndjson", "json", "csv"):
        asked = ["export", "Customer", "--format", form, "--select", "name,tags"]
        in_parts = table(jobs_shop, *asked, "--tasks", "3", "--progress")
        assert (in_parts.data, '"job":"export"' in in_parts.errors) == (table(jobs_shop, *asked).data, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--partition-by", "status"], "--partition-by: it is for files (name a folder or a bucket: --to URL)"),
        (["--overwrite"], "--overwrite: it is for files"),
        (["--format", "parquet"], "--format parquet: it is for files"),
        (["--to", "out", "--format", "json"], "use --format ndjson"),
        (["--to", "out", "--sort", "name"], "--sort with --to: parts know nothing of each other"),
        (["--to", "out", "--limit", "1"], "leave out --limit, or --to"),
    ],
)
def test_options_of_an_export_that_do_not_go_together(jobs_shop: str, options: list[str], words: str) -> None:
    done = worm("table", "export", "Customer", *options, "--url", jobs_shop)
    assert (done.code, words in done.errors) == (2, True), done.errors
