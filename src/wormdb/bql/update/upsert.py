"""Whole documents that a write puts in: replacements, and what an upsert inserts when nothing matched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wormdb.bql.mistakes import Mistakes
from wormdb.bql.tree import All, And, Compare, Filter
from wormdb.bql.update.update import Update, apply_update
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, Document, Regex
from wormdb.format.order import compare
from wormdb.format.values import normalize_document

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.format.path import Path

__all__ = ["check_replacement", "equality_document", "upsert_document"]


def check_replacement(written: Mapping[str, Any], *, identity: Any = MISSING) -> Document:
    """The document that takes the place of the one with `identity`: its id first, then all fields of `written`.

    Without an `identity` the id is the one of `written`, if there is one. `written` may have an equal id, as `_id` or
    `id`. Raises InvalidRequestError with all mistakes: operators, another id; LimitExceededError. No requests.
    """
    mistakes = Mistakes()
    given: Any = written
    for name in given if isinstance(given, Mapping) else ():
        if str(name).startswith("$"):
            mistakes.add(name, "a replacement has fields, no operators", "call update_one with operators, or rename it")
    mistakes.settle("the document cannot be replaced")
    document = normalize_document(written)
    for name in ("_id", "id"):
        own = document.pop(name, MISSING)
        if own is MISSING:
            continue
        if identity is not MISSING and compare(own, identity):
            mistakes.add(name, f"{own!r} is not the id {identity!r} of the document", "leave the id out")
        elif identity is MISSING:
            identity = own
    mistakes.settle("the document cannot be replaced")
    return document if identity is MISSING else {"_id": identity, **document}


def upsert_document(query: Filter, update: Update, *, now: datetime) -> Document:
    """What an upsert inserts: the equalities of `query` as a document, with `update` applied, its id first if any.

    Raises InvalidRequestError where the equalities say no one document, and as `apply_update`. No requests.
    """
    start = equality_document(query)
    made = apply_update(update, start, now=now, is_insert=True)
    if "_id" not in made:
        return made
    if "_id" in start and compare(start["_id"], made["_id"]):
        raise InvalidRequestError(
            "the upsert has two ids",
            reason=f"the filter asks for {start['_id']!r}, $setOnInsert sets {made['_id']!r}",
            fix="leave the id out of $setOnInsert",
        )
    return {"_id": made["_id"], **made}


def equality_document(query: Filter) -> Document:
    """The document that the equalities of a filter describe, fields in the order of their paths.

    Equalities count at the top level and within $and; ranges, $in, $or and negations say nothing. Raises
    InvalidRequestError if two are about the same value, or one leads through another. No requests.
    """
    mistakes = Mistakes()
    found: dict[Path, Any] = {}
    for path, value in sorted(_equalities(query), key=lambda equality: equality[0]):
        overlapping = next((path[:size] for size in range(1, len(path) + 1) if path[:size] in found), None)
        if overlapping is not None:
            reason = f"another equality, of {'.'.join(overlapping)}, is about the same value"
            mistakes.add(".".join(path), reason, "ask for each value once")
        elif path[0] == "_id" and len(path) > 1:
            mistakes.add(".".join(path), "a part of an id makes no id", "compare _id with a whole value")
        else:
            found[path] = value
    mistakes.settle("the filter describes no document to insert")
    document: Document = {}
    for path, value in found.items():
        inner = document
        for segment in path[:-1]:
            inner = inner.setdefault(segment, {})
        inner[path[-1]] = value
    return document


def _equalities(query: Filter) -> Iterator[tuple[Path, Any]]:
    match query:
        case And(filters):
            for child in filters:
                yield from _equalities(child)
        case Compare(path, "eq", value):
            yield path, value
        case All(path, values):  # each is an equality of its own
            yield from ((path, value) for value in values if type(value) is not Regex)
        case _:
            return
