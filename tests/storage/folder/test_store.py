"""The local folder: what is on disk, names in each other's way, links."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
)
from wormdb.storage.folder import write
from wormdb.storage.folder.directories import lookup
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch
from wormdb.system.clock import ManualClock, SystemClock, Uptime
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[LocalStore]:
    with LocalStore(root) as store:
        yield store


def keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [info.key for page in store.list(prefix) for info in page.objects]


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- what is on disk ---


def test_an_object_is_a_plain_file(store: LocalStore, root: Path) -> None:
    store.put("org/customers/.worm", b"sentinel")
    store.put("org/customers/1/profile.json", b"{}", IfAbsent())
    assert files(root) == [".worm.tmp/time/now", "org/customers/.worm", "org/customers/1/profile.json"]
    assert (root / "org/customers/1/profile.json").read_bytes() == b"{}"


def test_reading_and_opening_make_nothing(root: Path, store: LocalStore) -> None:
    with pytest.raises(NotFoundError):
        store.get("a/b")
    assert store.probe("a/b").found is None
    assert keys(store) == []
    store.delete("a/b")
    with pytest.raises(ConflictError):
        store.put("a/b", b"", IfMatch(Version("1")))
    assert not root.exists()


def test_delete_removes_the_folders_it_empties(store: LocalStore, root: Path) -> None:
    store.put("a/b/c/d", b"1")
    store.put("a/e", b"2")
    store.delete("a/b/c/d")
    assert not (root / "a/b").exists()
    assert (root / "a").exists()
    store.delete("a/e")
    assert not (root / "a").exists()
    assert root.exists()


def test_no_temporary_file_is_left(store: LocalStore, root: Path) -> None:
    version = store.put("a", b"1").version
    store.put("a", b"2", IfMatch(version))
    store.put("a", b"3")
    store.put("b", b"1", IfAbsent())
    for precondition in (IfAbsent(), IfMatch(version)):
        with pytest.raises((AlreadyExistsError, ConflictError)):
            store.put("a", b"4", precondition)
    assert [path.name for path in (root / ".worm.tmp").iterdir()] == ["time"]


def test_stale_temporary_files_go_at_the_first_write(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ages_ns = {"old": 25 * 3600 * 10**9, "young": 23 * 3600 * 10**9}

    def aged(folder: int, name: str) -> SimpleNamespace | os.stat_result | None:
        """What is told of a file, as if it had been made earlier: no call sets the time of a change."""
        found = lookup(folder, name)
        return SimpleNamespace(st_ctime_ns=found.st_ctime_ns - ages_ns[name]) if found and name in ages_ns else found

    reserved = root / ".worm.tmp"
    reserved.mkdir(parents=True)
    for name in ages_ns:
        (reserved / name).write_bytes(b"half an obj")
    monkeypatch.setattr(write, "lookup", aged)
    with LocalStore(root) as store:
        assert keys(store) == []
        assert names(reserved) == ["old", "young"]
        store.put("a", b"1")
        assert names(reserved) == ["time", "young"]
        assert keys(store) == ["a"]


@pytest.mark.parametrize("days", [-1000, 1000])
def test_a_first_write_leaves_the_temporary_file_of_another_writer(root: Path, days: int) -> None:
    """Also where the folder's time and the clock of the file system lie years apart."""

    class Interrupted(ManualClock):
        """When the machine's uptime is asked for the n-th time, another handle makes its first write in between."""

        asks_before = 0

        def uptime(self) -> Uptime:
            self.asks_before -= 1
            if self.asks_before == 0:
                with LocalStore(root, clock=ManualClock(self.now_ms())) as rival:
                    rival.put("rival", b"2")
            return super().uptime()

    for moment in range(1, 8):
        clock = Interrupted(SystemClock().now_ms() + days * 24 * 3600 * 1000)
        with LocalStore(root, clock=clock) as store:
            clock.asks_before = moment
            store.put(f"own {moment}", b"1", IfAbsent())
    with LocalStore(root) as store:
        assert keys(store) == [*(f"own {moment}" for moment in range(1, 8)), "rival"]


