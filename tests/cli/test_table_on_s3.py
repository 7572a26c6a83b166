"""The whole set of commands about collections on a real S3 server, once from end to end."""

from __future__ import annotations

import json

import pytest

from tests.cli.printed import fill, worm

pytestmark = pytest.mark.s3


def test_every_command(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(s3_url, customers=20)
    monkeypatch.setenv("WORM_URL", s3_url)
    models = json.loads(worm("table", "list", "--json").text)
    assert [each["model"] for each in models] == ["Customer", "Invoice", "OrgSettings", "notes", "org/acme/users"]
    assert worm("table", "rebuild", "Customer").lines[1] == "Found 20 entities"
    assert json.loads(worm("table", "inspect", "Customer", "--json").text)["manifest"]["fresh"] is True
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
