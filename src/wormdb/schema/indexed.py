"""The types that a model's indexes name: what documents may hold in the fields of each. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.format.bson_types import bson_type_of, takes_value
from wormdb.format.path import parse_path, walk, within
from wormdb.format.values import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.format.path import Path
    from wormdb.format.values import Document
    from wormdb.schema.model import Model
    from wormdb.schema.report import ProblemReport

__all__ = ["check_indexed", "has_types"]


def has_types(model: Model | None) -> bool:
    """Whether an index of a model says which types its fields may have. No requests."""
    return model is not None and any(index.bson_type for index in model.indexes.values())


def check_indexed(model: Model, document: Document, report: ProblemReport) -> None:
    """Report the values of a normalized document that have another type than `bsonType` of an index says.

    Elements of arrays count, as in the index; null and missing fit every type. No requests.
    """
    for index in model.indexes.values():
        for field, name in zip(index.fields, index.bson_type, strict=False):
            takes = takes_value(bson_type_of(name) or name)
            wrong = next((value for value in _values(document, parse_path(field)) if not takes(value)), MISSING)
            if wrong is not MISSING:
                report.error(field, f"{wrong!r:.80} is no {name}", "write a value of that type")


def _values(value: Any, path: Path | None) -> Iterator[Any]:
    """What an index has of a value: elements of arrays, None where nothing is."""
    reached, rest = walk(value, path)
    if rest is None:
        yield None if reached is MISSING else reached
        return
    for position, element in enumerate(reached):
        for place in within(element, position, rest):
            yield from _values(*place)
