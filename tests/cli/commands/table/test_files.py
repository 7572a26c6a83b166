"""worm table files: how far readable files are."""

from __future__ import annotations

import json

from tests.cli.printed import worm


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
