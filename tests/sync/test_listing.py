"""A manifest of many parts: their notes are in a listing that does not change, and each push writes a small object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sync.clones import Clone, World
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.storage.store import WrappedStore
from wormdb.sync import remote
from wormdb.sync.index import (
    Manifest,
    PartListing,
    PartNote,
    PartNotes,
    decode_listing,
    decode_manifest,
    encode,
)
from wormdb.sync.paths import LISTINGS, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wormdb.storage.store import Probe, PutResult

PARTS, NOTES = 12, 8
NAMES = st.sampled_from("abcdefg")


def note(seq: int) -> PartNote:
    return PartNote(key="k", seq=seq, nonce=str(seq), count=1)


LISTED = st.dictionaries(NAMES, st.builds(note, st.integers(1, 9)))
CHANGES = st.dictionaries(NAMES, st.none() | st.builds(note, st.integers(1, 9)))


def applied(notes: Mapping[str, PartNote], changes: Mapping[str, PartNote | None]) -> dict[str, PartNote]:
    return {name: each for name, each in {**notes, **changes}.items() if each is not None}


class TestNotes:
    """Notes above a listing are as a dictionary is."""

    @given(listed=LISTED, steps=st.lists(CHANGES, max_size=4))
    def test_changes_are_those_of_a_dictionary(
        self, listed: dict[str, PartNote], steps: list[dict[str, PartNote | None]]
    ) -> None:
        found, model = PartNotes(listing=PartListing(key="l", partitions=listed)), dict(listed)
        for step in steps:
            found, model = found.changed(step), applied(model, step)
        assert dict(found) == model
        assert len(found) == len(model)
        assert all((name in found) == (name in model) for name in "abcdefg")

    @given(listed=LISTED, step=CHANGES, has_listing=st.booleans())
    def test_a_manifest_is_read_as_it_was_written(
        self, listed: dict[str, PartNote], step: dict[str, PartNote | None], has_listing: bool
    ) -> None:
        listing = PartListing(key="l", partitions=listed)
        before = PartNotes(listing=listing) if has_listing else PartNotes(listed)
        manifest = Manifest(seq=3, nonce="n", updated_at="t", depths={"data": 3}, partitions=before.changed(step))
        body = encode(manifest.stored())
        found = decode_manifest(body, "m", lambda _key: decode_listing(encode(listing), "l"))
        assert dict(found.partitions) == applied(listed, step)
        assert found.stored() == manifest.stored()
        assert msgspec.json.decode(body)["version"] == (3 if has_listing else 2), "older clients refuse a listing"

    def test_a_newer_form_is_refused(self) -> None:
        with pytest.raises(UnsupportedFormatError, match="upgrade"):
            decode_manifest(b'{"version": 4}', "m", lambda key: PartListing(key=key, partitions={}))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two clones with so many parts that there is a listing."""
    monkeypatch.setattr(remote, "NOTES_MAX", NOTES)
    found = World(tmp_path, "ab")
    for number in range(PARTS):
        found.clones["a"].write(f"data/t/{number}/x")
    found.clones["a"].push()
    found.clones["b"].pull()
    found.clock.advance(3)
    return found


def listings(world: World) -> list[str]:
    return [info.key for page in world.store.list(LISTINGS) for info in page.objects]


