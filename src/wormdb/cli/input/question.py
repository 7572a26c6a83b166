"""What is asked of a collection on the command line: options, and what they mean to `Collection.find`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from wormdb.bql.nearest import parse_near
from wormdb.bql.search.search import parse_written_search
from wormdb.bql.text import parse_filter_text, parse_sort_text
from wormdb.bql.tree import Filter, MatchAll, conjunction
from wormdb.cli.input.body import read_text
from wormdb.cli.show.rows import Columns, columns_of
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.options import FindOptions, WrittenSelect
    from wormdb.api.results import Results
    from wormdb.bql.nearest import Near
    from wormdb.bql.search.search import SearchQuery
    from wormdb.bql.sorting import SortSpec
    from wormdb.query.execute.explain import Explanation
    from wormdb.schema.model import Model

__all__ = [
    "AS_OF",
    "CSV_SAFE",
    "EXACT",
    "FILTER",
    "LANGUAGE",
    "NEAR",
    "SEARCH",
    "SEARCH_FIELDS",
    "SELECT",
    "SORT",
    "STRATEGY",
    "QueryArguments",
    "columns_for",
    "read_as_of",
    "read_filters",
    "written_filter",
]

FILTER = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="CONDITIONS",
    help="Such as status=active,tags~vip or 'amount>100'; several hold together. JSON if it begins with {.",
)
SORT = click.option("--sort", metavar="FIELD:ORDER,…", help="Sort by fields, each asc or desc.")
SELECT = click.option("--select", metavar="FIELD,…", help="Only these fields, and the id. A projection if it is JSON.")
NEAR = click.option(
    "--near",
    metavar="FIELD=VECTOR",
    help='Only the nearest vectors: embedding=[0.1,0.2], or {"embedding": {"vector": [0.1, 0.2], "k": 5}}. '
    "Both from a file by embedding=@FILE and @FILE, from standard input by embedding=- and -.",
)
SEARCH = click.option(
    "--search", metavar="WORDS", help="Only what a text search finds: 'red shoes -leather \"running shoe\" adi*'."
)
SEARCH_FIELDS = click.option(
    "--in", "search_fields", metavar="FIELD^WEIGHT,…", help="With --search: these fields, not those of the text index."
)
LANGUAGE = click.option("--language", metavar="NAME", help="With --in: the language whose stems are compared.")
EXACT = click.option("--exact", is_flag=True, help="With --near: score every document that matches.")
STRATEGY = click.option(
    "--strategy", type=click.Choice(STRATEGIES), help="Use only this way of finding, or fail if it cannot be used."
)
CSV_SAFE = click.option(
    "--csv-safe",
    is_flag=True,
    help="In CSV no text is a formula for a spreadsheet, nor has control characters; worm import --csv-safe reads it.",
)
AS_OF = click.option("--as-of", metavar="MOMENT", help="The state of a log number, or of a time such as 2026-02-24.")

ORDERS = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class QueryArguments:
    """One question, read from options."""

    filter: Filter
    select: WrittenSelect | None
    options: FindOptions

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> QueryArguments:
        """Raises InvalidRequestError with the place of the first mistake. No requests."""
        found: FindOptions = {}
        if options.get("sort"):
            found["sort"] = _read_sort(options["sort"])
        if options.get("limit") is not None:
            found["limit"] = options["limit"]
        if options.get("offset"):
            found["offset"] = options["offset"]
        if options.get("page"):
            found["page"] = options["page"]
        if options.get("near") is not None:
            found["near"] = _read_near(options["near"], is_exact=options.get("exact", False))
        elif options.get("exact"):
            raise click.UsageError("--exact needs --near")
        if any(options.get(name) is not None for name in ("search", "search_fields", "language")):
            found["search"] = _read_search(options)
        if options.get("strategy"):
            found["strategy"] = options["strategy"]
        if options.get("as_of") is not None:
            found["as_of"] = read_as_of(options["as_of"])
        return cls(read_filters(options["filters"]), _read_select(options.get("select")), found)

    @property
    def limit(self) -> int | None:
        """How many rows at most."""
        return self.options.get("limit")

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns that were named, the id first; None if none were, or a projection shows others too."""
        if not isinstance(self.select, list):
            return None
        return tuple(dict.fromkeys(("id", *("id" if name == "_id" else name for name in self.select))))

    def rows(self, found: Results[Any]) -> Iterable[Mapping[str, Any]]:
        """Rows to be shown: those of a query with `near` or `search` have their scores as `_score`."""
        if not self.is_ranked:
            return found
        return [{**row, "_score": score} for row, score in found.scored()]

    @property
    def is_ranked(self) -> bool:
        """Whether rows have scores."""
        return "near" in self.options or "search" in self.options

    @property
    def is_of_all(self) -> bool:
        """Whether it asks for all documents as they are now."""
        return isinstance(self.filter, MatchAll) and "as_of" not in self.options and not self.is_ranked

    def find(self, collection: Collection[Document]) -> Results[Any]:
        """The rows. No requests yet."""
        if self.select is None:
            return collection.find(self.filter, **self.options)
        return collection.find(self.filter, select=self.select, **self.options)

    def explain(self, collection: Collection[Document], *, analyze: bool) -> Explanation:
        """How the rows are found."""
        return collection.explain(self.filter, select=self.select, analyze=analyze, **self.options)


