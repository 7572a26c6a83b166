"""Answers by the pure language over documents in memory: what every strategy has to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.api.document import with_id
from wormdb.bql.aggregation import aggregate, parse_aggregation
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection, project
from wormdb.bql.sorting import parse_sort, sort_key

if TYPE_CHECKING:
    from collections.abc import Sequence


def matching(documents: Sequence[dict[str, Any]], written: dict[str, Any]) -> list[dict[str, Any]]:
    """The documents that a filter matches."""
    matches = compile_filter(parse_filter(written))
    return [document for document in documents if matches(document)]


def rows(
    documents: Sequence[dict[str, Any]],
    written: dict[str, Any],
    *,
    sort: Any = None,
    limit: int | None = None,
    offset: int = 0,
    select: Any = None,
) -> list[dict[str, Any]]:
    """The rows of a query, as users see them."""
    found = sorted(matching(documents, written), key=sort_key(parse_sort(sort)))[offset:][:limit]
    if select is None:
        return [with_id(document) for document in found]
    projection = parse_projection(select)
    return [with_id(project(projection, document)) for document in found]


def sums(documents: Sequence[dict[str, Any]], written: dict[str, Any], **functions: Any) -> dict[str, Any]:
    """The result of an aggregation."""
    return aggregate(parse_aggregation(functions), matching(documents, written))
