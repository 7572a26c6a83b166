"""Fixtures for every test: hypothesis profiles here; the S3 server in tests/s3_server.py."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from typing import TYPE_CHECKING, SupportsIndex

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.s3_server import end_s3_server, s3_server, s3_url, start_s3_server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

__all__ = ["s3_server", "s3_url"]

GARBAGE_OBJECTS = 10_000
"""New objects between two collections of garbage."""
SHARED_MEMORY = "/dev/shm"
SHARED_BYTES_MIN = 4 * 1024**3
"""Far more than the files of a whole run, and what Spark and the S3 server keep there too."""

# Tests start many processes: where nobody may keep bytecode, each of them would compile the whole package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# And pytest would rewrite the assertions of all tests again, in every worker: half of what collecting them takes.
sys.dont_write_bytecode = False


def _keep_files_in_memory() -> None:
    """Let temporary folders be in memory where there is room: a flush to a disk proves nothing here, and takes long."""
    try:
        shared = os.statvfs(SHARED_MEMORY)
    except OSError:
        return
    has_room = shared.f_bavail * shared.f_frsize >= SHARED_BYTES_MIN and not shared.f_flag & os.ST_NOEXEC
    if has_room and os.access(SHARED_MEMORY, os.W_OK) and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = SHARED_MEMORY  # for programs that tests start
        tempfile.tempdir = SHARED_MEMORY  # pytest has asked before, for what it captures


_keep_files_in_memory()

# Fast by default, and the same examples each time. `make test-all` tries more, WORMDB_HYPOTHESIS=long for minutes.
for name, examples in (("fast", 20), ("more", 150)):
    settings.register_profile(
        name, max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
for name, examples in (("soak", 200), ("long", 5_000)):
    settings.register_profile(
        name, max_examples=examples, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("WORMDB_HYPOTHESIS", "fast"))


class _Tests(list[str]):
    """The ids of all tests, which knows the place of each."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self._places = {nodeid: place for place, nodeid in enumerate(ids)}

    def index(self, nodeid: str, *_: SupportsIndex) -> int:
        return self._places[nodeid]


TOGETHER = ("tests/spark/", "tests/server/test_clients.py", "tests/api/test_readme_numbers.py")
"""Tests that share what takes long to make: a JVM, packages of npm, a hundred thousand documents."""


class OneSession(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """Gives tests to workers one by one, but those that share something to one of them: only one makes it."""

    def _split_scope(self, nodeid: str) -> str:
        return next((shared for shared in TOGETHER if nodeid.startswith(shared)), nodeid)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Keep the tests of a worker so that the place of one is looked up, and not searched for."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Tests(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what is done: else each test would be counted again whenever another one ends."""
        super().mark_test_complete(node, item_index, duration)
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        tests = self.assigned_work[node][scope]
        del tests[nodeid]
        if not tests:
            del self.assigned_work[node][scope]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How a parallel run shares out the tests."""
    return OneSession(config, log)


@pytest.fixture(scope="module")
def remembered() -> Iterator[None]:
    """For modules that make equal blocks again and again: each is encoded and decoded once."""
    from tests.simulation.remembered import remembered_blocks  # few ask for it

    with remembered_blocks():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: half a million objects are made, and all of them stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave the objects of the collected tests out of every garbage collection, and collect less often."""
    start_s3_server(session)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of all of it again: extension modules complain of what they find at the end."""
    end_s3_server(config)
    gc.unfreeze()
