"""Change the schema of a database: what would change and what it costs, and the change itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.engine.state.definition import settled
from wormdb.engine.state.upgrade import encode_mapping
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    PermissionDeniedError,
    SchemaError,
    UnavailableError,
)
from wormdb.format.blocklist import BlockEntry
from wormdb.format.event import SchemaChanged
from wormdb.schema.difference import SchemaDifference, check_version, compare_models, could_contradict
from wormdb.schema.load import load_schema
from wormdb.schema.model import Model, Schema
from wormdb.schema.problems import did_you_mean
from wormdb.storage.store import Always, IfAbsent, IfMatch, Precondition, Store
from wormdb.system.deadline import current
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.api.calls import Author
    from wormdb.api.files import FilesPlacement
    from wormdb.engine.ledger import CommitResult, Ledger
    from wormdb.engine.migrate import Migrate
    from wormdb.engine.state.view import View

__all__ = [
    "PUBLISHED_SCHEMA",
    "Evolution",
    "ModelConversions",
    "ModelPlan",
    "PublishedSchema",
    "SchemaPlan",
    "read_schema",
]

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 16
"""How often a model is checked again because others wrote meanwhile."""
DOCUMENTS_A_SECOND: Final = 6_000
"""About how many documents are looked at, mapped and written again in a second, by one core."""
REQUESTS_A_SECOND: Final = 20
"""About how many requests are answered in a second, one after the other."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """What a schema would change in one model."""

    name: str
    changes: tuple[SchemaDifference, ...]
    version_from: int
    version_to: int
    mapping: Mapping[str, Any] | None = None
    """The update that documents are shown with, and written again with in the background."""
    is_migrated: bool = False
    """Whether a function writes all documents again first."""
    documents: int = 0
    """Documents that are written again."""
    blocks: int = 0
    """Blocks that are written again."""
    bytes: int = 0
    """Of these blocks, as stored."""
    requests: int = 0
    """About how many requests it takes until nothing is left to do."""
    indexes: tuple[str, ...] = ()
    """The indexes that are built."""
    warnings: tuple[str, ...] = ()
    """Why documents may not fit the model."""

    @property
    def seconds(self) -> float:
        """About how long it takes until nothing is left to do."""
        return self.documents / DOCUMENTS_A_SECOND + self.requests / REQUESTS_A_SECOND

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "model": self.name,
            "versionFrom": self.version_from,
            "versionTo": self.version_to,
            "changes": [
                {"path": one.path, "kind": one.kind, "before": one.before, "after": one.after} for one in self.changes
            ],
            "mapping": self.mapping,
            "migrated": self.is_migrated,
            "documents": self.documents,
            "blocks": self.blocks,
            "bytes": self.bytes,
            "requests": self.requests,
            "seconds": round(self.seconds, 1),
            "indexes": list(self.indexes),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What a schema would change in a database, model by model."""

    models: tuple[ModelPlan, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not self.models

    @property
    def changes(self) -> dict[str, tuple[SchemaDifference, ...]]:
        """The differences by model."""
        return {plan.name: plan.changes for plan in self.models}

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"models": [plan.to_dict() for plan in self.models]}


@dataclass(frozen=True, slots=True)
class ModelConversions:
    """How documents come to the new version of their models, by model."""

    mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    migrate: Mapping[str, Migrate] = field(default_factory=dict)

    def check(self, known: Sequence[str]) -> None:
        """Raise InvalidRequestError for a model that is not known, or has two ways. No requests."""
        for name in (*self.mappings, *self.migrate):
            if name not in known:
                raise InvalidRequestError(
                    f"a new version of {name}",
                    reason="the schema has no such model, or its path has outer parts: those cannot be mapped yet",
                    fix=did_you_mean(name, known),
                )
        both = sorted(set(self.mappings) & set(self.migrate))
        if both:
            raise InvalidRequestError(
                f"a mapping and a function for {both[0]}", reason="one of them is enough", fix="leave one out"
            )


