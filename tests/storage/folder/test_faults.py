"""A folder whose system calls fail: what a write says of itself is true, whichever call failed, done or undone.

Disks fill up, network file systems report late, and a call may have done what it says it could not.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from wormdb.errors import OutcomeUnknownError, WormError
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import Always, IfAbsent, IfMatch, Precondition, Probe
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.system.types import Version

CALLS = ("open", "write", "utime", "fsync", "link", "rename", "unlink", "mkdir", "rmdir", "close", "fstat", "stat")
CALLS_MAX = 300
OLD = {"old/key": b"old"}
PLACES = (("new/folder/key", "Always"), ("new/folder/key", "IfAbsent"), ("old/key", "Always"), ("old/key", "IfMatch"))


class Breaking:
    """Fails at one call: before it does anything, or after it did all."""

    def __init__(self, at: int, number: int, *, after: bool) -> None:
        self.count, self.failed = 0, ""
        self._at, self._number, self._after = at, number, after

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            self.count += 1
            if self.count - 1 != self._at:
                return function(*arguments, **more)
            self.failed = name
            if self._after or name == "close":  # which lets go in any case
                made = function(*arguments, **more)
                if name == "open":
                    os.close(made)
            raise OSError(self._number, os.strerror(self._number))

        return call

    def around(self, work: Callable[[], object]) -> object:
        """What comes of `work` with the fault: its result, or an error of ours."""
        with ExitStack() as stack:
            for module, names in ((os, CALLS), (fcntl, ("flock",))):
                for name in names:
                    function = getattr(module, name)
                    stack.enter_context(mock.patch.object(module, name, self.wrap(name, function)))
            try:
                return work()
            except WormError as error:
                return error


def listed(store: LocalStore) -> dict[str, bytes]:
    return {info.key: store.get(info.key).body for page in store.list() for info in page.objects}


def precondition_of(kind: str, version: Version) -> Precondition:
    conditions: dict[str, Precondition] = {"Always": Always(), "IfAbsent": IfAbsent(), "IfMatch": IfMatch(version)}
    return conditions[kind]


@pytest.mark.parametrize(
    ("key", "kind", "number", "after"),
    [
        *((key, kind, errno.EIO, after) for key, kind in PLACES for after in (False, True)),
        ("new/folder/key", "IfAbsent", errno.ENOSPC, False),
        ("old/key", "IfMatch", errno.ENOSPC, False),
    ],
)
def test_a_write_tells_the_truth_whichever_call_fails(
    tmp_path: Path, key: str, kind: str, number: int, after: bool
) -> None:
    failed = set()
    for at in range(CALLS_MAX):
        with LocalStore(tmp_path / str(at)) as store:
            version = store.put("old/key", b"old").version
            precondition = precondition_of(kind, version)
            breaking = Breaking(at, number, after=after)
            result = breaking.around(partial(store.put, key, b"new", precondition))
            found = listed(store)
            if not isinstance(result, WormError):
                assert found == {**OLD, key: b"new"}, breaking.failed
            elif isinstance(result, OutcomeUnknownError):
                assert found in (OLD, {**OLD, key: b"new"}), breaking.failed
                assert result.key == key
            else:
                assert found == OLD, (breaking.failed, result)
            store.put(key, b"afterwards")
            assert store.get(key).body == b"afterwards"
            if not breaking.failed:
                break
            failed.add(breaking.failed)
    else:
        raise AssertionError("it never ended")
    assert {"open", "close"} <= failed


@pytest.mark.parametrize("kind", ["IfAbsent", "IfMatch"])
def test_a_write_that_is_read_back_is_classified_rightly(tmp_path: Path, kind: str) -> None:
    """Lost and nothing there must not be said of what is in place."""
    key = "new/key" if kind == "IfAbsent" else "old/key"
    for at in range(CALLS_MAX):
        with LocalStore(tmp_path / str(at)) as store:
            precondition = precondition_of(kind, store.put("old/key", b"old").version)
            assert not isinstance(precondition, Always)
            breaking = Breaking(at, errno.EIO, after=True)
            result = breaking.around(partial(put_classified, store, key, b"new", precondition))
            is_there = listed(store).get(key) == b"new"
            match result:
                case Landed():
                    assert is_there, breaking.failed
                case Lost() | NothingThere():
                    assert not is_there, breaking.failed
                case _:
                    assert isinstance(result, Unknown | WormError)
            if not breaking.failed:
                return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("precondition", [Always(), IfAbsent()], ids=["Always", "IfAbsent"])
def test_a_link_that_a_file_server_was_asked_for_twice_is_ours(tmp_path: Path, precondition: Precondition) -> None:
    link = os.link

    def twice(*arguments: Any, **more: Any) -> None:
        link(*arguments, **more)
        link(*arguments, **more)

    with LocalStore(tmp_path) as store:
        with mock.patch.object(os, "link", twice):
            written = store.put("a/key", b"new", precondition)
        assert store.get("a/key").version == written.version


@pytest.mark.parametrize("verb", ["get", "probe", "head", "delete"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_read_finds_nothing_missing_because_a_call_failed(tmp_path: Path, verb: str, number: int) -> None:
    with LocalStore(tmp_path) as store:
        for at in range(CALLS_MAX):
            store.put("a/key", b"body")
            breaking = Breaking(at, number, after=False)
            result = breaking.around(lambda: getattr(store, verb)("a/key"))
            if verb == "delete":
                assert isinstance(result, WormError) or listed(store) == {}
            elif not isinstance(result, WormError):
                assert getattr(result, "found", result) is not None
            else:
                assert type(result).__name__ in ("UnavailableError", "PermissionDeniedError"), result
            if not breaking.failed:
                return
    raise AssertionError("it never ended")


def test_a_look_at_what_is_not_there_is_one_call(tmp_path: Path) -> None:
    """It is made before every answer of a database."""
    with LocalStore(tmp_path) as store:
        store.put("a/b/key", b"")
        counted = Breaking(-1, 0, after=False)
        looked = counted.around(lambda: store.probe("a/b/none"))
        assert isinstance(looked, Probe)
        assert looked.found is None
        assert counted.count == 1


# --- folders that others make ---


def flushed_by(work: Callable[[], object]) -> set[str]:
    """The directories and files that are flushed, by their names."""
    found: set[str] = set()
    flush = os.fsync

    def recorded(descriptor: int) -> None:
        found.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        flush(descriptor)

    with mock.patch.object(os, "fsync", recorded):
        work()
    return found


class OneNumber:
    """What the system tells of a directory, but for its number: file systems give one again at once."""

    def __init__(self, info: os.stat_result) -> None:
        self._info = info

    def __getattr__(self, name: str) -> Any:
        is_folder = stat.S_ISDIR(self._info.st_mode)
        return 7 if name == "st_ino" and is_folder else getattr(self._info, name)


def test_a_folder_that_was_made_again_is_flushed_again(tmp_path: Path) -> None:
    """It may have the number of the one before, so that tells nothing."""
    above, told = tmp_path / "a", os.fstat
    with LocalStore(tmp_path) as store, mock.patch.object(os, "fstat", lambda of: OneNumber(told(of))):
        store.put("a/b/1", b"")
        SystemClock().sleep(0.03)  # a time of its own for what comes
        store.put("a/b/2", b"")
        assert str(above) not in flushed_by(lambda: store.put("a/b/3", b""))
        # Another process removes the folder, and makes it again without waiting for the disk.
        for name in (above / "b").iterdir():
            name.unlink()
        (above / "b").rmdir()
        (above / "b").mkdir()
        assert str(above) in flushed_by(lambda: store.put("a/b/4", b""))


def test_folders_that_did_not_change_are_flushed_once(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        store.put("a/b/c/1", b"")
        SystemClock().sleep(0.03)
        store.put("a/b/c/2", b"")
        for number in range(3, 6):
            found = flushed_by(partial(store.put, f"a/b/c/{number}", b""))
            assert {str(tmp_path / name) for name in ("", "a", "a/b")}.isdisjoint(found)
            assert str(tmp_path / "a/b/c") in found
