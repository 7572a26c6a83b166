"""worm table history: every change as a row of files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.printed import table

if TYPE_CHECKING:
    from pathlib import Path


def test_changes_are_rows_of_files(jobs_shop: str, tmp_path: Path) -> None:
    done = table(jobs_shop, "history", "Invoice", "--to", str(tmp_path), "--format", "ndjson", "--tasks", "1")
    assert done.text.startswith("40 changes in 1 file (")
    first = json.loads((tmp_path / "part-00000.ndjson").read_text().splitlines()[0])
    assert (first["op"], first["seq"]) == ("create", 1)
