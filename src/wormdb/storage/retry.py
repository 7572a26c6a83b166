"""Bounded retry of calls that may be repeated: full jitter, a budget shared by all of them, and the call's deadline.

What may be repeated: reads, deletes, and a put with `Always` (also when its outcome is
unknown, for then it writes the same bytes again). A put with IfAbsent or IfMatch is never
repeated here: a second answer would speak about the first attempt. `readback` handles those.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.settings import RETRY_ATTEMPTS_MAX, RETRY_DELAY_SECONDS_MAX
from wormdb.storage.store import OCTETS, Always, Store, WrappedStore
from wormdb.system.deadline import Deadline, begin, current, end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    from wormdb.system.clock import Chance, Clock

__all__ = ["RetryBudget", "RetryingStore"]

T = TypeVar("T")

_Kinds = tuple[type[UnavailableError | OutcomeUnknownError], ...]
_READS: _Kinds = (UnavailableError,)
_WRITES: _Kinds = (UnavailableError, OutcomeUnknownError)

DELAY_SECONDS_FIRST = 0.05
PATIENT_SECONDS_MAX = 1.0
"""Between two tries of a call that goes on until its deadline: it should notice soon that the store is back."""


class RetryBudget:
    """Tokens that retries cost and successes give back slowly, so that a store in trouble is left alone.

    With the defaults a healthy process has 100 retries in hand, and in a lasting outage
    sends at most one retry for every ten requests that succeed.
    """

    def __init__(self, capacity: float = 100.0, *, cost: float = 1.0, refill: float = 0.1) -> None:
        """Full at the start; a retry takes `cost`, a success gives `refill`."""
        self._capacity = capacity
        self._cost = cost
        self._refill = refill
        self._tokens = capacity
        self._lock = threading.Lock()

    @property
    def tokens(self) -> float:
        """What is left."""
        return self._tokens

    def take(self) -> bool:
        """Pay for one retry; False if too little is left."""
        with self._lock:
            if self._tokens < self._cost:
                return False
            self._tokens -= self._cost
            return True

    def succeed(self) -> None:
        """Note a request that succeeded."""
        if self._tokens < self._capacity:
            with self._lock:
                self._tokens = min(self._capacity, self._tokens + self._refill)


class RetryingStore(WrappedStore):
    """Repeats unconditional calls on UnavailableError, at most `attempts` times, while the budget lasts.

    For a patient call (a commit), until its deadline.
    """

    def __init__(
        self,
        inner: Store,
        *,
        clock: Clock,
        chance: Chance,
        attempts: int = RETRY_ATTEMPTS_MAX,
        budget: RetryBudget | None = None,
        seconds: float | None = None,
    ) -> None:
        """Give several stores one `budget` to share it. A verb outside of any call has `seconds`, tries included."""
        super().__init__(inner)
        self._clock = clock
        self._chance = chance
        self._attempts = attempts
        self._budget = budget or RetryBudget()
        self._seconds = seconds

    def get(self, key: str) -> StoredObject:
        """The whole object. 1 GET an attempt."""
        return self._repeat(self._inner.get, key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist. 1 GET an attempt."""
        return self._repeat(self._inner.get_range, key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges; a retry asks for all of them again."""
        return self._repeat(self._inner.get_ranges, key, spans)

    def probe(self, key: str) -> Probe:
        """The object or None; the time is that of the answer which came. 1 GET an attempt."""
        return self._repeat(self._inner.probe, key)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version. 1 HEAD an attempt."""
        return self._repeat(self._inner.head, key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder; a listing that broke off goes on after the last name seen."""
        seen = after
        pages = self._inner.list(prefix, after=seen, delimiter=delimiter)
        attempt = 1
        while True:
            try:
                page = self._repeat(next, pages, None, kinds=())
            except UnavailableError:
                if not self._pause(attempt):
                    raise
                attempt += 1
                pages = self._inner.list(prefix, after=seen, delimiter=delimiter)
                continue
            if page is None:
                return
            attempt = 1
            last = [*page.prefixes[-1:], *(info.key for info in page.objects[-1:])]
            seen = max(last) if last else seen
            yield page

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write; repeated only with `Always`, then also after a lost answer. 1 PUT an attempt.

        A lost attempt that lands late writes these bytes once more, perhaps over a later
        write: use `Always` where the last writer may win in any order.
        """
        write = partial(self._inner.put, key, body, precondition, content_type=content_type)
        return self._repeat(write, kinds=_WRITES if isinstance(precondition, Always | None) else ())

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write; repeated from the beginning, also after a lost answer."""
        self._repeat(partial(self._inner.upload, key, source, content_type=content_type), kinds=_WRITES)

    def delete(self, key: str) -> None:
        """Remove the object if it is there. 1 DELETE an attempt."""
        self._repeat(self._inner.delete, key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects; a retry asks for all of them again."""
        self._repeat(self._inner.delete_many, keys)

    def _repeat(self, call: Callable[..., T], *arguments: object, kinds: _Kinds = _READS) -> T:
        """What `call` brings, tried again after errors of these kinds. Outside of any call it is one of its own."""
        deadline = current()
        if deadline is None and self._seconds is not None:
            token = begin(Deadline(self._clock, self._seconds, "read_seconds"))
            try:
                return self._repeat(call, *arguments, kinds=kinds)
            finally:
                end(token)
        attempt = 0
        while True:
            attempt += 1
            try:
                result = call(*arguments)
            except kinds:
                if not self._pause(attempt):
                    raise
                continue
            except _WRITES:
                raise
            except WormError:
                # The store answered, if only with a refusal.
                if deadline is not None:
                    deadline.answered()
                raise
            if deadline is not None:
                deadline.answered()
            self._budget.succeed()
            return result

    def _pause(self, attempt: int) -> bool:
        """Wait before the attempt after `attempt`; False if there shall be none.

        A call that has promised to go on until its deadline does so, slowly where the budget is spent.
        """
        deadline = current()
        if deadline is not None and deadline.left <= 0:
            return False
        is_patient = deadline is not None and deadline.is_patient
        if attempt >= self._attempts and not is_patient:
            return False
        is_paid = self._budget.take()
        if not is_paid and not is_patient:
            return False
        ceiling = min(RETRY_DELAY_SECONDS_MAX, DELAY_SECONDS_FIRST * 2 ** min(attempt, 20))
        if is_patient:
            ceiling = min(ceiling, PATIENT_SECONDS_MAX) if is_paid else PATIENT_SECONDS_MAX
        pause = ceiling * self._chance.fraction()
        self._clock.sleep(pause if deadline is None else min(pause, deadline.left))
        return True
