"""The memory store: which stores share data."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from wormdb.errors import ConflictError
from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.storage.store import IfMatch
from wormdb.system.clock import ManualClock


def test_handles_of_one_name_share_and_others_do_not() -> None:
    with MemoryStore("shared") as one, MemoryStore("shared") as two, MemoryStore("other") as other:
        one.put("a", b"1")
        assert two.get("a").body == b"1"
        assert other.probe("a").found is None
    with MemoryStore("shared") as later:
        assert later.get("a").body == b"1"
    drop_memory("shared")
    drop_memory("other")
    drop_memory("never was")
    with MemoryStore("shared") as fresh:
        assert fresh.probe("a").found is None


def test_a_store_without_a_name_is_alone() -> None:
    with MemoryStore() as one, MemoryStore() as two:
        one.put("a", b"1")
        assert two.probe("a").found is None
        assert one.name == "memory://"


def test_open_handles_survive_a_drop() -> None:
    with MemoryStore("dropped") as old:
        version = old.put("a", b"1").version
        drop_memory("dropped")
        assert old.get("a").body == b"1"
        with MemoryStore("dropped") as new:
            new.put("a", b"1")
            with pytest.raises(ConflictError):
                new.put("a", b"2", IfMatch(version))
        drop_memory("dropped")


def test_times_are_the_clocks() -> None:
    clock = ManualClock(start_ms=1_000)
    with MemoryStore(clock=clock) as store:
        assert store.put("a", b"1").time == 1_000
        clock.advance(5)
        assert store.get("a").time == 6_000
        assert store.head("a").modified == 1_000
        assert store.probe("b").time == 6_000


def test_a_forked_child_begins_empty() -> None:
    with MemoryStore("forked") as store:
        store.put("a", b"parent's")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            signal.alarm(10)
            found = MemoryStore("forked").probe("a").found
            os._exit(0 if found is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.get("a").body == b"parent's"
    drop_memory("forked")
