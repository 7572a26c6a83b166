"""One question to one state of a collection, or to files that have no states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from wormdb.api.access import NOW
from wormdb.api.document import SelectedRow, show_text, with_id
from wormdb.api.options import check_query
from wormdb.bql.places import placed
from wormdb.engine.columns.scan import portions_of
from wormdb.engine.state.upgrade import NO_UPGRADES
from wormdb.errors import InvalidRequestError, SnapshotTooOldError
from wormdb.format import json
from wormdb.query.execute import answer
from wormdb.query.sources.ahead import prepare_ranking
from wormdb.query.sources.engine import EngineSource
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from wormdb.api.access import Access, Freshness
    from wormdb.api.options import CheckedQuery, WrittenFilter
    from wormdb.bql.aggregation import Aggregation
    from wormdb.bql.search.rank import Search
    from wormdb.bql.search.search import SearchQuery
    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.state.moments import AsOf
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.files.foreign.answer import ForeignAnswer
    from wormdb.query.execute.answer import Hit, RankedRows
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.planner.cache import PlanCache
    from wormdb.query.request import QueryRequest
    from wormdb.query.sources.source import QuerySource
    from wormdb.schema.model import Model

__all__ = ["Aggregator", "AnyState", "FileState", "LogState", "QueryRun", "open_state", "tell_aggregated"]

T = TypeVar("T")
R = TypeVar("R")

_NO_NUMBER: Final = LogNumber(-1)
"""Of what has no log."""

_RESTARTS_MAX: Final = 2
"""How often a query whose state is gone begins again with a new one."""


@dataclass(frozen=True, slots=True)
class LogState(Generic[T]):
    """One state of a collection that does not move."""

    access: Access[T]
    view: View
    source: QuerySource
    number: LogNumber
    """The log number that made it; 0 if only its time is known."""

    @property
    def model(self) -> Model | None:
        """The caller's own model, because its fields have an order; what it says is what the database says."""
        return self.access.writer.model or self.view.definition.model

    def hits(self, request: QueryRequest) -> Iterator[Hit]:
        """The rows of an answer. Costs what its plan costs."""
        access, source = self.access, self.source
        cache = access.plans if type(source) is EngineSource else None
        return answer.run(request, source, cache=cache, clock=access.clock)

    def ranked(self, request: QueryRequest, *, with_hits: bool = True) -> Iterator[RankedRows]:
        """The rows of an answer with scores, in parts. Costs what its plan costs."""
        return answer.run_ranked(request, self.source, cache=self._cache, clock=self.access.clock, with_hits=with_hits)

    def is_planned_alike(self, request: QueryRequest) -> bool:
        """Whether a request has the same plan for its first rows as for all of them. No requests."""
        return answer.is_planned_alike(request, self.source, cache=self._cache)

    def count(self, request: QueryRequest) -> int:
        """How many rows an answer has."""
        return answer.count(request, self.source, cache=self._cache, clock=self.access.clock)

    def aggregate(self, aggregation: Aggregation, request: QueryRequest) -> dict[str, Any]:
        """The result of an aggregation over the rows of an answer."""
        return answer.aggregate(aggregation, request, self.source, cache=self._cache, clock=self.access.clock)

    def tabulate(self, request: QueryRequest, paths: Collection[str]) -> Iterator[Portion | list[Hit]]:
        """The rows of an answer, as portions where columns tell all of `paths`."""
        return answer.tabulate(request, self.source, paths, cache=self._cache, clock=self.access.clock)

    def explain(self, request: QueryRequest, *, analyze: bool) -> Explanation:
        """How a request is answered; with `analyze` it is, and what that took is measured."""
        return answer.explain(
            request,
            self.source,
            cache=self._cache,
            analyze=analyze,
            meter=self.access.home.usage,
            clock=self.access.clock,
        )

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """The live documents under some keys of ids."""
        return self.source.fetch(keys)

    def search(self, query: SearchQuery) -> Search:
        """What a text search means in this state. No requests; raises InvalidRequestError."""
        from wormdb.query.execute.search import resolve_search

        return resolve_search(query, self.source.facts)

    def portions(self, rows: Iterable[StoredVersion], names: Sequence[str]) -> Iterator[Portion]:
        """Columns of rows that are there already. No requests."""
        return portions_of(self.view, rows, names)

    def show(self, hits: Sequence[Hit], *, is_past: bool) -> list[T]:
        """Rows as documents in the caller's type; those of the past are copies."""
        writer = self.access.writer
        if is_past:
            return [writer.show_past(_held(hit)) for hit in hits]
        return writer.show_all(hits, self.number)

    @property
    def _cache(self) -> PlanCache | None:
        # A state that only history tells has no indexes, so choices made for others are none for it.
        return self.access.plans if isinstance(self.source, EngineSource) else None


