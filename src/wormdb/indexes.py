"""The indexes of one collection, as users make, see and drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.engine.define import create_index, drop_index
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.index.definition import Index
from wormdb.status import IndexSummary, indexes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.access import Access

__all__ = ["Indexes"]

T = TypeVar("T")


class Indexes(Generic[T]):
    """Makes, shows and drops indexes."""

    def __init__(self, access: Access[T]) -> None:
        """No requests."""
        self._access = access

    def all(self) -> list[IndexSummary]:
        """The primary one first, the others in order of their names. 1 GET in a warm process."""
        return list(indexes_of(self._access.view().definition))

    def create(
        self, fields: str | Sequence[str], *, name: str | None, unique: bool, sparse: bool, wait: bool
    ) -> IndexSummary:
        """Make an index, and with `wait` build it. Raises as `Collection.create_index` says."""
        index = _index(fields, name, unique=unique, sparse=sparse)
        access = self._access
        access.writer.check_mode()
        pending = create_index(
            access.context.new_batch_id(), index, seen=access.present(), actor=access.context.by.actor
        )
        access.ledger.commit(pending, seconds=access.context.settings.commit_seconds)
        if wait:
            access.ledger.forward()
        made = next((each for each in self.all() if each.name == index.name), None)
        if made is None:
            raise ConflictError(f"index {index.name}", reason="somebody else dropped it meanwhile")
        if made.state == "failed":
            raise InvalidRequestError(
                f"index {index.name}",
                reason=made.reason or "it failed",
                fix="change the documents, and create it again",
            )
        return made

    def drop(self, name: str) -> None:
        """Drop an index. Raises as `Collection.drop_index` says."""
        access = self._access
        access.writer.check_mode()
        pending = drop_index(access.context.new_batch_id(), name, seen=access.present(), actor=access.context.by.actor)
        access.ledger.commit(pending, seconds=access.context.settings.commit_seconds)


def _index(fields: str | Sequence[str], name: str | None, *, unique: bool, sparse: bool) -> Index:
    paths: tuple[Any, ...] = (fields,) if isinstance(fields, str) else tuple(fields)
    if not paths or not all(isinstance(path, str) for path in paths):
        raise InvalidRequestError(
            f"index over {fields!r}", reason="fields are dotted names", fix='give "email", or ["city", "age"]'
        )
    if len(set(paths)) < len(paths):
        raise InvalidRequestError(f"index over {fields!r}", reason="it names a field twice", fix="name each once")
    return Index(name or "_".join(paths), paths, unique=unique, sparse=sparse)
