"""The form of a question of the corpus, and what the pure functions of the language answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import parse_projection, project
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.bql.update.upsert import upsert_document
from wormdb.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

NOW: Final = datetime(2026, 11, 16, 12, 0, 0, 123000, tzinfo=UTC)
REFUSED: Final = "refused"

Kind = Literal["find", "sort", "select", "update"]
Documents = list[dict[str, Any]]


@dataclass(frozen=True)
class Question:
    """What is asked of some documents: the ids that match, their order, what is shown, or what becomes of them."""

    kind: Kind
    documents: Documents
    filter: dict[str, Any] = field(default_factory=dict)
    sort: dict[str, Any] = field(default_factory=dict)
    select: dict[str, Any] = field(default_factory=dict)
    update: dict[str, Any] = field(default_factory=dict)
    filters: list[dict[str, Any]] = field(default_factory=list)
    many: bool = False
    upsert: bool = False


def answer(question: Question) -> Any:
    """Ids for a filter and for a sort, documents for a projection and for an update; REFUSED for a typed error."""
    try:
        return ANSWERS[question.kind](question)
    except (InvalidRequestError, LimitExceededError):
        return REFUSED


def _find(question: Question) -> list[Any]:
    matches = compile_filter(parse_filter(question.filter))
    return [document["_id"] for document in question.documents if matches(document)]


def _sort(question: Question) -> list[Any]:
    matches = compile_filter(parse_filter(question.filter))
    found = filter(matches, question.documents)
    return [document["_id"] for document in sorted(found, key=sort_key(parse_sort(question.sort)))]


def _select(question: Question) -> Documents:
    tree = parse_filter(question.filter)
    matches, projection = compile_filter(tree), parse_projection(question.select, query=tree)
    positions = compile_positions(tree, projection.arrays)
    found = [document for document in question.documents if matches(document)]
    return [project(projection, document, matched=positions(document)) for document in found]


def _update(question: Question) -> Documents:
    tree = parse_filter(question.filter)
    update = parse_update(question.update, array_filters=question.filters or None, query=tree)
    matches, positions = compile_filter(tree), compile_positions(tree, update.arrays)
    after, changed = [], 0
    for document in question.documents:
        if matches(document) and (question.many or not changed):
            changed += 1
            after.append(apply_update(update, document, matched=positions(document), now=NOW))
        else:
            after.append(document)
    if not changed and question.upsert:
        after.append(upsert_document(tree, update, now=NOW))
    return after


ANSWERS: Final[dict[Kind, Callable[[Question], Any]]] = {
    "find": _find,
    "sort": _sort,
    "select": _select,
    "update": _update,
}
"""How a question of each kind is answered; raises what the language raises."""
