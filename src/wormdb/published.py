"""The published schema: a copy in the bucket for those who open it without one.

It is a courtesy. What counts is the definition in each collection's log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    OutcomeUnknownError,
    PermissionDeniedError,
    SchemaError,
    UnavailableError,
)
from wormdb.schema.load import load_schema
from wormdb.storage.store import Always, IfAbsent, IfMatch

if TYPE_CHECKING:
    from wormdb.schema.model import Schema
    from wormdb.storage.store import Precondition, Store

__all__ = ["PUBLISHED_SCHEMA", "PublishedSchema"]

PUBLISHED_SCHEMA = ".worm.schema.json"
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

    def add(self, schema: Schema) -> None:
        """Publish the models that are not published yet; what is published stays. 1 GET and 1 PUT.

        A process that may not write there, or finds something unreadable there, leaves it.
        """
        for _ in range(ATTEMPTS_MAX):
            found = self.store.probe(PUBLISHED_SCHEMA).found
            try:
                published = None if found is None else load_schema(found.body, name=PUBLISHED_SCHEMA)
                if found is None or published is None:
                    self._write(schema, IfAbsent())
                    return
                missing = {name: model for name, model in schema.models.items() if name not in published.models}
                if missing:
                    self._write(replace(published, models={**published.models, **missing}), IfMatch(found.version))
            except (AlreadyExistsError, ConflictError):
                continue  # somebody else published meanwhile: perhaps the same
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
