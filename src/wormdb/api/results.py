"""What a query finds: rows that are read when they are wanted, as documents, as tables, or for people to see."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from wormdb.api.calls import CallKind, limited, reads, traced
from wormdb.api.document import with_id
from wormdb.api.options import CheckedQuery, WrittenFilter, check_query, page_token, refuse_beside_near
from wormdb.api.pymongo_names import PymongoNames, UnknownArgumentError
from wormdb.api.read import AnyState, QueryRun, open_state
from wormdb.bql.projection import Branch, Part, Projection, Whole, parse_projection, paths_of, project
from wormdb.engine.blocks.portion import DOCUMENT, Portion
from wormdb.engine.state.view import StoredVersion
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format import json
from wormdb.format.path import Path, get_direct, parse_path
from wormdb.query.execute.answer import scores_of
from wormdb.settings import POPULATE_ROWS
from wormdb.system.deadline import stepwise, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import polars as pl
    import pyarrow as pa

    from wormdb.api.access import Access
    from wormdb.bql.search.highlight import Highlight
    from wormdb.bql.search.search import SearchQuery
    from wormdb.bql.sorting import WrittenSort
    from wormdb.query.execute.answer import Hit
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.execute.populate import Reference
    from wormdb.query.request import QueryRequest

__all__ = ["PREVIEW_ROWS", "Results", "html_table", "make_results", "text_table"]


# --- Some rows for people: a small table as text for a terminal, or as HTML for a notebook.

PREVIEW_ROWS: Final = 10
_COLUMNS_MAX: Final = 8
_CELL_CHARS: Final = 30
_NAME_CHARS: Final = 30


def text_table(rows: Sequence[dict[str, Any]], *, more: bool) -> str:
    """Rows as aligned columns, numbers to the right; `more` if there are others behind them. No requests."""
    if not rows:
        return "(no rows)"
    names, are_left_out = _columns(rows)
    lines = [[_short(name, _NAME_CHARS) for name in names], *([_cell(row, name) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    is_right = [all(_is_number(row.get(name)) for row in rows if name in row) for name in names]
    lines.insert(1, ["─" * width for width in widths])
    shown = ["  ".join(_aligned(line, widths, is_right)).rstrip() for line in lines]
    if are_left_out or more:
        shown.append(" ".join(["…"] * more + ["(more fields)"] * are_left_out))
    return "\n".join(shown)


def html_table(rows: Sequence[dict[str, Any]], *, more: bool) -> str:
    """Rows as a table in HTML; every text is escaped. No requests."""
    if not rows:
        return "<p>(no rows)</p>"
    from html import escape

    names, are_left_out = _columns(rows)
    head = "".join(f"<th>{escape(_short(name, _NAME_CHARS))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(row, name))}</td>' for name in names)}</tr>" for row in rows)
    note = "<p>…</p>" if more or are_left_out else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _columns(rows: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    names.sort(key=lambda name: name != "id")
    return names[:_COLUMNS_MAX], len(names) > _COLUMNS_MAX


def _cell(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return ""
    value = row[name]
    if isinstance(value, str):
        return _short(value, _CELL_CHARS)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    return _short(json.encode(value).decode(), _CELL_CHARS)


def _short(text: str, chars: int) -> str:
    """One line without anything that a terminal would obey."""
    plain = "".join(letter if letter.isprintable() else "·" for letter in text[: chars + 1])
    return plain if len(plain) <= chars else f"{plain[: chars - 1]}…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _aligned(line: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]) -> list[str]:
    return [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(line, widths, is_right, strict=True)
    ]


def _checked_count(count: object, name: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidRequestError(f"{name}({count!r:.40})", reason="it must be a whole number, 0 or more")
    return count


T = TypeVar("T")

_SHOWN_AT_ONCE: Final = 1_024
"""Rows of a list that are made of what was read together."""
_MOMENT = 1e-9
"""Of a time that is over: the next row raises UnavailableError."""


class Results(PymongoNames, Generic[T]):
    """The rows of a query. Nothing is asked before they are wanted; then all of them are of one state.

    It may be gone through several times: every time the same rows come, read again. Rows are documents, or plain dicts
    with `id` if the query has `select` or `populate`, or JSON with `raw`.
    All reads raise CorruptionError, UnavailableError, LimitExceededError for `max_scanned`, and SnapshotTooOldError if
    the state is gone when rows of it were already shown; before that a newer state is read instead.
    """

    def __init__(self, access: Access[Any], query: CheckedQuery) -> None:
        """Made by `Collection.find`. Raises InvalidRequestError for a ref that there is not."""
        self._access = access
        self._query = query
        self._run: QueryRun[Any] = QueryRun(access, query)
        self._references = _references(access, query) if query.populate else ()
        self._last: Hit | None = None
        """The last row, if there may be others behind it."""
        self._is_read = False

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        own, access = self._query.timeout_seconds, self._access
        return limited(access.clock, access.settings, kind, timeout if own is None else own)

    # --- other rows of the same filter ---

    def sort(self, key: WrittenSort, direction: int | str | None = None, /) -> Results[T]:
        """The same in another order: any that `find` takes, or a field and 1 or -1. No requests.

        Raises InvalidRequestError for an order that cannot be used, and behind a page.
        """
        from wormdb.bql.sorting import parse_sort

        if direction is not None:
            if not isinstance(key, str):
                raise InvalidRequestError(
                    f"sort({key!r:.60}, {direction!r:.20})",
                    reason="a direction belongs to one field",
                    fix="give a list of pairs alone",
                )
            key = [(key, direction)]
        return self._with("sort", sort=parse_sort(key))

    def skip(self, count: int, /) -> Results[T]:
        """The same without the first rows. No requests; raises InvalidRequestError for a number below 0."""
        return self._with("skip", offset=_checked_count(count, "skip"))

    def limit(self, count: int, /) -> Results[T]:
        """At most this many rows of the same; 0 for all. No requests; raises InvalidRequestError for one below 0."""
        return self._with("limit", limit=_checked_count(count, "limit") or None)

    def _with(self, name: str, **changed: Any) -> Results[T]:
        request = self._query.request
        if request.near is not None and name == "sort":
            raise refuse_beside_near(f"a query of {self._access.name}", name)
        if request.after is not None and name != "limit":
            raise InvalidRequestError(
                f"{name} of a page", reason="a page goes on in the order of the one before", fix="leave out page"
            )
        return Results(self._access, replace(self._query, request=replace(request, **changed)))

    # --- rows ---

    if not TYPE_CHECKING:  # a type checker knows that there is no such operator

        def __getitem__(self, place: object) -> Any:
            raise UnknownArgumentError(
                f"found[{place!r:.40}]",
                reason="results are gone through, and have no places",
                fix="write found.skip(2).limit(1).first(), or found.to_list()[2]",
            )

    def __iter__(self) -> Iterator[T]:
        """The rows in their order. 1 GET for the log in a warm process, and what the plan costs: see `explain`."""
        return traced("find", self, self._each)

    def _each(self) -> Iterator[T]:
        count, last = 0, None
        for hit, row in self._rows():
            count, last = count + 1, hit
            yield cast("T", row)
        self._last = last if count == self._query.request.limit else None
        self._is_read = True

    def scored(self) -> Iterator[tuple[T, float]]:
        """The rows of a query with `near` or `search`, each with its score: the best first, unless there is a sort.

        Costs as going through the rows. Raises InvalidRequestError without `near` and `search`.
        """
        if not self._query.request.is_ranked:
            raise InvalidRequestError(
                f"scores of a query of {self._access.name}",
                reason="only rows that were ranked have scores",
                fix='ask with search="red shoes", or near={"embedding": {"vector": [0.1, 0.2], "k": 10}}',
            )
        return chain.from_iterable(self._scored())

    def _scored(self) -> Iterator[Iterable[tuple[T, float]]]:
        """The rows of `scored`, those together that the query finds together."""
        request = self._run.request()
        if self._references or request.deadline is not None:
            rows = self._populated(self._hits(request)) if self._references else self._rows()
            return iter([((cast("T", row), _score(hit)) for hit, row in rows)])
        return self._run.scored(request)

    def highlights(self, chars: int = 160) -> Iterator[tuple[T, list[Highlight]]]:
        """The rows of a query with `search`, each with the parts of its texts that have words of the search.

        A part has about `chars` characters at most; `marked()` of it is HTML. Costs as going through the rows; if
        `select` leaves out something, also a batched read of the documents. Raises InvalidRequestError without
        `search`.
        """
        query = self._query.request.search
        if query is None:
            raise InvalidRequestError(
                f"highlights of a query of {self._access.name}",
                reason="only a text search has words to mark",
                fix='ask with search="red shoes"',
            )
        return self._highlighted(query, _checked_count(chars, "highlights"))

    def _highlighted(self, query: SearchQuery, chars: int) -> Iterator[tuple[T, list[Highlight]]]:
        from wormdb.bql.search.highlight import highlight

        rows = self._rows()
        while some := list(islice(rows, POPULATE_ROWS)):
            state = self._run.state
            search, documents = state.search(query), {}
            if any(hit.held is None for hit, _ in some):
                documents = state.fetch([hit.key for hit, _ in some])
            for hit, row in some:
                held = documents.get(hit.key) if hit.held is None else None
                whole = hit.document if held is None else json.decode_document(held.document or b"{}", name="document")
                yield cast("T", row), highlight(search, whole, chars=chars)

    @reads
    def to_list(self) -> list[T]:
        """All rows."""
        if self._references:
            return list(self)
        rows: list[T] = []
        hits, last = self._hits(self._run.request()), None
        while some := list(islice(hits, _SHOWN_AT_ONCE)):
            rows += self._run.show(some)
            last = some[-1]
        self._last = last if len(rows) == self._query.request.limit else None
        self._is_read = True
        return rows

    @reads
    def first(self) -> T | None:
        """The first row; None if there is none. No more than that row is read."""
        for _, row in self._rows(limit=1):
            return cast("T", row)
        return None

    @reads
    def count(self) -> int:
        """How many rows there are, `limit`, `offset` and `page` counted in. Documents are read only if needed."""
        request = self._run.request()
        return self._run.attempt(lambda state: state.count(request))

    @property
    def next_page(self) -> str | None:
        """A token for `page`: the rows behind these, in the state at that time. None if there are none.

        It is a place in the order, not in a state: rows that are inserted before it are not seen, and one that moves
        behind it is seen again. There is one whenever the rows are as many as `limit`, so the last page may be empty.
        Rows that were not read are read first. Rows with scores have no pages.
        """
        if self._query.request.is_ranked:
            return None
        if not self._is_read and self._query.request.limit is not None:
            for _ in self:
                pass
        return None if self._last is None else page_token(self._query, self._last.order)

    @property
    def skipped(self) -> dict[str, str]:
        """By key why each broken file of another program was passed over so far (setting `on_broken`). No requests."""
        return self._run.skipped

    @reads
    def explain(self, *, analyze: bool = False) -> Explanation:
        """How the rows are found, and what that costs; with `analyze` they are read, and it is measured."""
        request = self._run.request()
        return self._run.attempt(lambda state: state.explain(request, analyze=analyze))

    def _rows(self, limit: int | None = None) -> Iterator[tuple[Hit, Any]]:
        request = self._run.request()
        if limit is not None:
            request = replace(request, limit=min(limit, request.limit or limit))
        hits = self._hits(request)
        if self._references:
            yield from self._populated(hits)
            return
        for hit in hits:
            yield hit, self._run.show((hit,))[0]

    def _hits(self, request: QueryRequest) -> Iterator[Hit]:
        """Rows whose requests keep the caller's own time, if there is one."""
        hits, ends = self._run.hits(request), request.deadline
        if ends is None:
            return hits
        clock = self._access.clock
        return stepwise(hits, lambda: self._access.limited("read", max(ends - clock.monotonic(), _MOMENT)))

    def _populated(self, hits: Iterator[Hit]) -> Iterator[tuple[Hit, Any]]:
        from wormdb.query.execute.populate import populate

        states: dict[str, AnyState[Any]] = {}

        def state_of(model: str) -> AnyState[Any]:
            if model not in states:
                states[model] = open_state(self._access.home.access_of(model), self._query.moment)
            return states[model]

        while some := list(islice(hits, POPULATE_ROWS)):
            rows = [with_id(hit.document) for hit in some]
            populate(rows, self._references, state_of)
            yield from zip(some, map(json.encode, rows) if self._query.is_raw else rows, strict=True)

    # --- tables ---

    @reads
    def to_arrow(self) -> pa.Table:
        """The rows as one table in memory: the columns of `select`, else those of the model, else those of the rows.

        The latter are as of `Collection.to_arrow` without a model: `id`, frequent paths, and `doc`. Types are
        those of `Collection.to_arrow`. With `near` or `search` the last column is `_score`. Raises
        InvalidRequestError with `populate`.
        """
        if self._query.populate:
            raise InvalidRequestError(
                f"a table of {self._access.name} with populate",
                reason="documents cannot be columns",
                fix="leave it out",
            )
        request = replace(self._run.request(), is_raw=False)
        return self._run.attempt(lambda state: _table_of(state, request))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What `to_arrow` gives, for whatever takes Arrow streams: DuckDB, Polars, pyarrow. Costs as `to_arrow`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """What `to_arrow` gives, as a data frame of pandas. Raises MissingExtraError if pandas is not installed."""
        from wormdb.api.arrow import load_package

        load_package("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """What `to_arrow` gives, as a data frame of Polars. Raises MissingExtraError if it is not installed."""
        from wormdb.api.arrow import load_package

        package = load_package("polars", "to_polars")
        frame: pl.DataFrame = package.from_arrow(self.to_arrow())
        return frame

    # --- for people ---

    def __repr__(self) -> str:
        """The first 10 rows as a table: these are read. What goes wrong then is told instead."""
        try:
            rows, more = self._preview()
        except WormError as error:
            return f"Results({self._access.name}, {type(error).__name__}: {error})"
        return text_table(rows, more=more)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        try:
            rows, more = self._preview()
        except WormError as error:
            from html import escape

            return f"<p>{escape(f'{type(error).__name__}: {error}')}</p>"
        return html_table(rows, more=more)

    @reads
    def _preview(self) -> tuple[list[dict[str, Any]], bool]:
        request = self._run.request()
        limit = min(PREVIEW_ROWS + 1, request.limit or PREVIEW_ROWS + 1)
        hits = self._run.hits(replace(request, limit=limit, is_raw=False))
        rows = [with_id(hit.document) for hit in hits]
        return rows[:PREVIEW_ROWS], len(rows) > PREVIEW_ROWS


def make_results(
    access: Access[Any], written: WrittenFilter, options: Mapping[str, Any], *, is_single: bool = False
) -> Results[Any]:
    """What a filter and options find; with `is_single` one row. Raises and costs as `check_query`."""
    return Results(access, check_query(access, written, options, is_single=is_single))


# --- refs ---


def _references(access: Access[Any], query: CheckedQuery) -> tuple[Reference, ...]:
    """The refs to follow, each of which has its ids in the rows."""
    if query.moment is not None and not query.moment.is_time:
        raise InvalidRequestError(
            f"populate of {access.name} as of {query.moment}",
            reason="a log number is of one collection, and refs lead to another",
            fix="give as_of a time",
        )
    from wormdb.query.execute.populate import read_references

    model_of = access.home.access_of
    references = read_references(query.populate, access.writer.model, lambda name: model_of(name).writer.model)
    for reference in references:
        needed = "id" if reference.is_many else reference.field
        if not _is_shown(query.request.projection, parse_path("_id" if reference.is_many else reference.field)):
            raise InvalidRequestError(
                f"populate {reference.name!r} of {access.name}",
                reason=f"select leaves out {needed!r}, which has the ids",
                fix=f"select {needed!r} too",
            )
    return references


def _is_shown(projection: Projection | None, path: Path) -> bool:
    document: Any = 0
    for segment in reversed(path):
        document = {segment: document}
    return projection is None or get_direct(project(projection, document), path) == 0


# --- tables: the types are those of `Collection.to_arrow` ---


def _table_of(state: AnyState[Any], request: QueryRequest) -> pa.Table:
    """The rows of a request: the columns of its projection, else those of the model, else those that are frequent.

    Costs what the plan costs; documents are not read if columns tell everything.
    """
    if request.is_ranked:
        return _ranked_table(state, request)
    return _joined(state, request, _portions)


def _joined(state: AnyState[Any], request: QueryRequest, read: Callable[..., Iterator[Portion]]) -> pa.Table:
    from wormdb.api.arrow import default_columns, join_columns, join_documents

    named = _named(request.projection)
    if named is None and state.model is None:
        return join_documents(read(state, request, ["_id", DOCUMENT]))
    named = named or default_columns(state.model)
    paths = list(named.values())
    if request.projection is None and DOCUMENT not in paths:
        request = replace(request, projection=parse_projection(_outermost(paths)))
    return join_columns(read(state, request, paths), named, state.model)


def _ranked_table(state: AnyState[Any], request: QueryRequest) -> pa.Table:
    """The same of ranked rows, with a column of their scores."""
    import pyarrow as pa

    scores: list[float] = []

    def read(state: AnyState[Any], request: QueryRequest, paths: list[str]) -> Iterator[Portion]:
        hits = list(state.hits(request))
        scores.extend(scores_of(hits))
        yield from state.portions((_held(hit, request.projection) for hit in hits), paths)

    table = _joined(state, request, read)
    return table.append_column("_score", pa.array(scores, pa.float64()))


def _score(hit: Hit) -> float:
    return scores_of((hit,))[0]


def _portions(state: AnyState[Any], request: QueryRequest, paths: list[str]) -> Iterator[Portion]:
    projection = request.projection
    is_told = projection is not None and projection.mode == "include" and _is_whole(projection.parts)
    for some in state.tabulate(request, paths if is_told else ()):
        if isinstance(some, list):
            yield from state.portions((_held(hit, projection) for hit in some), paths)
        else:
            yield some


def _held(hit: Hit, projection: Projection | None) -> StoredVersion:
    """A row as it would be stored if it were the whole document."""
    if hit.held is not None and projection is None:
        return hit.held
    return StoredVersion(json.encode(hit.document.get("_id")), 0, 0, json.encode_document(hit.document))


def _named(projection: Projection | None) -> dict[str, str] | None:
    """By name the columns of a selection, the id first; None if it only leaves something out."""
    if projection is None or projection.mode == "exclude":
        return None
    paths = sorted(paths_of(projection.parts), key=lambda path: path != "_id")
    return {(path[1:] if path.split(".")[0] == "_id" else path): path for path in paths}


def _is_whole(part: Part) -> bool:
    """Whether values are shown as they are, nothing cut out of arrays."""
    return all(map(_is_whole, part.parts.values())) if isinstance(part, Branch) else isinstance(part, Whole)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Paths that are not within others."""
    known = set(paths)
    return sorted(path for path in known if not any(path.startswith(f"{other}.") for other in known))