def test_empty_folders_are_not_listed(store: LocalStore, root: Path) -> None:
    store.put("b/key", b"1")
    (root / "a/deep/er").mkdir(parents=True)
    (pages,) = store.list(delimiter="/")
    assert pages.prefixes == ("b/",)
    assert keys(store) == ["b/key"]


def test_files_that_no_key_names_are_not_listed(store: LocalStore, root: Path) -> None:
    store.put("a/good", b"1")
    (root / "a" / "back\\slash").write_bytes(b"x")
    (root / "a" / "new\nline").write_bytes(b"x")
    (root / "a" / ("n" * 250)).write_bytes(b"x")
    os.close(os.open(os.fsencode(root / "a") + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))
    assert keys(store) == ["a/good"]
    assert keys(store, "a/") == ["a/good"]


def test_a_file_put_there_by_hand_is_an_object(store: LocalStore, root: Path) -> None:
    store.put("a/by store", b"1")
    (root / "a" / "by hand").write_bytes(b"22")
    stored = store.get("a/by hand")
    assert stored.body == b"22"
    assert keys(store) == ["a/by hand", "a/by store"]
    store.put("a/by hand", b"333", IfMatch(stored.version))
    assert (root / "a" / "by hand").read_bytes() == b"333"


def test_a_relative_root_is_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalStore("data") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.put("a", b"1")
    assert (tmp_path / "data" / "a").read_bytes() == b"1"


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidRequestError, match="is a file"):
        LocalStore(tmp_path / "file")


def test_a_root_that_can_be_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    for root in (tmp_path / "file" / "below", tmp_path / ("n" * 300), tmp_path / "loop", tmp_path / "\ud800"):
        with pytest.raises(InvalidRequestError, match="give the path of a folder"):
            LocalStore(root)