def read_filters(texts: Sequence[str]) -> Filter:
    """What all of several filters match. Raises InvalidRequestError with the column of the first mistake."""
    return conjunction([_read_filter(text) for text in texts])


def written_filter(texts: Sequence[str]) -> dict[str, Any]:
    """What all of several filters match, as a document. Raises as `read_filters`."""
    written = json.parse(read_filters(texts).text, operators=True)
    assert isinstance(written, dict)
    return written


def _read_filter(text: str) -> Filter:
    try:
        return parse_filter_text(text)
    except InvalidRequestError as error:
        if not error.problems:
            raise
        # The message has a picture of the place, which one line cannot hold.
        raise type(error)(f"--filter {text!r:.100}", fix=error.fix, problems=error.problems) from error


def _read_sort(text: str) -> SortSpec:
    for part in text.split(","):
        name, colon, order = part.strip().rpartition(":")
        if colon and order not in ORDERS:
            raise InvalidRequestError(
                f"--sort {part.strip()!r:.100}",
                reason=f"there is no order {order!r:.40}",
                fix=f"write {name}:asc or {name}:desc; a name with a colon needs one of them behind it",
            )
    return parse_sort_text(text)


def _read_search(options: Mapping[str, Any]) -> SearchQuery:
    if options.get("search") is None:
        raise click.UsageError(f"--{'in' if options.get('search_fields') else 'language'} needs --search")
    written: dict[str, Any] = {"query": options["search"]}
    if options.get("search_fields"):
        written["fields"] = [name.strip() for name in options["search_fields"].split(",")]
    if options.get("language"):
        written["language"] = options["language"]
    return parse_written_search(written)


def _read_near(text: str, *, is_exact: bool) -> Near:
    written: Any = None
    text = read_text(text) if text.startswith("@") or text == "-" else text
    is_whole = text.lstrip().startswith("{")
    field, equals, vector = text.partition("=")
    vector = "" if is_whole or not equals else read_text(vector.strip())
    try:
        if is_whole:
            written = json.parse(text, operators=True)
        elif equals:
            written = {field.strip(): {"vector": json.parse(vector)}}
    except InvalidRequestError as error:
        fix = "write --near 'embedding=[0.1, 0.2]'"
        raise InvalidRequestError(f"--near {text!r:.100}", reason="the vector is not JSON", fix=fix) from error
    near = parse_near(written)
    return replace(near, is_exact=True) if is_exact else near


def _read_select(text: str | None) -> WrittenSelect | None:
    if not text:
        return None
    if not text.lstrip().startswith("{"):
        return [name.strip() for name in text.split(",")]
    written = json.parse(text, operators=True)
    if not isinstance(written, dict):
        raise InvalidRequestError(f"--select {text!r:.100}", reason="it must be a document", fix='write {"name": 1}')
    return written


def read_as_of(text: str | None) -> int | str | None:
    """A log number, or a time as text, in UTC if it names no zone; None for now. What is no time stays as it is."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if time.utcoffset() is not None else time.replace(tzinfo=UTC).isoformat()


def columns_for(asked: QueryArguments, model: Model | None) -> Columns | None:
    """The columns of a file: those that were named, else the model's; None if only the rows tell."""
    if asked.select is not None:
        return None if asked.names is None else columns_of((*asked.names, *_scores(asked)))
    return None if model is None else columns_of(("id", *model.columns, *_scores(asked)))


def _scores(asked: QueryArguments) -> tuple[str, ...]:
    return ("_score",) if asked.is_ranked else ()
