"""Calls that users of pymongo know by other names, and what those return."""

# ruff: noqa: A002 - filter is the name that users know

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from wormdb.api.calls import commits
from wormdb.api.find import QueryMethods
from wormdb.api.pymongo_names import PymongoNames, explained
from wormdb.settings import KNOWLEDGE_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.api.bulk_write import BulkWriteResult
    from wormdb.api.options import WrittenFilter

__all__ = ["FamiliarMethods", "InsertManyResult", "InsertOneResult", "ReturnDocument"]

T = TypeVar("T")


class ReturnDocument:
    """Names of pymongo for which document is returned by a call that finds and changes one."""

    BEFORE: Final = False
    AFTER: Final = True


@dataclass(frozen=True, slots=True)
class InsertOneResult:
    """What an insert did."""

    inserted_id: Any
    """The id of the document."""
    acknowledged: bool = True
    """Always: a write that was not done raises."""


class InsertManyResult(list[Any]):
    """The ids of the documents that were inserted, in their order."""

    __slots__ = ()

    @property
    def inserted_ids(self) -> list[Any]:
        """The same."""
        return self

    @property
    def acknowledged(self) -> bool:
        """Always: a write that was not done raises."""
        return True


class FamiliarMethods(PymongoNames, QueryMethods[T]):
    """Queries, and names of pymongo for what has another name here."""

    @commits
    def insert_one(
        self,
        document: T | Mapping[str, Any],
        *,
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> InsertOneResult:
        """As `insert`, which returns the document: the id alone. The mapping itself is not changed."""
        (identity,) = self._access.insert_all([document], self._access.by(actor, metadata))
        return InsertOneResult(identity)

    @explained
    def bulk_write(
        self, requests: Iterable[Any], *, actor: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> BulkWriteResult:
        """Carry out requests of pymongo (`InsertOne`, `UpdateOne`, …) in order, all of them or none.

        Each sees what those before it did. They are one transaction: 1 PUT after what finding the documents costs,
        and again after a conflict. Raises what the first one raises that cannot be done, with its place; a note of the
        error names it. InvalidRequestError for anything else than requests.
        """
        from wormdb.api.bulk_write import read_requests, write_all

        found = read_requests(requests)
        collection: Any = self
        if self._access.session is not None:
            return write_all(collection, found)
        done = self._access.home.run(lambda tx: write_all(tx[collection], found), actor=actor, metadata=metadata)
        return cast("BulkWriteResult", done)

    @explained
    def count_documents(self, filter: WrittenFilter, *, timeout: float | None = None) -> int:
        """As `count`, with a filter that must be given: {} for all documents."""
        return self.count({} if filter is None else filter, timeout=timeout)

    @explained
    def estimated_document_count(self, *, timeout: float | None = None) -> int:
        """How many documents there were within the last minute. No requests in a process that knows a state so new."""
        return self.count(stale_ms=KNOWLEDGE_MS_MAX, timeout=timeout)
