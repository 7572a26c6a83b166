"""How many bytes an object may have: known by its key before it is read, so that nothing fills the memory.

A store is opened with a rule from keys to bytes. What is longer is never read whole: the error names it, with its size.
Ranges need no rule, because they say themselves how many bytes they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wormdb.errors import CorruptionError, LimitExceededError
from wormdb.settings import OBJECT_BYTES_MAX
from wormdb.storage.store import OCTETS
from wormdb.storage.wrapped import WrappedStore

if TYPE_CHECKING:
    from wormdb.storage.store import Precondition, Probe, PutResult, Store, StoredObject

__all__ = ["Bound", "BoundedStore", "any_object", "check_write", "oversized"]

Bound = Callable[[str], int]
"""The most bytes that an object of this key has."""


def any_object(key: str) -> int:  # noqa: ARG001 - a rule takes a key
    """The rule of a store that knows nothing of what it holds. No requests."""
    return OBJECT_BYTES_MAX


def oversized(key: str, size: int, bytes_max: int) -> CorruptionError:
    """The error for an object that is too long to be what its key says. No requests."""
    return CorruptionError(
        f"object {key}",
        reason=f"it has {size} bytes, and an object of its kind has at most {bytes_max}",
        fix="look what wrote it; restore it, or rebuild it",
        key=key,
    )


def check_write(key: str, size: int, bytes_max: int) -> None:
    """Raise LimitExceededError for an object that no reader would take. No requests."""
    if size > bytes_max:
        raise LimitExceededError(
            f"object {key}", reason=f"{size} bytes are over the limit of {bytes_max} for its kind", key=key
        )


class BoundedStore(WrappedStore):
    """Holds a store that was opened without a rule to one. An object over its bound is refused after it was read."""

    def __init__(self, inner: Store, bound: Bound) -> None:
        """Closing it closes `inner`."""
        super().__init__(inner)
        self._bound = bound

    def get(self, key: str) -> StoredObject:
        """The whole object. 1 GET; raises CorruptionError for one over its bound."""
        return self._checked(self._inner.get(key))

    def probe(self, key: str) -> Probe:
        """The object or None. 1 GET; raises CorruptionError for one over its bound."""
        probe = self._inner.probe(key)
        if probe.found is not None:
            self._checked(probe.found)
        return probe

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write if the precondition holds. 1 PUT; raises LimitExceededError for a body over its bound, unsent."""
        check_write(key, len(body), self._bound(key))
        return self._inner.put(key, body, precondition, content_type=content_type)

    def _checked(self, found: StoredObject) -> StoredObject:
        if len(found.body) > self._bound(found.key):
            raise oversized(found.key, len(found.body), self._bound(found.key))
        return found
