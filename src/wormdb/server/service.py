"""One database as all connections of a server share it: its buckets, users and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.database import connect
from wormdb.engine.log.paths import bytes_max
from wormdb.errors import WormError
from wormdb.format.kinds import ObjectId
from wormdb.jobs.node.shards import named_shards
from wormdb.server.buckets import ServedBucket
from wormdb.server.namespaces import folder_of_namespace
from wormdb.server.offload import AwaitedStore
from wormdb.server.replies import ErrorReply
from wormdb.server.routing import WriteRouter
from wormdb.storage.open import open_store
from wormdb.storage.store import Store
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.database import Database
    from wormdb.server.accounts import Accounts
    from wormdb.server.commands import Command
    from wormdb.server.routing import CommitHere, HandedWrite
    from wormdb.settings import Settings
    from wormdb.system.clock import Chance, Clock

__all__ = ["Figures", "Service", "open_served"]

SHARDS_SECONDS: Final = 60.0
BUCKETS_MAX: Final = 10_000
"""Handles that are kept; the one that was opened first goes for a new one."""


@dataclass(slots=True)
class Figures:
    """What happened so far."""

    connections: int = 0
    """That were accepted."""
    refused: int = 0
    """Connections over the limit."""
    dropped: int = 0
    """Connections that were ended because the client was too slow, silent or broke the protocol."""
    commands: int = 0
    in_loop: int = 0
    """Reads that the loop answered."""
    in_threads: int = 0
    """Commands that threads carried out."""
    faults: dict[str, int] = field(default_factory=dict)
    """By prefix."""
    bytes_in: int = 0
    bytes_out: int = 0


def open_served(
    url: str | Store, *, settings: Settings, clock: Clock | None = None, chance: Chance | None = None
) -> Database:
    """The database at `url`, over a store that the loop of a server cannot ask. No requests."""
    clock, chance = clock or SystemClock(), chance or SystemChance()
    store = (
        url
        if isinstance(url, Store)
        else open_store(url, clock=clock, chance=chance, request_seconds=settings.request_seconds, bound=bytes_max)
    )
    return connect(AwaitedStore(store), settings=settings, clock=clock, chance=chance)


def _do_nothing(lane: str, call: Callable[[], object]) -> None:
    """Without a server nothing is done in the background: the next forwarding builds indexes."""


class Service:
    """What commands work on. Its handles are thread-safe; figures are counted by the loop's thread."""

    def __init__(
        self,
        database: Database,
        *,
        accounts: Accounts | None = None,
        clock: Clock,
        chance: Chance,
        address: str = "",
        is_json: bool = False,
    ) -> None:
        """`database` is of `open_served`. No requests."""
        self.database = database
        self.accounts = accounts
        self.clock = clock
        self.chance = chance
        self.address = address
        """Where clients find it: host and port."""
        self.is_json = is_json
        """Whether sessions begin with JSON and ids as text, instead of BSON and bytes."""
        self.commands: Mapping[bytes, Command] = {}
        """By name; given by the server, because commands know the service."""
        self.later: Callable[[str, Callable[[], object]], None] = _do_nothing
        """Does something in the background, for a lane."""
        self.router = WriteRouter("off", None, None, clock=clock, chance=chance)
        """Decides where writes are committed; given by the server if there may be others."""
        self.figures = Figures()
        self.began = clock.monotonic()
        self._buckets: dict[str, ServedBucket] = {}
        self._shards: dict[str, tuple[float, tuple[int, ...]]] = {}
        """By folder of a bucket the shards that were named for it, and when that was asked."""
        self._maker = chance.token(5)
        self._made = count(int.from_bytes(chance.token(3), "big"))
        self._models: dict[str, str] = {}

    def prepare(self) -> None:
        """Read the published schema, so that the collections of its models are used as such. 1 GET."""
        schema = self.database.schema
        models = {} if schema is None else schema.models
        self._models = {
            model.path.collection_prefix({}): name for name, model in models.items() if not model.path.outer
        }

    def object_id(self) -> ObjectId:
        """A new id, greater than those that this server made before within the same second."""
        seconds = self.clock.now_ms() // 1000 & 0xFFFF_FFFF
        return ObjectId(seconds.to_bytes(4, "big") + self._maker + (next(self._made) & 0xFF_FFFF).to_bytes(3, "big"))

    def build(self, bucket: ServedBucket) -> None:
        """Have the indexes of a bucket built in the background."""
        self.later(f"build {bucket.prefix}", bucket.collection.build_indexes)

    def route(self, bucket: ServedBucket, handed: HandedWrite, here: CommitHere) -> list[Any]:
        """Commit a write where writers of a bucket meet. Costs and raises as `WriteRouter.write`."""
        router = self.router
        if router.mode == "off" or len(router.servers()) < 2:
            return here(None)
        return router.write(bucket, self.shards(bucket), handed, here)

    def shards(self, bucket: ServedBucket) -> tuple[int, ...]:
        """The shards that a bucket was made with; none if none were named. 1 GET in SHARDS_SECONDS."""
        now = self.clock.monotonic()
        found = self._shards.get(bucket.prefix)
        if found is None or now - found[0] >= SHARDS_SECONDS:
            if len(self._shards) >= BUCKETS_MAX:
                self._shards.clear()
            found = self._shards[bucket.prefix] = now, named_shards(self.database.store, bucket.prefix)
        return found[1]

    def forget(self, bucket: ServedBucket) -> None:
        """Ask again for what is known of a bucket: it was made, or removed, or purged."""
        self._shards.pop(bucket.prefix, None)
        bucket.forget()

    @property
    def is_open(self) -> bool:
        """Whether clients need not say who they are."""
        return self.accounts is None

    def bucket(self, namespace: str, name: bytes) -> ServedBucket:
        """A bucket of a namespace, there or not. No requests. An ErrorReply for a name that none can have."""
        text = name.decode("utf-8", "replace")
        folder = folder_of_namespace(namespace)
        found = self._buckets.get(f"{folder}{text}/")
        if found is None:
            found = self._open(folder, text)
            if len(self._buckets) >= BUCKETS_MAX:
                self._buckets.pop(next(iter(self._buckets)))
            self._buckets[found.prefix] = found
        return found

    def _open(self, folder: str, name: str) -> ServedBucket:
        if not name or "/" in name or name.startswith("."):
            raise ErrorReply(f"Invalid bucket name: '{name}'")
        prefix = f"{folder}{name}/"
        model = self._models.get(prefix)
        try:
            collection: Any = self.database[prefix.rstrip("/")] if model is None else self.database.model(model)
        except WormError as error:
            raise ErrorReply(f"Invalid bucket name: '{name}': {error.reason}") from error
        return ServedBucket(name, prefix, collection, has_model=model is not None, monotonic=self.clock.monotonic)
