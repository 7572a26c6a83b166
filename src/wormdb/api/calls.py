"""How long each call of the API may take: decorators that give it a deadline, which everything below it keeps.

A stream (`scan`, `watch`, the rows of `find`, a blob that is read) is not a single call: each request has
`read_seconds`, its repetitions included, and the caller may pause between rows for any time.
"""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from wormdb.errors import InvalidRequestError
from wormdb.system.deadline import Deadline, begin, end, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.settings import Settings
    from wormdb.system.clock import Clock

__all__ = ["CallKind", "commits", "limited", "reads", "works"]

CallKind = Literal["read", "commit", "work"]

F = TypeVar("F", bound="Callable[..., Any]")


class _TimedCaller(Protocol):
    def _limited(self, kind: CallKind, timeout: float | None) -> within: ...


def limited(clock: Clock, settings: Settings, kind: CallKind, timeout: float | None = None) -> within:
    """For a call that begins now; `timeout` in seconds is the caller's own. Raises InvalidRequestError."""
    is_patient = kind == "commit"
    if timeout is not None:
        given: object = timeout
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
            raise InvalidRequestError(
                f"timeout={timeout!r:.40}", reason="it must be a number above 0", fix="give seconds, or leave it out"
            )
        return within(Deadline(clock, timeout, f"timeout={timeout:g}", is_patient=is_patient))
    if kind == "commit":
        return within(Deadline(clock, settings.commit_seconds, "commit_seconds", "steps", is_patient=True))
    return within(Deadline(clock, settings.read_seconds, "read_seconds", "steps" if kind == "read" else "work"))


def reads(method: F) -> F:
    """A call that ends within `read_seconds`, or within `read_seconds` for each batch of rows that it reads."""
    return _bounded(method, "read")


def commits(method: F) -> F:
    """A call that writes, and goes on trying for `commit_seconds`."""
    return _bounded(method, "commit")


def works(method: F) -> F:
    """A call that may take long, and ends when the store has not answered for `read_seconds`."""
    return _bounded(method, "work")


def _bounded(method: F, kind: CallKind) -> F:
    @wraps(method)
    def call(self: _TimedCaller, *given: Any, timeout: float | None = None, **named: Any) -> Any:
        token = begin(self._limited(kind, timeout).deadline)
        try:
            return method(self, *given, **named)
        finally:
            end(token)

    return cast("F", call)
