"""worm table rebuild: what it prints, in the shape that the seeds show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wormdb
from tests.cli.printed import fill, worm
from wormdb.cli.show.text import size_text


def test_a_rebuild_tells_what_there_is_now(layered_shop: str) -> None:
    expected = worm("table", "export", "Customer", "--url", layered_shop).data
    done = worm("table", "rebuild", "Customer", "--progress", "--url", layered_shop)
    assert done.code == 0, done.errors
    assert done.lines[1] == "Found 60 entities"
    assert done.text.count("\nBuilding index: ") == 3
    lines = [json.loads(line)["job"] for line in done.errors.splitlines()]
    assert list(dict.fromkeys(lines)) == ["rebuild blocks", "rebuild indexes", "join indexes"]
    assert worm("table", "export", "Customer", "--url", layered_shop).data == expected
    told = json.loads(worm("table", "rebuild", "Customer", "--no-files", "--json", "--url", layered_shop).text)
    assert (told["count"], told["blocks"], told["files"], len(told["indexes"])) == (60, 1, 0, 3)


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
