"""A database that was opened before a fork is opened again in the child, whatever the parent was doing."""

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


def use_every_verb(db: wormdb.Database, things: wormdb.Collection[wormdb.Document], loaded: wormdb.Document) -> None:
    """Use the handles of the parent in the child: all of them work, and what was begun in the parent says so."""
    view = db.as_actor("child")
    assert db["things"].find_by_id("a") == loaded
    assert things.find_by_id("a") == loaded
    assert things.exists("a")
    things.insert({"id": "b"})
    things.insert_many([{"id": "c"}, {"id": "d"}])
    things.save(things.find_by_id("a") | {"n": 2})  # type: ignore[operator] # it is there
    things.modify("a", lambda it: it | {"n": 3})
    with things.batch() as batch:
        batch.insert({"id": "e"})
    things.forward()
    view["things"].delete("b")
    assert {document.id for document in things} >= {"a", "c", "d", "e"}
    assert [change.actor for change in things.watch()][-1] == "child"
    things.delete_many({"id": {"$in": ["c", "d", "e"]}})
    things.modify("a", lambda it: it | {"n": 1})
    assert db.cost().puts > 0
    db.close()
    with pytest.raises(ClosedError, match="it was closed"):
        things.count()


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
        in_child(lambda: use_every_verb(db, things, loaded))
        loaded = things.find_by_id("a")  # type: ignore[assignment] # it is there
        # Now with a thread that commits for all who come: a child that queued up behind it would wait for ever.
        gate.thread = threading.Thread(target=lambda: things.insert({"id": "slow"}))
        gate.thread.start()
        try:
            assert gate.reached.wait(SECONDS_MAX)
            in_child(lambda: use_every_verb(db, things, loaded))
        finally:
            gate.opened.set()
            gate.thread.join()
        assert {document.id for document in things} == {"a", "slow"}


def test_on_a_folder(tmp_path: Path) -> None:
    check_fork(str(tmp_path))


@pytest.mark.s3
def test_on_s3(s3_url: str) -> None:
    """In a process of its own: other tests of this one have used obstore, whose threads do not follow."""
    done = subprocess.run(
        [sys.executable, "-c", ON_S3, s3_url], capture_output=True, text=True, timeout=2 * SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


ON_S3 = """
import sys
from tests.processes.test_fork import check_fork
check_fork(sys.argv[1])
"""


def test_what_was_begun_in_the_parent_is_refused_in_the_child_with_the_way_to_go_on(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path) as db:
        things = db["things"]
        things.insert({"id": "a"})
        results, batch, query = things.find(), things.batch(), things.query().eq("id", "a")
        batch.insert({"id": "b"})

        def work() -> None:
            for verb in (results.to_list, query.execute):
                with pytest.raises(ClosedError, match=r"opened before a fork.*open it again in the child"):
                    verb()
            assert things.count() == 1

        in_child(work)
        assert things.count() == 1


def test_a_memory_is_one_process_s_own() -> None:
    with wormdb.connect("memory://forked-database") as db:
        things = db["things"]
        things.insert({"id": "a"})

        def work() -> None:
            for verb in (things.count, lambda: db["things"], lambda: things.insert({"id": "b"})):
                with pytest.raises(ClosedError, match=r"opened before a fork.*a memory is one process's own"):
                    verb()

        in_child(work)
        assert things.count() == 1


def test_a_database_that_was_closed_stays_closed_in_the_child(tmp_path: Path) -> None:
    db = wormdb.connect(tmp_path)
    things = db["things"]
    db.close()

    def work() -> None:
        with pytest.raises(ClosedError, match="it was closed"):
            things.count()

    in_child(work)


def test_ids_of_children_differ(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path) as db:
        things = db["things"]
        things.insert({})

        def insert_some() -> None:
            for _ in range(5):
                things.insert({})

        for _ in range(3):
            in_child(insert_some)
        assert things.count() == 16


def test_workers_of_multiprocessing_use_the_handles_of_the_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", POOL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n", "")


POOL = """
import multiprocessing, sys
import wormdb
db = wormdb.connect(sys.argv[1])
things = db["things"]
things.count()

def work(number):
    things.insert({"id": str(number)})

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(work, range(20))
        pool.close()
        pool.join()
    print(things.count())
"""


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
def test_a_bucket_that_was_used_before_the_fork_may_be_opened_in_the_child(s3_url: str) -> None:
    assert open_in_child(s3_url, "used") == ["child 1", "parent 1"]


LISTED = """
import os, signal, sys, warnings
import wormdb
warnings.simplefilter("ignore", DeprecationWarning)
db = wormdb.connect(sys.argv[1])
things = db["things"]
things.insert_many([{"id": str(n), "text": "x" * 100} for n in range(100)])
things.forward()
db.collections()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(60)
things.insert({"id": "child"})
things.forward()
reference = things.put_blob(b"x" * 20_000_000)
assert things.open_blob(reference).read(3) == b"xxx"
db.store.delete_many([".worm.nothing-1", ".worm.nothing-2"])
print(things.count(), len(things.find({"text": "x" * 100}).to_list()), flush=True)
try:
    db.collections()
except wormdb.ClosedError as error:
    print(error, flush=True)
os._exit(0)
"""


@pytest.mark.s3
def test_what_needs_the_client_library_says_how_in_one_line_if_the_parent_used_it(s3_url: str) -> None:
    """Its threads are the parent's: a new client in the child hangs and can crash the parent. Documents need it not."""
    done = subprocess.run(
        [sys.executable, "-c", LISTED, s3_url], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    counted, refused = done.stdout.splitlines()
    assert counted == "101 100"
    assert "a cloud store was used before the fork" in refused
    assert "connect in the child (gunicorn: post_fork)" in refused


IMPORTING = """
import importlib.abc, os, signal, sys, threading, warnings
import wormdb
warnings.simplefilter("ignore", DeprecationWarning)
database = wormdb.connect("memory://")
begun = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "wormdb.query.plan" and threading.current_thread() is not threading.main_thread():
            begun.set()
            threading.Event().wait(1)

assert "wormdb.query.plan" not in sys.modules
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=__import__, args=("wormdb.query.plan",))
thread.start()
assert begun.wait(60)
child = os.fork()
if not child:
    signal.alarm(20)
    import wormdb.query.plan
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_until_no_thread_imports() -> None:
    """A child waited for ever for the lock of a module that a thread of the parent was importing."""
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
