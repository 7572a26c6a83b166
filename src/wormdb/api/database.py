"""A database: one bucket or folder, opened by URL."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from wormdb.api.author import Author
from wormdb.api.calls import limited, reads, works
from wormdb.api.connection import Ledgers, check_options, find_collections, folder_of
from wormdb.api.transaction_methods import OpenTransactions, TransactionMethods
from wormdb.engine.log.paths import bytes_max
from wormdb.errors import InvalidRequestError, NotFoundError, SchemaError
from wormdb.settings import Settings
from wormdb.storage.bounds import BoundedStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.storage.store import Store
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from wormdb.api.access import Access
    from wormdb.api.adopt import AdoptOptions
    from wormdb.api.calls import CallKind
    from wormdb.api.collection import Collection
    from wormdb.api.document import ClassCodec, Codec, Document
    from wormdb.api.files import FilesPlacement, ReadableFiles
    from wormdb.api.removal import Removal
    from wormdb.api.schema import Evolution, ModelConversions, ModelPlan, PublishedSchema, SchemaPlan
    from wormdb.api.status import CollectionStatus
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.migrate import Migrate
    from wormdb.files.adopt.adopt import Adoption
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.maintenance.audit.report import Repair, Verification
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.maintenance.removal import DropResult
    from wormdb.schema.difference import SchemaDifference
    from wormdb.schema.model import Model, Schema
    from wormdb.storage.meter import MeteredRequest, Usage
    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.deadline import within

__all__ = ["Database", "connect"]

T = TypeVar("T")


def connect(  # noqa: PLR0913 - one door with keyword-only options
    url: str | Path | Store,
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    apply: bool = False,
    actor: str | None = None,
    settings: Settings | None = None,
    hook: Callable[[MeteredRequest], None] | None = None,
    clock: Clock | None = None,
    chance: Chance | None = None,
) -> Database:
    """Open the database at `url`: a path, or memory://, s3://, gs://, az://. No requests.

    A `wormdb.storage.store.Store` of your own may stand in its place; it is closed with the database.
    `schema` is a schema.json (path, text, mapping or Schema); without one the published one is read when a model is
    asked for. With `apply` the definitions are committed now. `actor` is kept with every change, for the feed.
    `hook` is told of every request. `clock` and `chance` are for tests.
    Raises InvalidRequestError, and SchemaError listing every mistake.
    """
    check_options(url, settings, hook)
    clock, chance = clock or SystemClock(), chance or SystemChance()
    settings = settings or Settings()
    loaded = None if schema is None else _read_schema(schema)
    store = (
        BoundedStore(url, bytes_max)
        if isinstance(url, Store)
        else open_store(str(url), clock=clock, chance=chance, request_seconds=settings.request_seconds, bound=bytes_max)
    )
    metered = MeteredStore(store, hook=hook, clock=clock)
    pool = ThreadPool(settings.pool_threads)
    database = Database(metered, pool, settings=settings, schema=loaded, actor=actor, clock=clock, chance=chance)
    if apply:
        try:
            database.apply_schema()
        except BaseException:
            database.close()
            raise
    return database


def _read_schema(given: Schema | Mapping[str, Any] | str | Path) -> Schema:
    from wormdb.api.schema import read_schema

    return read_schema(given)


@dataclass(slots=True)
class _SchemaHolder:
    """The schema as far as it is known, for a database and all that `as_actor` made of it."""

    schema: Schema | None


class Database(TransactionMethods):
    """One bucket or folder. A context manager; thread-safe; not to be used after a fork."""

    def __init__(  # noqa: PLR0913 - everything comes in by argument, for tests and simulations
        self,
        metered: MeteredStore,
        pool: Pool,
        *,
        settings: Settings,
        schema: Schema | None,
        actor: str | None,
        clock: Clock,
        chance: Chance,
    ) -> None:
        """Made by `connect`."""
        self._metered = metered
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._pool = pool
        self._ledgers = Ledgers(metered, pool, settings=settings, clock=clock, chance=chance)
        self._store, self._lifetime = self._ledgers.store, self._ledgers.lifetime
        self._declared = _SchemaHolder(schema)
        self._by = Author.of(actor)
        self._definitions: dict[type[Any], Model] = {}
        self._transactions = OpenTransactions()
        self._is_owner = True

    def as_actor(self, actor: str, metadata: Mapping[str, Any] | None = None) -> Database:
        """This database, for changes made by `actor`: both are kept with each change. No requests.

        It shares everything with this one, and closing it closes nothing. Documents may go from one to the other.
        Raises InvalidRequestError.
        """
        if actor is None:
            raise InvalidRequestError("as_actor(None)", reason="it must be a string", fix="give a name")
        by = Author.of(actor, metadata)
        view = copy.copy(self)
        view._by, view._is_owner = by, False  # noqa: SLF001 - it is one of us
        return view

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._metered.name

    @property
    def store(self) -> Store:
        """The store below, counted and retried."""
        return self._store

    def __getitem__(self, name: str) -> Collection[Document]:
        """A collection without a schema, at folder `name`."""
        from wormdb.api.collection import Collection

        return Collection(self._named(name))

    @overload
    def model(self, model: str, /, **outer: Any) -> Collection[Document]: ...
    @overload
    def model(self, model: type[T], /, **outer: Any) -> Collection[T]: ...
    def model(self, model: str | type[T], /, **outer: Any) -> Collection[Document] | Collection[T]:
        """The collection of a model of the schema, or of a class; `outer` gives the outer parts of its path.

        A class that has the name of a model of the schema is a typed view of that model; any other class is a
        model of its own. 1 GET if the published schema has to be read, for a class at its first use.
        Raises NotFoundError for an unknown model.
        """
        from wormdb.api.collection import Collection

        return Collection(self._modeled(model, outer))

    def _named(self, name: str) -> Access[Document]:
        from wormdb.api.document import PlainCodec

        return self._access(folder_of(name), name, None, PlainCodec(), {})

    def _modeled(self, model: str | type[Any], outer: Mapping[str, Any]) -> Access[Any]:
        from wormdb.api.document import ClassCodec, PlainCodec
        from wormdb.schema.identity import check_outer

        if isinstance(model, str):
            definition = self._model(model)
            prefix = definition.path.collection_prefix(check_outer(definition, outer))
            return self._access(prefix, model, definition, PlainCodec(), outer)
        codec = ClassCodec(model)
        definition = self._definition(model, codec)
        prefix = definition.path.collection_prefix(check_outer(definition, outer))
        return self._access(prefix, definition.name, definition, codec, outer)

    def _of_handle(self, handle: Collection[Any]) -> Access[Any]:
        access = handle._access  # noqa: SLF001 - it is ours, if it is of this database
        if access.ledger is not self._ledgers.opened().get(access.ledger.collection):
            raise InvalidRequestError(
                f"{handle!r} in a transaction",
                reason=f"it is of another database than {self.url}",
                fix="use collections of one database",
            )
        return access

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
            committed = evolution.apply()
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

    @works
    def collections(self, *, with_removed: bool = False) -> list[str]:
        """The folder of every collection there is, in order. 1 LIST for each folder above them: not for every day.

        `with_removed` adds those that were removed and of which something is left to be deleted.
        """
        return find_collections(self._store, self.schema, self._pool, with_removed=with_removed)

    @works
    def drop(self, name: str, *, missing_ok: bool = False, wait: bool = False) -> DropResult | None:
        """Remove a collection, by model or folder, with all that it has: its name is free then. See `Removal.drop`.

        3 GETs and what a read costs, 4 PUTs, and for each 1,000 objects 1 LIST, 1 GET and 1 DELETE; the same for
        readable files, and 4 LISTs at least. Raises NotFoundError unless `missing_ok`, then it returns None;
        UnavailableError, OutcomeUnknownError.
        """
        return self.removal(name).drop(missing_ok=missing_ok, wait=wait)

    def removal(self, name: str) -> Removal:
        """The two steps of `drop` on their own, for a collection by its model or folder. No requests."""
        from wormdb.api.removal import Removal

        (prefix,) = self._prefixes([name])
        return Removal(prefix, self._ledgers, self._by, self._clock)

    @works
    def forward(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Bring collections forward; returns by folder the last log number that is in its blocks.

        `names` are models or folders; without them those that were opened here or are in the schema, of models with
        outer parts only those opened. Costs as `Collection.forward` for each, and 1 GET if the published schema has to
        be read.
        """
        return {prefix: self._ledger(prefix).forward() for prefix in self._prefixes(names)}

    @works
    def status(self, names: Iterable[str] | None = None) -> list[CollectionStatus]:
        """How far each collection is, in order of their folders; `names` as for `forward`.

        2 GETs for each and 1 for each log entry that was not brought forward, if it is not kept; 1 GET if the published
        schema has to be read.
        """
        from wormdb.api.status import status_of

        return [status_of(self._ledgers.fresh(prefix)) for prefix in self._prefixes(names)]

    @property
    def files(self) -> ReadableFiles:
        """The readable files of collections: how far they are, on, off, reconciled. No requests."""
        from wormdb.api.files import ReadableFiles

        return ReadableFiles(self._prefixes, self._site, self._ledger, self._ledgers.files, self._placement, self._by)

    @works
    def verify(
        self,
        names: Iterable[str] | None = None,
        *,
        unreferenced: bool = False,
        told: Callable[[str], None] | None = None,
    ) -> list[Verification]:
        """What is wrong with collections, in order of their folders; `names` as for `forward`. Writes nothing.

        1 GET for each log entry and each object of a collection, past every cache; where readable files are kept, 1 GET
        for each and 1 LIST for each 1,000 objects more. With `unreferenced` also 1 LIST for each 1,000 objects, for
        those that nothing names. `told` hears of each object that is looked at.
        """
        from wormdb.files.verify import verify_all

        prefixes = self._prefixes(names)
        return [verify_all(self._site(prefix), unreferenced=unreferenced, told=told) for prefix in prefixes]

    @works
    def gc(
        self,
        names: Iterable[str] | None = None,
        *,
        dry_run: bool = False,
        told: Callable[[str], None] | None = None,
    ) -> list[GcResult]:
        """Remove what no process needs any more from collections, in order of their folders; `names` as for `forward`.

        Retired objects, what writers left behind, jobs that were not ended, the log past its retention; with `dry_run`
        nothing is written. 3 GETs for each collection, 1 LIST for each 1,000 objects, 1 GET for each page of a list and
        each inner node of an index; if something goes 2 PUTs and 1 DELETE for each 1,000. `told` hears how far it is.
        Without names also what checks of the store left behind, for 1 GET and 1 LIST, and records of transactions that
        are finished everywhere, for 1 LIST if there are none.
        Raises CorruptionError if it is not certain what is needed, UnavailableError, OutcomeUnknownError.
        """
        found = [self._ledgers.gc(prefix, dry_run=dry_run, told=told) for prefix in self._prefixes(names)]
        if names is None and not dry_run:
            from wormdb.storage.conditions import remove_probes

            remove_probes(self._store)
        if names is None:
            self._ledgers.collect_records(self.collections, dry_run=dry_run)
        return found

    @works
    def repair(
        self,
        names: Iterable[str] | None = None,
        *,
        accept_loss: bool = False,
        told: Callable[[str], None] | None = None,
    ) -> list[Repair]:
        """Make again what is damaged in collections and can be made again; `names` as for `forward`.

        Costs as `verify`, before and after, and what is written. Raises InvalidRequestError listing the documents that
        would be lost, unless `accept_loss` is set, and CorruptionError if a root is damaged and the log is not whole.
        """
        from wormdb.files.verify import repair_all

        prefixes = self._prefixes(names)
        self._ledgers.before_first_write()
        done = []
        for prefix in prefixes:
            done.append(repair_all(self._site(prefix), self._ledgers.files, accept_loss=accept_loss, told=told))
            self._ledger(prefix).forget()
        return done

    def _prefixes(self, names: Iterable[str] | None) -> list[str]:
        self._lifetime.check()
        schema = self.schema
        models = {} if schema is None else schema.models
        fixed = {name: model.path.collection_prefix({}) for name, model in models.items() if not model.path.outer}
        if names is not None:
            return sorted({fixed.get(name) or folder_of(name.rstrip("/")) for name in names})
        return sorted({*self._ledgers.opened(), *fixed.values()})

    @works
    def adopt(self, model: str, /, **options: Unpack[AdoptOptions]) -> Adoption:
        """Make files that others wrote a managed collection, by one log entry; called again, it goes on where it was.

        1 LIST for 1,000 files, 2 GETs a file, and PUTs of blocks. Raises AlreadyExistsError if the log has documents,
        InvalidRequestError listing all that is wrong (then nothing was written), NotFoundError, ConflictError.
        """
        from wormdb.api.adopt import AdoptionRequest  # few programs adopt: the others do not wait for its import

        adopting = AdoptionRequest.of(self._model(model), self.schema, options)
        done = adopting.run(self._ledger(adopting.collection), self._ledgers.runtime, self._by, self.files.sync)
        self._declared.schema = self._declared.schema if done.number is None else adopting.schema
        self._ledgers.foreign.forget(adopting.collection)
        return done

    def cost(self) -> Usage:
        """Requests, bytes and US dollars so far, by the store's price list."""
        return self._metered.mark()

    def close(self) -> None:
        """Give back threads and connections. May be called twice; does nothing for what `as_actor` gave."""
        if not self._is_owner:
            return
        self._ledgers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self.url!r})"

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        return limited(self._clock, self._settings, kind, timeout)

    def _model(self, name: str) -> Model:
        schema = self.schema
        if schema is None:
            raise NotFoundError(
                f"Unknown model: {name}",
                reason="this database has no published schema",
                fix="connect(…, schema=…), or use db[name] for a collection without a schema",
            )
        if name not in schema.models:
            from wormdb.schema.problems import did_you_mean

            raise NotFoundError(f"Unknown model: {name}", fix=did_you_mean(name, schema.models))
        return schema.models[name]

    def _definition(self, cls: type[Any], codec: ClassCodec[Any]) -> Model:
        """What the schema says of a class; looked up once, so that a class stays in its collection."""
        if cls not in self._definitions:
            schema = self.schema
            known = {} if schema is None else schema.models
            self._definitions[cls] = known.get(codec.model.name, codec.model)
        return self._definitions[cls]

    def _access(
        self, prefix: str, name: str, model: Model | None, codec: Codec[T], outer: Mapping[str, Any]
    ) -> Access[T]:
        from wormdb.api.access import Access, Freshness
        from wormdb.api.home import CollectionHome
        from wormdb.api.write import Writer

        writer = Writer(
            name,
            model,
            codec,
            origin=f"{self._ledgers.place}/{prefix}",
            clock=self._clock,
            chance=self._chance,
            files=lambda: None if model is None else self._placement.switch_on(model, prefix),
        )
        return Access(
            self._ledger(prefix),
            writer,
            self._ledgers.plans_of(prefix),
            home=CollectionHome(self._publish, partial(self._access_of, outer=outer), self._ledgers, self._metered),
            settings=self._settings,
            clock=self._clock,
            chance=self._chance,
            author=self._by,
            readonly=self._foreign(prefix, model),
            freshness=Freshness(self._settings.staleness_ms),
        )

    def _access_of(self, name: str, outer: Mapping[str, Any]) -> Access[Document]:
        """The collection that refs to a model lead to: the outer parts of its path are those of who refers to it."""
        from wormdb.api.document import PlainCodec
        from wormdb.schema.identity import check_outer

        definition = self._model(name)
        shared = {part.name: outer[part.name] for part in definition.path.outer if part.name in outer}
        prefix = definition.path.collection_prefix(check_outer(definition, shared))
        return self._access(prefix, name, definition, PlainCodec(), shared)

    @property
    def _published(self) -> PublishedSchema:
        from wormdb.api.schema import PublishedSchema

        return PublishedSchema(self._store)

    def _foreign(self, prefix: str, model: Model | None) -> ForeignCollection | None:
        """The files of a collection, if its model is only read: perhaps another program keeps them."""
        is_read = model is not None and model.mode == "readonly"
        return self._ledgers.foreign.of(prefix, model) if is_read else None

    @property
    def _placement(self) -> FilesPlacement:
        from wormdb.api.files import FilesPlacement

        return FilesPlacement(self._store, lambda: self._declared.schema, self._ledgers.before_first_write)

    def _ledger(self, prefix: str) -> Ledger:
        return self._ledgers.of(prefix)

    def _site(self, prefix: str) -> StoredCollection:
        return self._ledgers.site(prefix)

    def _publish(self) -> None:
        if self._declared.schema is not None:
            self._published.add(self._declared.schema)
