"""The command as a user sees it: one line on stderr, and an exit code that tells what kind of failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wormdb import __version__
from wormdb.cli.main import VERBS, run


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    printed = capsys.readouterr().out
    assert [verb for verb in VERBS if verb not in printed] == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself_as_the_list_does(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    assert VERBS[verb] in " ".join(capsys.readouterr().out.split())


def test_version() -> None:
    done = subprocess.run([sys.executable, "-m", "wormdb.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"worm, version {__version__}\n"


def test_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wormdb"] == __version__


def test_no_arguments_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["doctor"], 2, "Missing argument 'URL'"),
        (["doctor", "--frob", "x"], 2, "No such option"),
        (["doctor", "ftp://x/y"], 2, "ftp"),
        (["doctor", "s3://"], 2, "bucket"),
        (["node", "list", "s3://bucket/x"], 2, "Did you mean --url s3://bucket/x?"),
    ],
)
def test_wrong_usage_is_one_line_and_two(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("worm: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["version"], ["version", "--json"], ["--help"]])
def test_a_full_disk_behind_the_output_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "wormdb.cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "worm: the output cannot be written: No space left on device\n"


def test_failure_is_one_line_and_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file where the folder should be cannot be opened: the command fails, it was not called wrongly."""
    (tmp_path / "plain").write_text("not a folder")
    assert run(["doctor", str(tmp_path / "plain")]) in {1, 2}
    printed = capsys.readouterr()
    assert printed.err.count("\n") <= 1
    assert "plain" in printed.out + printed.err
