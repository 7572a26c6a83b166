"""Locks that a fork waits for, so that no child begins in the middle of what they guard."""

from __future__ import annotations

import os
import threading

__all__ = ["lock_against_forks"]


def lock_against_forks() -> threading.Lock:
    """A lock that is taken before each fork of this process, and free in parent and child after it."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
