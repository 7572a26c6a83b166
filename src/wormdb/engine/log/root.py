"""The root register: one small object, read whole and swapped by compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.errors import ConflictError, RemovedError, UnavailableError
from wormdb.format.event import check_acted_on
from wormdb.format.root import Root, decode_root, encode_root
from wormdb.storage.readback import put_swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.log.paths import EnginePaths
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.types import StoreTime, Version

__all__ = ["ROOT_ATTEMPTS_MAX", "Place", "Register", "RootState"]

log = logging.getLogger(__name__)

ROOT_ATTEMPTS_MAX: Final = 16
"""How often a change of the root is made again because another's root came first."""


@dataclass(frozen=True, slots=True)
class RootState:
    """The root as it was read: None if there is none yet; with its version and the store's time."""

    root: Root | None
    version: Version | None
    time: StoreTime | None

    @property
    def applied(self) -> int:
        """Through which log number the root goes; 0 without one."""
        return 0 if self.root is None else self.root.applied


@dataclass(frozen=True, slots=True)
class Register:
    """The root of one collection."""

    store: Store
    paths: EnginePaths
    collection: str

    def read(self) -> RootState:
        """The root now. 1 GET; raises CorruptionError, UnsupportedFormatError."""
        probe = self.store.probe(self.paths.root)
        if probe.found is None:
            return RootState(None, None, probe.time)
        return RootState(self.decode(probe.found.body), probe.found.version, probe.time)

    def decode(self, body: bytes) -> Root:
        """The root in its stored bytes. No requests; raises CorruptionError, UnsupportedFormatError."""
        root = decode_root(body, name=self.paths.root, path=self.collection)
        check_acted_on(() if root.closed is None else (root.closed,), name=self.paths.root)
        return root

    def swap(self, current: RootState, following: Root, *, is_purge: bool = False) -> RootState:
        """Replace the root that was read by another, once. Costs and raises as `put_swapped`.

        Raises RemovedError for the root of a removed collection, which only its `is_purge` replaces.
        """
        if current.root is not None and current.root.closed is not None and not is_purge:
            reason = f"entry {current.root.applied} removed it"
            raise RemovedError(f"the root of {self.collection}", reason=reason, key=self.paths.root)
        revision = 0 if current.root is None else current.root.revision
        assert following.revision == revision + 1, (following.revision, revision)
        body = encode_root(following)
        landed = put_swapped(self.store, self.paths.root, body, current.version, what="root")
        return RootState(following, landed.version, landed.time)

    def update(
        self,
        change: Callable[[RootState], Root | None],
        *,
        what: str,
        current: RootState | None = None,
        is_purge: bool = False,
    ) -> RootState:
        """Replace the root by what `change` makes of it, from the newer one again if another's came first.

        `change` returns None where nothing is to be done: then the root stays as it was read. `current` is the root to
        begin with if it was read before; `what` names the change in messages. 1 GET and 1 PUT an attempt, and what
        `change` costs. Raises what `change` and `swap` raise, UnavailableError after ROOT_ATTEMPTS_MAX roots of others,
        and OutcomeUnknownError.
        """
        for _ in range(ROOT_ATTEMPTS_MAX):
            current = self.read() if current is None else current
            following = change(current)
            if following is None:
                return current
            try:
                state = self.swap(current, following, is_purge=is_purge)
            except ConflictError:
                log.info("%s: another root came before %s", self.collection, what)
                current = None
            else:
                log.info("%s: root %d has %s", self.collection, following.revision, what)
                return state
        raise UnavailableError(f"{what} of {self.collection}", reason="others were faster every time", fix="retry")


# --- A root, and where the objects that it names are.


@dataclass(frozen=True, slots=True)
class Place:
    """One root of one collection. A value: a newer root is another place."""

    store: Store
    pool: Pool
    paths: EnginePaths
    root: Root
