"""worm table: what all its commands have in common."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import wormdb
from tests.cli.printed import worm
from wormdb.cli.show.text import width_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_url_comes_from_the_environment(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORM_URL", shop)
    assert worm("table", "query", "Customer", "--count").text == "1423\n"
    assert worm("status").code == 0
    monkeypatch.delenv("WORM_URL")
    printed = worm("table", "query", "Customer", "--count")
    assert (printed.code, printed.errors.count("\n")) == (2, 1)
    assert "WORM_URL" in printed.errors


def test_wide_letters_and_long_values_keep_their_columns(tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with wormdb.connect(url) as database:
        rows = [{"id": 1, "city": "東京", "note": "x" * 99}, {"id": 2, "city": "Ålesund", "note": "é\u0301\x1b[31m"}]
        database["places"].insert_many([*rows, {"id": 3, "city": "東京タワー" * 9, "note": None}])
    head, rule, *lines, _ = worm("table", "query", "places", "--url", url).lines
    assert rule.split() == ["--", "-" * 40, "-" * 40]
    assert head.index("note") == 46
    assert lines[0].endswith("x" * 39 + "…")
    assert "\x1b" not in lines[1]
    assert [width_of(line[: line.rindex("  ")]) <= 46 for line in lines] == [True] * 3
    assert "…" in lines[2]
    assert lines[2].endswith("null")


def test_only_so_many_columns_as_a_terminal_has_room_for(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from wormdb.cli.show import rows

    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(rows, "_is_terminal", lambda: True)
    lines = worm("table", "query", "Customer", "--filter", "id=c0001", "--url", shop).lines
    assert lines[2] == "c0001  name 1  c1@x.org"
    assert lines[3] == "(no room for status, tags, createdAt, updatedAt: --select some, or --format json)"


def test_a_reader_that_goes_away_is_no_error(shop: str) -> None:
    program = [sys.executable, "-m", "wormdb.cli", "table", "export", "Customer", "--url", shop]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 0
