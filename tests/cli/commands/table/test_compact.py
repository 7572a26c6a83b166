"""worm table compact: what it shows first, and what it leaves."""

from __future__ import annotations

import json

import wormdb
from tests.cli.printed import worm


def test_a_compaction_shows_its_plan_and_does_it(layered_shop: str) -> None:
    expected = worm("table", "export", "Customer", "--url", layered_shop).data
    planned = worm("table", "compact", "Customer", "--dry-run", "--url", layered_shop)
    assert planned.code == 0
    assert planned.lines[0].split() == ["of", "runs", "blocks", "stay", "rows", "bytes", "become", "GET", "PUT"]
    assert planned.lines[2].split()[:4] == ["documents", "3", "3", "0"]
    told = json.loads(worm("table", "compact", "Customer", "--dry-run", "--json", "--url", layered_shop).text)
    assert (told["lists"][0]["blocks"], told["lists"][0]["makes"], told["lists"][0]["puts"]) == (3, 1, 3)
    done = worm("table", "compact", "Customer", "--yes", "--url", layered_shop)
    assert (done.code, done.lines[-1].split(":")[0]) == (0, "compacted 122 rows")
    assert "3 → 1 runs" in done.lines[-1]
    again = worm("table", "compact", "Customer", "--url", layered_shop)
    assert (again.code, again.text) == (0, "Customer: nothing to compact in 2 blocks\n")
    assert worm("table", "export", "Customer", "--url", layered_shop).data == expected


def test_nobody_is_asked_through_a_pipe(layered_shop: str) -> None:
    done = worm("table", "compact", "Customer", "--url", layered_shop)
    assert done.code == 2
    assert "add --yes" in done.errors


def test_a_collection_that_was_never_brought_forward_is_named(memory: str) -> None:
    with wormdb.connect(memory, settings=wormdb.Settings(forward="manual")) as db:
        db["notes"].insert({"id": 1})
    done = worm("table", "compact", "notes", "--url", memory)
    assert done.code == 2
    assert "worm forward" in done.errors


def test_an_export_in_parts_is_not_sorted(layered_shop: str) -> None:
    done = worm("table", "export", "Customer", "--sort", "name", "--engine", "spark", "--url", layered_shop)
    assert done.code == 2
    assert "use --engine local" in done.errors
