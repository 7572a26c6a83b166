"""How many bytes an object may have: known by its key before it is read, so that nothing fills the memory.

A store is opened with a rule from keys to bytes. What is longer is never read whole: the error names it, with its size.
Ranges need no rule, because they say themselves how many bytes they are.
"""

from __future__ import annotations

from collections.abc import Callable

from wormdb.errors import CorruptionError, LimitExceededError
from wormdb.limits import OBJECT_BYTES_MAX

__all__ = ["Bound", "any_object", "check_write", "oversized"]

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
