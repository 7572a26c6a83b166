"""Cursors: the rows of one state in batches, while writers go on, in this process or in another one.

A cursor holds no lock and no object: the state is a log number, and the place in it a sort key. Both are in its token,
with the query, so that another process reads on where this one stopped.
"""

# ruff: noqa: A002 - `filter` is the name that users know

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from wormdb.api.calls import reads
from wormdb.api.options import check_query, refuse_token, seal, unseal
from wormdb.api.read import AnyState, LogState, QueryRun, open_state
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import write_projection
from wormdb.engine.state.moments import AsOf
from wormdb.errors import ClosedError, InvalidRequestError, SnapshotTooOldError
from wormdb.format import json
from wormdb.settings import CURSOR_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from wormdb.api.access import Access
    from wormdb.api.calls import CallKind
    from wormdb.api.options import WrittenFilter
    from wormdb.bql.projection import Projection
    from wormdb.query.execute.answer import Hit
    from wormdb.system.deadline import within

__all__ = ["Cursor", "open_cursor", "resume_cursor"]

T = TypeVar("T")


class _Token(msgspec.Struct, frozen=True, array_like=True):
    """All that another process needs."""

    collection: str
    filter: str
    sort: str
    select: str | None
    strategy: str | None
    batch_size: int
    bound: int
    is_time: bool
    is_past: bool
    opened_ms: int
    after: bytes | None
    is_raw: bool = False
    seen_ms: int | None = None


class Cursor(Generic[T]):
    """The rows of one state that does not move, batch by batch. A context manager; for one thread at a time.

    It can be read for 30 minutes from when it was opened, also by `Collection.resume`; then SnapshotTooOldError is
    raised. Rows are documents, or plain dicts with `id` if there is a `select`, or JSON with `raw`.
    """

    def __init__(self, run: QueryRun[Any], batch_size: int, opened_ms: int) -> None:
        """Made by `Collection.cursor` and `Collection.resume`."""
        self._run = run
        self._batch_size = batch_size
        self._opened_ms = opened_ms
        self._hits: Iterator[Hit] | None = None
        self._is_brief = False
        """Whether the rows come by the plan that is best if no more than one batch is asked for."""
        self._last: Hit | None = None
        self._begun_after = run.query.request.after
        self._is_closed = False

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        return self._run.access.limited(kind, timeout)

    @property
    def batch_size(self) -> int:
        """How many rows a batch has, but for the last."""
        return self._batch_size

    @reads
    def next_batch(self) -> list[T]:
        """The next rows, as many as the batch size; fewer at the end, and none exactly when there are no more.

        Costs what the plan costs, of which only as much is done as the batch needs. Raises ClosedError,
        SnapshotTooOldError. After any error the same batch can be asked for again.
        """
        self._check()
        try:
            hits = list(islice(self._next_hits(), self._batch_size))
            shown = self._run.show(hits)
        except BaseException:
            # Rows of a broken answer are gone: the next call begins anew, behind the last batch that was given out.
            self._hits, self._run = None, self._run.behind(self._after)
            raise
        self._is_brief &= len(hits) == self._batch_size
        if hits:
            self._last = hits[-1]
        return shown

    @property
    def _after(self) -> bytes | None:
        """The place of the last row that was given out; made when it is wanted, as most cursors are read once."""
        return self._begun_after if self._last is None else self._last.order

    def _next_hits(self) -> Iterator[Hit]:
        """What the next batch is taken from: many callers take one batch, and what follows may need another plan."""
        run = self._run
        if self._hits is None:
            self._is_brief = True
            self._hits = run.hits()
        elif self._is_brief:
            self._is_brief = False
            if not run.is_planned_alike():
                self._run = run.behind(self._after)
                self._hits = self._run.hits(replace(self._run.request(), first=None))
        return self._hits

    @property
    def token(self) -> str:
        """Where it stands, for `Collection.resume`: behind the last batch. Raises ClosedError. No requests."""
        self._check_open()
        query = self._run.query
        assert query.moment is not None, "a cursor is of one moment"
        token = _Token(
            collection=query.collection,
            filter=query.request.filter.text,
            sort=str(query.request.sort),
            select=_written(query.request.projection),
            strategy=query.request.strategy,
            batch_size=self._batch_size,
            bound=query.moment.bound,
            is_time=query.moment.is_time,
            is_past=query.is_past,
            opened_ms=self._opened_ms,
            after=self._after,
            is_raw=query.is_raw,
            seen_ms=query.moment.seen_ms,
        )
        return seal("cursor", msgspec.msgpack.encode(token))

    def __iter__(self) -> Iterator[T]:
        """The rows that are left, one by one."""
        while batch := self.next_batch():
            yield from batch

    def close(self) -> None:
        """Give up what it holds in memory. May be called twice; its tokens can still be resumed. No requests."""
        self._is_closed, self._hits = True, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cursor({self._run.access.name}, {self._run.query.moment}{', closed' * self._is_closed})"

    def _check(self) -> None:
        self._check_open()
        _check_age(self._run.access, self._opened_ms)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the cursor of {self._run.access.name}", fix="open another, or resume its token")


