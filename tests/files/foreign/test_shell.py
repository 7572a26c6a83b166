"""worm table over a bucket that another program fills."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.files.foreign.worm_bucket import FOLDER, Bucket, customer, schema_of
from wormdb.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Worm = Callable[..., str]

DOCUMENTS = [customer(number) for number in range(5)]


@pytest.fixture
def worm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Worm:
    """The command, on a folder of 5 customers with a schema beside it."""
    folder = tmp_path / "bucket"
    bucket = Bucket(url=str(folder))
    with bucket.store:
        bucket.fill(DOCUMENTS)
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(schema_of()))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def call(*arguments: str, code: int = 0) -> str:
        assert run([*arguments, "--url", str(folder), "--schema", str(schema)]) == code
        captured = capsys.readouterr()
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
        return captured.err if code else captured.out + captured.err

    return call


def _json(text: str) -> Any:
    return json.loads(text)


def test_list_and_inspect(worm: Worm) -> None:
    (found,) = _json(worm("table", "list", "--json"))
    assert (found["model"], found["count"], found["manifest"]) == ("Customer", 5, "fresh")
    assert [index["state"] for index in found["indexes"]] == ["ready", "ready"]
    text = worm("table", "inspect", "Customer")
    assert "fresh (checksum verified)" in text
    assert "byStatus" in text


def test_query_explain_aggregate_and_export(worm: Worm) -> None:
    rows = _json(worm("table", "query", "Customer", "--filter", "score>2", "--select", "name", "--json"))["rows"]
    assert rows == [{"id": "c003", "name": "Name 3"}, {"id": "c004", "name": "Name 4"}]
    asked = ("table", "query", "Customer", "--filter", "status=active")
    assert "index byStatus covers filter" in worm(*asked, "--explain")
    assert worm(*asked, "--count", "--strategy", "full_scan").strip() == "2"
    assert "Strategy 'manifest_scan' not available" in worm(*asked, "--strategy", "manifest_scan", code=2)
    assert _json(worm("table", "aggregate", "Customer", "--sum", "score", "--json")) == {"sum": 10}
    exported = worm("table", "export", "Customer", "--select", "score", "--filter", "score<2")
    assert [_json(line)["score"] for line in exported.splitlines()] == [0, 1]


def test_what_needs_a_log_names_the_fix(worm: Worm) -> None:
    assert "worm adopt" in worm("table", "query", "Customer", "--as-of", "3", code=2)


def test_broken_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    bucket = Bucket(url=str(tmp_path / "bucket"))
    with bucket.store:
        bucket.put(f"{FOLDER}a/profile.json", {"id": "a"})
        bucket.put(f"{FOLDER}b/profile.json", b"{")
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(schema_of()))
    command = ["table", "query", "Customer", "--json", "--url", bucket.url, "--schema", str(schema)]
    assert run(command) == 1
    assert "org/customers/b/profile.json is broken" in capsys.readouterr().err
    assert run([*command, "--on-broken", "skip"]) == 0
    assert [row["id"] for row in _json(capsys.readouterr().out)["rows"]] == ["a"]
    assert "org/customers/b/profile.json is broken and was passed over" in caplog.text
