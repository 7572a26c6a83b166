"""worm doctor on a folder: table, JSON, exit code, and nothing left behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from wormdb.cli.main import run
from wormdb.storage.examine import READ_CHECKS, WRITE_CHECKS

if TYPE_CHECKING:
    from pathlib import Path


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and ".worm.tmp" not in path.parts]


def test_a_folder_is_healthy_and_left_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "wormdb can read and write here" in printed
    assert [name for name, _ in READ_CHECKS + WRITE_CHECKS if name not in printed] == []
    assert files(tmp_path) == []


def test_json_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is True
    assert [finding["check"] for finding in report["findings"]] == [name for name, _ in READ_CHECKS + WRITE_CHECKS]
    assert {finding["status"] for finding in report["findings"]} == {"ok"}


def test_read_only_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o555)
    before = tmp_path.stat().st_mtime_ns
    assert run(["doctor", str(tmp_path), "--read-only"]) == 0
    tmp_path.chmod(0o755)
    assert "writing was not tried" in capsys.readouterr().out
    assert tmp_path.stat().st_mtime_ns == before


@pytest.mark.s3
def test_the_verdict_on_a_bucket_is_that_of_its_checks(s3_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", s3_url]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == "wormdb can read and write here"
    assert "fail" not in printed
    assert run(["doctor", s3_url.replace("wormdb-test", "wormdb-none"), "--read-only"]) == 1
    assert "wormdb cannot read here: list" in capsys.readouterr().out.splitlines()[-1]