def _check_age(access: Access[Any], opened_ms: int) -> None:
    if access.clock.now_ms() - opened_ms > CURSOR_MS_MAX:
        raise SnapshotTooOldError(
            f"the cursor of {access.name}", reason="it was opened more than 30 minutes ago", fix="open a new cursor"
        )


def open_cursor(
    access: Access[Any],
    filter: WrittenFilter,
    options: Mapping[str, Any],
    batch_size: object,
) -> Cursor[Any]:
    """A cursor over the state now, or of `as_of`. 1 GET in a warm process; raises as `Collection.cursor` says."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidRequestError(
            f"a cursor of {access.name}",
            reason=f"batch_size must be a whole number of 1 or more, not {batch_size!r:.40}",
            fix="leave it out for batches of 100",
        )
    query = check_query(access, filter, options, first=batch_size)
    if query.request.search is not None:
        reason = "a cursor goes on in the order of a sort, and a text search in that of scores"
        raise InvalidRequestError(f"a cursor of {access.name}", reason=reason, fix="use find with offset and limit")
    state = open_state(access, query.moment, query.freshness)
    pinned = query if query.moment is not None else query.at(AsOf.number(state.number, seen_ms=_seen_ms(state)))
    return Cursor(QueryRun(access, pinned, state), batch_size, access.clock.now_ms())


def _seen_ms(state: AnyState[Any]) -> int | None:
    """When a state was shown, if documents of it end by themselves."""
    return state.view.now_ms if isinstance(state, LogState) else None


def resume_cursor(access: Access[Any], token: str) -> Cursor[Any]:
    """The cursor that a token is of, behind its last batch. No requests yet; raises as `Collection.resume` says."""
    read = _read(token)
    if read.collection != access.ledger.collection:
        raise refuse_token("cursor", token, f"it is for the collection {read.collection.rstrip('/')}")
    _check_age(access, read.opened_ms)
    options = {
        "select": None if read.select is None else json.parse(read.select, operators=True),
        "sort": read.sort.split(",") if read.sort else None,
        "strategy": read.strategy,
        "raw": read.is_raw or None,
    }
    tree = parse_filter(json.parse(read.filter, operators=True))
    query = check_query(access, tree, options, first=read.batch_size)
    pinned = replace(
        query,
        request=replace(query.request, after=read.after),
        moment=AsOf(read.bound, read.is_time, access.clock.now_ms() if read.is_time else 0, seen_ms=read.seen_ms),
        is_past=read.is_past,
    )
    return Cursor(QueryRun(access, pinned), read.batch_size, read.opened_ms)


def _written(projection: Projection | None) -> str | None:
    return None if projection is None else json.encode(write_projection(projection)).decode()


def _read(token: str) -> _Token:
    try:
        return msgspec.msgpack.decode(unseal("cursor", token), type=_Token)
    except msgspec.MsgspecError as error:
        raise refuse_token("cursor", token, "it is damaged, or not a token") from error
