"""Aggregations of one collection: functions over what a filter finds, in groups or of all together."""

# ruff: noqa: A002 - a filter is what everybody calls it

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.api.options import ask
from wormdb.api.read import Reading
from wormdb.bql.aggregation import parse_aggregation
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.api.access import Access
    from wormdb.api.options import WrittenFilter

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
        aggregation = parse_aggregation(functions)
        reading = Reading(self.access, ask(self.access, filter, options))
        request = reading.request()
        return reading.attempt(lambda state: state.aggregate(aggregation, request))

    def distinct(self, field: str, filter: WrittenFilter, options: Mapping[str, Any]) -> list[Any]:
        """The different values of a field. Raises as `Collection.distinct`."""
        if not isinstance(field, str):
            raise InvalidRequestError(
                f"distinct({field!r:.60}) of {self.access.name}", reason="it is no name", fix='name one field: "city"'
            )
        found: list[Any] = self.aggregate({"distinct": field}, filter, options)["distinct"]
        return found
