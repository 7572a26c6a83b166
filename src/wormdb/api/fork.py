"""Databases and collections that were opened before a fork, opened again in the child.

A forked child has the parent's locks and sockets but not its threads. So what a database has of these is made anew
there before anything can use it: handles of databases and collections go on, as gunicorn's `--preload`, Celery's
prefork pool and multiprocessing need it. What was begun in the parent (results, cursors, batches) stays the parent's,
and says so.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from wormdb.system.forks import wait_for_imports

__all__ = ["ForkFollower", "follow_forks"]


class ForkFollower(Protocol):
    """What can be opened again in a forked child."""

    def _follow_fork(self) -> None:
        """Open again what threads and connections are needed for. No requests."""
        ...

    def __hash__(self) -> int: ...


_handles: list[WeakSet[ForkFollower]] = [WeakSet(), WeakSet()]
"""First databases, then collections, which take what they need from their databases."""


def follow_forks(handle: ForkFollower, *, is_inner: bool = False) -> None:
    """Have a handle opened again in forked children, as long as it is there; `is_inner` for one that needs another."""
    _handles[is_inner].add(handle)


def _follow() -> None:
    for handles in _handles:
        for handle in list(handles):
            handle._follow_fork()  # noqa: SLF001 - a promise between these modules, not to users


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait_for_imports, after_in_child=_follow)