@dataclass(frozen=True, slots=True)
class Evolution:
    """One model of a database on its way to another definition."""

    model: Model
    ledger: Ledger
    placement: FilesPlacement
    by: Author
    new_batch_id: Callable[[], str]
    mapping: Mapping[str, Any] | None = None
    migrate: Migrate | None = None

    @property
    def _encoded(self) -> bytes | None:
        return None if self.mapping is None else encode_mapping(self.mapping)

    def is_older(self, view: View) -> bool:
        """Whether this is an older version of the model, whose documents can be mapped. No requests."""
        version = self.model.version
        is_before = version is not None and version < view.definition.version
        return is_before and view.definition.begun_at(self.model.canonical()) is not None

    def is_done(self) -> bool:
        """Whether the database has this very definition, and documents have to become nothing else. 1 GET."""
        is_plain = self.mapping is None and self.migrate is None
        return is_plain and self.ledger.view().definition.body == self.model.canonical()

    def plan(self) -> ModelPlan | None:
        """What would change; None if nothing would. 1 GET, and 1 for each page of a long list of blocks.

        Raises InvalidRequestError for a version that is frozen, and for a mapping that cannot be used.
        """
        model, view = self.model, self.ledger.view()
        before = view.definition
        if before.model is None:
            added = (SchemaDifference(f"models.{model.name}", "added", None, model.to_json()),)
            return ModelPlan(model.name, added, before.version, model.version or before.version)
        if self.is_older(view):
            log.warning("%s: the database has version %d; it stays", model.name, before.version)
            return None
        found = compare_models(before.model, model)
        is_rewritten = self.mapping is not None or self.migrate is not None
        if not found and not is_rewritten:
            return None
        check_version(before.version, before.model, model, is_mapped=is_rewritten)
        event = SchemaChanged(definition=model.canonical(), mapping=self._encoded)
        after = before.after(settled((event,), is_empty=view.count == 0), LogNumber(view.number + 1))
        built = [one for one in after.unbuilt if before.indexes.get(one.index.name) not in before.unbuilt]
        plan = ModelPlan(
            model.name,
            found,
            before.version,
            after.version + (self.migrate is not None and after.version == before.version),
            self.mapping,
            self.migrate is not None,
            indexes=tuple(sorted(one.index.name for one in built)),
            warnings=() if is_rewritten else could_contradict(before.model, model, found),
        )
        return _with_cost(plan, view)

    def apply(self) -> CommitResult:
        """Commit the change; its entry. Costs as `change_definition` and 1 PUT.

        With a function it costs as `ModelMigration.run`. Raises what these do: then nothing has changed.
        """
        from wormdb.engine.commit.define import change_definition
        from wormdb.engine.migrate import ModelMigration  # bulk jobs: a process that only reads the schema has none

        for attempt in range(ATTEMPTS_MAX):
            seen = self.ledger.view()
            files = self.placement.switched(self.model, seen.definition, self.ledger.collection)
            try:
                if self.migrate is not None:
                    migration = ModelMigration(self.ledger, self.model, self.migrate, self.by.actor, files)
                    return migration.run(self.new_batch_id())
                pending = change_definition(
                    self.new_batch_id(),
                    self.model,
                    seen=seen,
                    actor=self.by.actor,
                    files=files,
                    mapping=self._encoded,
                    now_ms=self.ledger.clock.now_ms(),
                )
                return self.ledger.commit(pending)
            except ConflictError:
                before, now = seen.definition, self.ledger.view().definition
                # The same model with another mapping is a change too: to go on would map all documents twice.
                is_changed = (now.body, now.versions) != (before.body, before.versions)
                if is_changed or attempt == ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _with_cost(plan: ModelPlan, view: View) -> ModelPlan:
    """The plan with what has to be read and written: all blocks by a function or a mapping, else what indexes read."""
    root = None if view.place is None else view.place.root
    parts: list[Any] = [] if root is None else [*root.blocks, *root.block_pages]
    blocks = sum(1 if isinstance(part, BlockEntry) else part.blocks for part in parts)
    size = sum(part.length if isinstance(part, BlockEntry) else part.size for part in parts)
    is_rewritten = plan.is_migrated or bool(plan.mapping)
    requests = 2 + (3 * blocks + blocks // 8 if is_rewritten else 0)
    requests += (blocks if is_rewritten else 0) + len(plan.indexes) * (2 * blocks + 3)
    if not is_rewritten:
        return replace(plan, requests=requests)
    return replace(plan, documents=view.count, blocks=blocks, bytes=size, requests=requests)


# --- The published schema: a copy in the bucket for those who open it without one.
#
# It is a courtesy. What counts is the definition in each collection's log.

PUBLISHED_SCHEMA = ".worm.schema.json"
_PAUSE_SECONDS = 0.5
PUBLISH_ATTEMPTS_MAX = 5


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
        while losses < PUBLISH_ATTEMPTS_MAX:
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
                continue  # another process published meanwhile: perhaps the same
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


def read_schema(schema: Schema | Mapping[str, Any] | str | Path) -> Schema:
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
        f"schema of type {type(schema).__name__}", reason="it must be a schema", fix="give a dict, or a file's path"
    )
