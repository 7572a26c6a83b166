"""Traps of other clients that have no place among the other tests, and the list of all of them.

docs/format/sync.md names a test for each trap that is known of swamp's clients; each of these tests is there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sync.clones import World
from wormdb.errors import InvalidRequestError, UnavailableError, WormError
from wormdb.storage.store import WrappedStore
from wormdb.sync import Sync
from wormdb.sync import push as push_module
from wormdb.sync.index import FileEntry, Monolith, encode
from wormdb.sync.paths import LOCK, MANIFEST, MONOLITH
from wormdb.sync.state import KnownFile, LocalState
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from wormdb.storage.store import StoredObject

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two clones; `a` has pushed three files, which `b` has."""
    found = World(tmp_path, "ab")
    for path in ("data/t/1/x", "data/t/2/x", "top"):
        found.clones["a"].write(path)
    found.clones["a"].push()
    found.clones["b"].pull()
    return found


def test_the_list_of_traps_names_tests_that_there_are() -> None:
    page = (ROOT / "docs/format/sync.md").read_text()
    listed = re.findall(r"`(test_\w+)`", page)
    there = {
        name
        for file in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert len(listed) >= 40
    assert [name for name in listed if name not in there] == []


class TestPull:
    """Bucket to folder."""

    def test_a_scoped_pull_names_every_file_that_changed_for_a_catalog(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/x")
        a.write("data/t/1/new")
        a.delete("data/t/2/x")
        a.push()
        report = b.pull(["data/t/1", "data/t/2"])
        assert sorted(report.pulled) == ["data/t/1/new", "data/t/1/x"]
        assert report.deleted_here == ["data/t/2/x"]

    def test_one_file_that_cannot_be_fetched_does_not_stop_the_others(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/x")
        a.write("data/t/1/y")
        a.push()

        class Refusing(WrappedStore):
            def get(self, key: str) -> StoredObject:
                if key == "data/t/1/x":
                    raise UnavailableError(key, reason="HTTP 500")
                return super().get(key)

        with b.open(Refusing(world.handle())) as sync:
            report = sync.pull_changed()
        assert [(each.path, each.reason) for each in report.failed] == [("data/t/1/x", "HTTP 500")]
        assert report.pulled == ["data/t/1/y"]
        assert b.pull().pulled == ["data/t/1/x"], "the part does not count as taken over"

    def test_a_download_that_breaks_off_leaves_the_file_as_it_was(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        before = b.files()
        a.write("top")
        a.push()
        with pytest.raises(SimulatedCrash), b.open(FaultStore(world.handle(), {3: Fault.CRASH_AFTER})) as sync:
            sync.pull_changed()
        assert b.files() == before

    def test_the_same_size_and_another_content_is_fetched_and_not_pushed_back(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        for clone in (a, b):
            (clone.folder / "latest").write_text("1")
        a.sync()
        b.sync()
        (a.folder / "latest").write_text("2")
        os.utime(a.folder / "latest", ns=(7, 7))
        a.push()
        assert b.push().pushed == []
        assert b.pull().pulled == ["latest"]
        assert (b.folder / "latest").read_text() == "2"

    def test_a_push_that_comes_while_a_pull_reads_is_not_hidden(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/x")
        a.push()
        pushed: list[Any] = []

        class Overtaken(WrappedStore):
            def probe(self, key: str) -> Any:
                if key != MANIFEST and not pushed:
                    pushed.append(a.write("data/t/2/x"))
                    a.push()
                return super().probe(key)

        with b.open(Overtaken(world.handle())) as sync:
            sync.pull_changed()
        b.pull()
        assert b.files() == a.files()

    def test_a_push_with_nothing_to_send_does_not_hide_what_is_to_be_pulled(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("new")
        a.push()
        assert b.push().count == 0
        b.write("data/t/1/x")
        assert b.push().pushed == ["data/t/1/x"]
        assert b.pull().pulled == ["new"]

    def test_an_upload_in_pieces_is_known_again(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its version is of another shape in S3, and tells nothing about the content."""
        monkeypatch.setattr(push_module, "PUT_BYTES_MAX", 3)
        a, b = world.clones["a"], world.clones["b"]
        a.write("large")
        assert a.push().pushed == ["large"]
        assert a.push().requests == 0
        assert b.pull().pulled == ["large"]
        assert b.pull().requests == 1
        a.write("large")
        assert a.push().pushed == ["large"]
        world.check()


class TestPush:
    """Folder to bucket."""

    def test_a_file_that_a_peer_added_to_the_same_folder_is_not_deleted(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        b.write("data/t/1/peer")
        b.push()
        a.delete("data/t/1/x")
        assert a.push("data/t/1").deleted_there == ["data/t/1/x"]
        assert "data/t/1/peer" in world.listed()

    def test_a_folder_that_was_removed_is_deleted_file_by_file(self, world: World) -> None:
        a = world.clones["a"]
        for path in ("data/t/1/x", "data/t/2/x"):
            a.retire(path)
        shutil.rmtree(a.folder / "data")
        assert sorted(a.push().deleted_there) == ["data/t/1/x", "data/t/2/x"]
        world.check()

    def test_an_index_that_cannot_be_read_is_not_a_missing_one(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        world.store.put("theirs", world.content().encode())
        world.store.put(MONOLITH, encode(Monolith(entries={})))
        world.clones["a"].write("mine")

        class Refusing(WrappedStore):
            def probe(self, key: str) -> Any:
                if key == MONOLITH:
                    raise UnavailableError(key, reason="HTTP 500")
                return super().probe(key)

        with pytest.raises(UnavailableError), world.clones["a"].open(Refusing(world.handle())) as sync:
            sync.push_changed()
        assert world.store.probe(MANIFEST).found is None

    def test_a_large_push_goes_in_portions_of_whole_parts(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(push_module, "PORTION_FILES", 2)
        a = world.clones["a"]
        for path in ("data/t/1/x", "data/t/1/y", "data/t/1/z", "data/t/2/x", "top"):
            a.write(path)
        a.delete("data/t/2/x")
        report = a.push()
        assert sorted(report.pushed) == ["data/t/1/x", "data/t/1/y", "data/t/1/z", "top"]
        assert report.deleted_there == ["data/t/2/x"]
        assert report.requests == 4 + 3 + 3 + 2, "files, parts, a manifest a portion, the time and the deletion"
        world.check()

    def test_an_empty_bucket_begins_in_parts(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        world.clones["a"].write("data/t/1/x")
        world.clones["a"].push()
        assert world.store.probe(MANIFEST).found is not None
        assert world.store.probe(MONOLITH).found is None

    def test_a_part_that_a_crash_left_unlisted_is_found(self, world: World) -> None:
        a = world.clones["a"]
        a.write("fresh/x")
        with pytest.raises(SimulatedCrash), a.open(FaultStore(world.handle(), {4: Fault.CRASH_BEFORE})) as sync:
            sync.push_changed()
        with world.clones["b"].open() as sync:
            assert sync.check().unlisted == ["fresh"]
            sync.check(repair=True)
        assert world.clones["b"].pull().pulled == ["fresh/x"]


class TestMarks:
    """What a mark means, and does not."""

    def test_a_mark_before_the_write_deletes_nothing_that_others_pushed(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        b.write("data/t/1/peer")
        b.push()
        with a.open() as sync:
            sync.mark_dirty("data/t/1/peer")
            assert sync.push_changed(marked=True).deleted_there == []
            a.write("mine")
            sync.mark_dirty("mine")
            assert sync.push_changed(marked=True).pushed == ["mine"]
        assert "data/t/1/peer" in world.listed()

    def test_a_push_between_mark_and_write_does_not_lose_the_write(self, world: World) -> None:
        a = world.clones["a"]
        with a.open() as sync:
            sync.mark_dirty("data/t/1/x")
            assert sync.push_changed(marked=True).count == 0
            a.write("data/t/1/x")
            sync.mark_dirty("data/t/1/x")
            assert sync.push_changed(marked=True).pushed == ["data/t/1/x"]

    def test_a_mark_of_everything_is_not_a_deletion(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("new")
        a.push()
        with b.open() as sync:
            sync.mark_dirty()
            assert sync.push_changed(marked=True).deleted_there == []
        assert "new" in world.listed()


class TestClocks:
    """No clock of a client decides about contents."""

    def test_clients_a_day_apart_sync_as_others_do(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        world.clock.advance(86_400)
        mine = a.write("top")
        a.push()
        os.utime(b.folder / "data/t/1/x", ns=(1, 1))
        assert b.push().count == 0, "another time is no change"
        assert b.pull().pulled == ["top"]
        assert b.files()["top"] == mine

    def test_a_lock_is_stale_by_the_time_of_the_store(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        world.store.put("x", world.content().encode())
        entry = FileEntry(key="x", size=9, last_modified="2026-01-01T00:00:00.000Z")
        world.store.put(MONOLITH, encode(Monolith(entries={"x": entry})))
        world.store.put(LOCK, b'{"holder":"gone","acquiredAt":"2199-01-01T00:00:00.000Z","ttlMs":30000,"nonce":"n"}')
        world.clones["a"].write("mine")
        world.clock.advance(31)
        assert world.clones["a"].push().pushed == ["mine"], "whatever its holder's clock said"

    def test_a_lock_that_is_held_is_waited_for_and_then_told(self, tmp_path: Path) -> None:
        world = World(tmp_path, "a")
        world.store.put(MONOLITH, encode(Monolith(entries={})))
        world.clones["a"].write("mine")

        class Held(WrappedStore):
            def probe(self, key: str) -> Any:
                if key == LOCK:
                    world.store.put(LOCK, b'{"holder":"busy","nonce":"n"}')
                return super().probe(key)

        with (
            pytest.raises(UnavailableError, match="another client holds it"),
            world.clones["a"].open(Held(world.handle())) as sync,
        ):
            sync.push_changed()


class TestTruth:
    """What the schema of a folder says of conflicts."""

    @pytest.mark.parametrize(
        ("truth", "here", "there"),
        [("local", "mine", "mine"), ("remote", "theirs", "theirs"), ("bidirectional", "theirs", "theirs")],
    )
    def test_source_of_truth_sets_the_default(self, world: World, truth: str, here: str, there: str) -> None:
        a, b = world.clones["a"], world.clones["b"]
        (b.folder / ".worm.schema.json").write_text(f'{{"schemaVersion": "1.0", "sourceOfTruth": "{truth}"}}')
        (a.folder / "top").write_text("theirs")
        a.push()
        (b.folder / "top").write_text("mine")
        with b.open(conflicts=None) as sync:
            sync.sync()
        assert (b.folder / "top").read_text() == here
        assert world.store.get("top").body.decode() == there
        copies = [path for path in b.files() if "conflict" in path]
        assert bool(copies) == (truth == "bidirectional")


class TestDifferences:
    """Files that are not the same on both sides."""

    def test_each_file_with_both_sides(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("only-there")
        a.write("top")
        a.push()
        b.write("only-here")
        for clone in (a, b):
            (clone.folder / "alike").write_text("same")
        a.push()
        with b.open() as sync:
            found = {each.path: (each.size_here is None, each.size_there is None) for each in sync.differences()}
            assert found == {"only-there": (True, False), "top": (False, False), "only-here": (False, True)}
            assert [each.path for each in sync.differences("top")] == ["top"]
        b.sync()
        with b.open() as sync:
            assert sync.differences() == []


IDLE = """
import sys
from wormdb.sync import Sync
with Sync(sys.argv[1], sys.argv[2]) as sync:
    report = sync.push_changed()
assert (report.count, report.requests) == (0, 0), report
print(*sorted(name for name in sys.modules if name.startswith(("wormdb.storage", "wormdb.engine", "wormdb.api"))))
"""


class TestOpening:
    """The bucket is opened by the first call that needs it."""

    def test_a_push_that_has_nothing_to_do_imports_nothing_about_buckets(self, tmp_path: Path) -> None:
        folder, url = tmp_path / "folder", f"file://{tmp_path}/bucket"
        folder.mkdir()
        file = folder / "x"
        file.write_text("x")
        os.utime(file, ns=(10**18, 10**18))
        with Sync(folder, url) as sync:
            assert sync.push_changed().pushed == ["x"]
        done = subprocess.run(
            [sys.executable, "-c", IDLE, str(folder), url], check=True, capture_output=True, text=True
        )
        assert done.stdout.split() == []

    def test_another_bucket_is_refused_at_once(self, tmp_path: Path) -> None:
        self.sync_once(tmp_path, "s3://bucket/one")
        with pytest.raises(InvalidRequestError, match="synced with"):
            Sync(tmp_path, "s3://bucket/two")

    def sync_once(self, folder: Path, url: str) -> None:
        """Know a file of the bucket, as after a push."""
        with Sync(folder, url):
            pass
        state = LocalState(folder)
        state.hold_files({"x": ("_top", KnownFile(1, 0, bytes(32), "identity"))})
        state.close()

    def test_a_bucket_in_which_nothing_was_found_does_not_bind_the_folder(self, tmp_path: Path, s3_url: str) -> None:
        (tmp_path / "x").write_text("x")
        mistyped = s3_url.replace("wormdb-test", "wormdb-tset")
        with Sync(tmp_path, mistyped) as sync, pytest.raises(WormError, match="does not exist"):
            sync.push_changed()
        with Sync(tmp_path, s3_url) as sync:
            assert sync.push_changed().pushed == ["x"]
        with pytest.raises(InvalidRequestError, match="synced with"):
            Sync(tmp_path, mistyped)

    def test_another_server_under_the_same_url_is_refused_before_its_first_request(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.sync_once(tmp_path, "s3://bucket/one")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with Sync(tmp_path, "s3://bucket/one") as sync, pytest.raises(InvalidRequestError, match="synced with"):
            sync.pull_changed()
