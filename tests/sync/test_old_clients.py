"""Indexes in one object, and clients that go on writing them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.sync.clones import World
from wormdb.errors import InvalidRequestError
from wormdb.sync.index import FileEntry, Monolith, encode
from wormdb.sync.paths import LOCK, MANIFEST, MONOLITH

if TYPE_CHECKING:
    from pathlib import Path


def monolith(world: World, names: list[str], moment: str = "2026-01-01T00:00:00.000Z") -> None:
    """What an old client leaves: files, and an index in one object."""
    entries = {}
    for name in names:
        content = world.content()
        world.store.put(name, content.encode())
        entries[name] = FileEntry(key=name, size=len(content), last_modified=moment)
    world.store.put(MONOLITH, encode(Monolith(entries=entries)))


class TestOldClients:
    """Indexes in one object, and clients that go on writing them."""

    def test_a_pull_reads_it_and_writes_nothing(self, tmp_path: Path) -> None:
        world = World(tmp_path, "ab")
        monolith(world, ["data/t/1/x", "top"])
        assert sorted(world.clones["a"].pull().pulled) == ["data/t/1/x", "top"]
        assert world.store.probe(MANIFEST).found is None

    def test_a_push_splits_it_and_keeps_it_for_them(self, tmp_path: Path) -> None:
        world = World(tmp_path, "ab")
        monolith(world, ["data/t/1/x", "top"])
        world.clones["a"].write("mine")
        world.clones["a"].push()
        assert world.listed().keys() == {"data/t/1/x", "top", "mine"}
        assert world.store.probe(MONOLITH).found is not None
        assert world.store.probe(LOCK).found is None
        world.check()

    def test_what_they_push_later_is_taken_in(self, tmp_path: Path) -> None:
        world = World(tmp_path, "ab")
        monolith(world, ["top"])
        a = world.clones["a"]
        a.write("mine")
        a.push()
        body = json.loads(world.store.get(MONOLITH).body)
        content = world.content()
        world.store.put("theirs", content.encode())
        body["entries"]["theirs"] = {
            "key": "theirs",
            "size": len(content),
            "lastModified": "2026-02-01T00:00:00Z",
            "localMtime": "x",
        }
        body["entries"][".datastore-index/_manifest.json"] = {
            "key": "x",
            "size": 1,
            "lastModified": "2026-02-01T00:00:00Z",
        }
        del body["entries"]["top"]
        world.store.put(MONOLITH, json.dumps(body).encode())
        world.clock.advance(120)
        a.write("mine")
        a.push()
        assert world.listed().keys() == {"top", "mine", "theirs"}, "what they leave out is not deleted"
        seen = json.loads(world.store.get(MONOLITH).body)["entries"]
        assert seen.keys() == {"top", "mine", "theirs"}, "they see what the new client pushed"
        world.check()

    def test_a_large_one_is_split_by_a_command_only(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        entries = {
            f"data/t/{number % 7}/{number}": FileEntry(key="k", size=1, last_modified="2026-01-01T00:00:00Z")
            for number in range(5_001)
        }
        world.store.put(MONOLITH, encode(Monolith(entries=entries)))
        world.clones["a"].write("mine")
        with pytest.raises(InvalidRequestError, match="5,001 files"):
            world.clones["a"].push()
        with world.clones["a"].open() as sync:
            held = sync.migrate()
        assert sum(note.count for note in held.manifest.partitions.values()) == 5_001

    def test_parts_of_swamp(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        world.store.put("data/t/1/x", b"theirs")
        world.written.add("theirs")
        entry = {"key": "data/t/1/x", "size": 6, "lastModified": "2026-01-01T00:00:00Z"}
        world.store.put("_index/_meta.json", b'{"version":2,"partitions":["data--t--1"],"commitSeq":3}')
        world.store.put("_index/data--t--1.json", json.dumps({"version": 1, "entries": {"data/t/1/x": entry}}).encode())
        world.clones["a"].write("mine")
        world.clones["a"].push()
        assert world.listed().keys() == {"data/t/1/x", "mine"}
        world.check()

    def test_a_bucket_without_an_index_is_listed(self, tmp_path: Path) -> None:
        world = World(tmp_path, "ab")
        world.store.put("found", world.content().encode())
        (world.clones["a"].folder / "found").write_text("content 1")
        world.clones["a"].write("mine")
        assert world.clones["a"].push().pushed == ["mine"], "equal content is not sent"
        world.check()

    def test_the_shim_can_go(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        monolith(world, ["top"])
        with world.clones["a"].open() as sync:
            assert sync.migrate(shim=False).manifest.shim is None
        assert world.store.probe(MONOLITH).found is None
        assert world.listed().keys() == {"top"}
