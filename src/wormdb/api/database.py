"""A database: one bucket or folder, opened by URL."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from wormdb.api.calls import Author, limited, works
from wormdb.api.connection import Ledgers, check_options, find_collections, folder_of, opener
from wormdb.api.fork import follow_forks
from wormdb.api.glance import DatabaseDisplay
from wormdb.api.pymongo_names import PymongoNames
from wormdb.api.schema_methods import SchemaHolder, SchemaMethods
from wormdb.api.transaction_methods import OpenTransactions, TransactionMethods
from wormdb.errors import InvalidRequestError, NotFoundError, SchemaMismatchError
from wormdb.settings import Settings
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
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
    from wormdb.api.schema import PublishedSchema
    from wormdb.api.status import CollectionStatus
    from wormdb.engine.ledger import Ledger
    from wormdb.files.adopt.adopt import Adoption
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.maintenance.audit.report import Repair, Verification
    from wormdb.maintenance.audit.traces import DocumentTrace
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.maintenance.removal import DropResult
    from wormdb.maintenance.renaming import RenameResult
    from wormdb.schema.model import Model, Schema
    from wormdb.storage.meter import MeteredRequest, MeteredStore, Usage
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.deadline import within

__all__ = ["Database", "connect", "import_first_calls"]

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
    again = opener(url, settings, hook, clock, chance)
    database = Database(
        *again.open(),
        settings=settings,
        schema=loaded,
        actor=actor,
        clock=clock,
        chance=chance,
        again=again.open if again.can_repeat else None,
    )
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


def import_first_calls() -> None:
    """Import what the first `db[name]`, `find`, `query` and `transaction` of a process import. No requests."""
    import wormdb.api.collection
    import wormdb.api.guard
    import wormdb.api.home
    import wormdb.api.query
    import wormdb.api.results
    import wormdb.api.session
    import wormdb.api.transaction
    import wormdb.api.write  # noqa: F401 - as all of them


class Database(PymongoNames, DatabaseDisplay, SchemaMethods, TransactionMethods):
    """One bucket or folder. A context manager; thread-safe; opened again in forked children, memories apart."""

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
        again: Callable[[], tuple[MeteredStore, Pool]] | None = None,
    ) -> None:
        """Made by `connect`. `again` opens the store and the pool once more, for forked children."""
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._ledgers = Ledgers(metered, pool, settings=settings, clock=clock, chance=chance, again=again)
        self._take_ledgers()
        self._declared = SchemaHolder(schema)
        self._by = Author.of(actor)
        self._definitions: dict[type[Any], Model] = {}
        self._transactions = OpenTransactions()
        self._is_owner = True
        follow_forks(self)

    def _take_ledgers(self) -> None:
        self._metered, self._pool = self._ledgers.metered, self._ledgers.pool
        self._store, self._lifetime = self._ledgers.store, self._ledgers.lifetime

    def _follow_fork(self) -> None:
        self._ledgers.reopen()
        self._take_ledgers()

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
        follow_forks(view)
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
        model of its own, which the database follows when the class changes. 1 GET if the published schema has to be
        read, for a class at its first use, and then 1 for its definition. Raises NotFoundError for an unknown model,
        SchemaMismatchError for a class that the documents do not fit.
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

    @works
    def collections(self, *, with_removed: bool = False) -> list[str]:
        """The folder of every collection there is, in order. 1 LIST for each folder above them: not for every day.

        `with_removed` adds those that were removed and of which something is left to be deleted.
        """
        return find_collections(self._store, self.schema, self._pool, with_removed=with_removed)

    def list_collection_names(self) -> list[str]:
        """`collections` by pymongo's name, without the slash at the end of each."""
        return [prefix.rstrip("/") for prefix in self.collections()]

    @works
    def drop(self, name: str, *, missing_ok: bool = False, wait: bool = False) -> DropResult | None:
        """Remove a collection, by model or folder, with all that it has: its name is free then. See `Removal.drop`.

        3 GETs and what a read costs, 4 PUTs, and for each 1,000 objects 1 LIST, 1 GET and 1 DELETE; the same for
        readable files, and 4 LISTs at least. Raises NotFoundError unless `missing_ok`, then it returns None;
        UnavailableError, OutcomeUnknownError.
        """
        return self.removal(name).drop(missing_ok=missing_ok, wait=wait)

    @works
    def rename(self, old: str, new: str, *, wait: bool = False) -> RenameResult:
        """Give a collection without a model another name, which was never used, with all that it has.

        Documents with their ids and revisions, indexes, history, blobs, functions and what was said about expiry go
        along. Everything is copied, and then one entry ends the old name: at that moment the new one is the collection,
        in every process. Writers of the old name are refused with RemovedError until it is purged, and make a new
        collection afterwards, as after `drop`. A feed under the new name begins behind that moment. A call that broke
        off is finished by the same call; before that entry `drop(new)` undoes it. `wait` as for `drop`.

        As a forwarding and `drop`, 3 PUTs more, and 1 GET and 1 PUT for each object that is copied; if others write to
        it meanwhile, again for what is new. Raises NotFoundError, AlreadyExistsError if the new name is taken,
        InvalidRequestError for a model's collection, while a bulk job is open, and for a name that was used before, all
        of them before anything is written; UnavailableError if others write without a break, OutcomeUnknownError.
        """
        from wormdb.api.removal import rename_collection

        (source,) = self._prefixes([old])
        target = folder_of(new.rstrip("/"))
        models = {} if self.schema is None else self.schema.models
        for model in models.values():
            if new == model.name or (not model.path.outer and model.path.collection_prefix({}) == target):
                raise InvalidRequestError(
                    f"rename {old} to {new}",
                    reason=f"{target} is where the documents of model {model.name} lie",
                    fix="choose another name, or import the documents into the model's collection",
                )
        return rename_collection(self._ledgers, self._by, (source, target), self._clock if wait else None)

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
    def find_traces(
        self,
        name: str,
        identity: Any,
        *,
        values: Iterable[str] = (),
        told: Callable[[str], None] | None = None,
    ) -> list[DocumentTrace]:
        """Where something of an erased document can still be found in a collection, by a model's name or a folder.

        The id, and texts that were in the document, as `values`: nothing else knows them any more. Empty after
        `Collection.erase` and garbage collection, but for places where another document mentions them. 1 LIST for each
        1,000 objects and 1 GET for each object, past every cache; writes nothing.
        """
        from wormdb.files.verify import traces_of

        (prefix,) = self._prefixes([name])
        return traces_of(self._site(prefix), identity, values=tuple(values), told=told)

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
            if codec.model.name not in known:
                with self._limited("work", None):
                    self.class_change(cls).follow()
            declared = self._definitions[cls] = known.get(codec.model.name, codec.model)
            if codec.model.expiry is not None and codec.model.expiry != declared.expiry:
                del self._definitions[cls]
                raise SchemaMismatchError(
                    f"worm_config of class {cls.__name__}",
                    reason=f"the schema has a model {declared.name}, which says something else of when documents end",
                    fix="say ttl and expireAt in the schema alone",
                )
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
            home=CollectionHome(self._publish, partial(self._access_of, outer=outer), self._ledgers, self.run),
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
        """The files of a collection, if it or its model is only read: perhaps another program keeps them."""
        may_be = model is not None and (model.mode == "readonly" or model.path.is_of_others)
        if model is None or not may_be:
            return None
        known = {} if self._declared.schema is None else self._declared.schema.models
        others = [each.path for name, each in known.items() if name != model.name]
        return self._ledgers.foreign.of(prefix, model, others)

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
