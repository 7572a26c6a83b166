"""What the API has the engine ask while a batch is committed, as `wormdb.engine.commit.operations.Guard` says.

A guard is asked at every try, with the state that the batch would follow: what was true when the caller was answered
may not be true any more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, assert_never

from wormdb.engine.commit.operations import Insert, InsertNext, Purge, Remove, Restore, Save, mapped_operation
from wormdb.engine.state.view import changed_after, id_key
from wormdb.errors import ConflictError, PermissionDeniedError, ValidationError
from wormdb.format import json
from wormdb.schema.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.bql.tree import Filter
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.format.kinds import Document
    from wormdb.schema.model import Model

__all__ = ["FilesGuard", "ModelGuard", "ModelHolder", "UpsertGuard", "VersionGuard", "is_undefined", "warn_older"]

log = logging.getLogger(__name__)


class ModelHolder(Protocol):
    """What a writer says of its model."""

    @property
    def name(self) -> str:
        """Of the collection, for messages."""
        ...

    @property
    def model(self) -> Model | None:
        """The one that the writer has; None without a schema."""
        ...

    @property
    def definition(self) -> bytes:
        """The model as the log has it."""
        ...

    def check_definition(self, view: View) -> None:
        """Raise SchemaMismatchError if the collection has another model, which this one did not precede."""
        ...

    def in_force(self, view: View) -> Model | None:
        """The model that rules a state."""
        ...


@dataclass(frozen=True, slots=True)
class ModelGuard:
    """Refuses a batch that the model in force does not allow: its version, its mode, its fields, its trash."""

    writer: ModelHolder
    operations: tuple[Operation, ...]
    brings_model: bool
    """Whether the definition of a new collection comes with the batch."""

    def check(self, view: View) -> None:
        """See `Guard`; raises SchemaMismatchError, ConflictError, PermissionDeniedError, ValidationError.

        No requests; in an append-only collection those of looking up what it saves.
        """
        writer = self.writer
        writer.check_definition(view)
        if writer.model is not None and is_undefined(view) and not self.brings_model:
            raise ConflictError(f"collection {writer.name}", reason="it was emptied meanwhile, and has no schema yet")
        model = writer.in_force(view)
        _check_deletes(model, self.operations, writer.name)
        if model is None:
            return
        if model.mode == "readonly":
            raise PermissionDeniedError(
                f"{writer.name} is read-only", fix="change the model's mode, with worm schema apply"
            )
        if model.mode == "append" and _changes_existing(view, self.operations):
            raise PermissionDeniedError(f"{writer.name} is append-only", fix="insert new documents instead")
        known = view.definition.body  # none before the first write, which brings this writer's
        if writer.model is None or (known and known != writer.definition):
            _check_fit(model, _mapped(self.operations, view.definition, writer.definition))


@dataclass(frozen=True, slots=True)
class UpsertGuard:
    """Refuses an insert of an upsert if documents match its filter that did not in the state `seen`."""

    filter: Filter
    seen: View

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError if one matches now, or if the tail does not tell. No requests."""
        changed = changed_after(view, self.seen.number)
        is_mapped = view.definition.versions != self.seen.definition.versions
        from wormdb.bql.match import compile_filter

        matches = compile_filter(self.filter)
        if changed is None or is_mapped or any(_matches(held, matches) for held in changed):
            raise ConflictError("an upsert", reason="documents changed since none matched its filter")


@dataclass(frozen=True, slots=True)
class VersionGuard:
    """Refuses a snapshot of a document that is no longer at the version that was seen."""

    key: bytes
    seen: StoredVersion

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError. Costs a look-up."""
        held = view.get(self.key)
        if held is None or held.document is None or held.seq != self.seen.seq:
            raise ConflictError(f"document {self.seen.id.decode()}", reason="it changed before the snapshot was taken")


@dataclass(frozen=True, slots=True)
class FilesGuard:
    """Refuses to switch readable files if another process did since `seen`, or changed the model."""

    seen: View

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError. No requests."""
        now, then = view.definition, self.seen.definition
        if (now.files, now.model) != (then.files, then.model):
            raise ConflictError("readable files", reason="another process switched them, or changed the model")


def _matches(held: StoredVersion, matches: Callable[[Document], bool]) -> bool:
    return held.document is not None and matches(json.decode_document(held.document, name="document"))


def _changes_existing(view: View, operations: tuple[Operation, ...]) -> bool:
    """Whether an operation would change or remove a document that is there."""
    made: set[bytes] = set()
    for operation in operations:
        match operation:
            case Remove() | Restore() | Purge():
                return True
            case Insert(id=identity):
                made.add(id_key(identity))
            case Save(id=identity):
                held = view.get(id_key(identity))
                if id_key(identity) in made or operation.must_exist or (held is not None and held.document is not None):
                    return True
                made.add(id_key(identity))
            case InsertNext():
                pass
            case _:
                assert_never(operation)
    return False


def _check_deletes(model: Model | None, operations: tuple[Operation, ...], name: str) -> None:
    """Refuse deletes that were meant for a model with a trash where there is none now, or the other way round."""
    has_trash = model is not None and model.soft_delete.enabled
    removals = [each for each in operations if type(each) is Remove]
    if any((each.tombstone is not None) != has_trash for each in removals):
        raise ConflictError(f"collection {name}", reason="its model changed meanwhile: soft delete was switched")


def _mapped(operations: tuple[Operation, ...], definition: Definition, body: bytes) -> tuple[Operation, ...]:
    """Operations of a writer with model `body`, with documents as the commit will write them. No requests.

    Raises InvalidRequestError for a document that cannot be mapped.
    """
    begun = definition.begun_at(body) if body else None
    since = definition.number if begun is None else begun
    return tuple(
        each if isinstance(each, InsertNext) else mapped_operation(each, definition.upgrades, since)
        for each in operations
    )


def _check_fit(model: Model, operations: tuple[Operation, ...]) -> None:
    """Refuse what does not fit a model that the writer did not bring; raises ValidationError."""
    for operation in operations:
        if isinstance(operation, Remove | Purge | InsertNext) or operation.document is None:
            continue
        values = json.decode_document(operation.document, name="document")
        try:
            fits = validate(model, values) == values
        except ValidationError as error:
            raise ValidationError(f"document {values['_id']!r}: {error.what}", problems=error.problems) from error
        if not fits:
            raise ValidationError(
                f"document {values['_id']!r}: it does not fit the model {model.name}",
                reason="a value is not of the type that the model declares",
                fix=f"write through db.model({model.name!r}), which converts it",
            )


@lru_cache(maxsize=1_000)
def warn_older(origin: str, name: str, version: int) -> None:
    """Say once that a program has an older version of a model."""
    log.warning("%s: this program has an older version of %s; the newest is %d", origin, name, version)


def is_undefined(view: View) -> bool:
    """Whether a collection has no schema and no documents: it takes the first schema that comes."""
    return view.definition.model is None and view.count == 0
