"""worm retain: what it says, shows and refuses."""

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
        for value in range(4):
            database["notes"].save({"id": "a", "v": value})
    monkeypatch.setenv("WORM_URL", str(folder))
    return folder


def versions(place: Path) -> list[int]:
    with wormdb.connect(place) as database:
        return [each.seq for each in database["notes"].get_history("a")]


def test_less_is_kept_and_then_all_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retain", "notes"]) == 0
    assert capsys.readouterr().out == "notes: all versions are kept\n"
    assert run(["retain", "notes", "--keep", "30d", "--versions", "2"]) == 0
    shown = "notes: versions stay for 30d after another followed, at most 2 of a document\n"
    assert capsys.readouterr().out == shown
    assert versions(place) == [3, 4]
    assert run(["retain", "notes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"keep": "30d", "versions": 2}
    assert run(["retain", "notes", "--forever"]) == 0
    assert versions(place) == [1, 2, 3, 4]


def test_what_means_nothing_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retain", "notes", "--keep", "soon"]) != 0
    assert "keep must be a time that passes" in capsys.readouterr().err
    assert run(["retain", "notes", "--keep", "1d", "--forever"]) == 2
    assert run(["retain", "nothing", "--keep", "1d"]) != 0
    assert versions(place) == [1, 2, 3, 4]
