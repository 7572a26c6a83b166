"""worm rename: what it does and says."""

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
        database["drafts"].insert_many([{"id": f"c{number}"} for number in range(3)])
        database["others"].insert({"id": "a"})
    monkeypatch.setenv("WORM_URL", str(folder))
    return folder


def test_a_collection_has_another_name_then(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rename", "drafts", "letters"]) == 0
    assert capsys.readouterr().out.startswith("drafts/ is letters/ now, with 3 documents: 4 objects of ")
    with wormdb.connect(place) as database:
        assert database.collections() == ["letters/", "others/"]
        assert database["letters"].count() == 3


def test_the_result_is_json_for_programs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rename", "drafts", "letters", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["old"], shown["new"], shown["number"], shown["documents"]) == ("drafts/", "letters/", 2, 3)


def test_a_refusal_says_what_to_do(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rename", "drafts", "others"]) == 1
    assert "collection others: the name is taken (choose another name, or drop it)" in capsys.readouterr().err
    assert run(["rename", "nothing", "letters"]) == 1
    assert "there is none of this name" in capsys.readouterr().err
