"""worm verify: what is found, what is repaired, and the exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = tmp_path / "db"
    with wormdb.connect(place) as database:
        database["things"].insert_many([{"id": f"t{number}", "n": number} for number in range(10)])
        database["things"].forward()
        database["other"].insert({"x": 1})
    return str(place)


def one(url: str, pattern: str) -> Path:
    from pathlib import Path

    return next(iter(sorted(Path(url).glob(f"things/.worm.db/{pattern}"))))


def test_sound_collections(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", url]) == 0
    other, things = capsys.readouterr().out.splitlines()
    assert other.startswith("other/: sound (1 entry, 0 blocks")
    assert things == "things/: sound (1 entry, 2 blocks, 0 nodes, 10 documents, 10 versions)"


def test_damage_is_shown_and_repaired(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    one(url, "data/*.map").unlink()
    assert run(["verify", url, "things"]) == 1
    out = capsys.readouterr().out
    assert "1 finding" in out
    assert "sidecar" in out
    assert "it is missing" in out
    assert run(["verify", url, "things", "--repair"]) == 0
    assert "1 repaired, 0 lost, 0 left" in capsys.readouterr().out
    assert run(["verify", url]) == 0
    assert run(["verify", url, "--repair"]) == 0
    assert "things/: sound" in capsys.readouterr().out


def test_what_is_not_there_is_not_sound(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for repair in ([], ["--repair"]):
        assert run(["verify", url, "thing", *repair]) == 1
        assert "collection thing: there is none in" in capsys.readouterr().err


def test_for_programs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", url, "things", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["collection"], found["findings"], found["checked"]["documents"]) == ("things/", [], 10)
    path = one(url, "history/*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["verify", url, "things", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert [finding["kind"] for finding in found["findings"]] == ["block"]
    assert run(["verify", url, "things", "--repair", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)
    assert (len(done["repaired"]), done["lost"], done["left"]) == (1, [], [])


def test_losing_documents_needs_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "db")
    with wormdb.connect(place, settings=wormdb.Settings(stage_bytes=100)) as database:
        database["things"].insert_many([{"id": f"t{number}", "n": "x" * 100} for number in range(10)])
        database["things"].forward()
    one(place, "data/*.parquet").unlink()
    assert run(["verify", place, "--repair"]) == 1
    assert "--accept-loss" in capsys.readouterr().err
    assert run(["verify", place, "--repair", "--accept-loss"]) == 0
    assert "10 documents are gone, and nothing tells their ids" in capsys.readouterr().out
    assert run(["verify", place]) == 0


def test_what_cannot_be_repaired(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with wormdb.connect(url) as database:
        database["things"].insert({"id": "late"})
        database["things"].insert({"id": "later"})
    path = one(url, "committed/*2")
    path.write_bytes(b"nothing")
    assert run(["verify", url, "things", "--repair"]) == 1
    assert "1 left" in capsys.readouterr().out


def test_wrong_use(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", url, "--accept-loss"]) == 2
    assert "--repair" in capsys.readouterr().err
    assert run(["verify", url, "thinks"]) == 1
    assert "things" in capsys.readouterr().err


def test_an_empty_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no collections\n"
