"""References where documents go: classes, readable files, exports, tables, other indexes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.errors import SchemaError, ValidationError
from wormdb.format.blob import BlobReference

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"content"
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Cat": {
            "path": "#org/@cats/(id:string)/[cat].json",
            "fields": {"photo": {"type": "object"}},
            "indexes": {"byPhoto": {"field": "photo._blob"}},
            "manifest": {"enabled": True},
        }
    },
}


@dataclass
class Dog:
    """With a photo, perhaps."""

    name: str
    photo: BlobReference | None = None
    id: str = ""


class Bird(msgspec.Struct):
    """With photos."""

    photos: list[BlobReference] = msgspec.field(default_factory=list)
    id: str = ""


def test_attributes_of_classes_are_references() -> None:
    with wormdb.connect("memory://") as db:
        dogs, birds = db.model(Dog), db.model(Bird)
        photo, other = dogs.put_blob(CONTENT, name="dog.png"), birds.put_blob(CONTENT)
        dog, plain = dogs.insert(Dog("Rex", photo)), dogs.insert(Dog("Bello"))
        bird = birds.insert(Bird([other, other]))
        read = dogs.find_by_id(dog.id)
        assert read is not None
        assert isinstance(read.photo, BlobReference)
        assert (read.photo, read.photo.name) == (photo, "dog.png")
        assert dogs.find_by_id(plain.id) == plain
        found = birds.find_by_id(bird.id)
        assert found is not None
        assert found.photos == [other, other]
        assert dogs.open_blob(read.photo).read() == CONTENT
        with pytest.raises(ValidationError):
            db.model(Dog).insert({"name": "Odd", "photo": "no reference"})


def test_readable_files_exports_and_columns_show_references(tmp_path: Path) -> None:
    url = str(tmp_path)
    with wormdb.connect(url, schema=SCHEMA, apply=True) as db:
        cats = db.model("Cat")
        photo = cats.put_blob(CONTENT, name="cat.png")
        cats.insert({"id": "1", "photo": photo, "more": [{"deep": photo}]})
        cats.forward()
        assert [cat.id for cat in cats.find({"photo._blob": str(photo.key)})] == ["1"]
        (row,) = cats.to_arrow(["photo"]).to_pylist()
        assert json.loads(row["photo"]) == photo.to_dict()
        assert db.verify(["Cat"])[0].is_sound
    file = json.loads((tmp_path / "org" / "cats" / "1" / "cat.json").read_text())
    assert (file["photo"], file["more"]) == (photo.to_dict(), [{"deep": photo.to_dict()}])
    printed = worm("table", "export", "Cat", "--format", "ndjson", "--url", url)
    assert json.loads(printed.text)["photo"] == photo.to_dict()
    assert not list(tmp_path.rglob("_blobs.json")), "the index of owners is nobody's file"


def test_a_model_cannot_have_the_index_of_owners() -> None:
    models = {"Cat": {"path": "@cats/(id:string)", "indexes": {"_blobs": {"field": "x"}}}}
    with pytest.raises(SchemaError, match="blobs"):
        wormdb.connect("memory://", schema={**SCHEMA, "models": models})
