"""One test for each thing that went wrong in other clients, or could."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.sync.clones import World
from wormdb.errors import CorruptionError, InvalidRequestError, UnavailableError, UnsupportedFormatError
from wormdb.storage.store import WrappedStore
from wormdb.sync import Sync
from wormdb.sync.folder import WorkFolder
from wormdb.sync.index import FileEntry, encode
from wormdb.sync.paths import DEPTHS, INDEX_FOLDER, LOCK, MANIFEST, MONOLITH, SyncScope, is_internal, part_key, part_of
from wormdb.sync.state import MARKS_MAX
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from wormdb.storage.store import PutResult
    from wormdb.sync import SyncReport


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two clones; `a` has pushed three files, which `b` has."""
    found = World(tmp_path, "ab")
    a = found.clones["a"]
    for path in ("data/t/1/x", "data/t/2/raw", "top"):
        a.write(path)
    a.push()
    found.clones["b"].pull()
    return found


class TestRequests:
    """What things cost, exactly."""

    def test_nothing_changed(self, world: World) -> None:
        assert world.clones["a"].push().requests == 0
        assert world.clones["b"].pull().requests == 1

    def test_one_change_is_a_file_a_part_and_the_manifest(self, world: World) -> None:
        world.clones["a"].write("data/t/1/x")
        assert world.clones["a"].push().requests == 3
        assert world.clones["b"].pull().requests == 3

    def test_a_scope_costs_the_same_however_many_parts_there_are(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        for number in range(40):
            a.write(f"data/many/{number}/x")
        a.push()
        a.write("data/t/1/x")
        assert a.push("data/t/1").requests == 3
        assert b.pull("data/t/1").requests == 3, "the manifest, a part, a file"
        assert b.pull("data/t/1").requests == 1

    def test_a_deletion(self, world: World) -> None:
        world.clones["a"].delete("data/t/1/x")
        report = world.clones["a"].push()
        assert report.deleted_there == ["data/t/1/x"]
        assert report.requests == 4, "the time of the store, a part, the manifest, and the object"


class TestScopes:
    """What a scope means."""

    @pytest.mark.parametrize("scope", ["data/t/1", "data/t/1/", "./data/t/1", {"type": "t", "id": "1"}, ["data/t/1/x"]])
    def test_spellings(self, world: World, scope: Any) -> None:
        world.clones["a"].write("data/t/1/x")
        world.clones["a"].write("top")
        assert world.clones["a"].push(scope).pushed == ["data/t/1/x"]

    def test_one_that_matches_nothing(self, world: World) -> None:
        world.clones["a"].write("top")
        assert world.clones["a"].push("data/no/such").count == 0

    def test_one_inside_a_part_pulls_only_its_files(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/in/x")
        a.write("data/t/1/out/x")
        a.push()
        assert b.pull("data/t/1/in").pulled == ["data/t/1/in/x"]
        assert b.pull().pulled == ["data/t/1/out/x"], "the part was not taken over in whole"

    def test_a_push_into_a_part_that_was_pulled_in_part_does_not_hide_the_rest(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/in/x")
        a.write("data/t/1/out/x")
        a.push()
        b.pull("data/t/1/in")
        b.write("data/t/1/in/y")
        b.push()
        assert b.pull().pulled == ["data/t/1/out/x"]

    def test_a_scoped_pull_does_not_hide_the_rest(self, world: World) -> None:
        world.clones["a"].write("data/t/1/x")
        world.clones["a"].write("top")
        world.clones["a"].push()
        world.clones["b"].pull("data/t/1")
        assert world.clones["b"].pull().pulled == ["top"]

    @pytest.mark.parametrize("scope", ["../x", "a/../b", "a//b"])
    def test_one_that_leads_out_is_refused(self, world: World, scope: str) -> None:
        with pytest.raises(InvalidRequestError, match="below the folder"):
            world.clones["a"].push(scope)


class TestParts:
    """How the index is cut."""

    def test_names_of_parts_do_not_meet(self) -> None:
        paths = [
            "a/x",
            "a.json/x",
            "_top/x",
            "x",
            "_manifest/x",
            "data/a--b/c/x",
            "data/a/b/x",
            "A/x",
            "a~1/x",
            "a%2Eb/x",
        ]
        keys = [part_key(part_of(path, DEPTHS)) for path in paths]
        assert len(set(keys)) == len(keys)
        assert MANIFEST not in keys
        folders = {key.rpartition("/")[0] for key in keys}
        assert not folders & set(keys), "a folder and an object of the same name"

    def test_depths_are_those_of_the_manifest(self, tmp_path: Path) -> None:
        world = World(tmp_path, "ab")
        a = world.clones["a"]
        a.write("projects/one/x")
        with Sync(a.folder, store=world.handle(), depths={"projects": 2}, clock=world.clock) as sync:
            sync.push_changed()
        world.clones["b"].pull()
        world.clones["b"].write("projects/two/x")
        world.clones["b"].push()
        assert world.store.probe(part_key("projects/two")).found is not None
        world.check()

    def test_ten_thousand_parts_fit_into_a_manifest(self) -> None:
        scope = SyncScope.of("data/t/77")
        names = [f"data/t/{number}" for number in range(10_000)]
        assert [name for name in names if scope.touches(name, DEPTHS)] == ["data/t/77"]


class TestInternalFiles:
    """What goes neither way."""

    @pytest.mark.parametrize(
        "path",
        f"{MONOLITH} {LOCK} .push-queue.json _index/x.json _control/x a/.lock a/.namespace.json _catalog.db "
        "a/_catalog.db-wal .worm.sync/x .datastore-index/x.json a/.x.tmp".split(),
    )
    def test_internal(self, path: str, world: World) -> None:
        assert is_internal(path)
        file = world.clones["a"].folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        assert world.clones["a"].push().pushed == []

    @pytest.mark.parametrize("path", ["data/_index/x", "data/control-panel", "a/.locked.yaml", "lock", "a.tmp"])
    def test_not_internal(self, path: str) -> None:
        assert not is_internal(path)

    def test_an_index_that_lists_them_is_not_believed(self, world: World) -> None:
        b = world.clones["b"]
        entry = FileEntry(key="top", size=1, last_modified="2026-01-01T00:00:00Z")
        forge(world, "_top", {".datastore-index/x.json": entry})
        assert b.pull().pulled == []


def forge(world: World, part: str, added: dict[str, FileEntry]) -> None:
    """Put entries into a part as a careless client does."""
    manifest = json.loads(world.store.get(MANIFEST).body)
    key = manifest["partitions"][part]["key"]
    body = json.loads(world.store.get(key).body)
    body["entries"] |= {path: json.loads(encode(entry)) for path, entry in added.items()}
    body["nonce"] = manifest["partitions"][part]["nonce"] = "forged"
    body["seq"] += 1
    manifest["partitions"][part]["seq"] = body["seq"]
    world.store.put(key, json.dumps(body).encode())
    world.store.put(MANIFEST, json.dumps(manifest).encode())


class TestPaths:
    """Names that lead elsewhere, or cannot be files."""

    @pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "C:/evil"])
    def test_traversal(self, path: str, world: World, tmp_path: Path) -> None:
        forge(world, "_top", {path: FileEntry(key="top", size=1, last_modified="2026-01-01T00:00:00Z")})
        report = world.clones["b"].pull()
        assert [each.path for each in report.failed] == [path]
        assert not (tmp_path / "evil").exists()
        with world.clones["b"].open() as sync:
            assert sync.check(repair=True).bad_paths == [path]
        assert world.clones["b"].pull().failed == []

    def test_links_are_neither_followed_nor_written_through(self, world: World, tmp_path: Path) -> None:
        a, b = world.clones["a"], world.clones["b"]
        outside = tmp_path / "outside"
        outside.mkdir()
        (a.folder / "link").symlink_to(outside)
        (a.folder / "file").symlink_to(a.folder / "top")
        assert {each.path for each in a.push().skipped} == {"link", "file"}
        (b.folder / "shared").symlink_to(outside)
        a.write("shared/x")
        a.push()
        report = b.pull()
        assert [each.path for each in report.failed] == ["shared/x"]
        assert not list(outside.iterdir())

    def test_a_path_that_became_a_folder_is_told(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        (b.folder / "new").mkdir()
        a.write("new")
        a.push()
        assert [each.path for each in b.pull().failed] == ["new"]

    def test_names_that_differ_in_case_only(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        world.clones["a"].write("read")
        world.clones["a"].write("README")
        world.clones["a"].write("readme")
        world.clones["a"].push()
        monkeypatch.setattr(WorkFolder, "folds_case", lambda _: True)
        report = world.clones["b"].pull()
        assert [each.path for each in report.failed] == ["readme"]
        assert "has the same name but for its case" in report.failed[0].reason


class TestConflicts:
    """A file that changed on both sides."""

    def both(self, world: World) -> tuple[str, str]:
        mine, theirs = world.clones["b"].write("top"), world.clones["a"].write("top")
        world.clones["a"].push()
        return mine, theirs

    def test_both_are_kept(self, world: World) -> None:
        mine, theirs = self.both(world)
        b = world.clones["b"]
        assert [each.path for each in b.push().conflicts] == ["top"]
        (told,) = b.pull().conflicts
        assert b.files()["top"] == theirs
        assert told.copy is not None
        assert b.files()[told.copy] == mine

    def test_the_bucket_is_kept(self, world: World) -> None:
        _, theirs = self.both(world)
        b = world.clones["b"]
        with b.open(conflicts="keep-remote") as sync:
            assert len(sync.sync().conflicts) == 1
        assert b.files() == {**world.clones["a"].files(), "top": theirs}

    def test_the_local_one_is_kept(self, world: World) -> None:
        mine, _ = self.both(world)
        with world.clones["b"].open(conflicts="keep-local") as sync:
            sync.sync()
        world.clones["a"].pull()
        assert world.clones["a"].files()["top"] == mine

    def test_changed_here_and_deleted_there(self, world: World) -> None:
        world.clones["a"].delete("top")
        world.clones["a"].push()
        mine = world.clones["b"].write("top")
        assert "deleted in the bucket" in world.clones["b"].push().conflicts[0].reason
        world.clones["b"].pull()
        assert "top" not in world.clones["b"].files()
        assert mine in world.clones["b"].files().values(), "set aside, not lost"

    def test_deleted_here_and_changed_there(self, world: World) -> None:
        theirs = world.clones["a"].write("top")
        world.clones["a"].push()
        world.clones["b"].delete("top")
        assert world.clones["b"].push().deleted_there == []
        world.clones["b"].pull()
        assert world.clones["b"].files()["top"] == theirs

    def test_equal_changes_are_none(self, world: World) -> None:
        for name in "ab":
            (world.clones[name].folder / "same").write_text("equal")
        world.clones["a"].push()
        report = world.clones["b"].sync()
        assert report.conflicts == []
        assert report.count == 0


class TestTwoClients:
    """Clients that write the same part, one in the middle of the other's push."""

    def test_the_note_of_a_part_does_not_go_back(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/x")
        b.write("data/t/1/more")
        overtaken: list[SyncReport] = []

        class Overtaken(WrappedStore):
            def put(self, key: str, *arguments: Any, **options: Any) -> PutResult:
                if key == MANIFEST and not overtaken:
                    overtaken.append(b.push())
                return super().put(key, *arguments, **options)

        with a.open(Overtaken(world.handle())) as sync:
            assert sync.push_changed().pushed == ["data/t/1/x"]
        assert a.pull().pulled == ["data/t/1/more"], "it was acknowledged before this pull began"

    def test_a_deletion_that_was_not_carried_out_is_not_undone(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        b.delete("data/t/1/x")
        with pytest.raises(SimulatedCrash), b.open(FaultStore(world.handle(), {4: Fault.CRASH_BEFORE})) as sync:
            sync.push_changed()  # the object is still there
        world.clock.advance(120)
        a.write("data/t/1/x")
        assert "deleted in the bucket" in a.push().conflicts[0].reason
        assert "data/t/1/x" not in world.listed()


class TestChanges:
    """How a change is seen."""

    def test_the_same_size_and_time_in_a_young_file(self, world: World) -> None:
        a = world.clones["a"]
        file = a.folder / "young"
        with Sync(a.folder, store=world.handle()) as sync:  # by the real clock: the file is as young as it looks
            file.write_text("one")
            moment = file.stat().st_mtime_ns
            sync.push_changed()
            file.write_text("two")
            os.utime(file, ns=(moment, moment))
            assert sync.push_changed().pushed == ["young"]

    def test_another_time_and_the_same_content_sends_nothing(self, world: World) -> None:
        a = world.clones["a"]
        os.utime(a.folder / "top", ns=(5, 5))
        assert a.push().requests == 0

    def test_an_empty_folder_is_not_a_deletion_of_everything(self, world: World) -> None:
        a = world.clones["a"]
        for path in a.files():
            (a.folder / path).unlink()
        with pytest.raises(InvalidRequestError, match="it is empty, although 3 files"):
            a.push()
        assert len(a.push(delete=True).deleted_there) == 3

    def test_mirror(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        b.write("only-here")
        assert b.pull(delete=True).deleted_here == ["only-here"]
        a.write("only-there")
        a.push()
        assert b.push(delete=True).deleted_there == ["only-there"]

    def test_what_others_wrote_without_the_index(self, world: World) -> None:
        world.store.put("foreign", b"by hand")
        world.store.put("top", b"by hand too")
        world.store.delete("data/t/1/x")
        b = world.clones["b"]
        assert b.pull().count == 0
        report = b.pull(scan=True)
        assert sorted(report.pulled) == ["foreign", "top"]
        assert report.deleted_here == ["data/t/1/x"]

    def test_an_entry_without_an_object_is_dropped(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("data/t/1/x")
        a.push()
        world.store.delete("data/t/1/x")
        assert b.pull().deleted_here == ["data/t/1/x"]
        assert "data/t/1/x" not in world.listed()


class TestMarks:
    """Paths that are marked instead of looked for."""

    def test_only_what_is_marked_goes(self, world: World) -> None:
        a = world.clones["a"]
        with a.open() as sync:
            a.write("data/t/1/x")
            a.write("top")
            assert sync.push_changed(marked=True).count == 0
            sync.mark_dirty("data/t/1/x")
            assert sync.push_changed(marked=True).pushed == ["data/t/1/x"]
            assert sync.push_changed(marked=True).requests == 0

    def test_a_folder(self, world: World) -> None:
        a = world.clones["a"]
        with a.open() as sync:
            a.write("data/t/1/in/x")
            sync.mark_dirty("data/t/1")
            assert sync.push_changed(marked=True).pushed == ["data/t/1/in/x"]

    def test_a_deleted_path(self, world: World) -> None:
        a = world.clones["a"]
        with a.open() as sync:
            sync.mark_dirty("top")
            a.delete("top")
            assert sync.push_changed(marked=True).deleted_there == ["top"]

    def test_marks_outlive_the_process(self, world: World) -> None:
        a = world.clones["a"]
        with a.open() as sync:
            sync.mark_dirty("top")
        a.write("top")
        with a.open() as sync:
            assert sync.push_changed(marked=True).pushed == ["top"]

    def test_a_mark_that_is_made_during_a_push_stays(self, world: World) -> None:
        a = world.clones["a"]
        a.write("top")
        with a.open() as sync:
            sync.mark_dirty("top")
            prepared = sync.prepare_push(marked=True)
            sync.mark_dirty("top")
            a.write("top")
            sync.commit_push(prepared)
            assert sync.push_changed(marked=True).pushed == ["top"]

    @pytest.mark.parametrize("path", [None, "../out", "/abs"])
    def test_everything(self, world: World, path: str | None) -> None:
        a = world.clones["a"]
        a.write("top")
        with a.open() as sync:
            sync.mark_dirty(path)
            assert sync.push_changed(marked=True).pushed == ["top"]

    def test_too_many_become_one(self, world: World) -> None:
        a = world.clones["a"]
        a.write("top")
        with a.open() as sync:
            with sync._state.changing():
                sync._state._database.executemany(
                    "INSERT INTO marks VALUES (?, 1)", ((f"m{number}",) for number in range(MARKS_MAX))
                )
            sync.mark_dirty("one-more")
            assert sync.push_changed(marked=True).pushed == ["top"]


class TestTwoPhases:
    """Uploads first, the index later."""

    def test_nothing_is_seen_before_the_commit(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.write("new")
        with a.open() as sync:
            prepared = sync.prepare_push()
            assert b.pull().pulled == []
            assert sync.commit_push(prepared).pushed == ["new"]
        assert b.pull().pulled == ["new"]


class TestLazy:
    """Bodies that stay in the bucket."""

    def test_bodies_stay_and_come_one_by_one(self, tmp_path: Path) -> None:
        world = World(tmp_path, "ab")
        a, b = world.clones["a"], world.clones["b"]
        for path in ("data/t/1/v/raw", "data/t/1/v/metadata", "data/t/2/v/raw"):
            a.write(path)
        a.push()
        assert b.pull(lazy=True).pulled == ["data/t/1/v/metadata"]
        assert (b.folder / "data/t/1/v").is_dir()
        assert b.push().deleted_there == [], "what was never here was not deleted here"
        with b.open() as sync:
            assert sync.hydrate("data/t/1/v/raw")
            assert not sync.hydrate("data/t/9/raw")
        assert b.push().count == 0
        assert b.pull().pulled == ["data/t/2/v/raw"]


class TestState:
    """What the folder knows."""

    def test_without_it_nothing_is_deleted(self, world: World) -> None:
        a = world.clones["a"]
        for file in (a.folder / ".worm.sync").iterdir():
            file.unlink()
        (a.folder / "top").unlink()
        report = a.sync()
        assert report.deleted_there == []
        assert report.pulled == ["top"]
        assert report.pushed == []

    def test_a_broken_one_says_what_to_do(self, world: World) -> None:
        (world.clones["a"].folder / ".worm.sync" / "state.db").write_bytes(b"rubbish" * 500)
        with pytest.raises(CorruptionError, match="remove the file"):
            world.clones["a"].push()

    def test_another_bucket_is_refused(self, world: World, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequestError, match="it is synced with"):
            Sync(world.clones["a"].folder, str(tmp_path / "elsewhere"))

    def test_two_processes_do_not_sync_one_folder(self, world: World) -> None:
        a = world.clones["a"]
        a.write("top")
        other = a.open()

        class Meddling(WrappedStore):
            def put(self, *arguments: Any, **options: Any) -> PutResult:
                with pytest.raises(UnavailableError, match="another process syncs it"):
                    other.push_changed()
                return super().put(*arguments, **options)

        with a.open(Meddling(world.handle())) as sync:
            assert sync.push_changed().pushed == ["top"]
        other.close()

    def test_a_newer_index_is_refused(self, world: World) -> None:
        body = json.loads(world.store.get(MANIFEST).body)
        world.store.put(MANIFEST, json.dumps(body | {"version": 4}).encode())
        with pytest.raises(UnsupportedFormatError, match="version is 4"):
            world.clones["b"].pull()


class TestCompaction:
    """Parts that are not needed any more."""

    def test_an_emptied_part_goes_and_its_name_can_be_used_again(self, world: World) -> None:
        a = world.clones["a"]
        a.delete("data/t/1/x")
        a.push()
        gone = part_key("data/t/1")
        for _ in range(3):
            world.clock.advance(4_000)
            with a.open() as sync:
                sync.compact()
        assert world.store.probe(gone).found is None
        a.write("data/t/1/again")
        a.push()
        assert world.store.probe(gone).found is None, "a delete that lands late finds nothing"
        keys = [info.key for page in world.store.list(INDEX_FOLDER) for info in page.objects]
        assert any(key.startswith(".datastore-index/data/t/1~") for key in keys)
        world.check()

    def test_a_client_that_knows_an_old_manifest_does_not_use_the_old_object(self, world: World) -> None:
        a, b = world.clones["a"], world.clones["b"]
        a.delete("data/t/1/x")
        a.push()
        b.pull()
        for _ in range(3):
            world.clock.advance(4_000)
            with a.open() as sync:
                sync.compact()
        b.write("data/t/1/again")
        b.push()
        assert world.store.probe(part_key("data/t/1")).found is None
        world.check()

    def test_a_folder_that_cannot_be_read_is_not_a_deletion(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.scandir

        def refusing(path: str) -> Any:
            if str(path).endswith("data/t"):
                raise PermissionError(13, "Permission denied")
            return real(path)

        monkeypatch.setattr(os, "scandir", refusing)
        with pytest.raises(UnavailableError, match="Permission denied"):
            world.clones["a"].push()
        assert len(world.listed()) == 3
