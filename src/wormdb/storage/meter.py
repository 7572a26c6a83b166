"""Count requests, bytes and dollars of a store, and tell a hook of each request."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count as counter
from typing import TYPE_CHECKING, Literal, Self

from wormdb.errors import ClosedError, InvalidRequestError, OutcomeUnknownError, UnavailableError
from wormdb.settings import DELETE_MANY_KEYS, UPLOAD_PART_BYTES
from wormdb.storage.store import OCTETS, Store, WrappedStore, coalesce
from wormdb.system import tracing
from wormdb.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from wormdb.storage.store import (
        ByteRange,
        ListPage,
        ObjectInfo,
        Precondition,
        Probe,
        PutResult,
        StoredObject,
        UploadSource,
    )
    from wormdb.system.tracing import RequestSpan

__all__ = [
    "AZURE_HOT",
    "FREE",
    "GCS_STANDARD",
    "S3_EXPRESS",
    "S3_STANDARD",
    "MeteredRequest",
    "MeteredStore",
    "Prices",
    "RequestKind",
    "Usage",
    "prices_of",
]


# --- What requests and storage cost, in US dollars: tables to estimate with, not a bill.
#
# List prices of one region each, without discounts and without what leaves the cloud.

MILLION = 1_000_000
GIGABYTE = 1_000_000_000


class RequestKind(StrEnum):
    """What stores bill by."""

    GET = "get"
    HEAD = "head"
    LIST = "list"
    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million requests of each kind, and for a gigabyte where bytes cost."""

    name: str
    get: float = 0.0
    head: float = 0.0
    list: float = 0.0
    put: float = 0.0
    delete: float = 0.0
    gigabyte_up: float = 0.0
    gigabyte_down: float = 0.0
    gigabyte_month: float = 0.0
    """For keeping a gigabyte for a month."""

    def of_requests(self, kind: RequestKind, count: int) -> float:
        """Dollars for `count` requests of one kind."""
        by_kind = {
            RequestKind.GET: self.get,
            RequestKind.HEAD: self.head,
            RequestKind.LIST: self.list,
            RequestKind.PUT: self.put,
            RequestKind.DELETE: self.delete,
        }
        return by_kind[kind] * count / MILLION

    def of_bytes(self, up: int, down: int) -> float:
        """Dollars for bytes written and read."""
        return (self.gigabyte_up * up + self.gigabyte_down * down) / GIGABYTE

    def of_storage(self, size: float) -> float:
        """Dollars a month for keeping `size` bytes."""
        return self.gigabyte_month * size / GIGABYTE


S3_STANDARD = Prices("Amazon S3 Standard, us-east-1", get=0.40, head=0.40, list=5.00, put=5.00, gigabyte_month=0.023)
S3_EXPRESS = Prices(
    "Amazon S3 Express One Zone, us-east-1",
    get=0.03,
    head=0.03,
    list=1.13,
    put=1.13,
    gigabyte_up=0.0032,
    gigabyte_down=0.0006,
    gigabyte_month=0.11,
)
GCS_STANDARD = Prices(
    "Google Cloud Storage Standard, us-east1", get=0.40, head=0.40, list=5.00, put=5.00, gigabyte_month=0.020
)
AZURE_HOT = Prices("Azure Blob hot, LRS, East US", get=0.50, head=0.50, list=6.50, put=6.50, gigabyte_month=0.018)
FREE = Prices("this machine")


def prices_of(name: str) -> Prices:
    """The table for a store's name: free on this machine, else S3 Standard as an estimate.

    Other clouds are in the same range; give `MeteredStore` a table of your own to be exact.
    """
    return FREE if name.startswith(("file://", "memory://")) else S3_STANDARD


