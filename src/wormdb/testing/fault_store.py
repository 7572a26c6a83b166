"""A store that fails on purpose, at requests chosen by number, the same way every time.

Requests are numbered from 1: every verb is one, a listing one for each page. What a fault
does depends on the request; one that cannot happen to it (a torn list to a put) does nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeVar

from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.store import OCTETS, Always, IfAbsent, IfMatch, ListPage, Store, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wormdb.storage.store import ByteRange, ObjectInfo, Precondition, Probe, PutResult, StoredObject, UploadSource

__all__ = ["Fault", "FaultStore", "SimulatedCrash", "Trace"]

T = TypeVar("T")


class Fault(StrEnum):
    """What can happen to one request."""

    CRASH_BEFORE = "crash before"
    """The process dies before the request leaves: nothing done. Every later request crashes too."""
    CRASH_AFTER = "crash after"
    """The request is executed, then the process dies."""
    ANSWER_LOST = "answer lost"
    """Executed, but a put raises OutcomeUnknownError and anything else UnavailableError."""
    LANDS_LATE = "lands late"
    """As a lost answer, but a put or delete is executed later: by `land`, or after more requests."""
    CONFLICT_409 = "409"
    """A conditional put is refused with nothing decided: UnavailableError."""
    RACE_412 = "412 by a race"
    """A rival writes the object first; then the conditional put goes on, and genuinely loses."""
    THROTTLED_429 = "429"
    """UnavailableError, nothing done."""
    UNAVAILABLE_503 = "503"
    """UnavailableError, nothing done."""
    TORN_LIST = "torn list"
    """The listing ends with UnavailableError in place of this page."""
    STALE_LIST = "stale list"
    """From this page on the listing misses what was written after it began."""


class SimulatedCrash(BaseException):
    """The process died at this request. Not an Exception, so that no handler runs that a crash would not run."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One request as it was seen: `fault` is what happened to it, `error` the class raised, or empty."""

    number: int
    verb: str
    key: str
    fault: Fault | None
    error: str


