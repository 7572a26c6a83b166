"""The ledgers of one database: one for each collection, and all that they live in."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wormdb.engine.background import Background
from wormdb.engine.blocks.cache import ColumnCache
from wormdb.engine.forward.keeper import TailLimits
from wormdb.engine.ledger import Ledger, Surroundings
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.paths import is_immutable
from wormdb.engine.services import Services
from wormdb.engine.state.projection import Sizes
from wormdb.files.keeper import FilesKeeper
from wormdb.maintenance.gc.collect import Rules, collect
from wormdb.maintenance.site import Site
from wormdb.opening import bucket_of, forward_mode
from wormdb.query.planner.cache import PlanCache
from wormdb.settings import CLOSE_SECONDS, COLUMNS_CACHE_SHARE
from wormdb.storage.cache import CachedStore
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.lifetime import Lifetime
from wormdb.storage.retry import RetryingStore
from wormdb.system.deadline import Deadline, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.maintenance.gc.report import Collected
    from wormdb.settings import Settings
    from wormdb.storage.meter import MeteredStore
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock

__all__ = ["Ledgers", "Means"]


@dataclass(frozen=True, slots=True)
class Means:
    """What a database is made of; everything comes in by argument, for tests and simulations."""

    metered: MeteredStore
    pool: Pool
    settings: Settings
    clock: Clock
    chance: Chance

    @property
    def is_distant(self) -> bool:
        """Whether an answer of the store takes so long that waiting for it is worth avoiding."""
        return self.metered.is_served and not self.metered.name.startswith("memory:")


class Ledgers:
    """Opens the ledgers of a database, each once. Thread-safe; not to be used after a fork."""

    def __init__(self, means: Means) -> None:
        """Nothing is read yet."""
        settings, metered, clock, chance = means.settings, means.metered, means.clock, means.chance
        self._means = means
        self.store: Store = RetryingStore(metered, clock=clock, chance=chance, seconds=settings.read_seconds)
        """The store below: counted, retried, and what never changes is kept."""
        columns_bytes = int(settings.cache_bytes * COLUMNS_CACHE_SHARE)
        self._columns = ColumnCache(columns_bytes)
        if settings.cache_bytes:
            left = settings.cache_bytes - columns_bytes
            self.store = CachedStore(self.store, immutable=is_immutable, bytes_max=left)
        # A memory without a name is shared with nobody, so its documents are nobody else's.
        self.place = metered.name if metered.name != "memory://" else f"memory://{chance.token(8).hex()}"
        self.misc = MiscClock(clock)
        """What names the objects of all collections."""
        self._opened: dict[str, Ledger] = {}
        self._plans: dict[str, PlanCache] = {}
        self.files = FilesKeeper(
            self.store, means.pool, clock, chance, seconds=settings.files_seconds, bucket=bucket_of(metered.name)
        )
        self._mode = forward_mode(settings, is_distant=means.is_distant)
        self._background = Background(clock, settings.read_seconds) if self._mode == "background" else None
        self._services = Services(self.store, clock) if self._mode == "background" else None
        self.lifetime = Lifetime(metered.name)
        self._lock = threading.Lock()

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
        return Ledger(prefix, self.surroundings())

    def opened(self) -> dict[str, Ledger]:
        """Those that were opened so far, by folder."""
        with self._lock:
            return dict(self._opened)

    def site(self, prefix: str) -> Site:
        """A collection for whoever looks at every object of it, past every cache."""
        store = self.store.inner if isinstance(self.store, CachedStore) else self.store
        return Site(prefix, replace(self.surroundings(), store=store))

    def gc(self, prefix: str, *, dry_run: bool = False, told: Callable[[str], None] | None = None) -> Collected:
        """Remove from a collection what nobody needs any more. Costs and raises as `collect`."""
        self.lifetime.check()
        settings = self._means.settings
        rules = Rules(log_retention_ms=settings.log_retention_ms, job_expiry_ms=settings.job_expiry_ms)
        return collect(self.site(prefix), rules, dry_run=dry_run, told=told)

    def plans_of(self, prefix: str) -> PlanCache:
        """The plans that are remembered for a collection."""
        with self._lock:
            return self._plans.setdefault(prefix, PlanCache())

    def batch_id(self) -> str:
        """A new id for a batch."""
        return self._means.chance.token(16).hex()

    def surroundings(self) -> Surroundings:
        """What each of these ledgers lives in."""
        settings, means = self._means.settings, self._means
        return Surroundings(
            store=self.store,
            pool=means.pool,
            clock=means.clock,
            chance=means.chance,
            misc=self.misc,
            before_first_write=self.before_first_write,
            check=self.lifetime.check,
            limits=TailLimits(
                entries_max=settings.tail_entries_max,
                bytes_max=settings.tail_bytes_max,
                forward_entries=settings.forward_entries,
                forward_bytes=settings.tail_bytes_max // 4,
                interval_ms=settings.forward_interval_ms,
                files_interval_ms=settings.files_interval_ms,
                mode=self._mode,
            ),
            sizes=Sizes(block_target=settings.block_bytes),
            stage_bytes=settings.stage_bytes,
            background=self._background,
            services=self._services,
            columns=self._columns,
            after_forward=self.files.publish,
            trim_floor=self.files.trimmed_floor,
            is_distant=means.is_distant,
        )

    def before_first_write(self) -> None:
        """Refuse a store that does not honour conditions; asked once in a process. Raises UnsupportedStoreError."""
        ensure_conditions(self.store, self._means.chance)

    def close(self) -> None:
        """Let readable files show what was written here, then give back threads and connections.

        Waits for no answer of the store longer than CLOSE_SECONDS.
        """
        if self.lifetime.is_open:
            with within(Deadline(self._means.clock, CLOSE_SECONDS, "closing the database", "work")):
                for ledger in self.opened().values():
                    ledger.finish()
        if self.lifetime.close():  # in a forked child the threads are not there, and their lock may be taken
            if self._background is not None:
                self._background.close()
            self._means.pool.close()
        self.store.close()
