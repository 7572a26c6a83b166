"""Where calls and requests tell a tracer of themselves, if the program set one: `wormdb.otel` does.

The tracer is one of the process, as those of OpenTelemetry are. Without one a call looks at a variable and goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["CallTracer", "RequestSpan", "set_tracer", "tracer"]

T = TypeVar("T")


class RequestSpan(Protocol):
    """A request that is under way."""

    def end(self, error: str, sent: int, received: int, count: int) -> None:
        """It ended: the class name of what it raised, or nothing; bytes; and how many requests it was."""
        ...


class CallTracer(Protocol):
    """What is told. Thread-safe; raises nothing of its own."""

    def call(self, operation: str, namespace: str, collection: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises, as a span; of an iterator until it ends. A call inside of another has none."""
        ...

    def request(self, kind: str, key: str) -> RequestSpan | None:
        """A request of the call of this thread begins; None if it belongs to none."""
        ...

    def here(self) -> Any:
        """The call of this thread, to be gone on with in another."""
        ...

    def there(self, call: Any) -> AbstractContextManager[object]:
        """This thread works for a call of another."""
        ...


tracer: CallTracer | None = None
"""That of the process. It is looked at as `tracing.tracer`, without a call: every call of the API does."""


def set_tracer(following: CallTracer | None) -> None:
    """From now on calls tell this one; None ends it."""
    global tracer  # noqa: PLW0603 - one of the process, as its providers of spans are
    tracer = following