class TestCost:
    """Requests and bytes of a manifest with many parts."""

    def test_a_change_is_as_with_few_parts(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        assert (a.push().requests, b.pull().requests) == (0, 1)
        a.write("data/t/7/x")
        assert a.push().requests == 3
        assert b.pull().requests == 3
        assert len(world.store.get(MANIFEST).body) < 600, "one note, and no other"

    def test_a_change_that_makes_another_listing_is_four(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(remote, "NOTES_MAX", 0)
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/7/x")
        assert a.push().requests == 4, "a file, a part, a listing, the manifest"
        assert b.pull().requests == 4
        assert b.pull().requests == 1

    def test_what_becomes_small_has_no_listing(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        for number in range(3, PARTS):
            a.delete(f"data/t/{number}/x")
        a.push()
        manifest = msgspec.json.decode(world.store.get(MANIFEST).body)
        assert (manifest["version"], len(manifest["partitions"]), "listing" in manifest) == (2, 3, False)
        b.pull()
        world.check()


class TestLostListing:
    """A listing that is not there is never taken for parts that are gone."""

    def test_it_is_told_and_found_again_by_the_doctor(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/7/x")
        a.push()
        (key,) = listings(world)
        world.store.delete(key)
        fresh = Clone(world, a.folder.parent / "fresh")  # the others know what it said
        with pytest.raises(CorruptionError, match="doctor"):
            fresh.pull()
        with fresh.open() as sync:
            assert len(sync.check(repair=True).unlisted) == PARTS - 1
        assert len(fresh.pull().pulled) == PARTS
        b.pull()
        world.check()


class TestRemoval:
    """Listings that no manifest names any more are removed, and none that one may yet name."""

    def outdated(self, world: World, monkeypatch: pytest.MonkeyPatch) -> str:
        """The key of a listing that another has taken the place of, a day ago."""
        (old,) = listings(world)
        with monkeypatch.context() as patch:
            patch.setattr(remote, "NOTES_MAX", 0)
            world.clones["a"].write("data/t/7/x")
            world.clones["a"].push()
        world.clock.advance(86_400)
        return old

    def test_only_the_one_that_is_named_stays(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        old = self.outdated(world, monkeypatch)
        with world.clones["b"].open() as sync:
            assert sync.compact().removed == [old]
            assert sync.compact().removed == []
        assert len(listings(world)) == 1
        world.check()

    def test_a_young_one_stays(self, world: World) -> None:
        world.store.put(f"{LISTINGS}young.json", b"{}")
        with world.clones["b"].open() as sync:
            assert sync.compact().removed == []
        assert len(listings(world)) == 2

    def test_a_client_that_sleeps_before_its_manifest_does_not_name_one_that_is_gone(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a, b = world.clones["a"], world.clones["b"]
        monkeypatch.setattr(remote, "NOTES_MAX", 0)
        removed: list[str] = []

        class Asleep(WrappedStore):
            """The listing is written; before the manifest that names it comes, a day goes by."""

            def put(self, key: str, *arguments: Any, **options: Any) -> PutResult:
                if key == MANIFEST and not removed:
                    world.clock.advance(86_400)
                    with b.open() as sync:
                        removed.extend(sync.compact().removed)
                return super().put(key, *arguments, **options)

        before = listings(world)
        a.write("data/t/7/x")
        with a.open(Asleep(world.handle())) as sync:
            sync.push_changed()
        assert len(removed) == 1
        assert removed != before, "the one that was on its way to be named"
        world.check()

    def test_one_that_goes_while_it_is_read_is_not_missed(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        a, b = world.clones["a"], world.clones["b"]
        monkeypatch.setattr(remote, "NOTES_MAX", 0)
        a.write("data/t/7/x")
        a.push()

        class Meanwhile(WrappedStore):
            """When the listing is about to be read, another client makes another one, and this goes."""

            is_done = False

            def probe(self, key: str) -> Probe:
                if key.startswith(LISTINGS) and not self.is_done:
                    self.is_done = True
                    a.write("data/t/8/x")
                    a.push()
                    world.store.delete(key)
                return super().probe(key)

        with b.open(Meanwhile(world.handle())) as sync:
            assert sync.pull_changed().pulled == ["data/t/7/x", "data/t/8/x"]
        world.check()


def test_a_manifest_with_all_notes_gets_a_listing_by_the_next_push(world: World) -> None:
    a, b = world.clones["a"], world.clones["b"]
    (key,) = listings(world)
    listed = decode_listing(world.store.get(key).body, key).partitions
    found = world.store.get(MANIFEST)
    whole = decode_manifest(found.body, MANIFEST, lambda key: PartListing(key=key, partitions={}))
    whole = msgspec.structs.replace(whole, nonce="whole", partitions=PartNotes(listed))
    world.store.put(MANIFEST, encode(whole.stored()))
    assert a.pull().requests == 1, "the parts are as they were"
    b.pull()
    b.write("data/t/7/x")
    assert b.push().requests == 4, "a file, a part, a listing, the manifest"
    assert len(world.store.get(MANIFEST).body) < 600
    a.pull()
    world.check()
