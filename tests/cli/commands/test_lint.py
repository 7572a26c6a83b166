"""worm lint: a table for people, JSON for programs, and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from wormdb.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {"Customer": {"path": "@customers/(id:uuid)/[profile].json"}},
}
WARNED = {**GOOD, "modles": {}}
BAD = {**GOOD, "models": {"Customer": {"path": "@customers/(id:uid)/[profile].json", "mode": "rw", "colour": 1}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("schema", "code", "verdict"),
    [
        (GOOD, 0, "schema.json: 0 errors, 0 warnings, 1 model"),
        (WARNED, 0, "schema.json: 0 errors, 1 warning, 1 model"),
        (BAD, 1, "schema.json: 2 errors, 1 warning"),
    ],
)
def test_exit_codes_and_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str], schema: object, code: int, verdict: str
) -> None:
    (folder / "schema.json").write_text(json.dumps(schema))
    assert run(["lint", "schema.json"]) == code
    assert capsys.readouterr().out.splitlines()[-1] == verdict


def test_the_table_has_place_reason_and_fix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.json").write_text(json.dumps(BAD))
    run(["lint", "bad.json"])
    printed = capsys.readouterr().out
    for text in ("models.Customer.mode", "'rw' is not allowed", "→ did you mean 'uuid'?", "warning", "error"):
        assert text in printed


def test_json_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.json").write_text(json.dumps(BAD))
    assert run(["lint", "--json", "bad.json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["file"], report["valid"]) == ("bad.json", False)
    assert [(each["severity"], each["path"]) for each in report["problems"]] == [
        ("error", "models.Customer.mode"),
        ("error", "models.Customer.path"),
        ("warning", "models.Customer.colour"),
    ]
    assert all(each["reason"] and each["fix"] for each in report["problems"])


def test_the_projects_schema_is_found_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint"]) == 2
    assert "there is no schema" in capsys.readouterr().err
    (folder / "schema.json").write_text(json.dumps(BAD))
    assert run(["lint"]) == 1
    (folder / ".worm").mkdir()
    (folder / ".worm" / "schema.json").write_text(json.dumps(GOOD))
    assert run(["lint"]) == 0
    assert ".worm/schema.json: 0 errors" in capsys.readouterr().out


def test_files_that_cannot_be_read_are_usage_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "none.json"]) == 2
    assert run(["lint", str(folder)]) == 2
    assert capsys.readouterr().err.count("cannot be read") == 2


def test_broken_json_is_an_error_of_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "schema.json").write_text('{"models": ')
    assert run(["lint"]) == 1
    assert "invalid JSON at line 1, column 12" in capsys.readouterr().out
