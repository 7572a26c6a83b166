"""The ledgers of one database: one for each collection, and all that they live in."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wormdb.engine.log.paths import ENGINE_FOLDER, REMOVED_MARK, EnginePaths, bytes_max, is_immutable
from wormdb.errors import InvalidRequestError, LimitExceededError, WormError
from wormdb.settings import CLOSE_SECONDS, COLUMNS_CACHE_SHARE, Settings
from wormdb.storage.cache import CachedStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.open import open_store
from wormdb.storage.pool import Pool, SerialPool, ThreadPool
from wormdb.storage.retry import RetryingStore
from wormdb.storage.store import BoundedStore, Lifetime, Store, check_key
from wormdb.storage.url import parse_url
from wormdb.system.deadline import Deadline, within
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wormdb.engine.ledger import ForwardMode, Ledger, MiscClock, Runtime
    from wormdb.engine.state.definition import Definition
    from wormdb.files.foreign.collections import ForeignCollections
    from wormdb.files.keeper import FilesKeeper
    from wormdb.format.blob import BlobKey
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.query.planner.cache import PlanCache
    from wormdb.schema.model import Schema
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.url import StoreUrl
    from wormdb.system.clock import Chance, Clock

__all__ = [
    "Ledgers",
    "StoreOpener",
    "bucket_of",
    "check_options",
    "find_collections",
    "folder_of",
    "forward_mode",
    "opener",
]


# --- What a caller may give to open a database or a collection, checked before anything is read.


def bucket_of(url: str) -> str:
    """The name of the bucket or folder that a database is in, without secrets and prefixes."""
    scheme, _, rest = url.partition("://")
    names = [name for name in rest.split("?")[0].split("/") if name]
    if not names:
        return scheme
    return names[-1] if scheme == "file" else names[0]


def folder_of(name: str) -> str:
    """The folder of a collection without a schema; raises InvalidRequestError."""
    if not isinstance(name, str):
        raise InvalidRequestError(f"collection {name!r}", reason="a name is text", fix="use db.model(…) for a class")
    if not all(part and not part.startswith(".") for part in name.split("/")):
        raise InvalidRequestError(
            f"collection {name!r}",
            reason="a name is one or more parts joined by /, none of them empty or beginning with a dot",
        )
    try:
        check_key(EnginePaths.of_collection(f"{name}/").entry(LogNumber(1)))
    except InvalidRequestError as error:
        is_long = isinstance(error, LimitExceededError)
        fix = "use a shorter name" if is_long else "use letters, digits, -, _ and /"
        raise type(error)(f"collection {name[:100]!r}", reason=error.reason, fix=fix) from error
    return f"{name}/"


def check_options(url: object, settings: object, hook: object) -> None:
    """Refuse what a missing environment variable or a wrong type would quietly turn into something else."""
    if not isinstance(url, str | Path | Store):
        raise InvalidRequestError(
            f"connect({url!r})",
            reason=f"the place of a database is text, a Path or a Store, not {type(url).__name__}",
            fix='name a folder, or a URL such as "s3://bucket/prefix"',
        )
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidRequestError(
            f"settings of type {type(settings).__name__}", reason="they must be Settings", fix="give wormdb.Settings(…)"
        )
    if hook is not None and not callable(hook):
        raise InvalidRequestError(f"hook {hook!r}", reason="it cannot be called", fix="give a function of one argument")


@dataclass(frozen=True, slots=True)
class StoreOpener:
    """Opens what a database is on: once, and once more in each forked child."""

    place: StoreUrl | Store
    settings: Settings
    hook: Callable[[MeteredRequest], None] | None
    clock: Clock
    chance: Chance

    @property
    def can_repeat(self) -> bool:
        """Whether another process sees the same: not in a memory, nor through a store object of the caller's."""
        return not isinstance(self.place, Store) and self.place.scheme != "memory"

    def open(self) -> tuple[MeteredStore, Pool]:
        """The store, counted, and threads for its requests. No requests; raises InvalidRequestError."""
        if isinstance(self.place, Store):
            store: Store = BoundedStore(self.place, bytes_max)
        else:
            seconds = self.settings.request_seconds
            store = open_store(
                self.place, clock=self.clock, chance=self.chance, request_seconds=seconds, bound=bytes_max
            )
        return MeteredStore(store, hook=self.hook, clock=self.clock), ThreadPool(self.settings.pool_threads)


