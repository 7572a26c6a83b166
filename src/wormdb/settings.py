"""Plain values that a user may set. What can be plugged in (clock, store) comes in by argument elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from wormdb.errors import InvalidRequestError
from wormdb.limits import COMMIT_SECONDS, LOG_RETENTION_MS_MIN, MIB, POOL_THREADS, TAIL_BYTES_MAX, TAIL_ENTRIES_MAX

__all__ = ["Settings"]

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a database behaves in this process; every value has a default that is safe."""

    staleness_ms: float = 0
    """How long a reader may skip asking the store for newer entries; 0 asks at every read."""
    commit_seconds: float = COMMIT_SECONDS
    """How long a commit tries before it gives up."""
    modify_attempts: int = 100
    """How often `modify` starts again when somebody else was faster."""
    pool_threads: int = POOL_THREADS
    """Requests in flight at once."""
    cache_bytes: int = 256 * MIB
    """Bound of the cache of immutable objects; 0 switches it off."""
    checkpoint_entries: int = TAIL_ENTRIES_MAX // 10
    """Log entries after which the tail is brought into a checkpoint."""
    tail_entries_max: int = TAIL_ENTRIES_MAX
    """Log entries not yet brought forward at which commits wait."""
    tail_bytes_max: int = TAIL_BYTES_MAX
    """Bytes of such entries at which commits wait."""
    log_retention_ms: int = 7 * DAY_MS
    """How long log entries stay after they were brought forward; never under an hour."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidRequestError(f"setting {field.name}={value!r}", reason="it must be a number, 0 or more")
        if self.log_retention_ms < LOG_RETENTION_MS_MIN:
            raise InvalidRequestError(
                f"setting log_retention_ms={self.log_retention_ms}",
                reason=f"entries must stay at least {LOG_RETENTION_MS_MIN} ms: a slow writer may still need them",
            )
        if self.pool_threads < 1 or self.tail_entries_max < 1 or self.checkpoint_entries < 1:
            raise InvalidRequestError("settings", reason="pool_threads and the entry counts must be at least 1")
