"""Plain values that a user may set. What can be plugged in (clock, store) comes in by argument elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from wormdb.errors import InvalidRequestError
from wormdb.limits import (
    BLOCK_BYTES_TARGET,
    COMMIT_SECONDS,
    FILES_INTERVAL_MS,
    FILES_SECONDS,
    FORWARD_INTERVAL_MS,
    JOB_EXPIRY_MS_MIN,
    LOG_RETENTION_MS_MIN,
    MIB,
    POOL_THREADS,
    READ_SECONDS,
    REQUEST_SECONDS,
    STAGE_BYTES,
    TAIL_BYTES_MAX,
    TAIL_ENTRIES_MAX,
)

__all__ = ["BrokenChoice", "ForeignCheck", "ForwardChoice", "Settings", "SourceChoice"]

ForwardChoice = Literal["auto", "inline", "background", "manual"]
SourceChoice = Literal["auto", "files"]
ForeignCheck = Literal["manifest", "listing"]
BrokenChoice = Literal["raise", "skip"]

_CHOICES = {"forward": ForwardChoice, "source": SourceChoice, "foreign_check": ForeignCheck, "on_broken": BrokenChoice}

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a database behaves in this process; every value has a default that is safe."""

    staleness_ms: float = 0
    """How long a reader may skip asking the store for newer entries; 0 asks at every read."""
    read_seconds: float = READ_SECONDS
    """How long a read may take. A query has this time for each batch of rows; work on a whole collection, such as
    `forward` or `verify`, is given up if the store has not answered for this long."""
    commit_seconds: float = COMMIT_SECONDS
    """How long a write tries before it gives up."""
    request_seconds: float = REQUEST_SECONDS
    """How long one request to a cloud store may go without a byte of its answer; then it is tried again if that is
    safe."""
    modify_attempts: int = 100
    """How often `modify` and changes by filter start again when another writer was faster."""
    pool_threads: int = POOL_THREADS
    """Requests in flight at once."""
    cache_bytes: int = 256 * MIB
    """Bound of the caches: of immutable objects, and of columns and rows that stay decoded; 0 switches both off."""
    forward: ForwardChoice = "auto"
    """Who brings the log forward: `inline` the caller of a commit, `background` a thread, `manual` only who calls
    `forward()`. `auto` is background for a cloud store and inline for a folder or memory."""
    forward_entries: int = TAIL_ENTRIES_MAX // 10
    """Log entries after which the tail is brought forward."""
    forward_interval_ms: float = FORWARD_INTERVAL_MS
    """A process swaps a collection's root at most once in this time."""
    files_interval_ms: float = FILES_INTERVAL_MS
    """With readable files, a commit brings the log forward if one before it has waited this long."""
    files_seconds: float = FILES_SECONDS
    """A manifest or index file in which only a little has changed is written again after this time."""
    block_bytes: int = BLOCK_BYTES_TARGET
    """Bytes of documents at which a block is closed, before compression."""
    stage_bytes: int = STAGE_BYTES
    """Bytes of a batch from which on it is staged as blocks and attached, instead of going through the log."""
    tail_entries_max: int = TAIL_ENTRIES_MAX
    """Log entries that are not brought forward at which commits wait."""
    tail_bytes_max: int = TAIL_BYTES_MAX
    """Bytes of such entries at which commits wait."""
    log_retention_ms: int = 7 * DAY_MS
    """How long log entries stay after they were brought forward; never under an hour."""
    job_expiry_ms: int = 7 * DAY_MS
    """How long a bulk job may be open until garbage collection gives it up; never under an hour."""
    source: SourceChoice = "auto"
    """What a model in mode readonly is read from: `auto` asks once whether the collection has a log, and reads files of
    other programs if it has none; `files` reads the files without asking."""
    foreign_check: ForeignCheck = "manifest"
    """When a manifest or index of another program is believed: `manifest` if it is right in itself, `listing` if also
    no file of a document is newer and the ids are those that are there, for which the files are listed."""
    on_broken: BrokenChoice = "raise"
    """What happens to a broken file of another program's document: `raise` CorruptionError, or `skip` it and name it in
    a warning."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _CHOICES:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidRequestError(f"setting {field.name}={value!r}", reason="it must be a number, 0 or more")
        for name, choice in _CHOICES.items():
            value = getattr(self, name)
            if value not in get_args(choice):
                raise InvalidRequestError(
                    f"setting {name}={value!r}", reason=f"it is one of {', '.join(get_args(choice))}"
                )
        if self.log_retention_ms < LOG_RETENTION_MS_MIN:
            raise InvalidRequestError(
                f"setting log_retention_ms={self.log_retention_ms}",
                reason=f"entries must stay at least {LOG_RETENTION_MS_MIN} ms: a slow writer may still need them",
            )
        if self.job_expiry_ms < JOB_EXPIRY_MS_MIN:
            raise InvalidRequestError(
                f"setting job_expiry_ms={self.job_expiry_ms}",
                reason=f"jobs must have at least {JOB_EXPIRY_MS_MIN} ms: what they wrote is removed after it",
            )
        if min(self.pool_threads, self.tail_entries_max, self.forward_entries, self.block_bytes) < 1:
            raise InvalidRequestError(
                "settings", reason="pool_threads, block_bytes and the entry counts must be at least 1"
            )
