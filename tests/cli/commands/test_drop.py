"""worm drop: what it shows, asks, removes and refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "db"
    with wormdb.connect(folder) as database:
        database["org/customers"].insert_many([{"id": f"c{number}"} for number in range(3)])
        database["org/customers"].forward()
        database["others"].insert({"id": "a"})
    monkeypatch.setenv("WORM_URL", str(folder))
    return folder


def documents(place: Path) -> int:
    with wormdb.connect(place) as database:
        return database["org/customers"].count()


def test_a_dry_run_shows_what_would_go(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drop", "org/customers", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("org/customers/: would delete 3 documents, 5 objects of ")
    assert documents(place) == 3


def test_it_asks_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drop", "org/customers"]) == 2
    assert "Remove org/customers/ with 3 documents for good: there is no terminal" in capsys.readouterr().err
    assert documents(place) == 3


def test_it_removes_the_collection_and_says_what_is_left(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drop", "org/customers", "--yes"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("org/customers/: deleted 3 documents, 4 objects of ")
    assert "the last 2 entries of the log can be deleted in 90 seconds, by worm gc or a node" in out
    assert documents(place) == 0
    assert run(["status"]) == 0
    shown = capsys.readouterr().out
    assert "others" in shown
    assert "customers" not in shown
    assert run(["gc", "--json"]) == 0
    assert [each["collection"] for each in json.loads(capsys.readouterr().out)] == ["org/customers/", "others/"]


def test_the_result_is_json_for_programs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drop", "org/customers", "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {name: told[name] for name in ("collection", "number", "documents", "objects", "files", "waiting")} == {
        "collection": "org/customers/",
        "number": 2,
        "documents": 3,
        "objects": 4,
        "files": 0,
        "waiting": 2,
    }
    assert documents(place) == 0


def test_a_name_that_is_not_there_is_told_with_what_may_have_been_meant(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["drop", "org/customer", "--yes"]) == 1
    assert "collection org/customer: there is none in" in capsys.readouterr().err
    assert run(["drop", "org/customer", "--yes", "--missing-ok"]) == 0
    assert capsys.readouterr().out == "there is no collection org/customer\n"
    assert run(["drop", "org/customer", "--yes", "--missing-ok", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) is None
    assert documents(place) == 3


def test_what_was_only_removed_is_finished(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with wormdb.connect(place) as database:
        database.removal("org/customers").remove()
    assert run(["drop", "org/customers", "--yes"]) == 0
    assert "deleted 0 documents, 4 objects" in capsys.readouterr().out
    with wormdb.connect(place) as database:
        assert database["org/customers"].insert({"id": "new"}).rev == 3
