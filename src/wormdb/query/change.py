"""Which documents a call changes, and how. Values that belong to no collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.sorting import SortSpec, WrittenSort, parse_sort
from wormdb.bql.text import parse_filter_text
from wormdb.bql.tree import And, Compare, Filter
from wormdb.bql.update.update import Update, apply_update, parse_update
from wormdb.bql.update.upsert import check_replacement, upsert_document
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, Document
from wormdb.query.request import BY_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime


__all__ = ["Edit", "Operators", "Replacement", "Targets"]


@dataclass(frozen=True, slots=True)
class Targets:
    """Which documents are meant: all that a filter finds, or the first of them in an order."""

    filter: Filter
    sort: SortSpec = BY_ID
    limit: int | None = 1
    """How many of them at most, the first ones in the order; None for all."""

    @classmethod
    def of(cls, written: Mapping[str, Any] | str, sort: WrittenSort = None, *, limit: int | None = 1) -> Targets:
        """From a filter as a document or as on the command line. An empty text is refused; {} means every document.

        Raises InvalidRequestError, as `parse_filter`, `parse_filter_text` and `parse_sort`. No requests.
        """
        given: object = limit
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise InvalidRequestError(
                f"limit={given!r:.40}", reason="it must be a whole number of 1 or more", fix="leave it out for all"
            )
        if isinstance(written, str) and not written.strip():
            raise InvalidRequestError(
                "the filter cannot be used", reason="it is empty", fix="give {} if every document is meant"
            )
        tree = parse_filter_text(written) if isinstance(written, str) else parse_filter(written)
        return cls(tree, parse_sort(sort), limit)

    @property
    def identity(self) -> Any:
        """The id that the document must have; MISSING if the filter names none."""
        return _identity(self.filter)


class Edit(Protocol):
    """What becomes of a document. Pure, and applied again whenever a call starts again."""

    @property
    def verb(self) -> str:
        """Update or replace: how what comes out of it is checked."""
        ...

    def apply(self, document: Document, now: datetime) -> Document:
        """A stored document as it will be; raises InvalidRequestError that names it."""
        ...

    def start(self, now: datetime) -> Document:
        """What an upsert inserts; raises InvalidRequestError."""
        ...


@dataclass(frozen=True, slots=True)
class Operators:
    """An update by operators."""

    query: Filter
    update: Update
    positions: Callable[[Document], dict[str, int]]
    verb: str = "update"

    @classmethod
    def of(
        cls, written: Mapping[str, Any], query: Filter, array_filters: Sequence[Mapping[str, Any]] | None
    ) -> Operators:
        """Raises InvalidRequestError, as `parse_update`. No requests."""
        update = parse_update(written, array_filters=array_filters, query=query)
        return cls(query, update, compile_positions(query, update.arrays))

    def apply(self, document: Document, now: datetime) -> Document:
        """As `Edit`."""
        return apply_update(self.update, document, matched=self.positions(document), now=now)

    def start(self, now: datetime) -> Document:
        """As `Edit`."""
        return upsert_document(self.query, self.update, now=now)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A whole document that takes the place of another, under its id."""

    query: Filter
    values: Mapping[str, Any]
    verb: str = "replace"

    @classmethod
    def of(cls, values: Mapping[str, Any], query: Filter) -> Replacement:
        """Raises InvalidRequestError, as `check_replacement`. No requests."""
        return cls(query, check_replacement(values))

    def apply(self, document: Document, now: datetime) -> Document:  # noqa: ARG002 - it holds no time
        """As `Edit`."""
        return check_replacement(self.values, identity=document["_id"])

    def start(self, now: datetime) -> Document:  # noqa: ARG002 - it holds no time
        """As `Edit`."""
        return check_replacement(self.values, identity=_identity(self.query))


def _identity(tree: Filter) -> Any:
    """The id that every matching document has; MISSING if the filter does not say."""
    match tree:
        case Compare(("_id",), "eq", value):
            return value
        case And(filters):
            return next((found for child in filters if (found := _identity(child)) is not MISSING), MISSING)
        case _:
            return MISSING
