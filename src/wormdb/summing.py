"""Aggregations of one collection: functions over what a filter finds, in groups or of all together."""

# ruff: noqa: A002 - a filter is what everybody calls it

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.asking import ask
from wormdb.bql.aggregation import Tally, aggregation_fields, parse_aggregation
from wormdb.bql.projection_parse import parse_projection
from wormdb.errors import InvalidRequestError
from wormdb.format.path import is_position
from wormdb.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.access import Access
    from wormdb.asking import WrittenFilter
    from wormdb.bql.aggregation import Aggregation

__all__ = ["Summing"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Summing(Generic[T]):
    """Counts and sums documents of one collection."""

    access: Access[T]

    def aggregate(
        self, functions: Mapping[str, Any], filter: WrittenFilter, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The result of `parse_aggregation(functions)` over what a filter finds. Raises as `Collection.aggregate`."""
        return self._tally(parse_aggregation(functions), filter, options).result()

    def distinct(self, field: str, filter: WrittenFilter, options: Mapping[str, Any]) -> list[Any]:
        """The different values of a field. Raises as `Collection.distinct`."""
        if not isinstance(field, str):
            raise InvalidRequestError(
                f"distinct({field!r:.60}) of {self.access.name}", reason="it is no name", fix='name one field: "city"'
            )
        found: list[Any] = self.aggregate({"distinct": field}, filter, options)["distinct"]
        return found

    def _tally(self, aggregation: Aggregation, filter: WrittenFilter, options: Mapping[str, Any]) -> Tally:
        asked = ask(self.access, filter, options)
        projection = parse_projection(_needed(aggregation_fields(aggregation)))
        reading = Reading(self.access, replace(asked, request=replace(asked.request, projection=projection)))
        tally = Tally(aggregation)
        for hit in reading.hits():
            tally.add(hit.document)
        return tally


def _needed(paths: Iterable[str]) -> list[str]:
    """The parts of documents that have all values of some paths; a number in a path may be a position in an array."""
    found: set[str] = set()
    for path in paths:
        names: list[str] = []
        for segment in path.split("."):
            if names and is_position(segment):
                break
            names.append(segment)
        found.add(".".join(names))
    return sorted(path for path in found if not any(path.startswith(f"{other}.") for other in found))
