"""A database in a folder stays in it: links below its root lead nowhere, for reading and for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "remote",
    "models": {"Thing": {"path": "@things/(id:any)/[thing].json"}},
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["things", "things/.worm.db", "things/.worm.db/committed", "things/.worm.db/data"])
def test_a_linked_folder_is_neither_written_nor_read(place: str, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    with wormdb.connect(outside, schema=SCHEMA) as database:
        database.model("Thing").insert({"id": "secret"})
        database.forward()
    before = contents(outside)
    link = root / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / place, target_is_directory=True)
    with wormdb.connect(root, schema=SCHEMA) as database:
        things = database.model("Thing")
        assert things.find_by_id("secret") is None
        assert things.count() == 0
        with pytest.raises(InvalidRequestError, match=f"{place} is an object or a link"):
            _change(database)
    assert contents(outside) == before


def _change(database: wormdb.Database) -> None:
    database.model("Thing").insert({"id": "mine"})
    database.forward()


def test_a_linked_document_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.json"
    outside.write_text('{"id": "a", "from": "outside"}')
    with wormdb.connect(root, schema=SCHEMA) as database:
        things = database.model("Thing")
        things.insert({"id": "a", "from": "inside"})
        database.forward()
        (file,) = root.rglob("thing.json")
        file.unlink()
        file.symlink_to(outside)
        things.save({"id": "a", "from": "inside again"})
        with pytest.raises(InvalidRequestError, match=r"thing\.json: a link"):
            database.forward()
        assert [found["from"] for found in things.find_all()] == ["inside again"]
    assert outside.read_text() == '{"id": "a", "from": "outside"}'