def opener(
    url: str | Path | Store,
    settings: Settings,
    hook: Callable[[MeteredRequest], None] | None,
    clock: Clock,
    chance: Chance,
) -> StoreOpener:
    """What opens a place; a relative path is of the folder in which the process is now. Raises InvalidRequestError."""
    place = url if isinstance(url, Store) else parse_url(str(url))
    return StoreOpener(place, settings, hook, clock, chance)


def forward_mode(settings: Settings, *, is_distant: bool) -> ForwardMode:
    """When this process forwards: in the background if the store is far, else within the commit."""
    if settings.forward != "auto":
        return settings.forward
    return "background" if is_distant else "inline"


def cache_folder(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """The folder in which objects stay when a process ends; None if there is none."""
    folder = settings.cache_folder if settings.cache_folder is not None else environment.get("WORM_CACHE")
    return str(Path(folder).expanduser()) if folder else None


WRITER_THREADS = 64
"""Commits to several collections at once that one process has on their way."""


class Ledgers:
    """Opens the ledgers of a database, each once. Thread-safe; in a forked child `reopen` makes it usable again.

    What only some calls need is made, and imported, by the first of them: a process that connects does not wait for the
    engine, and one that reads does not wait for readable files or garbage collection.
    """

    def __init__(
        self,
        metered: MeteredStore,
        pool: Pool,
        *,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        again: Callable[[], tuple[MeteredStore, Pool]] | None = None,
    ) -> None:
        """Nothing is read yet. `again` opens the store and the pool once more, for a forked child."""
        self.metered, self.pool = metered, pool
        self._again = again
        # An answer of a served store takes so long that waiting for it is worth avoiding.
        self._is_distant = metered.is_served and not metered.name.startswith("memory:")
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._pool = pool
        self._bucket = bucket_of(metered.name)
        self.store: Store = RetryingStore(metered, clock=clock, chance=chance, seconds=settings.read_seconds)
        """The store below: counted, retried, and what never changes is kept."""
        self._columns_bytes = int(settings.cache_bytes * COLUMNS_CACHE_SHARE)
        folder = cache_folder(settings, os.environ) if self._is_distant else None
        if settings.cache_bytes or folder is not None:
            self.store = CachedStore(
                self.store,
                immutable=is_immutable,
                bytes_max=settings.cache_bytes - self._columns_bytes,
                folder=folder,
                folder_bytes_max=settings.cache_folder_bytes,
            )
        # A memory without a name belongs to one database, so its origin is unique.
        self.place = metered.name if metered.name != "memory://" else f"memory://{chance.token(8).hex()}"
        self.lifetime = Lifetime(metered.name)
        self._opened: dict[str, Ledger] = {}
        self._plans: dict[str, PlanCache] = {}
        self._runtime: Runtime | None = None
        self._files: FilesKeeper | None = None
        self._foreign: ForeignCollections | None = None
        self._lock = threading.RLock()

    @property
    def runtime(self) -> Runtime:
        """What the ledgers share."""
        found = self._runtime
        if found is None:
            with self._lock:
                found = self._runtime = self._runtime or self._make_runtime()
        return found

    def _make_runtime(self) -> Runtime:
        from wormdb.engine.ledger import Background, ColumnCache, MiscClock, Runtime, Services, Sizes, TailLimits

        settings, clock = self._settings, self._clock
        mode = forward_mode(settings, is_distant=self._is_distant)
        limits = TailLimits(
            entries_max=settings.tail_entries_max,
            bytes_max=settings.tail_bytes_max,
            forward_entries=settings.forward_entries,
            forward_bytes=settings.tail_bytes_max // 4,
            interval_ms=settings.forward_interval_ms,
            files_interval_ms=settings.files_interval_ms,
            mode=mode,
        )
        return Runtime(
            store=self.store,
            pool=self._pool,
            clock=clock,
            chance=self._chance,
            misc=MiscClock(clock),
            before_first_write=self.before_first_write,
            check=self.lifetime.check,
            limits=limits,
            sizes=Sizes(block_target=settings.block_bytes),
            stage_bytes=settings.stage_bytes,
            background=Background(clock, settings.read_seconds) if mode == "background" else None,
            services=Services(self.store, clock) if mode == "background" else None,
            columns=ColumnCache(self._columns_bytes),
            after_forward=self._publish_files,
            trim_floor=self._trim_floor,
            remove_files=self._remove_files,
            mend_files=self._mend_files,
            is_distant=self._is_distant,
            writers=ThreadPool(WRITER_THREADS) if isinstance(self._pool, ThreadPool) else self._pool,
        )

    @property
    def misc(self) -> MiscClock:
        """What names the objects of all collections."""
        return self.runtime.misc

    @property
    def files(self) -> FilesKeeper:
        """What writes the readable files of all collections."""
        found = self._files
        if found is None:
            from wormdb.files.keeper import FilesKeeper

            seconds, bucket = self._settings.files_seconds, self._bucket
            with self._lock:
                found = self._files = self._files or FilesKeeper(
                    self.store, self._pool, self._clock, self._chance, seconds=seconds, bucket=bucket
                )
        return found

    @property
    def foreign(self) -> ForeignCollections:
        """What is known of the collections that other programs may keep."""
        found = self._foreign
        if found is None:
            from wormdb.files.foreign.collections import ForeignCollections

            with self._lock:
                found = self._foreign = self._foreign or ForeignCollections(
                    self.store, self._pool, self._clock, self._settings
                )
        return found

    def _publish_files(self, ledger: Ledger, number: LogNumber) -> None:
        self.files.publish(ledger, number)

    def _trim_floor(self, prefix: str) -> LogNumber | None:
        return self.files.trimmed_floor(prefix)

    def _remove_files(self, prefix: str, definition: Definition, check: Callable[[], None]) -> int:
        from wormdb.files.compare.check import file_names
        from wormdb.files.sync import remove_files

        self.files.forget(prefix)
        names = file_names(definition, prefix)
        if names is None or definition.files is None or not definition.files.enabled:
            return 0  # what lies there is not ours
        return remove_files(self.files.site(self.fresh(prefix)), names, check=check)

    def _mend_files(self, prefix: str) -> None:
        from wormdb.files.sync import sync_files

        ledger = self.fresh(prefix)
        if ledger.view().definition.keeps_files:
            sync_files(self.files.site(ledger), self.files)

    def of(self, prefix: str) -> Ledger:
        """The ledger of the collection in this folder. No requests; raises ClosedError."""
        self.lifetime.check()
        with self._lock:
            ledger = self._opened.get(prefix)
            if ledger is None:
                ledger = self._opened[prefix] = self.fresh(prefix)
            return ledger

    def fresh(self, prefix: str) -> Ledger:
        """A ledger of its own, which begins with the newest root, where one in use may stand on an older one."""
        return self.runtime.open(prefix)

    def forget(self, prefix: str) -> None:
        """Know nothing of a collection, as after a start. No requests."""
        with self._lock:
            known = self._opened.get(prefix)
        if known is not None:
            known.forget()
        if self._foreign is not None:
            self._foreign.forget(prefix)

    def opened(self) -> dict[str, Ledger]:
        """Those that were opened so far, by folder."""
        with self._lock:
            return dict(self._opened)

    def site(self, prefix: str) -> StoredCollection:
        """A collection for checks that look at every object of it, past every cache."""
        from wormdb.maintenance.collection import StoredCollection

        store = self.store.inner if isinstance(self.store, CachedStore) else self.store
        return StoredCollection(prefix, self.runtime.on(store))

    def gc(
        self,
        prefix: str,
        *,
        dry_run: bool = False,
        told: Callable[[str], None] | None = None,
        unowned: Iterable[BlobKey] = (),
    ) -> GcResult:
        """Remove garbage from a collection. Costs and raises as `collect`."""
        from wormdb.maintenance.gc.collect import RetentionRules, collect

        self.lifetime.check()
        settings = self._settings
        rules = RetentionRules(log_retention_ms=settings.log_retention_ms, job_expiry_ms=settings.job_expiry_ms)
        return collect(self.site(prefix), rules, dry_run=dry_run, told=told, unowned=frozenset(unowned))

    def collect_records(self, collections: Callable[[], Iterable[str]], *, dry_run: bool = False) -> int:
        """Remove records of transactions over several collections. Costs and raises as `collect_records`."""
        from wormdb.maintenance.gc.transactions import collect_records

        self.lifetime.check()
        store = self.store.inner if isinstance(self.store, CachedStore) else self.store
        return collect_records(self.runtime.on(store), collections, dry_run=dry_run)

    def plans_of(self, prefix: str) -> PlanCache:
        """The plans that are remembered for a collection."""
        from wormdb.query.planner.cache import PlanCache

        with self._lock:
            return self._plans.setdefault(prefix, PlanCache())

    def reopen(self) -> None:
        """In a forked child, begin as if it was opened there; what cannot be opened again stays refused. No requests.

        It may be called for each handle of a database: the first call does it.
        """
        if self._again is None or not self.lifetime.is_forked:
            return
        try:
            metered, pool = self._again()
        except WormError:
            return  # the next use says that it was opened before a fork, and how to go on
        self.__init__(  # type: ignore[misc] # all of it, locks included, is another process's
            metered,
            pool,
            settings=self._settings,
            clock=self._clock,
            chance=self._chance,
            again=self._again,
        )

    def batch_id(self) -> str:
        """A new id for a batch."""
        return self.runtime.batch_id()

    def before_first_write(self) -> None:
        """Refuse a store that does not honour conditions; asked once in a process. Raises UnsupportedStoreError."""
        from wormdb.storage.conditions import ensure_conditions

        ensure_conditions(self.store, self._chance)

    def close(self) -> None:
        """Let readable files show what was written here, then give back threads and connections.

        Waits for no answer of the store longer than CLOSE_SECONDS.
        """
        if self.lifetime.is_open:
            with within(Deadline(self._clock, CLOSE_SECONDS, "closing the database", "work")):
                for ledger in self.opened().values():
                    ledger.finish()
        if self.lifetime.close():  # in a forked child the threads are not there, and their lock may be taken
            if self._runtime is not None and self._runtime.background is not None:
                self._runtime.background.close()
            if self._runtime is not None:
                self._runtime.writers.close()
            self._pool.close()
        self.store.close()


# --- Find the collections of a bucket without a schema: the last resort, because it lists.


def find_collections(
    store: Store, schema: Schema | None = None, pool: Pool | None = None, *, with_removed: bool = False
) -> list[str]:
    """The folders that hold a collection, in order. 1 LIST for each folder above them and for each of them.

    Folders of one depth are listed side by side. The folders inside a collection may be one for each document: they are
    searched only if the schema has a model whose collections lie there. Where one was removed, 1 or 2 GETs more tell
    whether it was made anew; `with_removed` also gives those of which something is left.
    """
    paths = [] if schema is None else [model.path for model in schema.models.values()]
    found: list[str] = []
    depth = [("", False)]

    def inner(folder: str) -> list[str]:
        pages = list(store.list(folder, delimiter="/"))
        folders = [inner for page in pages for inner in page.prefixes]
        engine = folder + ENGINE_FOLDER
        is_marked = any(info.key == folder + REMOVED_MARK for page in pages for info in page.objects)
        if is_marked and engine in folders and _is_gone(store, folder, with_removed):
            folders.remove(engine)
        return folders

    while depth:
        listed = zip(depth, (pool or SerialPool()).map(inner, [folder for folder, _ in depth]), strict=True)
        depth = []
        for (below, is_inside), folders in listed:
            is_collection = below + ENGINE_FOLDER in folders
            if is_collection:
                found.append(below)
            for folder in folders:
                is_free = not (is_inside or is_collection) or any(path.may_lie_in(folder) for path in paths)
                if is_free and not folder.removeprefix(below).startswith("."):
                    depth.append((folder, is_inside or is_collection))
    return sorted(found)


def _is_gone(store: Store, folder: str, is_finished: bool) -> bool:
    from wormdb.maintenance.removal import is_gone  # few databases have such a folder

    return is_gone(store, folder, is_finished=is_finished)
