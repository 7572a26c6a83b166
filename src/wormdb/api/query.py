"""Queries that are built step by step: `customers.query().eq("role", "admin").gt("age", 30).sort("name").limit(10)`."""

# ruff: noqa: A002 - `filter` is the name that users know

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.api.calls import CallKind, reads
from wormdb.api.options import Moment, WrittenFilter, WrittenSelect, check_query, read_filter
from wormdb.api.read import Aggregator
from wormdb.api.results import Results
from wormdb.bql.nearest import parse_near
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.search.search import parse_written_search
from wormdb.bql.tree import Filter, conjunction, disjunction
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.api.access import Access
    from wormdb.bql.nearest import Distance
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.request import Strategy
    from wormdb.system.deadline import within

__all__ = ["Query"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Query(Generic[T]):
    """A query that does not change: every call gives a new one, so that a part can be kept and used again.

    Conditions all hold; `sort`, `near`, `search`, `limit`, `offset`, `select`, `populate`, `strategy`, `as_of`,
    `at_least` and `stale_ms` replace what was there.
    Mistakes are raised by the call that makes them, as InvalidRequestError; unknown refs when rows are wanted. No
    requests until then.
    """

    _access: Access[Any]
    _filters: tuple[Filter, ...] = ()
    _options: Mapping[str, Any] = field(default_factory=dict)

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        return self._access.limited(kind, timeout)

    # --- conditions ---

    def eq(self, field: str, value: Any) -> Query[T]:
        """The field has this value; of an array one element, or the whole of it."""
        return self._where(field, "$eq", value)

    def ne(self, field: str, value: Any) -> Query[T]:
        """The field does not have this value; it may be missing."""
        return self._where(field, "$ne", value)

    def gt(self, field: str, value: Any) -> Query[T]:
        """The field has a value above this one, of the same kind."""
        return self._where(field, "$gt", value)

    def gte(self, field: str, value: Any) -> Query[T]:
        """The field has this value or one above it."""
        return self._where(field, "$gte", value)

    def lt(self, field: str, value: Any) -> Query[T]:
        """The field has a value below this one, of the same kind."""
        return self._where(field, "$lt", value)

    def lte(self, field: str, value: Any) -> Query[T]:
        """The field has this value or one below it."""
        return self._where(field, "$lte", value)

    def in_(self, field: str, values: Sequence[Any]) -> Query[T]:
        """The field has one of these values."""
        return self._where(field, "$in", values)

    def nin(self, field: str, values: Sequence[Any]) -> Query[T]:
        """The field has none of these values; it may be missing."""
        return self._where(field, "$nin", values)

    def exists(self, field: str, is_there: bool = True) -> Query[T]:
        """The field is there, null too; with False it is not."""
        return self._where(field, "$exists", is_there)

    def contains(self, field: str, value: Any) -> Query[T]:
        """The field is an array with this element, or a text with this part."""
        return self._where(field, "$contains", value)

    def starts_with(self, field: str, prefix: str) -> Query[T]:
        """The field is a text that begins like this."""
        return self._where(field, "$startsWith", prefix)

    def ends_with(self, field: str, suffix: str) -> Query[T]:
        """The field is a text that ends like this."""
        return self._where(field, "$endsWith", suffix)

    def regex(self, field: str, pattern: str, options: str = "") -> Query[T]:
        """The field is a text in which this pattern is found; `options` are letters of i, m, s and x."""
        operators = {"$regex": pattern, "$options": options} if options else {"$regex": pattern}
        return self.where({field: operators})

    def where(self, filter: WrittenFilter) -> Query[T]:
        """A filter holds too: a mapping, or text as on the command line."""
        return replace(self, _filters=(*self._filters, read_filter(filter)))

    def or_(self, *filters: WrittenFilter | Query[Any]) -> Query[T]:
        """Any of these filters holds: mappings, texts, or other queries, of which only the conditions count."""
        if not filters:
            raise InvalidRequestError("or_()", reason="there is nothing to choose from", fix="give one filter at least")
        trees = [each.filter if isinstance(each, Query) else read_filter(each) for each in filters]
        return replace(self, _filters=(*self._filters, disjunction(trees)))

    def _where(self, field: str, operator: str, operand: Any) -> Query[T]:
        return replace(self, _filters=(*self._filters, parse_filter({field: {operator: operand}})))

    @property
    def filter(self) -> Filter:
        """All conditions as one filter; `str` of it is JSON."""
        return conjunction(self._filters)

    # --- options ---

    def sort(self, *fields: str | tuple[str, str | int]) -> Query[T]:
        """The order: `sort("name")`, `sort("city", "-age")`, `sort("name", "desc")`. Ties are in order of id."""
        return self._with(sort=list(fields))

    def limit(self, rows: int) -> Query[T]:
        """How many rows at most, 1 or more."""
        return self._with(limit=rows)

    def offset(self, rows: int) -> Query[T]:
        """How many rows are passed over first."""
        return self._with(offset=rows)

    def select(self, *fields: str | Mapping[str, Any]) -> Query[dict[str, Any]]:
        """Only these parts of documents: names, or one projection. Rows are plain dicts then."""
        chosen: WrittenSelect | Any = list(fields)
        if len(fields) == 1 and not isinstance(fields[0], str):
            chosen = fields[0]
        return cast("Query[dict[str, Any]]", self._with(select=chosen))

    def populate(self, *refs: str) -> Query[dict[str, Any]]:
        """The documents that these refs lead to, in their places. Rows are plain dicts then."""
        return cast("Query[dict[str, Any]]", self._with(populate=refs))

    def near(  # noqa: PLR0913 - one keyword for each choice
        self,
        field: str,
        vector: Any,
        *,
        k: int = 10,
        recall: float | None = None,
        exact: bool = False,
        min_score: float | None = None,
        distance: Distance | None = None,
    ) -> Query[T]:
        """Only the `k` documents whose vectors at a field are nearest to this one, the nearest first.

        `recall` is the share of the true answer that an index must find on average; with `exact` every document that
        matches is scored, with an index or without. Rows below `min_score` are left out.
        """
        options = {"vector": vector, "k": k, "recall": recall, "exact": exact, "min_score": min_score}
        return self._with(near=parse_near({field: {**options, "distance": distance}}))

    def search(
        self,
        text: str,
        *,
        index: str | None = None,
        fields: Sequence[str] | None = None,
        language: str | None = None,
        stop_words: Sequence[str] | bool | None = None,
        weight: float | None = None,
    ) -> Query[T]:
        """Only what a text search finds, the best first: `search('red shoes -leather "running shoe" adi*')`.

        In the fields of a text index, or in `fields`, such as ["title^3", "body"], by the stems of a language. With
        `near` both rankings are joined, by the places of rows in both: `weight` is how much the search counts, where
        the nearest count 1.
        """
        options: dict[str, Any] = {"index": index, "fields": fields, "language": language, "stop_words": stop_words}
        options["weight"] = weight
        given = {name: value for name, value in options.items() if value is not None}
        return self._with(search=parse_written_search({"query": text, **given}))

    def strategy(self, name: Strategy) -> Query[T]:
        """The only way to be used: index_lookup, manifest_scan, manifest_fetch or full_scan."""
        return self._with(strategy=name)

    def as_of(self, moment: Moment) -> Query[T]:
        """The state of a moment: a log number, a datetime with a time zone, or ISO text."""
        return self._with(as_of=moment)

    def at_least(self, state: int | str) -> Query[T]:
        """Any state from this log number on, or from that of a token: no request if this process knows one."""
        return self._with(at_least=state)

    def stale_ms(self, milliseconds: float) -> Query[T]:
        """Any state that was the newest at most this long ago; 0 for the newest, whatever the settings say."""
        return self._with(stale_ms=milliseconds)

    def _with(self, **option: Any) -> Query[T]:
        if "select" in option:
            parse_projection(option["select"])  # `field.$` needs conditions, which may come later
        else:
            check_query(self._access, None, option)
        return replace(self, _options={**self._options, **option})

    # --- answers ---

    def find(self) -> Results[T]:
        """The rows, lazily, as `Collection.find` gives them."""
        return Results(self._access, check_query(self._access, self.filter, self._options))

    def execute(self) -> list[T]:
        """All rows. Costs as `Collection.find`."""
        return self.find().to_list()

    def __iter__(self) -> Iterator[T]:
        """The rows, read as they are wanted."""
        return iter(self.find())

    def first(self) -> T | None:
        """The first row; None if there is none."""
        return self.find().first()

    def count(self) -> int:
        """How many rows there are, limit and offset counted in."""
        return self.find().count()

    def explain(self, *, analyze: bool = False) -> Explanation:
        """How the rows are found, as `Collection.explain`."""
        return self.find().explain(analyze=analyze)

    @reads
    def aggregate(self, **functions: Any) -> dict[str, Any]:
        """Functions over what the conditions find, as `Collection.aggregate`: group_by, count, sum, avg, min, max.

        Raises InvalidRequestError if the query has more than conditions, a search, a strategy and a choice of state.
        """
        return Aggregator(self._access).aggregate(functions, self.filter, self._conditions_only("aggregate"))

    @reads
    def distinct(self, field: str) -> list[Any]:
        """The different values of a field in what the conditions find, as `Collection.distinct`."""
        return Aggregator(self._access).distinct(field, self.filter, self._conditions_only("distinct"))

    def _conditions_only(self, verb: str) -> Mapping[str, Any]:
        others = [name for name in self._options if name not in ("search", "strategy", "as_of", "at_least", "stale_ms")]
        if others:
            raise InvalidRequestError(
                f"{verb} of a query with {', '.join(others)}",
                reason="it counts every row",
                fix=f"leave out {others[0]}",
            )
        return self._options

    def __repr__(self) -> str:
        """What is asked; no requests."""
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"Query({self._access.name}, {self.filter}{options})"
