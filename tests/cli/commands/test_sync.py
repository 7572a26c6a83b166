"""worm push, pull and sync: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.cli.commands import pull, push
from wormdb.cli.commands.sync import run as sync_run
from wormdb.cli.main import run

if TYPE_CHECKING:
    import click


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with a file and a collection, pushed to another; a copy of it beside."""
    monkeypatch.chdir(tmp_path)
    Path("work").mkdir()
    Path("work/plan.txt").write_text("first")
    with wormdb.connect("work") as database:
        database["notes"].insert({"id": "a"})
    assert run(["push", "--folder", "work", "--url", "bucket"]) == 0
    assert run(["pull", "--folder", "copy", "--url", "bucket"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 file pushed",
        "notes: 1 entry pushed, through number 1",
        "1 file pulled",
        "notes: 1 entry pulled, through number 1",
    ]
    return tmp_path


def test_files_and_collections_are_there_and_then_nothing_is_to_do(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sync", "--folder", "copy"]) == 0
    assert capsys.readouterr().out == "nothing to do\n"
    assert (place / "copy/plan.txt").read_text() == "first"


@pytest.mark.usefixtures("place")
def test_logs_that_parted_are_a_conflict_until_they_are_rebased(capsys: pytest.CaptureFixture[str]) -> None:
    for each in ("copy", "bucket"):
        with wormdb.connect(each) as database:
            database["notes"].insert({"id": f"by {each}"})
            database["notes"].insert({"id": "by both"})
    capsys.readouterr()
    for verb in ("push", "pull", "sync"):
        assert run([verb, "--folder", "copy"]) == 3
        assert "conflict: notes: both sides have entries of their own after number 1\n" in capsys.readouterr().err
    assert run(["push", "--folder", "copy", "--rebase"]) == 3, "one batch is left out"
    said = capsys.readouterr()
    assert said.out == "notes: 1 batch rebased, through number 4\n"
    assert said.err == 'conflict: notes, entry 3: document "by both": both sides made it\n'
    assert run(["sync", "--folder", "copy"]) == 0


@pytest.mark.usefixtures("place")
def test_diff_shows_each_file_and_says_whether_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["sync", "diff", "--folder", "copy"]) == 0
    assert capsys.readouterr().out == "both sides are equal\n"
    Path("copy/plan.txt").write_text("other")
    Path("copy/new.txt").write_text("new")
    assert run(["sync", "diff", "--folder", "copy"]) == 1
    assert [line.split("(")[0].split() for line in capsys.readouterr().out.splitlines()] == [
        ["only", "here", "new.txt"],
        ["not", "the", "same", "plan.txt"],
    ]
    assert run(["sync", "diff", "plan.txt", "--json", "--folder", "copy"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["path"], found["sizeHere"], found["sizeThere"]) == ("plan.txt", 5, 5)


def test_push_pull_and_sync_share_their_options() -> None:
    def options(command: click.Command) -> set[str]:
        return {str(each.name) for each in command.params}

    shared = {"scopes", "folder", "url", "conflicts", "dry_run", "scan", "as_json"}
    assert options(push.command) == shared | {"delete", "rebase"}
    assert options(pull.command) == shared | {"delete", "lazy"}
    assert options(sync_run.command) == shared | {"lazy", "rebase"}
