"""Our answers to the questions that mingo was asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from tests.bql.mingo.questions import Question

NOW = datetime(2026, 11, 16, tzinfo=UTC)
REFUSED = "refused"


def answer(kind: str, question: Question) -> Any:
    """What we say: to a filter whether it matches, to a sort the ids, to an update the document after or REFUSED."""
    if kind == "filters":
        document, written = question
        return compile_filter(parse_filter(written))(document)
    if kind == "sorts":
        documents, order = question
        return [document["_id"] for document in sorted(documents, key=sort_key(parse_sort(order)))]
    try:
        return plain(_updated(*question))
    except InvalidRequestError:
        return REFUSED


def _updated(document: dict[str, Any], written: dict[str, Any], filters: list[Any], query: dict[str, Any]) -> Any:
    found = parse_filter(query)
    if not compile_filter(found)(document):
        return document
    update = parse_update(written, array_filters=filters or None)
    return apply_update(update, document, matched=compile_positions(found, update.arrays)(document), now=NOW)


def plain(value: Any) -> Any:
    """A value as JavaScript would have it, and without the order of fields, in which mingo differs on purpose.

    Fields are ordered by name, and a number without a fraction is whole.
    """
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
