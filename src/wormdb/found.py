"""What a query finds: rows that are read when they are wanted, as documents, as tables, or for people to see."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.arrow_columns import ArrowColumn
from wormdb.asking import page_token
from wormdb.bql.projection import Branch, project
from wormdb.document import with_id
from wormdb.engine.column_scan import portions_of
from wormdb.engine.portion import DOCUMENT
from wormdb.engine.state import Held
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format import json
from wormdb.limits import POPULATE_ROWS
from wormdb.preview import PREVIEW_ROWS, html_table, text_table
from wormdb.query.populate import populate, read_references
from wormdb.reading import Reading, open_state
from wormdb.tables import declared_type, default_columns, load_package

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl
    import pyarrow as pa

    from wormdb.access import Access
    from wormdb.asking import Asked
    from wormdb.bql.projection import Projection
    from wormdb.query.explain import Explained
    from wormdb.query.populate import Reference
    from wormdb.query.run import Hit
    from wormdb.query.source import Source

__all__ = ["Found"]

T = TypeVar("T")


class Found(Generic[T]):
    """The rows of a query. Nothing is asked before they are wanted; then all of them are of one state.

    It may be gone through several times: every time the same rows come, read again. Rows are documents, or plain dicts
    with `id` if the query has `select` or `populate`.
    All reads raise CorruptionError, UnavailableError, LimitExceededError for `max_scanned`, and SnapshotTooOldError if
    the state is gone when rows of it were already shown; before that a newer state is read instead.
    """

    def __init__(self, access: Access[Any], asked: Asked) -> None:
        """Made by `Collection.find`. Raises InvalidRequestError for a ref that there is not."""
        self._access = access
        self._asked = asked
        self._reading: Reading[Any] = Reading(access, asked)
        self._references = _references(access, asked)
        self._next_page: str | None = None
        self._is_read = False

    # --- rows ---

    def __iter__(self) -> Iterator[T]:
        """The rows in their order. 1 GET for the log in a warm process, and what the plan costs: see `explain`."""
        count, last = 0, None
        for hit, row in self._rows():
            count, last = count + 1, hit
            yield cast("T", row)
        is_full = last is not None and count == self._asked.request.limit
        self._next_page = page_token(self._asked, last.order) if is_full and last is not None else None
        self._is_read = True

    def to_list(self) -> list[T]:
        """All rows."""
        return list(self)

    def first(self) -> T | None:
        """The first row; None if there is none. No more than that row is read."""
        for _, row in self._rows(limit=1):
            return cast("T", row)
        return None

    def count(self) -> int:
        """How many rows there are, `limit`, `offset` and `page` counted in. Documents are read only if needed."""
        request = self._reading.request()
        return self._reading.attempt(lambda state: state.count(request))

    @property
    def next_page(self) -> str | None:
        """A token for `page`: the rows behind these, in the state at that time. None if there are none.

        It is a place in the order, not in a state: rows that are inserted before it are not seen, and one that moves
        behind it is seen again. There is one whenever the rows are as many as `limit`, so the last page may be empty.
        If the rows were not read to their end yet, they are read.
        """
        if not self._is_read and self._asked.request.limit is not None:
            for _ in self:
                pass
        return self._next_page

    def explain(self, *, analyze: bool = False) -> Explained:
        """How the rows are found, and what that costs; with `analyze` they are read, and it is measured."""
        request = self._reading.request()
        return self._reading.attempt(lambda state: state.explain(request, analyze=analyze))

    def _rows(self, limit: int | None = None) -> Iterator[tuple[Hit, Any]]:
        request = self._reading.request()
        if limit is not None:
            request = replace(request, limit=min(limit, request.limit or limit))
        hits = self._reading.hits(request)
        if self._references:
            yield from self._populated(hits)
            return
        for hit in hits:
            yield hit, self._reading.show(hit)

    def _populated(self, hits: Iterator[Hit]) -> Iterator[tuple[Hit, dict[str, Any]]]:
        sources: dict[str, Source] = {}

        def source_of(model: str) -> Source:
            if model not in sources:
                sources[model] = open_state(self._access.context.access_of(model), self._asked.moment).source
            return sources[model]

        while some := list(islice(hits, POPULATE_ROWS)):
            rows = [with_id(hit.document) for hit in some]
            populate(rows, self._references, source_of)
            yield from zip(some, rows, strict=True)

    # --- tables ---

    def to_arrow(self) -> pa.Table:
        """The rows as one table in memory: the columns of `select`, else those of the model, else `id` and `doc`.

        Types are those of `Collection.to_arrow`. Raises InvalidRequestError with `populate`.
        """
        import pyarrow as pa

        if self._asked.populate:
            raise InvalidRequestError(
                f"a table of {self._access.name} with populate", reason="documents are no columns", fix="leave it out"
            )
        is_part = self._asked.request.projection is not None
        held = [_held(hit, is_part=is_part) for hit in self._reading.hits()]
        state = self._reading.state
        named = _columns(self._asked.request.projection) or default_columns(state.model)
        gathered = {
            name: ArrowColumn(path, declared_type(state.model, path))
            for name, path in named.items()
            if path != DOCUMENT
        }
        texts: list[pa.Array] = []
        for portion in portions_of(state.view, held, list(named.values())):
            for column in gathered.values():
                column.add(portion)
            if DOCUMENT in named.values():
                texts += portion.table.column(DOCUMENT).chunks
        return pa.table(
            {
                name: gathered[name].finish() if name in gathered else pa.chunked_array(texts, pa.large_string())
                for name in named
            }
        )

    def to_pandas(self) -> Any:
        """What `to_arrow` gives, as a data frame of pandas. Raises MissingExtraError if pandas is not installed."""
        load_package("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """What `to_arrow` gives, as a data frame of Polars. Raises MissingExtraError if it is not installed."""
        package = load_package("polars", "to_polars")
        frame: pl.DataFrame = package.from_arrow(self.to_arrow())
        return frame

    # --- for people ---

    def __repr__(self) -> str:
        """The first 10 rows as a table: these are read. What goes wrong then is told instead."""
        try:
            rows, more = self._preview()
        except WormError as error:
            return f"Found({self._access.name}, {type(error).__name__}: {error})"
        return text_table(rows, more=more)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        try:
            rows, more = self._preview()
        except WormError as error:
            return f"<p>{escape(f'{type(error).__name__}: {error}')}</p>"
        return html_table(rows, more=more)

    def _preview(self) -> tuple[list[dict[str, Any]], bool]:
        request = self._reading.request()
        limit = min(PREVIEW_ROWS + 1, request.limit or PREVIEW_ROWS + 1)
        hits = self._reading.hits(replace(request, limit=limit))
        rows = [with_id(hit.document) for hit in hits]
        return rows[:PREVIEW_ROWS], len(rows) > PREVIEW_ROWS


# --- refs ---


def _references(access: Access[Any], asked: Asked) -> tuple[Reference, ...]:
    """The refs to follow, each of which has its ids in the rows."""
    if not asked.populate:
        return ()
    if asked.moment is not None and not asked.moment.is_time:
        raise InvalidRequestError(
            f"populate of {access.name} as of {asked.moment}",
            reason="a log number is of one collection, and refs lead to another",
            fix="give as_of a time",
        )
    model_of = access.context.access_of
    references = read_references(asked.populate, access.writer.model, lambda name: model_of(name).writer.model)
    for reference in references:
        needed = "_id" if reference.is_many else reference.field.split(".")[0]
        if needed not in _shown_of(asked.request.projection, needed):
            raise InvalidRequestError(
                f"populate {reference.name!r} of {access.name}",
                reason=f"select leaves out {needed.removeprefix('_')!r}, which has the ids",
                fix=f"select {needed.removeprefix('_')!r} too",
            )
    return references


def _shown_of(projection: Projection | None, name: str) -> dict[str, Any]:
    return {name: 0} if projection is None else project(projection, {name: 0})


# --- tables ---


def _held(hit: Hit, *, is_part: bool) -> Held:
    """A row as it would be stored if it were the whole document."""
    if hit.held is not None and not is_part:
        return hit.held
    return Held(json.encode(hit.document.get("_id")), 0, 0, json.encode_document(hit.document))


def _columns(projection: Projection | None) -> dict[str, str] | None:
    """The columns of a selection, the id first; None if it only leaves something out."""
    if projection is None or projection.mode == "exclude":
        return None
    paths = sorted(_paths(projection.parts, ""), key=lambda path: path != "_id")
    return {(path[1:] if path.split(".")[0] == "_id" else path): path for path in paths}


def _paths(branch: Branch, prefix: str) -> Sequence[str]:
    found: list[str] = []
    for name, part in branch.parts.items():
        found += _paths(part, f"{prefix}{name}.") if isinstance(part, Branch) else [prefix + name]
    return found
