"""A database that was opened before a fork says so in the child, whatever the parent was doing; it never hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.storage.meter import MeteredRequest

SECONDS_MAX = 60
USED_BEFORE = """
import os, signal, sys, warnings
import wormdb
url = sys.argv[1]
warnings.simplefilter("ignore", DeprecationWarning)
parent = wormdb.connect(url)
if sys.argv[2] == "used":
    parent["things"].count()
child = os.fork()
if child:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("parent", parent["things"].count())
    sys.exit(code)
signal.alarm(60)
try:
    things = wormdb.connect(url)["things"]
    things.insert({"id": "c"})
    print("child", things.count(), flush=True)
except wormdb.ClosedError as error:
    print("child", error, flush=True)
os._exit(0)
"""


def in_child(work: Callable[[], None]) -> None:
    """Do `work` in a forked child; raises AssertionError if it fails there, or hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        signal.alarm(SECONDS_MAX)
        try:
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must not go on as a second test run
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def check_every_verb(db: wormdb.Database, things: wormdb.Collection[wormdb.Document], loaded: wormdb.Document) -> None:
    batch = things.batch()
    batch.insert({"id": "d"})
    verbs: list[Callable[[], object]] = [
        lambda: db["things"],
        lambda: things.find_by_id("a"),
        lambda: things.exists("a"),
        things.count,
        lambda: list(things),
        lambda: things.insert({"id": "b"}),
        lambda: things.insert_many([{"id": "b"}]),
        lambda: things.save(loaded | {"n": 2}),
        lambda: things.delete("a"),
        lambda: things.modify("a", lambda it: it | {"n": 2}),
        batch.flush,
        lambda: list(things.watch()),
        lambda: things.resolve(f"1-{'0' * 32}-{'0' * 32}", settle=True),
        things.forward,
    ]
    for number, verb in enumerate(verbs):
        with pytest.raises(ClosedError, match=r"opened before a fork.*start processes with the spawn method"):
            pytest.fail(f"verb {number} returned {verb()!r}")
    db.close()


class Gate:
    """Holds up the requests of one thread, so that it stays in the middle of what it does."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.reached, self.opened = threading.Event(), threading.Event()

    def hook(self, request: MeteredRequest) -> None:
        if threading.current_thread() is self.thread:
            self.reached.set()
            self.opened.wait(SECONDS_MAX)


def check_fork(url: str) -> None:
    gate = Gate()
    with wormdb.connect(url, hook=gate.hook) as db:
        things = db["things"]
        loaded = things.insert({"id": "a", "n": 1})
        in_child(lambda: check_every_verb(db, things, loaded))
        # Now with a thread that commits for all who come: a child that queued up behind it would wait for ever.
        gate.thread = threading.Thread(target=lambda: things.insert({"id": "slow"}))
        gate.thread.start()
        try:
            assert gate.reached.wait(SECONDS_MAX)
            in_child(lambda: check_every_verb(db, things, loaded))
        finally:
            gate.opened.set()
            gate.thread.join()
        assert {document.id for document in things} == {"a", "slow"}


def test_on_a_folder(tmp_path: Path) -> None:
    check_fork(str(tmp_path))


@pytest.mark.s3
def test_on_s3(s3_url: str) -> None:
    check_fork(s3_url)


def open_in_child(url: str, use: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", USED_BEFORE, url, use], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("use", ["used", "unused"])
def test_a_folder_may_be_opened_again_in_the_child(tmp_path: Path, use: str) -> None:
    assert open_in_child(str(tmp_path), use) == ["child 1", "parent 1"]


@pytest.mark.s3
def test_a_bucket_may_be_opened_in_the_child_if_none_was_used_before(s3_url: str) -> None:
    assert open_in_child(s3_url, "unused") == ["child 1", "parent 1"]


@pytest.mark.s3
def test_a_bucket_that_was_used_before_the_fork_is_refused_in_the_child(s3_url: str) -> None:
    """Its client library has one set of threads a process: a new client in the child hangs and can crash the parent."""
    child, parent = open_in_child(s3_url, "used")
    assert "a cloud store was used before the fork" in child
    assert "start processes with the spawn method" in child
    assert parent == "parent 0"
