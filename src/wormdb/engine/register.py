"""The root register: one small object, read whole and swapped by compare-and-set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError
from wormdb.format.root import Root, decode_root, encode_root
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import IfAbsent, IfMatch

if TYPE_CHECKING:
    from wormdb.engine.paths import EnginePaths
    from wormdb.storage.store import Store
    from wormdb.types import StoreTime, Version

__all__ = ["Register", "RootState"]


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
        root = decode_root(probe.found.body, name=self.paths.root, path=self.collection)
        return RootState(root, probe.found.version, probe.time)

    def swap(self, current: RootState, following: Root) -> RootState:
        """Replace the root that was read by another. 1 PUT, and 1 GET if the answer is no clean success.

        Raises ConflictError if somebody else swapped it: a loser deletes nothing, because its
        root may lie beneath the one found. Raises UnavailableError if nothing was done, and OutcomeUnknownError if
        that cannot be told.
        """
        revision = 0 if current.root is None else current.root.revision
        assert following.revision == revision + 1, (following.revision, revision)
        precondition = IfAbsent() if current.version is None else IfMatch(current.version)
        body = encode_root(following)
        outcome = put_classified(self.store, self.paths.root, body, precondition, content_type="application/zstd")
        match outcome:
            case Landed(version=version, time=time):
                return RootState(following, version, time)
            case Lost():
                raise ConflictError(
                    f"the root {self.paths.root}", reason="it was swapped by another", key=self.paths.root
                )
            case NothingThere(cause=UnavailableError() as refusal):
                raise refusal
            case NothingThere(cause=cause) | Unknown(cause=cause):
                raise OutcomeUnknownError(
                    f"the swap of {self.paths.root}", reason=str(cause), key=self.paths.root
                ) from cause
            case _:
                assert_never(outcome)
