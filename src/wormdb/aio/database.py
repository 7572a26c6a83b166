"""The calls of `Database`, to be awaited.

Written by `make docs` from `wormdb.api.database`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from wormdb.aio.opened import OpenedDatabase
from wormdb.aio.schema_methods import AsyncSchemaMethods
from wormdb.aio.sessions import SessionMethods
from wormdb.aio.transaction_methods import AsyncTransactionMethods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from wormdb.aio.collection import AsyncCollection
    from wormdb.aio.files import AsyncReadableFiles
    from wormdb.api.adopt import AdoptOptions
    from wormdb.api.document import Document
    from wormdb.api.status import CollectionStatus
    from wormdb.files.adopt.adopt import Adoption
    from wormdb.maintenance.audit.report import Repair, Verification
    from wormdb.maintenance.audit.traces import DocumentTrace
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.maintenance.removal import DropResult
    from wormdb.maintenance.renaming import RenameResult
    from wormdb.storage.meter import Usage
    from wormdb.storage.store import Store

__all__ = ["AsyncDatabase"]

T = TypeVar("T")


class AsyncDatabase(OpenedDatabase, SessionMethods, AsyncSchemaMethods, AsyncTransactionMethods):
    """One bucket or folder. A context manager; thread-safe; opened again in forked children, memories apart.

    Calls are awaited; `wormdb.api.database.Database` has their promises.
    """

    def as_actor(self, actor: str, metadata: Mapping[str, Any] | None = None) -> AsyncDatabase:
        """This database, for changes made by `actor`: both are kept with each change. No requests."""
        return AsyncDatabase(self._runner, self._inner.as_actor(actor, metadata))

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return cast("str", self._inner.url)

    @property
    def store(self) -> Store:
        """The store below, counted and retried."""
        return cast("Store", self._inner.store)

    def __getitem__(self, name: str) -> AsyncCollection[Document]:
        """A collection without a schema, at folder `name`."""
        from wormdb.aio.collection import AsyncCollection

        return AsyncCollection(self._runner, self._inner.__getitem__(name))

    @overload
    async def model(self, model: str, /, **outer: Any) -> AsyncCollection[Document]: ...

    @overload
    async def model(self, model: type[T], /, **outer: Any) -> AsyncCollection[T]: ...

    async def model(self, model: str | type[T], /, **outer: Any) -> AsyncCollection[Document] | AsyncCollection[T]:
        """The collection of a model of the schema, or of a class; `outer` gives the outer parts of its path."""
        from wormdb.aio.collection import AsyncCollection

        return AsyncCollection(self._runner, await self._runner.call(self._inner.model, model, **outer))

    async def collections(self, *, with_removed: bool = False) -> list[str]:
        """The folder of every collection there is, in order. 1 LIST for each folder above them: not for every day."""
        return cast("list[str]", await self._runner.call(self._inner.collections, with_removed=with_removed))

    async def list_collection_names(self) -> list[str]:
        """`collections` by pymongo's name, without the slash at the end of each."""
        return cast("list[str]", await self._runner.call(self._inner.list_collection_names))

    async def drop(self, name: str, *, missing_ok: bool = False, wait: bool = False) -> DropResult | None:
        """Remove a collection, by model or folder, with all that it has: its name is free then. See `Removal.drop`."""
        return cast(
            "DropResult | None", await self._runner.call(self._inner.drop, name, missing_ok=missing_ok, wait=wait)
        )

    async def rename(self, old: str, new: str, *, wait: bool = False) -> RenameResult:
        """Give a collection without a model another name, which was never used, with all that it has."""
        return cast("RenameResult", await self._runner.call(self._inner.rename, old, new, wait=wait))

    async def forward(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Bring collections forward; returns by folder the last log number that is in its blocks."""
        return cast("dict[str, int]", await self._runner.call(self._inner.forward, names))

    async def status(self, names: Iterable[str] | None = None) -> list[CollectionStatus]:
        """How far each collection is, in order of their folders; `names` as for `forward`."""
        return cast("list[CollectionStatus]", await self._runner.call(self._inner.status, names))

    @property
    def files(self) -> AsyncReadableFiles:
        """The readable files of collections: how far they are, on, off, reconciled. No requests."""
        from wormdb.aio.files import AsyncReadableFiles

        return AsyncReadableFiles(self._runner, self._inner.files)

    async def verify(
        self,
        names: Iterable[str] | None = None,
        *,
        unreferenced: bool = False,
        told: Callable[[str], None] | None = None,
    ) -> list[Verification]:
        """What is wrong with collections, in order of their folders; `names` as for `forward`. Writes nothing."""
        return cast(
            "list[Verification]",
            await self._runner.call(self._inner.verify, names, unreferenced=unreferenced, told=told),
        )

    async def find_traces(
        self, name: str, identity: Any, *, values: Iterable[str] = (), told: Callable[[str], None] | None = None
    ) -> list[DocumentTrace]:
        """Where something of an erased document can still be found in a collection, by a model's name or a folder."""
        return cast(
            "list[DocumentTrace]",
            await self._runner.call(self._inner.find_traces, name, identity, values=values, told=told),
        )

    async def gc(
        self, names: Iterable[str] | None = None, *, dry_run: bool = False, told: Callable[[str], None] | None = None
    ) -> list[GcResult]:
        """Remove what no process needs any more from collections, in order of their folders; `names` as for `forward`."""
        return cast("list[GcResult]", await self._runner.call(self._inner.gc, names, dry_run=dry_run, told=told))

    async def repair(
        self,
        names: Iterable[str] | None = None,
        *,
        accept_loss: bool = False,
        told: Callable[[str], None] | None = None,
    ) -> list[Repair]:
        """Make again what is damaged in collections and can be made again; `names` as for `forward`."""
        return cast(
            "list[Repair]", await self._runner.call(self._inner.repair, names, accept_loss=accept_loss, told=told)
        )

    async def adopt(self, model: str, /, **options: Unpack[AdoptOptions]) -> Adoption:
        """Make files that others wrote a managed collection, by one log entry; called again, it goes on where it was."""
        return cast("Adoption", await self._runner.call(self._inner.adopt, model, **options))

    def cost(self) -> Usage:
        """Requests, bytes and US dollars so far, by the store's price list."""
        return cast("Usage", self._inner.cost())
