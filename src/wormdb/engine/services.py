"""What a client knows of services: whether there are any that look after the database."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wormdb.engine.log.peers import Peers
from wormdb.errors import WormError
from wormdb.settings import NODES_LOOK_SECONDS

if TYPE_CHECKING:
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

__all__ = ["Services"]

log = logging.getLogger(__name__)


class Services:
    """The services of one database, asked for rarely."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Nothing is read yet."""
        self._store = store
        self._clock = clock
        self._peers = Peers(store, clock)
        self._looked: float | None = None

    def are_live(self) -> bool:
        """Whether a node lives, as far as is known. 1 LIST and 1 GET a node, once a minute at most.

        A client that may not look, or cannot, has no services.
        """
        now = self._clock.monotonic()
        if self._looked is None or now - self._looked >= NODES_LOOK_SECONDS:
            # First, so that who fails does not try again at once.
            self._looked = now
            try:
                self._peers.look()
            except WormError as error:
                log.info("services are not looked for: %s", error)
                self._peers = Peers(self._store, self._clock)
        return bool(self._peers.live())
