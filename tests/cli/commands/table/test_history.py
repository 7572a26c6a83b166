"""worm table history: every change as a row of files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.printed import fill, worm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.printed import Printed


@pytest.fixture(scope="module")
def shop() -> str:
    fill("memory://jobs", 200)
    return "memory://jobs"


def table(shop: str, *arguments: str) -> Printed:
    done = worm("table", *arguments, "--url", shop)
    assert done.code == 0, done.errors
    return done


def test_changes_are_rows_of_files(shop: str, tmp_path: Path) -> None:
    done = table(shop, "history", "Invoice", "--to", str(tmp_path), "--format", "ndjson", "--tasks", "1")
    assert done.text.startswith("40 changes in 1 file (")
    first = json.loads((tmp_path / "part-00000.ndjson").read_text().splitlines()[0])
    assert (first["op"], first["seq"]) == ("create", 1)
