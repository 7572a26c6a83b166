"""Updates, replacements and deletes of what a filter finds, as users call them on a collection.

The first call imports what carries it out, so that a program that only gets and saves documents does not wait for it.
"""

# ruff: noqa: A002, PLR0913 - names and keyword-only options are those that users know

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, overload

from wormdb.api.calls import commits
from wormdb.errors import InvalidRequestError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.api.update import DeleteResult, Look, Updater, UpdateResult
    from wormdb.bql.sorting import WrittenSort
    from wormdb.engine.state.view import StoredVersion
    from wormdb.query.change import Edit, Targets
    from wormdb.system.types import LogNumber

    ArrayFilters = Sequence[Mapping[str, Any]] | None
    Metadata = Mapping[str, Any] | None
    Select = Sequence[str] | Mapping[str, Any]
    Which = Literal["before", "after"] | bool
    """Which document is returned; `ReturnDocument.AFTER` is True, as pymongo's is."""

__all__ = ["ModifyMethods"]

T = TypeVar("T")

_WHICH: Final = ("before", "after")


class ModifyMethods(Generic[T]):
    """Changes by filters, each one batch in the log: all of it or nothing.

    If another writer changes one of the documents meanwhile, a call starts again from the new state.
    """

    _access: Access[T]

    @commits
    def update_one(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        upsert: bool = False,
        array_filters: ArrayFilters = None,
        sort: WrittenSort = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> UpdateResult:
        """Change the first document that matches, by operators: $set, $unset, $inc, $push and others.

        With `upsert`, if none matches, a document is inserted: the equalities of the filter, then the update. Fields
        are checked against the model, and its `updatedAt` is now. 1 PUT after what finding it costs. By id that is
        nothing in a process that knows the document and has seen no other writer for a minute; else what
        `find_by_id` costs. No PUT if the document stays as it is.
        Raises InvalidRequestError that names document, operator and field, ValidationError, UniqueViolationError,
        AlreadyExistsError if an upsert has the id of a document that does not match, ConflictError after many
        losses, all with nothing written; UnavailableError, OutcomeUnknownError.
        """
        targets = self._targets(filter, sort)
        edit = _operators(update, targets, array_filters)
        return self._updated(targets, edit, self._access.by(actor, metadata), upsert=upsert)

    @commits
    def update_many(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        upsert: bool = False,
        array_filters: ArrayFilters = None,
        sort: WrittenSort = None,
        limit: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> UpdateResult:
        """Change all documents that match one state, in one batch. Otherwise as `update_one`.

        With `limit` only the first ones in the order of `sort`, or of ids. 1 PUT after what finding them costs; a batch
        over STAGE_BYTES takes 2, and 2 for each block. The changed documents are in memory, as they were and as they
        will be; those that stay as they are, are not.
        """
        targets = self._targets(filter, sort, limit=limit)
        edit = _operators(update, targets, array_filters)
        return self._updated(targets, edit, self._access.by(actor, metadata), upsert=upsert)

    @commits
    def replace_one(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        upsert: bool = False,
        sort: WrittenSort = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> UpdateResult:
        """Put a whole document in the place of the first that matches, under its id; a model's `createdAt` stays.

        Defaults of the model are filled in. The replacement may have the same id or none. What it was read as does not
        count: to notice that it changed since, `save` it. Otherwise as `update_one`.
        """
        targets = self._targets(filter, sort)
        edit = self._replacement(replacement, targets)
        return self._updated(targets, edit, self._access.by(actor, metadata), upsert=upsert)

    @commits
    def delete_one(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> DeleteResult:
        """Delete the first document that matches; of a model with softDelete it goes to the trash.

        1 PUT after what finding it costs, as in `update_one`. Raises InvalidRequestError, and ConflictError after many
        losses, with nothing written; UnavailableError, OutcomeUnknownError.
        """
        return self._deleted(self._targets(filter, sort), self._access.by(actor, metadata))

    @commits
    def delete_many(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        limit: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> DeleteResult:
        """Delete all documents that match one state, in one batch; {} matches every document.

        With `limit` only the first ones in the order of `sort`, or of ids. 1 PUT after what finding them costs; a batch
        over STAGE_BYTES takes 2, and 2 for each block. All of them are in memory. Otherwise as `delete_one`.
        """
        return self._deleted(self._targets(filter, sort, limit=limit), self._access.by(actor, metadata))

    @overload
    def find_one_and_update(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: None = None,
        array_filters: ArrayFilters = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    def find_one_and_update(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select,
        array_filters: ArrayFilters = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> dict[str, Any] | None: ...

    @commits
    def find_one_and_update(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select | None = None,
        array_filters: ArrayFilters = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | dict[str, Any] | None:
        """As `update_one`, and the document as it was before, or is after that; None if there was none.

        With `select` a dict with these fields alone. A document of before is as it was read: to save it is a conflict.
        """
        targets = self._targets(filter, sort)
        edit = _operators(update, targets, array_filters)
        exchange = _Exchange(_which(return_document), select, upsert=upsert)
        return self._exchanged(targets, edit, exchange, self._access.by(actor, metadata))

    @overload
    def find_one_and_replace(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    def find_one_and_replace(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> dict[str, Any] | None: ...

    @commits
    def find_one_and_replace(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | dict[str, Any] | None:
        """As `replace_one`, and the document as it was before, or is after that. Otherwise as `find_one_and_update`."""
        targets = self._targets(filter, sort)
        edit = self._replacement(replacement, targets)
        exchange = _Exchange(_which(return_document), select, upsert=upsert)
        return self._exchanged(targets, edit, exchange, self._access.by(actor, metadata))

    @overload
    def find_one_and_delete(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        select: None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    def find_one_and_delete(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        select: Select,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> dict[str, Any] | None: ...

    @commits
    def find_one_and_delete(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        select: Select | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | dict[str, Any] | None:
        """As `delete_one`, and the document as it was; None if there was none.

        It is a copy: saving it puts it back. With `select` a dict with these fields alone.
        """
        targets = self._targets(filter, sort)
        writer = self._access.writer
        look = _selected(select, targets) or (lambda held, _: writer.show_past(held))
        found: T | dict[str, Any] | None
        found = self._updater.remove(targets, self._access.by(actor, metadata), look=look).before
        return found

    # --- inside ---

    @property
    def _updater(self) -> Updater[T]:
        from wormdb.api.update import Updater

        return Updater(self._access)

    def _targets(self, filter: Mapping[str, Any] | str, sort: WrittenSort = None, *, limit: int | None = 1) -> Targets:
        """What a call is about; functions in its filter are as they are now. 1 GET if it has some."""
        from wormdb.api.options import expand_functions
        from wormdb.query.change import Targets

        targets = Targets.of(filter, sort, limit=limit)
        if (model := self._access.writer.model) is not None:
            from wormdb.api.names import target_paths, tell_unknown_paths

            tell_unknown_paths(model, target_paths(targets), self._access.settings.unknown_fields)
        return replace(targets, filter=expand_functions(self._access, targets.filter))

    def _replacement(self, document: T | Mapping[str, Any], targets: Targets) -> Edit:
        from wormdb.query.change import Replacement

        return Replacement.of(self._access.writer.given(document), targets.filter)

    def _deleted(self, targets: Targets, by: Author) -> DeleteResult:
        from wormdb.api.update import DeleteResult

        done = self._updater.remove(targets, by)
        return DeleteResult(done.modified, done.number, done.keys)

    def _updated(self, targets: Targets, edit: Edit, by: Author, *, upsert: bool) -> UpdateResult:
        from wormdb.api.update import UpdateResult

        done = self._updater.change(targets, edit, by, upsert=upsert)
        return UpdateResult(done.matched, done.modified, done.upserted_id, done.number, done.keys)

    def _exchanged(self, targets: Targets, edit: Edit, exchange: _Exchange, by: Author) -> T | dict[str, Any] | None:
        show = exchange.selected(targets) or self._access.writer.show
        found: T | dict[str, Any] | None
        if exchange.which == "before":
            found = self._updater.change(targets, edit, by, upsert=exchange.upsert, look=show).before
        else:
            done = self._updater.change(targets, edit, by, upsert=exchange.upsert)
            found = None if done.after is None else show(done.after, done.number)
        return found


def _operators(update: Mapping[str, Any], targets: Targets, array_filters: ArrayFilters) -> Edit:
    from wormdb.query.change import Operators

    return Operators.of(update, targets.filter, array_filters)


def _which(given: Which) -> str:
    return ("after" if given else "before") if isinstance(given, bool) else given


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What is wanted of a document that is found and changed."""

    which: str
    select: Select | None
    upsert: bool

    def selected(self, targets: Targets) -> Look | None:
        """Shows the selected fields; None if nothing is selected. Raises InvalidRequestError."""
        if self.which not in _WHICH:
            raise InvalidRequestError(
                f"return_document={self.which!r}", reason="there is no such document", fix='give "before" or "after"'
            )
        return _selected(self.select, targets, is_after=self.which == "after")


def _selected(select: Select | None, targets: Targets, *, is_after: bool = False) -> Look | None:
    if select is None:
        return None
    from wormdb.bql.positions import compile_positions
    from wormdb.bql.projection import parse_projection, project

    projection = parse_projection(select, query=targets.filter)
    if is_after and projection.arrays:
        raise InvalidRequestError(
            f"select of {projection.arrays[0]}.$",
            reason="it shows what the filter matched, and the document is another one after the change",
            fix='select the whole array, or return_document="before"',
        )
    positions = compile_positions(targets.filter, projection.arrays)

    def show(held: StoredVersion, _: LogNumber) -> dict[str, Any]:
        assert held.document is not None, "deleted documents are not shown"
        document = json.decode_document(held.document, name=f"document {held.id.decode()}")
        shown = project(projection, document, matched=positions(document))
        return {("id" if name == "_id" else name): value for name, value in shown.items()}

    return show
