"""The updates of the corpus in a database: the documents of many cases lie in one collection, with ids of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.bql.corpus.questions import REFUSED
from tests.bql.corpus.states import shown
from wormdb.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bql.corpus.reading import Case

    Numbered = Sequence[tuple[int, Case]]

_STEP: Final = 10
"""The ids of a case are from its number times this on."""


def documents_of(cases: Numbered) -> list[dict[str, Any]]:
    """The documents of numbered cases."""
    return [
        document | {"_id": number * _STEP + document["_id"]}
        for number, case in cases
        for document in case.question.documents
    ]


def change_all(collection: Any, cases: Numbered) -> dict[int, Any]:
    """Carry out all cases, and then look: what is there of each, or REFUSED if it was and nothing changed."""
    refused = {number for number, case in cases if not _change(collection, number, case)}
    found: dict[int, Any] = {number: [] for number, _ in cases}
    for row in collection.find({}, sort="_id"):
        number, identity = divmod(row["id"], _STEP)
        found[number].append(shown(row) | {"_id": identity})
    for number, case in cases:
        if number in refused and found[number] == case.question.documents:
            found[number] = REFUSED
    return found


def _change(collection: Any, number: int, case: Case) -> bool:
    """Carry out a case, by the verb that its number chooses; whether it was taken."""
    question, start = case.question, number * _STEP
    own = {"$gte": start, "$lt": start + _STEP}
    identity = question.filter["_id"] + start if "_id" in question.filter else own
    verbs = [collection.update_many] if question.many else [collection.update_one, collection.find_one_and_update]
    try:
        verbs[number % len(verbs)](
            question.filter | {"_id": identity},
            question.update,
            upsert=question.upsert,
            array_filters=question.filters or None,
        )
    except (InvalidRequestError, LimitExceededError):
        return False
    return True
