"""The whole set of commands about collections on a real S3 server, once from end to end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.printed import fill, worm

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.s3


def test_every_command(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(s3_url, customers=20)
    monkeypatch.setenv("WORM_URL", s3_url)
    models = json.loads(worm("table", "list", "--json").text)
    assert [each["model"] for each in models] == ["Customer", "Invoice", "OrgSettings", "notes", "org/acme/users"]
    assert worm("table", "rebuild", "Customer").lines[1] == "Found 20 entities"
    assert json.loads(worm("table", "inspect", "Customer", "--json").text)["manifest"]["columnsFresh"] is True
    assert worm("index", "create", "Invoice", "total", "--name", "byTotal").text.startswith("byTotal: total (standard)")
    assert worm("index", "list", "Invoice").lines[-1].split()[0] == "byTotal"
    assert worm("index", "describe", "Invoice", "byTotal").lines[4].split() == ["State:", "ready"]
    assert worm("index", "analyze", "Invoice", "byTotal").code == 0
    assert worm("index", "tasks", "Invoice").text == "nothing to do\n"
    rows = worm("table", "query", "Customer", "--filter", "status=active", "--sort", "name:desc", "--format", "ndjson")
    assert [json.loads(row)["id"] for row in rows.lines][:2] == ["c0009", "c0006"]
    assert worm("table", "query", "Invoice", "--filter", "total=300", "--analyze").code == 0
    assert worm("table", "aggregate", "Invoice", "--sum", "total").lines[-1].strip() == "78,000"
    assert len(worm("table", "export", "Customer", "--format", "csv").lines) == 21
    assert worm("index", "drop", "Invoice", "byTotal").code == 0


def test_files_are_named_by_their_urls(s3_url: str) -> None:
    fill(s3_url, customers=5)
    assert worm("table", "rebuild", "Customer", "--url", s3_url).code == 0
    place = s3_url.partition("?")[0]
    (file,) = json.loads(worm("table", "files", "Customer", "--json", "--url", s3_url).text)["files"]
    assert file["location"].startswith(f"{place}/org/customers/.worm.db/data/")
    sql = worm("table", "files", "Customer", "--sql", "duckdb", "--url", s3_url).text
    assert f"read_parquet(['{file['location']}'], union_by_name = true)" in sql
    assert "CREATE SECRET (TYPE s3, PROVIDER credential_chain, ENDPOINT '127.0.0.1:" in sql
    assert "KEY_ID" not in sql


def test_import_and_history(s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(s3_url, customers=1)
    monkeypatch.setenv("WORM_URL", s3_url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.csv").write_text("id,name,email\nada,Ada,a@x.org\nbob,Bob,a@x.org\nc0000,Cyd,\n")
    printed = worm("import", "c.csv", "--model", "Customer", "--on-conflict", "replace")
    assert printed.text == "c.csv: 3 records, 1 inserted, 1 replaced, 1 rejected, see c.csv.rejects.ndjson\n"
    assert worm("import", "c.csv", "--model", "Customer", "--on-conflict", "ignore").code == 1
    assert worm("history", "c0000").lines[0] == "Customer c0000: 2 changes"
    assert worm("rollback", "c0000", "--to", "1", "--yes").lines[-1] == "rolled back: change 3"
    assert worm("table", "query", "Customer", "--as-of", "2", "--count").text == "1\n"
    assert (
        len(json.loads(worm("schema", "infer", "--collection", "Customer").text)["models"]["Customer"]["fields"]) == 4
    )
