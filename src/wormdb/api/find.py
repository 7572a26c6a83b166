"""The reading methods of `Collection`: documents by id, queries, numbers, cursors.

The first call imports what answers it, so that a program that only gets and saves documents does not wait for it.
"""

# ruff: noqa: A002 - filter, sum, min and max are the names that users know

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from wormdb.api.calls import reads
from wormdb.api.document import show_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from wormdb.api.access import Access
    from wormdb.api.cursor import Cursor
    from wormdb.api.history import CollectionHistory
    from wormdb.api.options import FindOneOptions, FindOptions, Moment, WrittenFilter, WrittenSelect
    from wormdb.api.query import Query
    from wormdb.api.read import Aggregator
    from wormdb.api.results import Results
    from wormdb.bql.sorting import WrittenSort
    from wormdb.bql.stages import WrittenStages
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.request import Strategy

    Names = str | Sequence[str] | None

__all__ = ["QueryMethods"]

T = TypeVar("T")


class QueryMethods(Generic[T]):
    """Queries. Filters are mappings as in MongoDB, or text as on the command line; `id` and `_id` are the same field.

    An answer never depends on indexes, columns or plans: they only make it cheaper.
    """

    _access: Access[T]

    def __init__(self, access: Access[T]) -> None:
        """No requests."""
        self._access = access

    @property
    def source(self) -> Literal["log", "files"]:
        """What it is read from: its log, or files that another program keeps.

        Only a model in mode readonly can be of files; of that it costs 2 GETs at the first call.
        """
        return "log" if self._access.files is None else "files"

    @property
    def _recall(self) -> CollectionHistory[T]:
        from wormdb.api.history import CollectionHistory

        return CollectionHistory(self._access)

    @property
    def token(self) -> str:
        """What this process has read and written of the collection so far, for `at_least` here or elsewhere.

        Text that is safe in URLs. No requests.
        """
        from wormdb.api.options import state_token

        return state_token(self._access.ledger.collection, self._access.ledger.seen)

    @reads
    def refresh(self) -> int:
        """Learn the newest state; its log number, 0 if there is no such collection. 1 GET, shared by threads.

        Reads with `at_least` this number then make no request for the log. Of files of another program -1.
        """
        return -1 if self._access.files is not None else self._access.present().number

    def with_options(self, *, at_least: int | str | None = None, stale_ms: float | None = None) -> Self:
        """A handle of the same collection whose reads need not see the newest state. No requests.

        They see any state from the log number or token `at_least` on, that was the newest at most `stale_ms` ago; a
        call may say something else. Without either, the newest. What is written is checked against the newest state.
        Raises InvalidRequestError for a token that is damaged or of another collection.
        """
        from wormdb.api.access import NOW
        from wormdb.api.options import check_freshness

        freshness = check_freshness(self._access, at_least, stale_ms) or NOW
        return type(self)(replace(self._access, freshness=freshness))

    # --- rows ---

    @overload
    def find_by_id(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        raw: Literal[False] = False,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    def find_by_id(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        raw: Literal[True],
        timeout: float | None = None,
    ) -> bytes | None: ...

    @reads
    def find_by_id(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        raw: bool = False,
        timeout: float | None = None,
    ) -> T | bytes | None:
        """The document with this id, or None. 1 GET in a warm process; of the past as `get_history`.

        One of the past is a copy, with the `rev` and `seq` it had: saving it replaces what is there now. With `raw` it
        is the document's JSON as bytes, as it is stored and with `id` first.
        """
        freshness = None
        if at_least is not None or stale_ms is not None:
            from wormdb.api.options import check_freshness

            freshness = check_freshness(self._access, at_least, stale_ms, as_of)
        elif as_of is not None:
            past = self._recall.at(identity, as_of)
            if past is None or raw:
                return None if past is None else show_text(past.document or b"")
            return self._access.writer.show_past(past)
        return self._access.find_text(identity, freshness) if raw else self._access.find(identity, freshness)

    @reads
    def exists(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Whether there is a document with this id. 1 GET in a warm process; of the past as `get_history`."""
        if at_least is not None or stale_ms is not None:
            from wormdb.api.options import check_freshness

            return self._access.has(identity, check_freshness(self._access, at_least, stale_ms, as_of))
        if as_of is not None:
            return self._recall.at(identity, as_of) is not None
        return self._access.has(identity)

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: None = None,
        **options: Unpack[FindOptions],
    ) -> Results[T]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter,
        select: WrittenSelect,
        *,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> Results[dict[str, Any]]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        *,
        select: WrittenSelect,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> Results[dict[str, Any]]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: str | Sequence[str],
        **options: Unpack[FindOptions],
    ) -> Results[dict[str, Any]]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: Literal[True],
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> Results[bytes]: ...

    def find(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: bool = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> Results[Any]:
        """What a filter finds, lazily: nothing is asked before rows are wanted. See `FindOptions` for the options.

        With `select`, names or a projection, rows are plain dicts with `id` and these parts. With `populate`, names of
        refs of the model, they are plain dicts with the documents that the refs lead to in their places: one batched
        read for each 1,000 rows, None where there is no such document. With `raw` each row is its JSON as bytes, with
        `id` first: whole documents as they are stored, without decoding. Raises InvalidRequestError with every mistake.
        """
        return self._results(filter, {"select": select, "populate": populate, "raw": raw or None, **options})

    @overload
    def find_all(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: None = None,
        **options: Unpack[FindOptions],
    ) -> list[T]: ...

    @overload
    def find_all(
        self,
        filter: WrittenFilter,
        select: WrittenSelect,
        *,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def find_all(
        self,
        filter: WrittenFilter = None,
        *,
        select: WrittenSelect,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def find_all(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: str | Sequence[str],
        **options: Unpack[FindOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def find_all(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: Literal[True],
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[bytes]: ...

    def find_all(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: bool = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[Any]:
        """What `find` finds, as a list."""
        return self._results(filter, {"select": select, "populate": populate, "raw": raw or None, **options}).to_list()

    @overload
    def find_one(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: None = None,
        **options: Unpack[FindOneOptions],
    ) -> T | None: ...

    @overload
    def find_one(
        self,
        filter: WrittenFilter,
        select: WrittenSelect,
        *,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def find_one(
        self,
        filter: WrittenFilter = None,
        *,
        select: WrittenSelect,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def find_one(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: str | Sequence[str],
        **options: Unpack[FindOneOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def find_one(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: Literal[True],
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> bytes | None: ...

    def find_one(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: bool = False,
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> Any:
        """The first row of what `find` finds, or None. By id 1 GET in a warm process, and 1 for its page.

        What is no filter is an id, as in pymongo: a number, an ObjectId, or text without = < > ~ and {.
        """
        wanted: Any = filter
        if filter is not None and not isinstance(filter, Mapping):
            from wormdb.api.options import id_or_filter

            wanted = id_or_filter(filter)
        given = {"select": select, "populate": populate, "raw": raw or None, **options}
        return self._results(wanted, given, is_single=True).first()

    def query(self) -> Query[T]:
        """A query to be built step by step: `query().eq("role", "admin").sort("name").limit(10).execute()`."""
        from wormdb.api.query import Query

        return Query(self._access)

    def explain(
        self,
        filter: WrittenFilter = None,
        *,
        analyze: bool = False,
        select: WrittenSelect | None = None,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> Explanation:
        """How `find` would find it: strategy, reason, estimated requests, the plan, and the plans that were rejected.

        1 GET in a warm process. With `analyze` it is done, and requests, bytes, rows, time and dollars are told.
        """
        return self._results(filter, {"select": select, "populate": populate, **options}).explain(analyze=analyze)

    # --- numbers ---

    @reads
    def count(
        self,
        filter: WrittenFilter = None,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """How many documents there are, or match. All: 1 GET in a warm process; of the past a scan of history."""
        if filter is None and self._access.files is None and self._access.session is None:
            if at_least is not None or stale_ms is not None:
                from wormdb.api.options import check_freshness

                return self._access.view(check_freshness(self._access, at_least, stale_ms, as_of)).count
            return self._access.view().count if as_of is None else self._recall.count(as_of)
        return self._results(filter, {"as_of": as_of, "at_least": at_least, "stale_ms": stale_ms}).count()

    @reads
    def distinct(
        self,
        field: str,
        filter: WrittenFilter = None,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """The different values of a field, in order; of an array its elements."""
        options = {"as_of": as_of, "at_least": at_least, "stale_ms": stale_ms}
        return self._aggregator.distinct(field, filter, options)

    @overload
    def aggregate(
        self,
        pipeline: WrittenStages,
        /,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> list[dict[str, Any]]: ...
    @overload
    def aggregate(
        self,
        /,
        *,
        group_by: Names = None,
        count: bool | None = None,
        sum: Names = None,
        avg: Names = None,
        min: Names = None,
        max: Names = None,
        filter: WrittenFilter = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]: ...
    @reads
    def aggregate(  # noqa: PLR0913 - one keyword for each function
        self,
        pipeline: WrittenStages | None = None,
        /,
        *,
        group_by: Names = None,
        count: bool | None = None,
        sum: Names = None,
        avg: Names = None,
        min: Names = None,
        max: Names = None,
        filter: WrittenFilter = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Functions over all documents, or over what a filter finds: `{"count": 2, "sum": 30}`.

        With `group_by`, one field or several, `{"groups": {"active": {"count": 2, "sum": 30}, …}}`. Each function takes
        a field, or a list of fields, whose result is then a dict by field. Sums of decimals are exact.

        Or stages in MongoDB's words, for a list of rows: $vectorSearch or $match first; then $match, $group, $unwind,
        $project, $addFields, $sort, $skip, $limit, $count and their like. Costs what the query of the first stages
        costs. Raises InvalidRequestError with every mistake, NotFoundError for an index, LimitExceededError for groups.
        """
        functions = {"group_by": group_by, "count": count, "sum": sum, "avg": avg, "min": min, "max": max}
        options = {"as_of": as_of, "at_least": at_least, "stale_ms": stale_ms}
        if pipeline is not None:
            from wormdb.api.stages import aggregate_stages

            return aggregate_stages(self._access, pipeline, options, {**functions, "filter": filter})
        return self._aggregator.aggregate(functions, filter, options)

    # --- cursors ---

    @overload
    def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: Literal[False] = False,
        sort: WrittenSort = None,
        select: None = None,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> Cursor[T]: ...

    @overload
    def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: Literal[False] = False,
        sort: WrittenSort = None,
        select: WrittenSelect,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> Cursor[dict[str, Any]]: ...

    @overload
    def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: Literal[True],
        sort: WrittenSort = None,
        select: WrittenSelect | None = None,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> Cursor[bytes]: ...

    @reads
    def cursor(  # noqa: PLR0913 - one keyword for each choice
        self,
        filter: WrittenFilter = None,
        *,
        raw: bool = False,
        sort: WrittenSort = None,
        select: WrittenSelect | None = None,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> Cursor[Any]:
        """The rows of the state as it is now in batches, whatever is written meanwhile; for 30 minutes.

        With `raw` rows are JSON, as in `find`. 1 GET in a warm process. Raises InvalidRequestError with every mistake.
        """
        from wormdb.api.cursor import open_cursor

        options: dict[str, Any] = {"sort": sort, "select": select, "strategy": strategy, "as_of": as_of}
        options |= {"at_least": at_least, "stale_ms": stale_ms, "raw": raw or None}
        return open_cursor(self._access, filter, options, batch_size)

    def resume(self, token: str) -> Cursor[T]:
        """The cursor of a token, behind its last batch, in this process or another one. No requests.

        Rows are those of `cursor`, plain dicts if it had a `select`. States that are not in the log any more are read
        from history. Raises InvalidRequestError for a token that is damaged or of another collection, and
        SnapshotTooOldError 30 minutes after the cursor was opened.
        """
        from wormdb.api.cursor import resume_cursor

        return resume_cursor(self._access, token)

    # --- inside ---

    def _results(self, filter: WrittenFilter, options: Mapping[str, Any], *, is_single: bool = False) -> Results[Any]:
        from wormdb.api.results import make_results

        return make_results(self._access, filter, options, is_single=is_single)

    @property
    def _aggregator(self) -> Aggregator[T]:
        from wormdb.api.read import Aggregator

        return Aggregator(self._access)
