"""Threads that must not wait: the loop of a server asks for what this process knows, and for nothing else.

Inside `refuse_waiting` whatever would wait for the store, or for another thread that may, raises `WouldWaitError`
instead. It is not an error of a call but of the place where it was tried: the same call is made again in a thread that
may wait. It is no `Exception`, so all code treats it as an interrupt of this thread: what was begun is left as it was,
and no other reader is told of it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextvars import Token

__all__ = ["WouldWaitError", "check_waiting", "refuse_waiting"]


class WouldWaitError(BaseException):
    """This call needs the store, or another thread, and must be made where it may wait."""


_refused: ContextVar[bool] = ContextVar("wormdb_waiting_refused", default=False)


def check_waiting(what: str) -> None:
    """Raise WouldWaitError if this thread must not wait. Asked before a request, and before waiting for a thread."""
    if _refused.get():
        raise WouldWaitError(what)


class refuse_waiting:  # noqa: N801 - used as a statement: with refuse_waiting()
    """What is done inside must not wait. Must not be left open across an `await`."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        """Nothing is refused yet."""
        self._token: Token[bool] | None = None

    def __enter__(self) -> None:
        self._token = _refused.set(True)

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _refused.reset(self._token)
