"""The schema methods of `Database`: the definitions that it has, and how they change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.api.calls import Author, reads, works
from wormdb.errors import ConflictError, InvalidRequestError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.api.class_versions import ClassChange
    from wormdb.api.connection import Ledgers
    from wormdb.api.files import FilesPlacement
    from wormdb.api.schema import Evolution, ModelConversions, ModelPlan, PublishedSchema, SchemaPlan
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.migrate import Migrate
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.schema.difference import SchemaDifference
    from wormdb.schema.model import Model, Schema

__all__ = ["SchemaHolder", "SchemaMethods"]


@dataclass(slots=True)
class SchemaHolder:
    """The schema as far as it is known, for a database and all that `as_actor` made of it."""

    schema: Schema | None


class SchemaMethods:
    """The schema of a database, compared, planned and applied."""

    _declared: SchemaHolder
    _by: Author
    _ledgers: Ledgers

    @property
    def url(self) -> str:
        """Where the database is, without secrets."""
        raise NotImplementedError

    @property
    def _published(self) -> PublishedSchema:
        raise NotImplementedError

    @property
    def _placement(self) -> FilesPlacement:
        raise NotImplementedError

    def _ledger(self, prefix: str) -> Ledger:
        raise NotImplementedError

    def _foreign(self, prefix: str, model: Model | None) -> ForeignCollection | None:
        raise NotImplementedError

    @property
    def schema(self) -> Schema | None:
        """The schema given to `connect`, or the published one (1 GET); None if there is neither."""
        if self._declared.schema is None:
            self._declared.schema = self._published.read()
        return self._declared.schema

    @reads
    def schema_changes(self) -> dict[str, tuple[SchemaDifference, ...]]:
        """How the schema differs from what the database has, by model; empty if it does not. 2 GETs a model.

        A published model that the schema leaves out counts as removed; its documents stay. Models with
        outer parts in their path have many collections, which are checked when they are opened.
        """
        from wormdb.schema.difference import SchemaDifference, compare_models

        changes: dict[str, tuple[SchemaDifference, ...]] = {}
        for name, model, ledger in self._fixed_ledgers():
            stored = ledger.view().definition.model
            if stored is None:
                changes[name] = (SchemaDifference(f"models.{name}", "added", None, model.to_json()),)
            elif found := compare_models(stored, model):
                changes[name] = found
        for name, model in self._left_out().items():
            changes[name] = (SchemaDifference(f"models.{name}", "removed", model.to_json(), None),)
        return changes

    @reads
    def plan_schema(
        self,
        *,
        mappings: Mapping[str, Mapping[str, Any]] | None = None,
        migrate: Mapping[str, Migrate] | None = None,
    ) -> SchemaPlan:
        """What `apply_schema` with the same arguments would do, and about what it would cost. Writes nothing.

        2 GETs a model, and 1 for each page of a long list of blocks. Raises InvalidRequestError for a version that is
        frozen, and for a mapping that cannot be used.
        """
        from wormdb.api.schema import ModelConversions, ModelPlan, SchemaPlan
        from wormdb.schema.difference import SchemaDifference

        plans = [plan for _, _, plan in self._evolutions(ModelConversions(mappings or {}, migrate or {}))]
        gone = [
            ModelPlan(name, (SchemaDifference(f"models.{name}", "removed", model.to_json(), None),), 0, 0)
            for name, model in self._left_out().items()
        ]
        return SchemaPlan((*plans, *gone))

    @works
    def apply_schema(
        self,
        *,
        mappings: Mapping[str, Mapping[str, Any]] | None = None,
        migrate: Mapping[str, Migrate] | None = None,
    ) -> dict[str, tuple[SchemaDifference, ...]]:
        """Make the schema the database's definition; returns what changed. 2 GETs and 1 PUT a changed model.

        Each model is one log entry. `mappings` has for a model the update that makes its documents those of the new
        version: they are read once to see that it can, shown so from then on, and written again in the background.
        `migrate` has a function instead, which makes a new document of each: all are written again before the entry. A
        model that the schema leaves out is no longer published, and its collection stays as it is.

        Raises InvalidRequestError for a version that is frozen, listing the duplicates that a new unique index finds,
        and the documents that cannot come to the new version; models before it stay changed.
        """
        from wormdb.api.schema import ModelConversions
        from wormdb.engine.commit.resolve import landed
        from wormdb.schema.difference import SchemaDifference

        changes: dict[str, tuple[SchemaDifference, ...]] = {}
        committed = None
        for name, evolution, plan in list(self._evolutions(ModelConversions(mappings or {}, migrate or {}))):
            try:
                committed = evolution.apply()
            except ConflictError:
                if not evolution.is_done():
                    raise
                continue  # another process that starts now made the same change
            changes[name] = plan.changes
        with landed(
            f"the definition of {', '.join(changes)}", committed, rest="applying it again publishes the schema"
        ):
            for name, model in self._left_out().items():
                changes[name] = (SchemaDifference(f"models.{name}", "removed", model.to_json(), None),)
            if self._declared.schema is not None and not self._has_older():
                self._published.put(self._declared.schema)
        return changes

    def _has_older(self) -> bool:
        """Whether a model of the schema is an older version than the database's: then the newest stays published."""
        return any(
            model.version is not None and model.version < ledger.known().definition.version
            for _, model, ledger in self._fixed_ledgers()
        )

    def _evolutions(self, ways: ModelConversions) -> Iterator[tuple[str, Evolution, ModelPlan]]:
        """The models that change, and what does."""
        from wormdb.api.schema import Evolution

        fixed = {name: (model, ledger) for name, model, ledger in self._fixed_ledgers()}
        ways.check(list(fixed))
        for name, (model, ledger) in fixed.items():
            evolution = Evolution(
                model,
                ledger,
                self._placement,
                self._by,
                self._ledgers.batch_id,
                ways.mappings.get(name),
                ways.migrate.get(name),
            )
            plan = evolution.plan()
            if plan is not None:
                yield name, evolution, plan

    def _fixed_ledgers(self) -> Iterator[tuple[str, Model, Ledger]]:
        schema = self.schema
        if schema is None:
            raise InvalidRequestError("schema", reason="none was given", fix="connect(…, schema=…)")
        for name, model in schema.models.items():
            if model.path.outer:
                continue
            prefix = model.path.collection_prefix({})
            foreign = self._foreign(prefix, model)
            if foreign is None or not foreign.is_foreign():
                yield name, model, self._ledger(prefix)

    def _left_out(self) -> dict[str, Model]:
        try:
            published = self._published.read()
        except SchemaError:  # a schema that cannot be read is replaced by applying this one
            return {}
        known = {} if published is None else published.models
        schema = self._declared.schema
        kept = {} if schema is None else schema.models
        return {name: model for name, model in known.items() if name not in kept}

    def class_change(self, cls: type[Any]) -> ClassChange:
        """What a class changes in the database's definition of it, to be planned and applied. No requests."""
        from wormdb.api.class_versions import ClassChange
        from wormdb.api.document import ClassCodec
        from wormdb.api.schema import Evolution

        codec = ClassCodec(cls)
        ledger = self._ledger(codec.model.path.collection_prefix({}))
        evolution = Evolution(codec.model, ledger, self._placement, self._by, self._ledgers.batch_id)
        return ClassChange(cls, codec, evolution, self.url)
