"""worm table files: how far readable files are."""

from __future__ import annotations

import json

import pytest

from tests.cli.printed import fill, worm


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shop that tests only read; its customers are brought forward, and have files."""
    url = str(tmp_path_factory.mktemp("cli") / "shop")
    fill(url, files=True)
    assert worm("forward", url, "Customer").code == 0
    return url


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