@dataclass(frozen=True, slots=True)
class MeteredRequest:
    """One request: for a listing `key` is the prefix, for a bulk delete its first key.

    `error` is the class name of what was raised, empty if it succeeded.
    """

    kind: RequestKind
    key: str
    bytes_up: int
    bytes_down: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Totals; subtract an earlier one to see what happened between."""

    gets: int = 0
    heads: int = 0
    lists: int = 0
    puts: int = 0
    deletes: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    dollars: float = 0.0

    def dollars_at(self, prices: Prices) -> float:
        """What the same requests and bytes would cost by another price list."""
        counts = {
            RequestKind.GET: self.gets,
            RequestKind.HEAD: self.heads,
            RequestKind.LIST: self.lists,
            RequestKind.PUT: self.puts,
            RequestKind.DELETE: self.deletes,
        }
        requests = sum(prices.of_requests(kind, count) for kind, count in counts.items())
        return requests + prices.of_bytes(self.bytes_up, self.bytes_down)

    def __sub__(self, earlier: Usage) -> Usage:
        errors = {name: count - earlier.errors.get(name, 0) for name, count in self.errors.items()}
        return Usage(
            gets=self.gets - earlier.gets,
            heads=self.heads - earlier.heads,
            lists=self.lists - earlier.lists,
            puts=self.puts - earlier.puts,
            deletes=self.deletes - earlier.deletes,
            bytes_up=self.bytes_up - earlier.bytes_up,
            bytes_down=self.bytes_down - earlier.bytes_down,
            errors={name: count for name, count in errors.items() if count},
            dollars=self.dollars - earlier.dollars,
        )

    @property
    def requests(self) -> int:
        """Of all kinds."""
        return self.gets + self.heads + self.lists + self.puts + self.deletes


class MeteredStore(WrappedStore):
    """Counts what goes to the store inside.

    Ranges count as `coalesce` joins them, listings by page, bulk deletes by 1,000 keys.
    Calls that are refused before anything is sent do not count.
    """

    def __init__(
        self,
        inner: Store,
        *,
        prices: Prices | None = None,
        hook: Callable[[MeteredRequest], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`hook` is called after each request, in the caller's thread; what it raises is logged."""
        super().__init__(inner)
        self._prices = prices or prices_of(inner.name)
        self._hook = hook
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(RequestKind, 0)
        self._errors: dict[str, int] = {}
        self._bytes_up = 0
        self._bytes_down = 0
        self._waiting: dict[int, float] = {}
        """When each request began that is on its way."""
        self._number = counter()
        self._answered = -math.inf
        self._unanswered: float | None = None
        """When the first request began after which none was answered."""

    @property
    def silence(self) -> float:
        """For how many seconds the store was asked and has answered nothing; 0 if it answered the last request."""
        waiting = [*self._waiting.copy().values()]
        if self._unanswered is not None:
            waiting.append(self._unanswered)
        if not waiting:
            return 0.0
        return max(0.0, self._clock.monotonic() - max(min(waiting), self._answered))

    def mark(self) -> Usage:
        """Totals so far."""
        with self._lock:
            return self._usage(self._counts, self._bytes_up, self._bytes_down, dict(self._errors))

    def since(self, mark: Usage) -> Usage:
        """What was used after `mark`."""
        return self.mark() - mark

    def get(self, key: str) -> StoredObject:
        """The whole object; counts 1 GET."""
        with self._timed(RequestKind.GET, key) as call:
            found = self._inner.get(key)
            call.bytes_down = len(found.body)
        return found

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist; counts 1 GET, none for an empty span."""
        with self._timed(RequestKind.GET, key, len(coalesce([span]))) as call:
            body = self._inner.get_range(key, span)
            call.bytes_down = len(body)
        return body

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges; counts 1 GET for each span of `coalesce(spans)`, gaps included in the bytes."""
        joined = coalesce(spans)
        with self._timed(RequestKind.GET, key, len(joined)) as call:
            bodies = self._inner.get_ranges(key, spans)
            for whole in joined:
                ends = [
                    span.start + len(body)
                    for span, body in zip(spans, bodies, strict=True)
                    if body and whole.start <= span.start < whole.stop
                ]
                call.bytes_down += max(ends, default=whole.start) - whole.start
        return bodies

    def probe(self, key: str) -> Probe:
        """The object or None; counts 1 GET."""
        with self._timed(RequestKind.GET, key) as call:
            probe = self._inner.probe(key)
            call.bytes_down = len(probe.found.body) if probe.found else 0
        return probe

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version; counts 1 HEAD."""
        with self._timed(RequestKind.HEAD, key):
            return self._inner.head(key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder; counts 1 LIST a page, when the page is taken."""
        pages = self._inner.list(prefix, after=after, delimiter=delimiter)
        is_first = True
        while True:
            with self._timed(RequestKind.LIST, prefix) as call:
                page = next(pages, None)
                # The end is told by the last page; only a listing without any page asked for it.
                call.count = 1 if page is not None or is_first else 0
            if page is None:
                return
            is_first = False
            yield page

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write; counts 1 PUT."""
        with self._timed(RequestKind.PUT, key) as call:
            call.bytes_up = len(body)
            return self._inner.put(key, body, precondition, content_type=content_type)

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write; counts 1 PUT, or 1 for each part and 2 more if there are several."""
        parts = -(-source.size // UPLOAD_PART_BYTES)
        with self._timed(RequestKind.PUT, key, parts + 2 if parts > 1 else 1) as call:
            call.bytes_up = source.size
            self._inner.upload(key, source, content_type=content_type)

    def delete(self, key: str) -> None:
        """Remove the object; counts 1 DELETE."""
        with self._timed(RequestKind.DELETE, key):
            self._inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects; counts 1 DELETE for each 1,000."""
        with self._timed(RequestKind.DELETE, keys[0] if keys else "", -(-len(keys) // DELETE_MANY_KEYS)):
            self._inner.delete_many(keys)

    def _timed(self, kind: RequestKind, key: str, count: int = 1) -> _OpenRequest:
        """A request, as a block from its beginning to its end."""
        self._lifetime.check()
        call = _OpenRequest(self, kind, key, count, next(self._number), self._clock.monotonic())
        self._waiting[call.number] = call.begun
        if tracing.tracer is not None:
            call.span = tracing.tracer.request(kind.value, key)
        return call

    def end(self, call: _OpenRequest, error: BaseException | None) -> None:
        """Note how a request ended; one that was refused before anything was sent does not count."""
        self._waiting.pop(call.number, None)
        if isinstance(error, InvalidRequestError | ClosedError):
            if call.span is not None:
                call.span.end(type(error).__name__, 0, 0, 0)
            return
        now = self._clock.monotonic()
        if not isinstance(error, UnavailableError | OutcomeUnknownError):
            self._answered, self._unanswered = now, None
        elif self._unanswered is None:
            self._unanswered = call.begun
        if error is not None:
            # What fails, fails at its first request as far as we can tell.
            call.count = min(call.count, 1)
        name = "" if error is None else type(error).__name__
        with self._lock:
            self._counts[call.kind] += call.count
            self._bytes_up += call.bytes_up
            self._bytes_down += call.bytes_down
            if name:
                self._errors[name] = self._errors.get(name, 0) + 1
        if call.span is not None:
            call.span.end(name, call.bytes_up, call.bytes_down, call.count)
        if self._hook is not None:
            self._tell(self._hook, call, now - call.begun, name)

    @staticmethod
    def _tell(hook: Callable[[MeteredRequest], None], call: _OpenRequest, seconds: float, error: str) -> None:
        for number in range(call.count):
            # The bytes of a call of several requests are told with the first of them.
            up, down = (call.bytes_up, call.bytes_down) if number == 0 else (0, 0)
            try:
                hook(MeteredRequest(call.kind, call.key, up, down, seconds / call.count, error))
            except Exception:
                # The request is over and counts: a watcher that stumbles must not turn a write that
                # landed into one that seems to have failed.
                import logging

                logging.getLogger(__name__).exception("the hook for requests raised")

    def _usage(self, counts: Mapping[RequestKind, int], up: int, down: int, errors: dict[str, int]) -> Usage:
        dollars = sum(self._prices.of_requests(kind, count) for kind, count in counts.items())
        return Usage(
            gets=counts[RequestKind.GET],
            heads=counts[RequestKind.HEAD],
            lists=counts[RequestKind.LIST],
            puts=counts[RequestKind.PUT],
            deletes=counts[RequestKind.DELETE],
            bytes_up=up,
            bytes_down=down,
            errors=errors,
            dollars=dollars + self._prices.of_bytes(up, down),
        )


class _OpenRequest:
    """A request from its beginning to its end, as a block; what is known of it is filled in on the way."""

    __slots__ = ("begun", "bytes_down", "bytes_up", "count", "key", "kind", "number", "span", "store")

    def __init__(self, store: MeteredStore, kind: RequestKind, key: str, count: int, number: int, begun: float) -> None:
        self.store, self.kind, self.key, self.count = store, kind, key, count
        self.number, self.begun = number, begun
        self.bytes_up = self.bytes_down = 0
        self.span: RequestSpan | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.end(self, error)
