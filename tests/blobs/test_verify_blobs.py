"""worm verify: blobs that documents refer to are there, and are what their names say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.blobs.blob_rig import DAY, HOUR, World, forwarded, gc, people, soft_of
from tests.engine.sweeps.commits import database_on
from wormdb.engine.commit.operations import Pending
from wormdb.format.event import BlobCondemned
from wormdb.jobs.pipeline import local_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.maintenance.audit.report import Verification

CONTENT = b"content"


def verified(world: World, folder: str = "people/", **options: Any) -> Verification:
    (found,) = database_on(world, seed=9).verify([folder], **options)
    return found


def whats(found: Verification) -> list[tuple[str, str]]:
    return [(finding.kind, finding.what) for finding in found.findings]


def removed(world: World, key: str) -> None:
    world.delete(key)


def changed(world: World, key: str) -> None:
    world.put(key, b"other")


@pytest.mark.parametrize(("damage", "word"), [(removed, "missing"), (changed, "SHA-256")])
def test_damage_is_found(damage: Callable[[World, str], None], word: str) -> None:
    world = World()
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    other = collection.put_blob(b"nobody refers to it")
    collection.insert({"id": "1", "photo": [reference]})
    forwarded(collection)
    sound = verified(world, unreferenced=True)
    assert (sound.findings, sound.checked.blobs) == ((), 1)
    damage(world, f"people/.worm.db/blobs/{other.sha256}")
    assert verified(world).is_sound
    damage(world, f"people/.worm.db/blobs/{reference.sha256}")
    found = verified(world)
    assert not found.is_sound
    ((kind, what),) = whats(found)
    assert (kind, word in what) == ("blob", True)
    assert found.findings[0].key.endswith(reference.sha256)
    collection.put_blob(CONTENT)
    world.put(f"people/.worm.db/blobs/{reference.sha256}", CONTENT)
    assert verified(world).is_sound


def test_what_the_trash_refers_to_is_looked_at() -> None:
    world = World()
    collection = soft_of(world)
    reference = collection.put_blob(CONTENT)
    collection.insert({"id": "1", "photo": reference})
    collection.delete("1")
    forwarded(collection)
    assert verified(world, "soft/").checked.blobs == 1
    world.delete(f"soft/.worm.db/blobs/{reference.sha256}")
    assert [kind for kind, _ in whats(verified(world, "soft/"))] == ["blob"]


def test_what_gc_removed_is_not_missed() -> None:
    world = World()
    collection = people(world)
    collection.insert({"id": "1", "photo": collection.put_blob(CONTENT)})
    collection.delete("1")
    for _ in range(3):
        forwarded(collection, DAY + HOUR)
        gc(world)
    assert verified(world, unreferenced=True).findings == ()


def test_a_blob_that_is_condemned_and_owned_is_a_fault() -> None:
    world = World()
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    collection.insert({"id": "1", "photo": reference})
    event = BlobCondemned(sha256=bytes.fromhex(reference.sha256))
    collection._access.ledger.commit(Pending("c" * 32, events=(event,)))  # without asking for owners
    forwarded(collection)
    assert [what for _, what in whats(verified(world))] == [
        f"documents refer to it, and entry {collection._access.ledger.view().number} condemned it"
    ]


def test_parts_find_what_one_pass_finds(tmp_path: Path) -> None:
    with wormdb.connect(str(tmp_path)) as db:
        files = db["files"]
        references = [files.put_blob(bytes([n])) for n in range(5)]
        files.insert_many([{"id": str(n), "photo": references[n % 5]} for n in range(50)])
        files.forward()
        expected = db.verify(["files"])[0]
        assert (expected.is_sound, expected.checked.blobs) == (True, 5)
        assert local_pipeline(db.url, collection="files").verify() == expected
        (tmp_path / "files" / ".worm.db" / "blobs" / references[3].sha256).write_bytes(b"!")
        assert local_pipeline(db.url, collection="files").verify() == db.verify(["files"])[0]
        assert not local_pipeline(db.url, collection="files").verify().is_sound
