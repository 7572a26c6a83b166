"""The root register: one small object, read whole and swapped by compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import ConflictError, RemovedError, UnavailableError
from wormdb.format.entry import decode_entry
from wormdb.format.event import CollectionClosed, check_acted_on
from wormdb.format.root import Root, decode_root, encode_root
from wormdb.storage.readback import put_swapped
from wormdb.system.types import LogNumber

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
    staged: CollectionClosed | None = None
    """Set if what is stored is the stage of a rename: then `root` is what that means now."""

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
        """The root now. 1 GET, and 2 or 3 for the stage of a rename; raises CorruptionError, UnsupportedFormatError.

        A stage is the collection as soon as the other one has ended. Before that it has no documents and takes none, as
        a collection that was removed. So one entry, in the log of the other one, ends that name and begins this one.
        """
        state = self._stored()
        while state.root is not None and state.root.closed is not None and state.root.closed.is_stage:
            stage = state.root.closed
            if self._is_followed(stage):
                return replace(state, root=_live(state.root), staged=stage)
            # The other log goes only after this root says that it is no stage any more.
            again = self._stored()
            if again.version == state.version:
                return replace(state, root=_bare(state.root), staged=stage)
            state = again
        return state

    def _stored(self) -> RootState:
        probe = self.store.probe(self.paths.root)
        if probe.found is None:
            return RootState(None, None, probe.time)
        return RootState(self.decode(probe.found.body), probe.found.version, probe.time)

    def _is_followed(self, stage: CollectionClosed) -> bool:
        """Whether the entry that a stage waits for is in the log of its source. 1 GET, or 2."""
        assert stage.source is not None
        paths = self.paths.of_collection(stage.source)
        key = paths.entry(LogNumber(stage.slot))
        found = self.store.probe(key).found
        if found is None:
            return False
        entry = decode_entry(found.body, name=key, number=stage.slot, collection=stage.source)
        ends = [event for event in entry.events if isinstance(event, CollectionClosed) and event.source is None]
        if not any(event.follows == (self.collection,) for event in ends):
            return False
        # Read after it: what lies in a slot that was trimmed may be a late write of a process that slept.
        root = Register(self.store, paths, stage.source)._stored().root  # noqa: SLF001 - of the same class
        return root is None or root.trimmed < stage.slot

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


# --- The stage of a rename: a root that is a collection, or nothing yet.


def _live(root: Root) -> Root:
    return msgspec.structs.replace(root, closed=None)


def _bare(root: Root) -> Root:
    """What is left of a stage while it is none: as the root of a removed collection, it names nothing."""
    return Root(
        path=root.path,
        collection=root.collection,
        revision=root.revision,
        write_id=root.write_id,
        misc=root.misc,
        applied=root.applied,
        hash_applied=root.hash_applied,
        trimmed=root.trimmed,
        hash_trimmed=root.hash_trimmed,
        entered=root.entered,
        definition=b"",
        history_from=root.applied,
        blob_newest=root.applied,
        blob_floor=root.applied,
        closed=root.closed,
        removed=root.applied,
    )


# --- A root, and where the objects that it names are.


@dataclass(frozen=True, slots=True)
class Place:
    """One root of one collection. A value: a newer root is another place."""

    store: Store
    pool: Pool
    paths: EnginePaths
    root: Root
