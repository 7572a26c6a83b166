"""worm table rebuild: what it tells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import wormdb
from tests.cli.printed import fill, worm
from wormdb.jobs import place


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "WORKER_SETTINGS", replace(place.WORKER_SETTINGS, forward_interval_ms=0))


@pytest.fixture
def shop(memory: str) -> str:
    """Three runs, of which two hide rows of the first."""
    fill(memory, 60)
    with wormdb.connect(memory, settings=wormdb.Settings(forward="manual", forward_interval_ms=0)) as db:
        customers = db.model("Customer")
        customers.forward()
        for turn in range(2):
            customers.modify(f"c{turn:04}", lambda found: found.update(name="changed"))
            customers.forward()
    return memory


def test_a_rebuild_tells_what_there_is_now(shop: str) -> None:
    expected = worm("table", "export", "Customer", "--url", shop).data
    done = worm("table", "rebuild", "Customer", "--progress", "--url", shop)
    assert done.code == 0, done.errors
    assert done.lines[1] == "Found 60 entities"
    assert done.text.count("\nBuilding index: ") == 3
    lines = [json.loads(line)["job"] for line in done.errors.splitlines()]
    assert list(dict.fromkeys(lines)) == ["rebuild blocks", "rebuild indexes", "join indexes"]
    assert worm("table", "export", "Customer", "--url", shop).data == expected
    told = json.loads(worm("table", "rebuild", "Customer", "--no-files", "--json", "--url", shop).text)
    assert (told["count"], told["blocks"], told["files"], len(told["indexes"])) == (60, 1, 0, 3)