@dataclass(frozen=True, slots=True)
class NotedState(LogState[T]):
    """The state of a transaction, which notes what is read of it."""

    def _note(self, request: QueryRequest) -> None:
        assert self.access.session is not None, "only states of transactions are noted"
        # The scores of a search depend on every document.
        self.access.session.note(request.filter if request.search is None else None)

    def hits(self, request: QueryRequest) -> Iterator[Hit]:
        """As `LogState`."""
        self._note(request)
        return LogState.hits(self, request)

    def ranked(self, request: QueryRequest, *, with_hits: bool = True) -> Iterator[RankedRows]:
        """As `LogState`."""
        self._note(request)
        return LogState.ranked(self, request, with_hits=with_hits)

    def count(self, request: QueryRequest) -> int:
        """As `LogState`."""
        self._note(request)
        return LogState.count(self, request)

    def aggregate(self, aggregation: Aggregation, request: QueryRequest) -> dict[str, Any]:
        """As `LogState`."""
        self._note(request)
        return LogState.aggregate(self, aggregation, request)

    def tabulate(self, request: QueryRequest, paths: Collection[str]) -> Iterator[Portion | list[Hit]]:
        """As `LogState`."""
        self._note(request)
        return LogState.tabulate(self, request, paths)

    def explain(self, request: QueryRequest, *, analyze: bool) -> Explanation:
        """As `LogState`."""
        self._note(request)
        return LogState.explain(self, request, analyze=analyze)

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """As `LogState`: if one of them is not there, any document that comes may be it."""
        found = LogState.fetch(self, keys)
        session = self.access.session
        assert session is not None, "only states of transactions are noted"
        for held in found.values():
            session.read(held.id)
        if len(found) < len(set(keys)):
            session.note(None)
        return found


@dataclass(frozen=True, slots=True)
class FileState(Generic[T]):
    """Files that another program keeps: they have no states, and are read as they are."""

    access: Access[T]
    answer: ForeignAnswer
    number: LogNumber = _NO_NUMBER

    @property
    def model(self) -> Model | None:
        """The caller's model: nothing else says what the files are."""
        return self.access.writer.model

    def hits(self, request: QueryRequest) -> Iterator[Hit]:
        """The rows of an answer. Costs what its strategy costs."""
        # Their texts are as the other program wrote them: what callers see is made of the values.
        return self.answer.hits(replace(request, is_raw=False) if request.is_raw else request)

    def ranked(self, request: QueryRequest, *, with_hits: bool = True) -> Iterator[RankedRows]:  # noqa: ARG002 - they always are there
        """The rows of an answer with scores, one by one. Costs what its strategy costs."""
        return (answer.RankedRows(answer.scores_of((hit,)), [hit]) for hit in self.hits(request))

    def count(self, request: QueryRequest) -> int:
        """How many rows an answer has."""
        return self.answer.count(request)

    def aggregate(self, aggregation: Aggregation, request: QueryRequest) -> dict[str, Any]:
        """The result of an aggregation over the rows of an answer."""
        return self.answer.aggregate(aggregation, request)

    def tabulate(self, request: QueryRequest, paths: Collection[str]) -> Iterator[Portion | list[Hit]]:
        """The rows of an answer, as portions where columns tell all of `paths`."""
        return self.answer.tabulate(request, paths)

    def explain(self, request: QueryRequest, *, analyze: bool) -> Explanation:
        """How a request is answered; with `analyze` it is, and what that took is measured."""
        return self.answer.explain(request, analyze=analyze, meter=self.access.home.usage)

    def search(self, query: SearchQuery) -> Search:
        """What a text search means. No requests; raises InvalidRequestError if it names no fields."""
        from wormdb.query.execute.search import resolve_search
        from wormdb.query.sources.source import Facts

        return resolve_search(query, Facts())

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """The documents under some keys of ids. 1 GET each."""
        return self.answer.fetch(keys)

    def portions(self, rows: Iterable[StoredVersion], names: Sequence[str]) -> Iterator[Portion]:
        """Columns of rows that are there already. No requests."""
        return self.answer.portions(rows, names)

    def show(self, hits: Sequence[Hit], *, is_past: bool) -> list[T]:  # noqa: ARG002 - they always are copies
        """Rows as documents in the caller's type: copies, which cannot be saved here."""
        return [self.access.writer.show_past(_held(hit), hit.document) for hit in hits]


