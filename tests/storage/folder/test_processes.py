"""The local folder under several processes, and under processes that die."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from wormdb.errors import ConflictError
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.store import Always, IfAbsent, IfMatch
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.storage.store import Precondition

INCREMENT = """
import sys
from wormdb.errors import ConflictError
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.store import IfMatch
root, worker, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = LocalStore(root)
done = attempts = 0
while done < wanted:
    attempts += 1
    found = store.get("db/counter")
    count = int(found.body.split()[0])
    try:
        store.put("db/counter", f"{count + 1} {worker} {attempts}".encode(), IfMatch(found.version))
    except ConflictError:
        continue
    done += 1
"""

WRITE_FOREVER = """
import hashlib, sys
from wormdb.errors import AlreadyExistsError, ConflictError
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.store import Always, IfAbsent, IfMatch
store = LocalStore(sys.argv[1])
number = 0
while True:
    number += 1
    payload = (b"%d " % number) * (1 + number % 3 * 20_000)
    body = hashlib.sha256(payload).digest() + payload
    store.put("kill/always", body)
    store.put("kill/swapped", body, IfMatch(store.get("kill/swapped").version))
    store.put(f"kill/deep/{number % 7}/created", body, IfAbsent())
    store.delete(f"kill/deep/{number % 7}/created")
    if number == 3:
        print("running", flush=True)
"""


def sealed(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest() + payload


def is_whole(body: bytes) -> bool:
    return body[:32] == hashlib.sha256(body[32:]).digest()


def test_four_processes_count_exactly(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        store.put("db/counter", b"0")
        workers = [
            subprocess.Popen([sys.executable, "-c", INCREMENT, str(tmp_path), str(worker), "200"])
            for worker in range(4)
        ]
        assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0, 0]
        assert store.get("db/counter").body.split()[0] == b"800"
        assert [path.name for path in (tmp_path / ".worm.tmp").iterdir()] == ["time"]


def test_killed_writers_leave_whole_objects(tmp_path: Path) -> None:
    """kill -9 at arbitrary moments: every object is the old or the new one."""
    clock = SystemClock()
    with LocalStore(tmp_path) as store:
        store.put("kill/swapped", sealed(b"first"))
        for round_number in range(8):
            for number in range(7):
                store.delete(f"kill/deep/{number}/created")
            with subprocess.Popen(
                [sys.executable, "-c", WRITE_FOREVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
            ) as writer:
                assert writer.stdout is not None
                assert writer.stdout.readline() == "running\n"
                clock.sleep(0.0037 * round_number)
                writer.send_signal(signal.SIGKILL)
            listed = [info.key for page in store.list() for info in page.objects]
            assert {"kill/always", "kill/swapped"} <= set(listed)
            assert all(is_whole(store.get(key).body) for key in listed)
            store.put("kill/swapped", sealed(b"next"), IfMatch(store.get("kill/swapped").version))


class Crash:
    """Ends the process, as kill -9 does, before the n-th call of the operating system that changes something."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if self.count == self.at:
                os._exit(9)
            self.count += 1
            return function(*arguments, **more)

        return call


def in_child(work: Callable[[], None]) -> int:
    """Exit code of a forked child that does `work`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(60)
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


CHANGING = ("open", "write", "utime", "fsync", "link", "rename", "unlink", "mkdir", "rmdir", "close")


@pytest.mark.parametrize("precondition", [Always(), IfAbsent(), IfMatch, "delete"], ids=str)
@pytest.mark.parametrize("key", ["new/folder/key", "old/key"])
def test_a_crash_at_any_call_leaves_old_or_new(
    tmp_path: Path, key: str, precondition: Precondition | type[IfMatch] | str
) -> None:
    """Sweep over every system call of one operation; afterwards the store works as if nothing happened."""
    ended = 9
    for at in range(200):
        root = tmp_path / str(at)
        with LocalStore(root) as store:
            store.put("old/key", b"old")
            version = store.get("old/key").version

        def work(root: Path = root, at: int = at, version: Any = version) -> None:
            store = LocalStore(root)
            crash = Crash(at)
            for name in CHANGING:
                setattr(os, name, crash.wrap(getattr(os, name)))
            try:
                if precondition == "delete":
                    store.delete(key)
                elif precondition is IfMatch:
                    store.put(key, b"new", IfMatch(version))
                else:
                    store.put(key, b"new", precondition)  # type: ignore[arg-type]  # the other cases are above
            except Exception:  # noqa: BLE001 - losing is an outcome too
                os._exit(3)

        ended = in_child(work)
        with LocalStore(root) as store:
            listed = {info.key: store.get(info.key).body for page in store.list() for info in page.objects}
            before = {"old/key": b"old"}
            after = {name: body for name, body in before.items() if name != key}
            assert listed in (before, after if precondition == "delete" else before | {key: b"new"})
            store.put(key, b"after")
            assert store.get(key).body == b"after"
            store.delete_many([key, "old/key"])
            assert [page.objects for page in store.list() if page.objects] == []
        if ended != 9:
            break
    loses = (precondition == IfAbsent() and key == "old/key") or (precondition is IfMatch and key != "old/key")
    assert ended == (3 if loses else 0)


def test_writers_and_deleters_of_one_folder_do_not_hurt_each_other(tmp_path: Path) -> None:
    """A deleter removes the folder as soon as it is empty; a writer makes it again."""
    errors: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            with LocalStore(tmp_path) as store:
                for number in range(40):
                    key = f"a/b/{thread}"
                    written = store.put(key, b"%d" % number, IfAbsent())
                    store.put(key, b"again %d" % number, IfMatch(written.version))
                    assert store.get(key).body == b"again %d" % number
                    store.delete(key)
        except BaseException as error:  # noqa: BLE001 - carried over to the test's thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert not (tmp_path / "a").exists()


def test_a_lock_does_not_outlive_its_holder_in_a_forked_child(tmp_path: Path) -> None:
    """A child forked while a thread holds the lock keeps a copy of it open; that must not block others."""
    with LocalStore(tmp_path) as store:
        version = store.put("a/x", b"0").version
        reading, writing = os.pipe()
        with store._tree.open(("a",)) as descriptor, store._tree.lock(descriptor, ("a",)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                signal.alarm(60)
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
        try:
            store.put("a/x", b"1", IfMatch(version))
            with pytest.raises(ConflictError):
                store.put("a/x", b"2", IfMatch(version))
        finally:
            os.close(writing)
            os.close(reading)
            os.waitpid(child, 0)
