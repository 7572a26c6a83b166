"""worm blob: files in, files out."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.cli.printed import Printed, worm

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {"Customer": {"path": "#org/@customers/(id:string)"}},
}
CONTENT = bytes(range(256)) * 20
KEY = f"sha256:{sha256(CONTENT).hexdigest()}"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A folder with a model, and a file beside it."""
    place = str(tmp_path / "db")
    with wormdb.connect(place, schema=SCHEMA, apply=True):
        pass
    (tmp_path / "cat.png").write_bytes(CONTENT)
    return place


def at(url: str, *arguments: str) -> Printed:
    return worm("blob", *arguments, "--url", url)


def test_a_file_goes_in_and_comes_out(url: str, tmp_path: Path) -> None:
    reference = json.loads(at(url, "put", "Customer", str(tmp_path / "cat.png")).text)
    assert reference == {"_blob": KEY, "size": len(CONTENT), "contentType": "image/png", "name": "cat.png"}
    with wormdb.connect(url) as database:
        database.model("Customer").insert({"id": "ada", "photo": reference})
    for number, given in enumerate((KEY, json.dumps(reference))):
        out = tmp_path / f"out-{number}"
        assert at(url, "get", "Customer", given, "-o", str(out)).code == 0
        assert out.read_bytes() == CONTENT
    listed = json.loads(at(url, "list", "Customer", "--json").text)
    assert [(each["key"], each["size"], each["owners"], each["isCondemned"]) for each in listed] == [
        (KEY, len(CONTENT), 1, False)
    ]
    assert "1 owner" in at(url, "list", "Customer").text


def test_a_file_is_not_overwritten_unless_that_is_wanted(url: str, tmp_path: Path) -> None:
    at(url, "put", "Customer", str(tmp_path / "cat.png"), "--type", "image/gif", "--name", "dog.gif")
    out = tmp_path / "out"
    out.write_text("mine")
    refused = at(url, "get", "Customer", KEY, "-o", str(out))
    assert refused.code == 1
    assert "--overwrite" in refused.errors
    assert out.read_text() == "mine"
    assert at(url, "get", "Customer", KEY, "-o", str(out), "--overwrite").code == 0
    assert out.read_bytes() == CONTENT


def test_damage_leaves_no_file(url: str, tmp_path: Path) -> None:
    at(url, "put", "Customer", str(tmp_path / "cat.png"))
    stored = tmp_path / "db" / "org" / "customers" / ".worm.db" / "blobs" / KEY.removeprefix("sha256:")
    stored.write_bytes(CONTENT[:-1] + b"!")
    failed = at(url, "get", "Customer", KEY, "-o", str(tmp_path / "out"))
    assert failed.code == 1
    assert "SHA-256" in failed.errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cat.png", "db"]


def test_what_is_not_there(url: str) -> None:
    assert at(url, "get", "Customer", KEY).code == 1
    assert at(url, "get", "Customer", '{"size": 5}').code == 2
    assert at(url, "get", "Customer", "nonsense").code == 2


def test_standard_input(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Given:
        buffer = io.BytesIO(CONTENT)

    monkeypatch.setattr("sys.stdin", Given())
    reference = json.loads(at(url, "put", "Customer", "-").text)
    assert reference == {"_blob": KEY, "size": len(CONTENT), "contentType": "application/octet-stream"}
