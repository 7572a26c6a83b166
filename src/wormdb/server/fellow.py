"""A server among others: a node whose heartbeat says where clients find it, in threads of its own.

The node looks after the database as any other does. Its database is one of its own, because a node counts what it
writes; what it brings forward, the server finds in the bucket.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from wormdb.errors import WormError
from wormdb.format.heartbeat import CollectionActivity
from wormdb.jobs.node.node import Node
from wormdb.jobs.node.pace import Pace
from wormdb.settings import NODE_WINDOW_MS

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from wormdb.api.database import Database
    from wormdb.system.clock import Clock

__all__ = ["ServerNode", "server_pace"]

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 5.0
LOOK_INTERVALS: Final = 3


def server_pace(interval_ms: int = NODE_WINDOW_MS) -> Pace:
    """As of nodes, but that new servers are looked for sooner: writers should meet."""
    return Pace(interval_ms=interval_ms, look_seconds=LOOK_INTERVALS * interval_ms / 1000)


class ServerNode:
    """Holds a node id for a server while a `with` statement lasts. What it tells may be asked by any thread."""

    def __init__(
        self, database: Database, address: str, clock: Clock, *, node: int | None = None, pace: Pace | None = None
    ) -> None:
        """`address` is as other servers and clients reach it: resp://host:port. No requests."""
        self._database = database
        self._clock = clock
        self._address = address
        self._wanted = node
        self._pace = pace or server_pace()
        self._node: Node | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wormdb-node", daemon=True)

    @property
    def id(self) -> int | None:
        """The node id; None while there is none."""
        node = self._node
        return None if node is None or node.lost is not None else node.id

    def servers(self) -> dict[int, str]:
        """The addresses of all live servers, by node id; none while this one has no id. No requests."""
        node = self._node
        return {} if node is None or not node.is_well else node.servers()

    def tell_removed(self, collection: str, number: int) -> None:
        """Have the next heartbeat show that an entry removed a collection, so that others look at it. No requests."""
        node = self._node
        if node is not None:
            heard = CollectionActivity(collection=collection, number=number, removed=True)
            node.watchlist.heard([heard], self._clock.monotonic())

    def __enter__(self) -> Self:
        """Claim an id, and look at the others. Costs as `Node.start`; raises what that raises."""
        self._node = self._claimed()
        self._thread.start()
        return self

    def _claimed(self) -> Node:
        node = Node(self._database, node=self._wanted, pace=self._pace, address=self._address)
        node.start()
        return node

    def _run(self) -> None:
        """Be a node until the end; one that lost its id becomes another."""
        while not self._ended.is_set():
            try:
                if self._node is None:
                    self._node = self._claimed()
                self._node.run()
            except WormError as error:
                log.warning("the server is no node: %s", error)
            if not self._ended.is_set():
                self._node, self._wanted = None, None
                self._ended.wait(AGAIN_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        node = self._node
        if node is not None:
            node.end()
        self._thread.join()
