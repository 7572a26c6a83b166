"""worm table inspect: what it prints, in the shape that the seeds show."""

from __future__ import annotations

import json
from pathlib import Path

import wormdb
from tests.cli.printed import worm
from wormdb.cli.show.text import size_text


def collapsed(text: str) -> list[str]:
    """Lines without the blanks that align them, as the seeds have come down to us."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


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
