"""Answers to requests: rows one after the other, a number, or how it would be done."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from wormdb.bql.match import compile_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import project
from wormdb.bql.sorting import sort_key
from wormdb.engine.portion import DOCUMENT
from wormdb.format import json
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.state import Held
    from wormdb.format.kinds import Document
    from wormdb.query.request import Request
    from wormdb.query.source import Source

__all__ = ["Hit", "count", "run"]


@dataclass(frozen=True, slots=True)
class Hit:
    """One row of an answer."""

    key: bytes
    """The key of its id."""
    order: bytes
    """Its sort key (`wormdb.bql.sorting.sort_key`): the place of the row, for page tokens."""
    held: Held | None
    """What is stored; None if the request has a projection and only columns were read for it."""
    document: Document
    """Normalized: projected if the request has a projection, otherwise whole."""


def run(request: Request, source: Source, *, cache: Any = None) -> Iterator[Hit]:  # noqa: ARG001 - no plans yet
    """The rows of an answer, in its order. Nothing is read until the first is asked for."""
    order, matches = sort_key(request.sort), compile_filter(request.filter)
    found: list[tuple[bytes, bytes, Document]] = []
    for portion in source.scan([DOCUMENT, "_id"]):
        for text in portion.documents():
            document = json.decode_document(text, name="document")
            place = order(document)
            if matches(document) and (request.after is None or place > request.after):
                found.append((place, encode_key(document["_id"]), document))
    found.sort(key=lambda row: row[0])
    stop = None if request.limit is None else request.offset + request.limit
    positions = None if request.projection is None else compile_positions(request.filter, request.projection.arrays)
    for place, key, document in islice(found, request.offset, stop):
        if request.projection is None or positions is None:
            yield Hit(key, place, source.fetch([key])[key], document)
        else:
            yield Hit(key, place, None, project(request.projection, document, matched=positions(document)))


def count(request: Request, source: Source, *, cache: Any = None) -> int:
    """How many rows the answer has."""
    return sum(1 for _ in run(request, source, cache=cache))
