"""worm status and worm forward: how far collections are, and bringing them there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = str(tmp_path / "db")
    with wormdb.connect(place) as database:
        database["org/people"].insert_many([{"n": number} for number in range(10)])
        database["org/people"].insert({"n": 10})
        database["things"].insert({"x": 1})
    return place


def test_the_lag_is_shown_and_goes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", url]) == 0
    people, things = capsys.readouterr().out.splitlines()[-2:]
    assert people.split()[:4] == ["org/people", "11", "2", "0"]
    assert "2 entries" in people
    assert things.split()[:4] == ["things", "1", "1", "0"]
    assert "1 entry," in things
    assert run(["forward", url]) == 0
    assert capsys.readouterr().out == "org/people/: 2 entries, through 2\nthings/: 1 entry, through 1\n"
    assert run(["status", url]) == 0
    assert "none" in capsys.readouterr().out.splitlines()[-1]
    assert run(["forward", url]) == 0
    assert "nothing new" in capsys.readouterr().out


def test_for_programs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["forward", url, "things", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"things/": {"from": 0, "through": 1}}
    assert run(["status", url, "--json"]) == 0
    people, things = json.loads(capsys.readouterr().out)
    assert (people["prefix"], people["lagEntries"], people["applied"]) == ("org/people/", 2, 0)
    assert (things["prefix"], things["lagEntries"], things["runs"]) == ("things/", 0, 1)
    assert [index["state"] for index in things["indexes"]] == ["ready"]


@pytest.mark.parametrize("verb", ["status", "forward"])
def test_a_collection_that_is_not_there(url: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, url, "org/peeple"]) == 1
    assert "org/people" in capsys.readouterr().err


def test_an_empty_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("status", "forward"):
        assert run([verb, str(tmp_path)]) == 0
        assert capsys.readouterr().out == "no collections\n"


def test_status_writes_nothing(url: str) -> None:
    with wormdb.connect(url) as database:
        database.status(database.collections())
        assert database.cost().puts == 0


def test_the_schema_and_files_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert worm("init").code == 0
    assert worm("schema", "apply", ".worm/data", "--yes").code == 0
    assert worm("status", ".worm/data").lines[0].endswith("/.worm/data: 1 model; .worm/schema.json is its schema")
    (tmp_path / ".worm/schema.json").write_text('{"models": {"Customer": {"path": "@customers/(id:string)"}}}')
    assert worm("status", ".worm/data").lines[0].endswith("differs: worm schema diff")
    (tmp_path / ".worm/schema.json").write_text("{")
    assert worm("status", ".worm/data").lines[0].endswith("has mistakes: worm lint")
    (tmp_path / ".worm/schema.json").unlink()
    with wormdb.connect(".worm/data") as database:
        database.model("Customer").insert({"name": "Ada"})
        database["notes"].insert({"n": 1})
    notes, customers = json.loads(worm("status", ".worm/data", "--json").text)
    assert (notes["files"]["enabled"], customers["files"]["enabled"]) == (False, True)
    assert (customers["files"]["through"], customers["files"]["lagEntries"]) in {(2, 0), (1, 1)}
    assert " off " in worm("status", ".worm/data").lines[-2]


def test_how_files_are_told(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    from wormdb.api.files import ReadableFiles
    from wormdb.files.status import FilesStatus, TableStatus

    table = TableStatus(("x",), files=1, count=1, pending=2, through=3)
    made = FilesStatus("things/", True, "root", "root", "root", "things/", 3, 1, True, (table,))
    monkeypatch.setattr(ReadableFiles, "status", lambda *_, **__: [made])
    printed = worm("status", url, "things")
    assert "being filled, 1 entry behind, 2 changes waiting" in " ".join(printed.lines[-1].split())


@pytest.mark.parametrize("command", ["status", "forward", "verify", "gc"])
def test_the_database_is_the_first_argument_or_an_option_or_from_the_environment(
    url: str, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WORM_URL", raising=False)
    assert worm(command, url, "things").code == 0
    assert worm(command, "--url", url, "things").code == 0
    missing = worm(command)
    assert missing.code == 2
    assert "Missing argument 'URL'" in missing.errors
    monkeypatch.setenv("WORM_URL", url)
    assert "things" in worm(command, "things").text
    assert "org/people" in worm(command).text
    other = str(tmp_path / "other")
    assert "org/people" not in worm(command, other).text
    assert "org/people" not in worm(command, "--url", other).text
    twice = worm(command, other, "--url", url)
    assert twice.code == 2
    assert "named twice" in twice.errors