AnyState: TypeAlias = LogState[T] | FileState[T]


def open_state(
    access: Access[T],
    moment: AsOf | None,
    freshness: Freshness | None = None,
    *,
    as_shown: bool = False,
    request: QueryRequest | None = None,
) -> AnyState[T]:
    """The state now or one that is as new as told, or of a moment. 1 GET in a warm process; none for files.

    What a `request` for a ranking needs of the root is read beside the log by a process that has to read the root.
    Documents of a moment are as they were written;
    with `as_shown`, for an entry of the log, as a reader saw them then, mapped to the version of that time. Raises
    SchemaMismatchError; InvalidRequestError for a moment to come, SnapshotTooOldError for one before history.
    """
    files = None if access.readonly is None else access.files
    if files is not None:
        if moment is not None and moment.bound != _NO_NUMBER:
            raise InvalidRequestError(
                f"{access.name} as of {moment}",
                reason="another program keeps its files, which have no past",
                fix="take it over with worm adopt",
            )
        return FileState(access, files.answer())
    if moment is None:
        first = None
        if request is not None and request.near is not None:
            first = partial(prepare_ranking, ledger=access.ledger, request=request)
        view = access.view(freshness, first)
        if access.session is not None:
            return NotedState(access, view, EngineSource(view, access.ledger), view.number)
        return LogState(access, view, EngineSource(view, access.ledger), view.number)
    present = access.present()
    from wormdb.engine.state.moments import view_at  # the present is asked for more often than the past
    from wormdb.query.sources.past import PastSource

    then = view_at(present, moment)
    if then is not None:
        return LogState(access, then, EngineSource(then, access.ledger), then.number)
    upgrades = present.definition.upgrades.through(moment.bound) if as_shown else NO_UPGRADES
    # A cursor goes on where it began, whatever readers of the past are shown.
    history = access.ledger.history(present) if as_shown else access.history(present)
    source = PastSource(present, history, moment, upgrades)
    return LogState(access, present, source, LogNumber(0 if moment.is_time else moment.bound))


