"""What every call of the API has: a time within which it ends, and an author.

Decorators give a call its deadline, which everything below it keeps. A stream (`scan`, `watch`, the rows of `find`, a
blob that is read) is not a single call: each request has `read_seconds`, its repetitions included, and the caller may
pause between rows for any time.

The author says who makes a change, and why. It is kept with every change, in the feed and in history.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from wormdb.api.pymongo_names import refuse_unknown_argument
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.settings import ACTOR_BYTES_MAX, METADATA_BYTES_MAX, Settings
from wormdb.system import tracing
from wormdb.system.deadline import Deadline, begin, end, within

if TYPE_CHECKING:
    from wormdb.system.clock import Clock

__all__ = ["Author", "CallKind", "commits", "limited", "reads", "traced", "works"]

CallKind = Literal["read", "commit", "work"]

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


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
            if tracing.tracer is not None:
                return traced(operation, self, lambda: method(self, *given, **named))
            return method(self, *given, **named)
        except TypeError as error:
            refuse_unknown_argument(method, given, named, error)
            raise
        finally:
            end(token)

    operation = _OPERATIONS.get(method.__name__, method.__name__.strip("_"))
    return cast("F", call)


_OPERATIONS = {"first": "find", "to_list": "find", "_flush": "flush"}
"""What calls are to users, where they have another name."""


def traced(operation: str, caller: object, work: Callable[[], T]) -> T:
    """What `work` returns or raises; a tracer, if there is one, is told that it is a call of the API."""
    tracer = tracing.tracer
    if tracer is None:
        return work()
    access: Any = getattr(caller, "_access", None)
    if not hasattr(access, "ledger"):  # a database, whose collections have one each
        return tracer.call(operation, getattr(caller, "url", ""), "", work)
    collection = access.ledger.collection.rstrip("/")
    namespace = str(access.writer.origin).rstrip("/").removesuffix(collection).rstrip("/")
    return tracer.call(operation, namespace, collection, work)


# --- who makes a change, and why ---


@dataclass(frozen=True, slots=True)
class Author:
    """An actor, and metadata of any kind that documents can hold. A value; checked when it is made."""

    actor: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, actor: str | None, metadata: Mapping[str, Any] | None = None) -> Author:
        """Raises InvalidRequestError for a bad actor or bad metadata. No requests."""
        return cls(_checked_actor(actor), _checked_metadata(metadata))

    def but(self, actor: str | None, metadata: Mapping[str, Any] | None) -> Author:
        """Another actor if one is given, and more metadata; what is given wins. Raises as `of`. No requests."""
        if actor is None and metadata is None:
            return self
        given = Author.of(actor, metadata)
        return Author(given.actor or self.actor, _within_limit({**self.metadata, **given.metadata}))

    def noting(self, **facts: Any) -> Author:
        """With more metadata, of ours, which wins. No requests."""
        return Author(self.actor, {**self.metadata, **facts})

    @property
    def meta(self) -> bytes | None:
        """The metadata as extended JSON; None if there is none."""
        return _encoded(dict(self.metadata)) if self.metadata else None


def _checked_actor(actor: str | None) -> str | None:
    if actor is None:
        return None
    fix = "give a name, or none"
    try:
        size = len(actor.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        raise InvalidRequestError(f"actor {actor!r}", reason="it must be a string", fix=fix) from error
    if size == 0:
        raise InvalidRequestError("actor ''", reason="it is empty", fix=fix)
    if size > ACTOR_BYTES_MAX:
        raise LimitExceededError(
            f"actor of {size:,} bytes", reason=f"it may have {ACTOR_BYTES_MAX:,}", fix="give a shorter name"
        )
    return actor


def _checked_metadata(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidRequestError(
            f"metadata of type {type(metadata).__name__}", reason="it must be a mapping", fix="give a dict, or none"
        )
    from wormdb.format.values import normalize_document  # few callers give any

    return _within_limit(normalize_document(metadata))


def _within_limit(metadata: dict[str, Any]) -> dict[str, Any]:
    size = len(_encoded(metadata))
    if size > METADATA_BYTES_MAX:
        raise LimitExceededError(
            f"metadata of {size:,} bytes",
            reason=f"it is kept with every change, and may have {METADATA_BYTES_MAX:,}",
            fix="put it into a document, and name that",
        )
    return metadata


def _encoded(metadata: dict[str, Any]) -> bytes:
    from wormdb.format import json  # few callers give metadata

    return json.encode_document(metadata)
