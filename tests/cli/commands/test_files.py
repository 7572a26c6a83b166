"""worm files: status, sync, on, off; worm verify of files, on a folder and on S3."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.cli.main import run
from wormdb.schema.load import load_schema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = load_schema(
    {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "Customer": {
                "path": "#org/@customers/(id:string)/[profile].json",
                "oplog": True,
                "softDelete": True,
                "fields": {"name": {"type": "string"}, "status": {"type": "string"}},
                "manifest": {"enabled": True},
                "indexes": {"byStatus": {"field": "status"}},
            }
        },
    }
)
FILES = {
    "org/customers/.worm",
    "org/customers/.worm.index/status.json",
    "org/customers/.worm.manifest.json",
    "org/customers/a/profile.json",
    ".oplog/customers/a/0001.json",
    ".oplog/customers/b/0001.json",
    ".oplog/customers/b/0002.json",
    ".worm.trash/customers/b/profile.json",
    ".worm.trash/customers/b/.worm.tombstone",
}


def fill(url: str) -> None:
    with wormdb.connect(url, schema=SCHEMA, apply=True) as database:
        customers = database.model("Customer")
        customers.insert_many([{"id": name, "name": name, "status": "active"} for name in "ab"])
        customers.delete("b")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "db"
    fill(str(folder))
    monkeypatch.setenv("WORM_URL", str(folder))
    return folder


def there(place: Path) -> set[str]:
    """The readable files of the collection, and those of others."""
    found = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    return {
        key
        for key in found
        if ".worm.db/" not in key and "/" in key and not key.startswith((".worm.names", ".worm.tmp"))
    }


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_status(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert there(place) == FILES
    assert run(["files", "status", "--count"]) == 0
    head, _, line = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "Collection", "Files", "Oplog", "Snapshots", "Trash", "Through", "Lag", "Pending", "Count",
    ]  # fmt: skip
    assert line.split() == ["org/customers/", "on", "root", "root", "root", "3", "0", "0", "9"]
    assert run(["files", "status", "Customer", "--json"]) == 0
    (found,) = shown(capsys)
    assert (found["enabled"], found["lagEntries"], found["pending"], found["files"]) == (True, 0, 0, None)
    assert [table["type"] for table in found["tables"]] == ["manifest", "index"]


def test_sync(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "org/customers/a/profile.json").write_text('{"id": "a", "name": "Eve"}')
    (place / ".oplog/customers/b/0001.json").unlink()
    (place / "org/customers/readme.txt").write_text("mine")
    assert run(["files", "sync", "Customer"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "org/customers/: 9 files of 1 document: 2 files mended",
        "  mended org/customers/a/profile.json: it is not what was written",
        "  mended .oplog/customers/b/0001.json: it is missing",
    ]
    nothing = {"collection": "org/customers/", "through": 3, "documents": 1, "files": 9, "removed": 0}
    for names in (["org/customers"], []):
        assert run(["files", "sync", *names, "--json"]) == 0
        assert shown(capsys) == [{**nothing, "mended": [], "left": []}]
    assert there(place) == FILES | {"org/customers/readme.txt"}


def test_off_and_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "org/customers/a/notes.txt").write_text("mine")
    before = {key: (place / key).read_bytes() for key in FILES if ".worm.index" not in key and "manifest" not in key}
    assert run(["files", "off", "Customer"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert there(place) >= FILES
    assert run(["files", "off", "Customer", "--yes", "--json"]) == 0
    assert shown(capsys) == {"collection": "org/customers/", "removed": 9}
    assert there(place) == {"org/customers/a/notes.txt"}
    with wormdb.connect(place) as database:
        assert database.model("Customer").count() == 1
        database.model("Customer").save({"id": "c", "name": "c"})
        database.forward()
    assert there(place) == {"org/customers/a/notes.txt"}
    (place / "org/customers/z").mkdir()
    (place / "org/customers/z/profile.json").write_text("{}")
    assert run(["files", "sync"]) == 0
    assert capsys.readouterr().out == "org/customers/: files are off, 1 file removed\n"
    assert run(["files", "on", "Customer"]) == 0
    assert "nothing was wrong" in capsys.readouterr().out
    new = {"org/customers/c/profile.json", ".oplog/customers/c/0001.json", "org/customers/a/notes.txt"}
    assert there(place) == FILES | new
    after = {key: (place / key).read_bytes() for key in before}
    assert {key for key in before if before[key] != after[key]} == {"org/customers/.worm"}


def test_collections_inside_another_are_not_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = {
        "Customer": "#org/@customers/(id:string)/[profile].json",
        "Order": "#org/@customers/(customer:string)/@orders/(id:string)/[order].json",
        "Terms": "#org/@customers/@terms/[data].json",
    }
    models = {name: {"path": path, "oplog": True} for name, path in paths.items()}
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "remote", "models": models}
    with wormdb.connect(tmp_path, schema=schema, apply=True) as database:
        database.model("Customer").insert_many([{"id": "a"}, {"id": "b"}])
        database.model("Order", customer="b").insert({"id": "o"})
        database.model("Terms").save({"days": 30})
    order = tmp_path / "org/customers/b/orders/o/order.json"
    order.write_text("{}")
    assert run(["verify", "--json", str(tmp_path)]) == 1
    found = {each["collection"]: each["findings"] for each in shown(capsys)}
    assert set(found) == {"org/customers/", "org/customers/b/orders/", "org/customers/terms/"}
    assert [len(each) for each in found.values()] == [0, 1, 0]
    assert run(["files", "sync", "--url", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert '"o"' in order.read_text()
    assert run(["files", "off", "Customer", "--yes", "--url", str(tmp_path)]) == 0
    assert order.exists()
    assert run(["verify", str(tmp_path)]) == 0


def test_what_has_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with wormdb.connect(tmp_path / "db") as database:
        database["things"].insert({"id": "a"})
    url = str(tmp_path / "db")
    assert run(["files", "status", "--url", url]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:3] == ["things/", "off", "--"]
    assert run(["files", "sync", "things", "--url", url]) == 2
    assert "never kept" in capsys.readouterr().err
    assert run(["files", "on", "things", "--url", url]) == 2
    assert "no model" in capsys.readouterr().err
    assert run(["files", "off", "things", "--yes", "--url", url]) == 2
    assert capsys.readouterr().err.startswith("worm: the files of things/")


def test_verify_finds_and_repairs_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(place)]) == 0
    assert "9 files)" in capsys.readouterr().out
    key = "org/customers/.worm.manifest.json"
    (place / key).write_text((place / key).read_text().replace('"name":"a"', '"name":"b"'))
    (place / ".worm.trash/customers/b/profile.json").unlink()
    assert run(["verify", str(place), "--json"]) == 1
    (found,) = shown(capsys)
    assert {(each["kind"], each["key"]): each["what"] for each in found["findings"]} == {
        ("file", key): "it is not what was written: its checksum is wrong",
        ("file", ".worm.trash/customers/b/profile.json"): "it is missing",
    }
    assert run(["verify", str(place), "--repair"]) == 0
    assert "2 repaired, 0 lost, 0 left" in capsys.readouterr().out
    assert run(["verify", str(place)]) == 0


def test_on_s3(s3_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(s3_url)
    assert run(["files", "sync", "Customer", "--url", s3_url, "--json"]) == 0
    assert [each["files"] for each in shown(capsys)] == [9]
    with wormdb.connect(s3_url) as database:
        database.store.put("org/customers/zz/profile.json", b"{}")
        database.store.put("org/customers/a/profile.json", b'{"_rev": 99}')
    assert run(["verify", s3_url, "--json"]) == 1
    (found,) = shown(capsys)
    assert {each["key"]: each["what"] for each in found["findings"]} == {
        "org/customers/a/profile.json": "it is not what was written",
        "org/customers/zz/profile.json": "it should not be there",
    }
    assert run(["verify", s3_url, "--repair"]) == 0
    assert run(["files", "off", "Customer", "--yes", "--url", s3_url]) == 0
    with wormdb.connect(s3_url) as database:
        keys = [each.key for page in database.store.list() for each in page.objects]
    assert not [key for key in keys if "profile.json" in key or ".oplog" in key]