def test_a_root_may_have_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    with LocalStore(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")) as store:
        store.put("a", b"1")
        assert store.name.endswith("/caf%E9")
    assert [os.fsencode(path.name) for path in tmp_path.iterdir()] == [b"caf\xe9"]


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with LocalStore(tmp_path / "link") as store:
        store.put("a/b", b"1")
    assert (tmp_path / "real/a/b").read_bytes() == b"1"


# --- names in each other's way ---


def test_a_folder_cannot_be_an_object(store: LocalStore) -> None:
    store.put("a/b/c", b"1")
    for precondition in (Always(), IfAbsent()):
        with pytest.raises(InvalidRequestError, match=r"object a/b: it is the folder of a/b/c") as caught:
            store.put("a/b", b"2", precondition)
        assert caught.value.key == "a/b"
    with pytest.raises(ConflictError):
        store.put("a/b", b"2", IfMatch(Version("1-1-1")))
    with pytest.raises(NotFoundError):
        store.get("a/b")
    with pytest.raises(NotFoundError):
        store.head("a/b")
    store.delete("a/b")
    assert keys(store) == ["a/b/c"]


def test_an_object_cannot_be_a_folder(store: LocalStore) -> None:
    store.put("a", b"1")
    for precondition in (Always(), IfAbsent()):
        with pytest.raises(InvalidRequestError, match=r"object a/b/c: a is an object .* folder of a/b/c"):
            store.put("a/b/c", b"2", precondition)
    with pytest.raises(ConflictError):
        store.put("a/b/c", b"2", IfMatch(Version("1-1-1")))
    with pytest.raises(NotFoundError):
        store.get("a/b/c")
    assert store.probe("a/b").found is None
    store.delete("a/b/c")
    assert keys(store, "a/") == []
    assert keys(store) == ["a"]


def test_a_left_over_empty_folder_is_in_nobodys_way(store: LocalStore, root: Path) -> None:
    (root / "a/b/c").mkdir(parents=True)
    (root / "a/d").mkdir(parents=True)
    store.put("a", b"1", IfAbsent())
    assert keys(store) == ["a"]


def test_a_folder_of_other_files_is_refused(store: LocalStore, root: Path) -> None:
    (root / "a").mkdir(parents=True)
    (root / "a" / "back\\slash").write_bytes(b"x")
    with pytest.raises(InvalidRequestError, match="a folder is in its place"):
        store.put("a", b"1")
    assert (root / "a" / "back\\slash").exists()


@pytest.mark.parametrize("key", [".worm.tmp", ".worm.tmp/x", ".WORM.tmp/x"])
def test_the_reserved_folder_is_refused(store: LocalStore, key: str) -> None:
    for call in (
        lambda: store.put(key, b""),
        lambda: store.get(key),
        lambda: store.head(key),
        lambda: store.delete(key),
        lambda: list(store.list(key + "/")),
    ):
        with pytest.raises(InvalidRequestError, match="unfinished writes"):
            call()
    store.put("a/.worm.tmp/x", b"only at the top is it reserved")
    assert keys(store) == ["a/.worm.tmp/x"]


# --- links ---


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    return outside


def test_a_link_to_a_file_is_nothing(store: LocalStore, root: Path, outside: Path) -> None:
    store.put("real", b"1")
    (root / "link").symlink_to(outside / "secret")
    (root / "inner").symlink_to("real")
    (root / "dangling").symlink_to(outside / "new")
    assert keys(store) == ["real"]
    for name in ("link", "inner", "dangling"):
        with pytest.raises(NotFoundError):
            store.get(name)
        with pytest.raises(NotFoundError):
            store.head(name)
        with pytest.raises(NotFoundError):
            store.get_range(name, ByteRange(0, 1))
        assert store.probe(name).found is None
        for precondition in (Always(), IfAbsent()):
            with pytest.raises(InvalidRequestError, match="link"):
                store.put(name, b"2", precondition)
        with pytest.raises(ConflictError):
            store.put(name, b"2", IfMatch(Version("1-1-1")))
        store.delete(name)
        assert (root / name).is_symlink()
    assert (outside / "secret").read_bytes() == b"secret"
    assert names(outside) == ["secret"]


def test_a_link_to_a_folder_is_nothing(store: LocalStore, root: Path, outside: Path) -> None:
    store.put("real/x", b"1")
    (root / "link").symlink_to(outside)
    (root / "inner").symlink_to("real")
    assert keys(store) == ["real/x"]
    assert keys(store, "link/") == []
    (page,) = store.list(delimiter="/")
    assert page.prefixes == ("real/",)
    for name in ("link/secret", "inner/x"):
        assert store.probe(name).found is None
        with pytest.raises(NotFoundError):
            store.head(name)
        for precondition in (Always(), IfAbsent()):
            with pytest.raises(InvalidRequestError, match="link"):
                store.put(name, b"2", precondition)
        with pytest.raises(ConflictError):
            store.put(name, b"2", IfMatch(Version("1-1-1")))
        store.delete(name)
        store.delete_many([name])
    assert (outside / "secret").read_bytes() == b"secret"
    assert names(outside) == ["secret"]
    assert store.get("real/x").body == b"1"


def test_a_linked_reserved_folder_is_refused(root: Path, outside: Path) -> None:
    root.mkdir()
    (root / ".worm.tmp").symlink_to(outside)
    with LocalStore(root) as store, pytest.raises(InvalidRequestError):
        store.put("a", b"1")
    assert names(outside) == ["secret"]


def test_a_pipe_does_not_make_a_reader_wait(store: LocalStore, root: Path) -> None:
    store.put("real", b"1")
    os.mkfifo(root / "pipe")
    assert store.probe("pipe").found is None
    assert keys(store) == ["real"]
    with pytest.raises(InvalidRequestError):
        store.put("pipe", b"1")


def test_the_longest_prefix_is_listed(store: LocalStore) -> None:
    prefix = "/".join(["k" * 127] * 8) + "k/"
    assert len(prefix) == 1025
    assert keys(store, prefix) == []
