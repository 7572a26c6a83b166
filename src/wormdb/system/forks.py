"""Forks of a process with threads: no child begins in the middle of an import, or of what a lock guards.

A child has the locks of all threads of its parent, and only the thread that forked. Python's lock of a module that
another thread was importing is never released there, so the first import of it would wait for ever. Here most modules
are imported by the first call that needs them, often in a thread: so a fork waits until no thread imports.
"""

from __future__ import annotations

import importlib._bootstrap as bootstrap  # where Python keeps the locks of imports
import os
import threading
from typing import Final

from wormdb.system.clock import SystemClock

__all__ = ["lock_against_forks", "wait_for_imports"]

IMPORT_SECONDS: Final = 10.0
"""How long a fork waits for imports of other threads: they may wait for the thread that forks."""
_LOOK_SECONDS: Final = 0.002


def lock_against_forks() -> threading.Lock:
    """A lock that is taken before each fork of this process, and free in parent and child after it."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def wait_for_imports() -> None:
    """Wait until no other thread imports a module, for IMPORT_SECONDS at most."""
    clock = SystemClock()
    ends = clock.monotonic() + IMPORT_SECONDS
    while _do_others_import() and clock.monotonic() < ends:
        clock.sleep(_LOOK_SECONDS)


def _do_others_import() -> bool:
    me = threading.get_ident()
    locks = [known() for known in list(getattr(bootstrap, "_module_locks", {}).values())]
    return any(getattr(lock, "owner", None) not in (None, me) for lock in locks)
