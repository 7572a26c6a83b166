"""Calls of Python functions that some work takes, counted by the interpreter: exact, and the same on every machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import wormdb.storage

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["count_calls"]

_STORES = wormdb.storage.__path__[0]


def count_calls(work: Callable[[], object]) -> int:
    """How many Python functions `work` calls in this thread, itself not counted.

    A 'call' event of `sys.setprofile` is one: every function, method, property and comprehension in Python, and every
    time a generator goes on. Functions in C are none. What `wormdb.storage` calls to make a request is not counted:
    the calls that it gets are.
    """
    calls = -1
    inside = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, inside
        if event == "call":
            if inside:
                inside += 1
                return
            calls += 1
            inside = int(frame.f_code.co_filename.startswith(_STORES))
        elif event == "return" and inside:
            inside -= 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
