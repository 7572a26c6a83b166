"""What a model says of a batch, when it is about to be committed."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from wormdb.engine.commit.validate import mapped_operation
from wormdb.engine.state.operations import Insert, InsertNext, Purge, Remove, Restore, Save
from wormdb.engine.state.view import id_key
from wormdb.errors import ConflictError, ValidationError
from wormdb.format import json
from wormdb.schema.validate import validate

if TYPE_CHECKING:
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.operations import Operation
    from wormdb.engine.state.view import View
    from wormdb.schema.model import Model

__all__ = ["changes_existing", "check_deletes", "check_fit", "is_undefined", "mapped", "warn_older"]

log = logging.getLogger(__name__)


def changes_existing(view: View, operations: tuple[Operation, ...]) -> bool:
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


def check_deletes(model: Model | None, operations: tuple[Operation, ...], name: str) -> None:
    """Refuse deletes that were meant for a model with a trash where there is none now, or the other way round."""
    has_trash = model is not None and model.soft_delete.enabled
    if any(isinstance(each, Remove) and (each.tombstone is not None) != has_trash for each in operations):
        raise ConflictError(f"collection {name}", reason="its model changed meanwhile: soft delete was switched")


def mapped(operations: tuple[Operation, ...], definition: Definition, body: bytes) -> tuple[Operation, ...]:
    """Operations of a writer with model `body`, with documents as the commit will write them. No requests.

    Raises InvalidRequestError for a document that cannot be mapped.
    """
    begun = definition.begun_at(body) if body else None
    since = definition.number if begun is None else begun
    return tuple(
        each if isinstance(each, InsertNext) else mapped_operation(each, definition.upgrades, since)
        for each in operations
    )


def check_fit(model: Model, operations: tuple[Operation, ...]) -> None:
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
                f"document {values['_id']!r}: this is no {model.name}",
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
