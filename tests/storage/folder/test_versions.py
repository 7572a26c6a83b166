"""The local folder: versions, times, and what the operating system refuses."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
    WormError,
)
from wormdb.storage.folder import directories as folder_module
from wormdb.storage.folder import write as local_write
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.store import Always, IfAbsent, IfMatch
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[LocalStore]:
    with LocalStore(root) as store:
        yield store


def keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [info.key for page in store.list(prefix) for info in page.objects]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- versions and times ---


def test_versions_rise_however_fast_they_come(store: LocalStore, root: Path) -> None:
    store.put("a", b"0")
    times = [(root / "a").stat().st_mtime_ns]
    for number in range(100):
        store.put("a", b"%d" % (number % 10))
        times.append((root / "a").stat().st_mtime_ns)
    assert times == sorted(set(times))


def test_versions_rise_over_a_time_in_the_future(store: LocalStore, root: Path) -> None:
    store.put("a", b"0")
    future_ns = (root / "a").stat().st_mtime_ns + 10**18 + 1
    os.utime(root / "a", ns=(future_ns, future_ns))
    version = store.get("a").version
    store.put("a", b"1", IfMatch(version))
    assert (root / "a").stat().st_mtime_ns > future_ns
    with pytest.raises(ConflictError):
        store.put("a", b"2", IfMatch(version))


def test_versions_do_not_come_back_after_delete(store: LocalStore, root: Path) -> None:
    """A delete waits for the next millisecond: the inode may be used again, the time may not."""
    times_ms = []
    for _ in range(20):
        store.put("a", b"same size")
        times_ms.append((root / "a").stat().st_mtime_ns // 10**6)
        store.delete("a")
    assert times_ms == sorted(set(times_ms))


@pytest.mark.parametrize(("age_ms", "waits"), [(-3, True), (0, True), (10, True), (11, False), (5_000, False)])
def test_a_delete_waits_until_the_objects_millisecond_has_passed(root: Path, age_ms: int, waits: bool) -> None:
    """Also if the uptime is told in ticks of 10 ms."""
    clock = ManualClock()
    with LocalStore(root, clock=clock) as store:
        store.put("a", b"1")
        os.utime(root / "a", ns=(0, (clock.now_ms() - age_ms) * 10**6))
        store.delete("a")
    assert (clock.monotonic() >= 0.011) is waits


def test_the_same_chance_in_two_handles_does_no_harm(root: Path) -> None:
    with LocalStore(root, chance=SeededChance(1)) as one, LocalStore(root, chance=SeededChance(1)) as two:
        (root / ".worm.tmp").mkdir(parents=True)
        (root / ".worm.tmp" / SeededChance(1).token(16).hex()).write_bytes(b"taken")
        one.put("a", b"1")
        two.put("b", b"2")
        assert (one.get("b").body, two.get("a").body) == (b"2", b"1")


def test_times_are_the_folders_for_writes_and_for_reads(root: Path) -> None:
    clock = ManualClock(start_ms=5_000)
    with LocalStore(root, clock=clock) as store:
        assert store.probe("a").time is None
        assert store.put("a", b"1").time == 5_000
        clock.advance(7)
        assert store.head("a").modified == 5_000
        assert next(store.list()).objects[0].modified == 5_000
        assert store.get("a").time == 12_000
        assert store.probe("b").time == 12_000
        clock.jump(8 * 24 * 3600)
        assert store.put("b", b"1").time == 12_000
        assert store.head("b").modified == 12_000


# --- what the operating system refuses ---


@pytest.mark.parametrize(
    ("number", "kind", "fix"),
    [
        (errno.ENOSPC, UnavailableError, "free space"),
        (errno.EDQUOT, UnavailableError, "free space"),
        (errno.EIO, UnavailableError, "check the disk"),
        (errno.EMFILE, UnavailableError, "open files"),
        (errno.EACCES, PermissionDeniedError, "right"),
        (errno.EROFS, PermissionDeniedError, "right"),
        (errno.ENAMETOOLONG, InvalidRequestError, "255"),
    ],
)
def test_an_error_while_writing_is_typed_and_changes_nothing(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], fix: str
) -> None:
    version = store.put("a", b"old").version

    def fail(descriptor: int, body: memoryview) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        for precondition in (Always(), IfMatch(version)):
            with pytest.raises(kind, match=fix):
                store.put("a", b"new", precondition)
        with pytest.raises(kind, match=fix):
            store.put("b", b"new", IfAbsent())
    assert keys(store) == ["a"]
    assert store.get("a").version == version
    assert names(root / ".worm.tmp") == ["time"]


def test_an_unconfirmed_write_is_unknown(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is in place, but the directory's flush failed: it may vanish with the power."""
    store.put("a/x", b"old")
    real = folder_module.flush
    calls = []

    def flush(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:  # the temporary file, then the directory
            raise OSError(errno.EIO, "input/output error")
        real(descriptor)

    monkeypatch.setattr(local_write, "flush", flush)
    with pytest.raises(OutcomeUnknownError, match="did not confirm") as caught:
        store.put("a/x", b"new")
    assert caught.value.key == "a/x"
    assert store.get("a/x").body == b"new"


def test_coarse_file_times_are_refused(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.utime

    def utime(path: Any, *, ns: tuple[int, int], **more: Any) -> None:
        real(path, ns=(ns[0] // 10**9 * 10**9, ns[1] // 10**9 * 10**9), **more)

    monkeypatch.setattr(os, "utime", utime)
    with pytest.raises(UnsupportedStoreError, match="coarse"):
        store.put("a", b"1")
    assert keys(store) == []


def test_a_file_system_without_links_is_refused(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*place: Any, **more: Any) -> None:
        raise OSError(errno.EPERM, "operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UnsupportedStoreError, match="hard links"):
        store.put("a", b"1", IfAbsent())
    assert keys(store) == []


def test_a_system_without_flock_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "fcntl", None)
    with pytest.raises(UnsupportedStoreError, match="flock"):
        LocalStore(root)


def test_a_lock_that_stays_taken_is_unavailable(root: Path) -> None:
    clock = ManualClock()
    with LocalStore(root, clock=clock) as store:
        version = store.put("a/x", b"old").version
        held = os.open(root / "a", os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            for call in (
                lambda: store.put("a/x", b"new"),
                lambda: store.put("a/x", b"new", IfMatch(version)),
                lambda: store.delete("a/x"),
            ):
                with pytest.raises(UnavailableError, match="held it for 30 s"):
                    call()
            store.put("a/y", b"a new object needs no lock", IfAbsent())
        finally:
            os.close(held)
        store.put("a/x", b"new", IfMatch(version))


def test_a_folder_replaced_while_waiting_for_its_lock_is_noticed(
    root: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = store.put("a/x", b"old").version
    real = store._tree._wait_for_lock
    moves: list[Path] = []

    def move_first(descriptor: int, segments: tuple[str, ...]) -> None:
        real(descriptor, segments)
        if not moves:
            moves.append((root / "a").rename(root / "moved"))
            (root / "a").mkdir()

    monkeypatch.setattr(store._tree, "_wait_for_lock", move_first)
    with pytest.raises(ConflictError):
        store.put("a/x", b"new", IfMatch(version))
    assert (root / "moved/x").read_bytes() == b"old"
    assert keys(store) == ["moved/x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_rights_of_another_user() -> None:
    """A folder that may only be read is read; writing and unreadable files are refused by type."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        with LocalStore(root) as store:
            version = store.put("a/b", b"1").version
            (root / "closed").mkdir(mode=0o700)
            os.seteuid(65534)
            try:
                assert store.get("a/b").body == b"1"
                for call in (
                    lambda: store.put("a/b", b"2"),
                    lambda: store.put("a/c", b"2", IfAbsent()),
                    lambda: store.put("a/b", b"2", IfMatch(version)),
                    lambda: store.delete("a/b"),
                    lambda: store.get("closed/x"),
                    lambda: list(store.list()),
                ):
                    with pytest.raises(PermissionDeniedError):
                        call()
            finally:
                os.seteuid(0)
            assert store.get("a/b").body == b"1"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="shows open files on Linux only")
def test_no_descriptor_is_left_open(store: LocalStore, root: Path) -> None:
    version = store.put("a/b", b"1").version
    (root / "link").symlink_to("a")
    before = names(Path("/proc/self/fd"))
    for call in (
        lambda: store.get("a/missing"),
        lambda: store.get("a"),
        lambda: store.put("a", b"1"),
        lambda: store.put("a/b/c", b"1"),
        lambda: store.put("link/c", b"1"),
        lambda: store.put("a/b", b"1", IfAbsent()),
        lambda: store.put("a/b", b"1", IfMatch(Version("1-1-1"))),
        lambda: store.put("a/b", b"2", IfMatch(version)),
        lambda: store.delete("a/missing"),
        lambda: store.delete("link/c"),
        lambda: next(iter(store.list())),
    ):
        with suppress(WormError):
            call()
    assert names(Path("/proc/self/fd")) == before