class QueryRun(Generic[T]):
    """A question, and the state that answers it: read when it is first needed, and kept from then on."""

    def __init__(self, access: Access[T], query: CheckedQuery, state: AnyState[T] | None = None) -> None:
        """No requests."""
        self.access = access
        self.query = query
        self._state = state
        self._is_shown = False

    @property
    def state(self) -> AnyState[T]:
        """The state. 1 GET at the first call."""
        if self._state is None:
            query = self.query
            self._state = open_state(
                self.access, query.moment, query.freshness, as_shown=not query.is_past, request=query.request
            )
        return self._state

    def behind(self, order: bytes | None) -> QueryRun[T]:
        """The same question to the same state, for the rows behind one in its order. No requests."""
        query = replace(self.query, request=replace(self.query.request, after=order))
        return QueryRun(self.access, query, self._state)

    def is_planned_alike(self) -> bool:
        """Whether the first rows come by the same plan as all of them; files have one. No requests once it has rows."""
        state = self.state
        return not isinstance(state, LogState) or state.is_planned_alike(self.query.request)

    def request(self) -> QueryRequest:
        """The request, with its deadline if time is limited."""
        seconds = self.query.timeout_seconds
        if seconds is None:
            return self.query.request
        return replace(self.query.request, deadline=self.access.clock.monotonic() + seconds)

    def hits(self, request: QueryRequest | None = None) -> Iterator[Hit]:
        """The rows; of a new state if this one is gone before any row of it was shown."""
        return chain.from_iterable(self._begun(request or self.request()))

    def _begun(self, request: QueryRequest) -> Iterator[Iterable[Hit]]:
        def begin(state: AnyState[T]) -> tuple[Iterator[Hit], Hit | None]:
            hits = state.hits(request)
            return hits, next(hits, None)

        rows, first = self.attempt(begin)
        if first is not None:
            self._is_shown = True
            yield (first,)
            yield rows

    def scored(self, request: QueryRequest) -> Iterator[Iterable[tuple[Any, float]]]:
        """The rows of a request with scores as `show` has them, each with its score, in parts; else as `hits`."""
        # Rows of ids are made here, unless there is more to them than `SelectedRow` shows.
        with_hits = self.query.is_raw or bool(self.query.scores)

        def begin(state: AnyState[T]) -> tuple[Iterator[RankedRows], RankedRows | None]:
            parts = state.ranked(request, with_hits=with_hits)
            return parts, next(parts, None)

        parts, part = self.attempt(begin)
        while part is not None:
            self._is_shown = True
            rows = self.show(part.hits) if part.ids is None else [SelectedRow(id=identity) for identity in part.ids]
            yield zip(rows, part.scores, strict=True)
            part = next(parts, None)

    def show(self, hits: Sequence[Hit]) -> list[Any]:
        """Rows as callers see them: documents in their type, plain dicts if they are parts of documents, or JSON."""
        if self.query.is_raw:
            return [json.encode(self._with_scores(hit)) if hit.text is None else show_text(hit.text) for hit in hits]
        if self.query.scores:
            return [SelectedRow(self._with_scores(hit)) for hit in hits]
        if self.query.request.projection is not None or self.query.populate:
            return [SelectedRow(with_id(hit.document)) for hit in hits]
        return (self._state or self.state).show(hits, is_past=self.query.is_past)

    def _with_scores(self, hit: Hit) -> dict[str, Any]:
        document = hit.document
        for path in self.query.scores:
            document = placed(document, path, hit.score)
        return with_id(document)

    @property
    def skipped(self) -> dict[str, str]:
        """By key why each broken file was passed over so far. No requests."""
        return self._state.answer.skipped if isinstance(self._state, FileState) else {}

    def attempt(self, read: Callable[[AnyState[T]], R]) -> R:
        """What `read` makes of the state; of a new state if this one is gone and no row of it was shown."""
        for _ in range(_RESTARTS_MAX):
            state = self.state
            try:
                return read(state)
            except SnapshotTooOldError as error:
                if self._is_shown or not isinstance(state, LogState):
                    raise
                self.access.renew(state.view, error)
                self._state = open_state(self.access, self.query.moment, NOW, as_shown=not self.query.is_past)
        return read(self.state)


def _held(hit: Hit) -> StoredVersion:
    assert hit.held is not None, "without a projection documents are whole"
    return hit.held


# --- Aggregations of one collection: functions over what a filter finds, in groups or of all together.

# ruff: noqa: A002 - `filter` is the name that users know


def tell_aggregated(access: Access[Any], aggregation: Aggregation) -> None:
    """Tell of fields of an aggregation that are probably misspelt. Raises InvalidRequestError. No requests."""
    from wormdb.api.names import tell_unknown_paths
    from wormdb.bql.aggregation import aggregation_fields

    paths = (tuple(name.split(".")) for name in sorted(aggregation_fields(aggregation)))
    tell_unknown_paths(access.writer.model, paths, access.settings.unknown_fields)


@dataclass(frozen=True, slots=True)
class Aggregator(Generic[T]):
    """Counts and sums documents of one collection."""

    access: Access[T]

    def aggregate(
        self, functions: Mapping[str, Any], filter: WrittenFilter, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The result of `parse_aggregation(functions)` over what a filter finds. Raises as `Collection.aggregate`."""
        from wormdb.bql.aggregation import parse_aggregation

        aggregation = parse_aggregation(functions)
        tell_aggregated(self.access, aggregation)
        run = QueryRun(self.access, check_query(self.access, filter, options))
        request = run.request()
        return run.attempt(lambda state: state.aggregate(aggregation, request))

    def distinct(self, field: str, filter: WrittenFilter, options: Mapping[str, Any]) -> list[Any]:
        """The different values of a field. Raises as `Collection.distinct`."""
        if not isinstance(field, str):
            raise InvalidRequestError(
                f"distinct({field!r:.60}) of {self.access.name}",
                reason="it must be a string",
                fix='name one field: "city"',
            )
        found: list[Any] = self.aggregate({"distinct": field}, filter, options)["distinct"]
        return found
