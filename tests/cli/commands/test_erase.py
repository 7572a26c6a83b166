"""worm erase, and worm verify --erased: what they ask, do, find and exit with."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.cli.commands import erase
from wormdb.cli.main import run
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "db"
    with wormdb.connect(folder) as database:
        database["people"].insert_many([{"id": "ada", "mail": "ada@x"}, {"id": "bob", "friend": "ada"}])
        database["people"].forward()
    monkeypatch.setenv("WORM_URL", str(folder))
    return folder


def test_it_asks_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["erase", "people", "ada"]) == 2
    assert "Erase 1 document of people, with all history: there is no terminal" in capsys.readouterr().err
    with wormdb.connect(place) as database:
        assert database["people"].count() == 2


def test_it_erases_and_says_when_nothing_can_be_recovered(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["erase", "people", "ada", "--yes"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "1 document erased"
    assert "UTC worm gc people, or a node, deletes what is left" in out
    assert "worm verify people --erased ada" in out
    with wormdb.connect(place) as database, pytest.raises(wormdb.ErasedError):
        database["people"].get_history("ada")


def test_what_is_left_is_listed_with_exit_code_1(place: Path) -> None:
    assert run(["erase", "people", "ada", "--yes"]) == 0
    assert place.exists()
    assert run(["verify", "people", "--erased", "ada", "--value", "ada@x", "--json"]) == 1


def test_what_is_left_is_told_with_the_time_of_the_erasure(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.exists()
    assert run(["verify", "people", "--erased", "ada"]) == 1
    assert "it was not erased, or long ago" in capsys.readouterr().err
    assert run(["erase", "people", "ada", "--yes", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["goneAfter"].endswith("Z")
    assert run(["verify", "people", "--erased", "ada"]) == 1
    told = capsys.readouterr().err
    assert "it was erased at 20" in told
    assert "worm gc people an hour later" in told


@pytest.mark.parametrize("is_late", [False, True])
def test_it_waits_until_nothing_is_left(
    is_late: bool, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    with wormdb.connect(place) as database:
        clock = ManualClock(database["people"]._ledger.store_ms() + 60_000)

    def later(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(0 if is_late else seconds)

    monkeypatch.setattr(erase, "open_database", lambda *_: wormdb.connect(place, clock=clock))
    monkeypatch.setattr(erase, "SLEEPER", SimpleNamespace(sleep=later))
    assert run(["erase", "people", "ada", "--yes", "--wait"]) == int(is_late)
    assert capsys.readouterr().out.splitlines()[-1].startswith("something is left" if is_late else "nothing is left")
    assert min(slept) > 3_600


def test_mentions_of_other_documents_are_told_and_are_fine(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.exists()
    assert run(["verify", "people", "--erased", "bob", "--json"]) == 1
    capsys.readouterr()
    assert run(["verify", "people", "--erased", "nobody", "--value", "friend-of-none"]) == 0
    assert capsys.readouterr().out == "nothing is left\n"
    with wormdb.connect(place) as database:
        database["others"].insert({"id": "x", "friend": "zoe"})
    assert run(["verify", "others", "--erased", "zoe", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found
    assert all(trace["isMention"] for trace in found)


def test_an_id_that_never_was_is_an_error(place: Path) -> None:
    assert place.exists()
    assert run(["erase", "people", "nobody", "--yes"]) == 1
    assert run(["erase", "people", "nobody", "--yes", "--missing-ok"]) == 0


def test_traces_are_of_one_collection(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.exists()
    assert run(["verify", "--erased", "ada"]) == 2
    assert "it is about one collection" in capsys.readouterr().err
