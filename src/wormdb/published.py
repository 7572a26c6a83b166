"""The published schema: a copy in the bucket for those who open it without one.

It is a courtesy. What counts is the definition in each collection's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    PermissionDeniedError,
    SchemaError,
    UnavailableError,
)
from wormdb.schema.load import load_schema
from wormdb.schema.model import Schema
from wormdb.storage.store import Always, IfAbsent, IfMatch
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from collections.abc import Collection

    from wormdb.storage.store import Precondition, Store

__all__ = ["PUBLISHED_SCHEMA", "PublishedSchema", "given_schema"]

PUBLISHED_SCHEMA = ".worm.schema.json"
_PAUSE_SECONDS = 0.5
ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class PublishedSchema:
    """The schema at the root of a database."""

    store: Store

    def read(self) -> Schema | None:
        """What is published; None if nothing is. 1 GET; raises SchemaError."""
        found = self.store.probe(PUBLISHED_SCHEMA).found
        return None if found is None else load_schema(found.body, name=PUBLISHED_SCHEMA)

    def put(self, schema: Schema) -> None:
        """Publish a schema in place of what is there. 1 PUT."""
        self._write(schema, Always())

    def add(self, schema: Schema, renewed: Collection[str] = ()) -> None:
        """Publish the models that are not published yet; what is published stays. 1 GET and 1 PUT.

        The models `renewed` replace those of their names. A process that may not write there, or finds something
        unreadable there, leaves it.
        """
        losses = 0
        while losses < ATTEMPTS_MAX:
            found = self.store.probe(PUBLISHED_SCHEMA).found
            try:
                published = None if found is None else load_schema(found.body, name=PUBLISHED_SCHEMA)
                if found is None or published is None:
                    self._write(schema, IfAbsent())
                    return
                known = {name for name in published.models if name not in renewed}
                missing = {name: model for name, model in schema.models.items() if name not in known}
                if missing:
                    self._write(replace(published, models={**published.models, **missing}), IfMatch(found.version))
            except (AlreadyExistsError, ConflictError):
                losses += 1
                continue  # somebody else published meanwhile: perhaps the same
            except UnavailableError:
                deadline = current()
                if deadline is None or not deadline.is_patient or not deadline.left:
                    raise
                deadline.wait(_PAUSE_SECONDS)
                continue  # what is there now tells whether it was written
            except (PermissionDeniedError, SchemaError):
                return
            return

    def _write(self, schema: Schema, precondition: Precondition) -> None:
        body = msgspec.json.format(msgspec.json.encode(schema.to_json()), indent=2)
        try:
            self.store.put(PUBLISHED_SCHEMA, body, precondition, content_type="application/json")
        except OutcomeUnknownError as error:
            raise UnavailableError(
                f"object {PUBLISHED_SCHEMA}", reason=error.reason, fix="retry; no document was written"
            ) from error


def given_schema(schema: Schema | Mapping[str, Any] | str | Path) -> Schema:
    """The schema that a caller gives: itself, a mapping, JSON text, or the path of a file. No requests.

    Raises InvalidRequestError for what cannot be read, SchemaError listing every mistake.
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Path) or (isinstance(schema, str) and not schema.lstrip().startswith("{")):
        path = Path(schema)
        try:
            return load_schema(path.read_bytes(), name=str(path))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            fix = "give a dict, or the path of a schema.json"
            raise InvalidRequestError(f"schema {str(schema)[:200]!r}", reason=reason, fix=fix) from error
    if isinstance(schema, str | bytes | Mapping):
        return load_schema(schema)
    raise InvalidRequestError(
        f"schema of type {type(schema).__name__}", reason="it is no schema", fix="give a dict, or a file's path"
    )
