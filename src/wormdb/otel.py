"""Spans of OpenTelemetry: one for each call, and in it one for each request to the store.

    from wormdb import otel

    otel.instrument()

Names and attributes are those of the semantic conventions for databases. A span has no value of a document, no filter,
no id and no credential: keys of objects are told only where they are made of numbers and names of fields.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from wormdb.system.installed import __version__, load
from wormdb.system.tracing import set_tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

__all__ = ["instrument", "uninstrument"]

T = TypeVar("T")

_SYSTEM: Final = "wormdb"
_FOLDERS: Final = (".worm.db/", ".worm.tx/", ".worm.nodes/")
_BLOBS: Final = ".worm.db/blobs/"


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Have every call of this process make spans, of a provider or of the global one. No requests.

    Called again it replaces the provider. Raises MissingExtraError without `pip install 'wormdb[otel]'`.
    """
    load("opentelemetry")
    from opentelemetry.trace import get_tracer

    set_tracer(_SpanTracer(get_tracer("wormdb", __version__, tracer_provider)))


def uninstrument() -> None:
    """Make no more spans. Those that are open end with their calls."""
    set_tracer(None)


_inside: ContextVar[Context | None] = ContextVar("span of a call", default=None)
"""The context whose span is that of the call which this thread works for."""


class _SpanTracer:
    """As `wormdb.system.tracing.CallTracer` says."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def call(self, operation: str, namespace: str, collection: str, work: Callable[[], T]) -> T:
        if _inside.get() is not None:
            return work()
        context, span = self._begin(operation, namespace, collection)
        try:
            with self.there(context):
                result = work()
        except BaseException as error:
            _end(span, type(error).__name__)
            raise
        if hasattr(result, "__next__"):
            return cast("T", self._stream(context, span, cast("Iterator[Any]", result)))
        _end(span, "")
        return result

    def _begin(self, operation: str, namespace: str, collection: str) -> tuple[Context, Span]:
        from opentelemetry.trace import SpanKind, set_span_in_context

        told = {"db.system.name": _SYSTEM, "db.operation.name": operation, "db.namespace": namespace}
        if collection:
            told["db.collection.name"] = collection
        name = f"{operation} {collection}" if collection else operation
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=told)
        return set_span_in_context(span), span

    def _stream(self, context: Context, span: Span, rows: Iterator[Any]) -> Iterator[Any]:
        """The rows; the call goes on while one is fetched, and not while the caller looks at it."""
        count, error = 0, ""
        try:
            while True:
                with self.there(context):
                    row = next(rows, _NO_ROW)
                if row is _NO_ROW:
                    return
                count += 1
                yield row
        except GeneratorExit:
            raise
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            close = getattr(rows, "close", None)
            if close is not None:
                close()
            span.set_attribute("db.response.returned_rows", count)
            _end(span, error)

    def request(self, kind: str, key: str) -> _SpanRequest | None:
        context = _inside.get()
        if context is None:
            return None
        from opentelemetry.trace import SpanKind

        told: dict[str, str] = {"db.system.name": _SYSTEM, "wormdb.request.kind": kind}
        shown = _shown_key(key)
        if shown:
            told["wormdb.request.key"] = shown
        span = self._tracer.start_span(kind.upper(), context=context, kind=SpanKind.CLIENT, attributes=told)
        return _SpanRequest(span)

    def here(self) -> Context | None:
        return _inside.get()

    def there(self, call: Context | None) -> AbstractContextManager[object]:
        return _entered(call)


_NO_ROW: Final = object()


@contextmanager
def _entered(context: Context | None) -> Iterator[None]:
    """Work for a call, whose span is the current one meanwhile."""
    if context is None:
        yield
        return
    from opentelemetry.context import attach, detach

    mark, token = _inside.set(context), attach(context)
    try:
        yield
    finally:
        detach(token)
        _inside.reset(mark)


class _SpanRequest:
    """As `wormdb.system.tracing.RequestSpan` says."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, error: str, sent: int, received: int, count: int) -> None:
        self._span.set_attribute("wormdb.request.sent", sent)
        self._span.set_attribute("wormdb.request.received", received)
        if count > 1:
            self._span.set_attribute("wormdb.request.count", count)
        _end(self._span, error)


def _end(span: Span, error: str) -> None:
    """A message may hold a value: only the class of what was raised is told."""
    if error:
        from opentelemetry.trace import Status, StatusCode

        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _shown_key(key: str) -> str:
    """A key without what documents tell: names of readable files are made of ids, and those of blobs of their bytes."""
    at, name = next(((key.find(each), each) for each in _FOLDERS if each in key), (-1, ""))
    if at < 0:
        return ""
    return key[: at + len(_BLOBS)] if key.startswith(_BLOBS, at) else key[at:] if name != _FOLDERS[0] else key
