"""One question to one state of a collection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from wormdb.document import with_id
from wormdb.engine.moments import view_at
from wormdb.errors import SnapshotTooOldError
from wormdb.query import run as query
from wormdb.query.aggregate import aggregate
from wormdb.query.engine_source import EngineSource
from wormdb.query.past_source import PastSource
from wormdb.query.tabulate import tabulate
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wormdb.access import Access
    from wormdb.asking import Asked
    from wormdb.bql.aggregation import Aggregation
    from wormdb.engine.moments import AsOf
    from wormdb.engine.portion import Portion
    from wormdb.engine.state import View
    from wormdb.query.explain import Explained
    from wormdb.query.plan_cache import PlanCache
    from wormdb.query.request import Request
    from wormdb.query.run import Hit
    from wormdb.query.source import Source
    from wormdb.schema.model import Model

__all__ = ["Reading", "State", "open_state"]

T = TypeVar("T")
R = TypeVar("R")

_RESTARTS_MAX: Final = 2
"""How often a query whose state is gone begins again with a new one."""


@dataclass(frozen=True, slots=True)
class State(Generic[T]):
    """One state of a collection that does not move."""

    access: Access[T]
    view: View
    source: Source
    number: LogNumber
    """The log number that made it; 0 if only its time is known."""

    @property
    def model(self) -> Model | None:
        """The caller's own model, because its fields have an order; what it says is what the database says."""
        return self.access.writer.model or self.view.definition.model

    def hits(self, request: Request) -> Iterator[Hit]:
        """The rows of an answer. Costs what its plan costs."""
        return query.run(request, self.source, cache=self._cache, clock=self.access.context.clock)

    def count(self, request: Request) -> int:
        """How many rows an answer has."""
        return query.count(request, self.source, cache=self._cache, clock=self.access.context.clock)

    def aggregate(self, aggregation: Aggregation, request: Request) -> dict[str, Any]:
        """The result of an aggregation over the rows of an answer."""
        return aggregate(aggregation, request, self.source, cache=self._cache, clock=self.access.context.clock)

    def tabulate(self, request: Request, paths: Collection[str]) -> Iterator[Portion | list[Hit]]:
        """The rows of an answer, as portions where columns tell all of `paths`."""
        return tabulate(request, self.source, paths, cache=self._cache, clock=self.access.context.clock)

    def explain(self, request: Request, *, analyze: bool) -> Explained:
        """How a request is answered; with `analyze` it is, and what that took is measured."""
        context = self.access.context
        return query.explain(
            request, self.source, cache=self._cache, analyze=analyze, meter=context.usage, clock=context.clock
        )

    @property
    def _cache(self) -> PlanCache | None:
        # A state that only history tells has no indexes, so choices made for others are none for it.
        return self.access.plans if isinstance(self.source, EngineSource) else None


def open_state(access: Access[T], moment: AsOf | None, *, is_fresh: bool = False) -> State[T]:
    """The state now, or of a moment. 1 GET in a warm process.

    With `is_fresh` the store is asked, whatever the settings allow. Raises SchemaMismatchError; InvalidRequestError for
    a moment to come, SnapshotTooOldError for one before history.
    """
    if moment is None:
        view = access.present() if is_fresh else access.view()
        return State(access, view, EngineSource.of(view, access.ledger), view.number)
    present = access.present()
    then = view_at(present, moment)
    if then is not None:
        return State(access, then, EngineSource.of(then, access.ledger), then.number)
    source = PastSource(present, access.history(present), moment)
    return State(access, present, source, LogNumber(0 if moment.is_time else moment.bound))


class Reading(Generic[T]):
    """A question, and the state that answers it: read when it is first needed, and kept from then on."""

    def __init__(self, access: Access[T], asked: Asked, state: State[T] | None = None) -> None:
        """No requests."""
        self.access = access
        self.asked = asked
        self._state = state
        self._is_shown = False

    @property
    def state(self) -> State[T]:
        """The state. 1 GET at the first call."""
        if self._state is None:
            self._state = open_state(self.access, self.asked.moment)
        return self._state

    def request(self) -> Request:
        """The request, with its deadline if time is limited."""
        seconds = self.asked.timeout_seconds
        if seconds is None:
            return self.asked.request
        return replace(self.asked.request, deadline=self.access.context.clock.monotonic() + seconds)

    def hits(self, request: Request | None = None) -> Iterator[Hit]:
        """The rows; of a new state if this one is gone before any row of it was shown."""
        asked = request or self.request()
        rows, first = self.attempt(lambda state: _begun(state.hits(asked)))
        if first is not None:
            self._is_shown = True
            yield first
            yield from rows

    def show(self, hit: Hit) -> Any:
        """A row as callers see it: a document in their type, or a plain dict if it is no whole document."""
        if self.asked.is_plain:
            return with_id(hit.document)
        assert hit.held is not None, "without a projection documents are whole"
        writer = self.access.writer
        if self.asked.is_past:
            return writer.show_past(hit.held)
        return writer.show(hit.held, self.state.number, hit.document)

    def attempt(self, read: Callable[[State[T]], R]) -> R:
        """What `read` makes of the state; of a new state if this one is gone and nobody saw anything of it."""
        for _ in range(_RESTARTS_MAX):
            state = self.state
            try:
                return read(state)
            except SnapshotTooOldError:
                if self._is_shown:
                    raise
                self._state = open_state(self.access, self.asked.moment, is_fresh=True)
        return read(self.state)


def _begun(hits: Iterator[Hit]) -> tuple[Iterator[Hit], Hit | None]:
    return hits, next(hits, None)