class FaultStore(WrappedStore):
    """Hands requests to `inner`, except where the plan says otherwise."""

    def __init__(
        self,
        inner: Store,
        plan: Mapping[int, Fault] | None = None,
        *,
        late_after: int | None = None,
        page_keys: int = LIST_PAGE_KEYS,
        ignores_preconditions: bool = False,
    ) -> None:
        """`plan` gives faults by request number.

        A late request lands after `late_after` more requests (None: only by `land`). Listings
        are cut into pages of `page_keys`. With `ignores_preconditions` every put is `Always`,
        as some servers do, to test that such a store is refused.
        """
        super().__init__(inner)
        self._plan = dict(plan or {})
        self._late_after = late_after
        self._page_keys = page_keys
        self._ignores_preconditions = ignores_preconditions
        self._lock = threading.RLock()
        self._number = 0
        self._dead = False
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._written: list[tuple[int, str]] = []
        self._trace: list[Trace] = []

    @property
    def trace(self) -> tuple[Trace, ...]:
        """All requests so far, in order of their numbers."""
        return tuple(sorted(self._trace, key=lambda trace: trace.number))

    @property
    def requests(self) -> int:
        """How many requests were numbered."""
        return self._number

    @property
    def fired(self) -> tuple[Fault, ...]:
        """The faults that did happen."""
        return tuple(trace.fault for trace in self.trace if trace.fault is not None)

    def land(self) -> int:
        """Execute what was to land late, in order, whether or not the process is dead; how many there were."""
        return self._land(None)

    def get(self, key: str) -> StoredObject:
        """The whole object, or the planned fault."""
        return self._request("get", key, lambda: self._inner.get(key))

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """A range, or the planned fault."""
        return self._request("get_range", key, lambda: self._inner.get_range(key, span))

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges as one request, or the planned fault."""
        return self._request("get_ranges", key, lambda: self._inner.get_ranges(key, spans))

    def probe(self, key: str) -> Probe:
        """The object or None, or the planned fault."""
        return self._request("probe", key, lambda: self._inner.probe(key))

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version, or the planned fault."""
        return self._request("head", key, lambda: self._inner.head(key))

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder, in small pages, with the planned faults."""
        self._lifetime.check()
        begin = self._number
        is_stale = False
        pages = self._cut(self._inner.list(prefix, after=after, delimiter=delimiter))
        page: ListPage | None = next(pages, ListPage(()))
        while page is not None:
            taken = page
            page = self._request("list", prefix, lambda: taken)  # noqa: B023 - called at once
            is_stale = is_stale or self._plan.get(self._number) is Fault.STALE_LIST
            yield self._without_news(page, begin) if is_stale else page
            # The last page tells the end: that takes no request of its own.
            page = next(pages, None)

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write as one put, or the planned fault: an object in parts is there in whole or not at all too."""
        self.put(key, b"".join(source.parts()), content_type=content_type)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write, or the planned fault."""
        condition = Always() if precondition is None or self._ignores_preconditions else precondition

        def write() -> PutResult:
            result = self._inner.put(key, body, condition, content_type=content_type)
            self._written.append((self._number, key))
            return result

        def rival() -> None:
            self._inner.put(key, b"a rival's write at request %d" % self._number)

        is_conditional = isinstance(precondition, IfAbsent | IfMatch)
        return self._request("put", key, write, rival if is_conditional else None)

    def delete(self, key: str) -> None:
        """Remove the object, or the planned fault."""
        self._request("delete", key, lambda: self._inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects as one request, or the planned fault."""
        self._request("delete_many", keys[0] if keys else "", lambda: self._inner.delete_many(keys))

    def _request(self, verb: str, key: str, call: Callable[[], T], rival: Callable[[], None] | None = None) -> T:
        """Number the request, let its fault happen, and trace both."""
        self._lifetime.check()
        if self._dead:
            raise SimulatedCrash(f"{verb} {key}: the process is dead")
        with self._lock:
            self._number += 1
            number = self._number
        self._land(number)
        fault = self._plan.get(number)
        if fault is not None and not _can_happen(fault, verb, is_conditional=rival is not None):
            fault = None
        error = ""
        try:
            return self._with_fault(fault, verb, key, call, rival)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self._trace.append(Trace(number, verb, key, fault, error))

    def _with_fault(
        self, fault: Fault | None, verb: str, key: str, call: Callable[[], T], rival: Callable[[], None] | None
    ) -> T:
        if fault is Fault.RACE_412 and rival is not None:
            rival()
        if fault in (None, Fault.RACE_412, Fault.STALE_LIST):
            return call()
        if fault in (Fault.CRASH_AFTER, Fault.ANSWER_LOST):
            _quietly(call)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._dead = True
            raise SimulatedCrash(f"{verb} {key}: {fault}")
        if fault is Fault.LANDS_LATE and verb in ("put", "delete", "delete_many"):
            self._late.append((self._number, call))
        if fault in (Fault.ANSWER_LOST, Fault.LANDS_LATE) and verb == "put":
            raise OutcomeUnknownError(f"put {key}", reason=f"simulated: {fault}", key=key)
        raise UnavailableError(f"{verb} {key}", reason=f"simulated: {fault}", key=key)

    def _land(self, number: int | None) -> int:
        with self._lock:
            due = [
                (sent, call)
                for sent, call in self._late
                if number is None or (self._late_after is not None and number > sent + self._late_after)
            ]
            self._late = [late for late in self._late if late not in due]
            for _, call in due:
                _quietly(call)
        return len(due)

    def _cut(self, pages: Iterator[ListPage]) -> Iterator[ListPage]:
        if self._page_keys >= LIST_PAGE_KEYS:
            yield from pages
            return
        for page in pages:
            names = sorted([*(info.key for info in page.objects), *page.prefixes])
            for begin in range(0, max(1, len(names)), self._page_keys):
                chosen = set(names[begin : begin + self._page_keys])
                objects = tuple(info for info in page.objects if info.key in chosen)
                yield ListPage(objects, tuple(prefix for prefix in page.prefixes if prefix in chosen))

    def _without_news(self, page: ListPage, begin: int) -> ListPage:
        news = {key for number, key in self._written if number > begin}
        return ListPage(tuple(info for info in page.objects if info.key not in news), page.prefixes)


def _can_happen(fault: Fault, verb: str, *, is_conditional: bool) -> bool:
    if fault in (Fault.TORN_LIST, Fault.STALE_LIST):
        return verb == "list"
    return is_conditional or fault not in (Fault.RACE_412, Fault.CONFLICT_409)


def _quietly(call: Callable[[], object]) -> None:
    """Execute, and drop what the store answered."""
    try:
        call()
    except WormError:
        return
