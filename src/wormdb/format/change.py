"""What a batch changes: each document before and after it. Entries of the log hold batches, and events may."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wormdb.format.frame import Id

__all__ = ["LoggedBatch", "LoggedChange"]


class LoggedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One document before and after: no `before` is an insert, no `after` a delete.

    `op` is set where the images do not tell what was done: a restore (of the trash, a snapshot or an older version),
    a purge, which takes a document from the trash for good and has neither image, and the end of a document whose
    time was over.
    """

    id: bytes = msgspec.field(name="i")
    """The document's id as extended JSON."""
    seq: Annotated[int, Meta(ge=1, le=2**63 - 1)] = msgspec.field(name="s")
    """Counts the changes of this document, gapless, over delete and re-create."""
    before: bytes | None = msgspec.field(name="b", default=None)
    after: bytes | None = msgspec.field(name="a", default=None)
    op: Literal["restore", "purge", "expire"] | None = msgspec.field(name="o", default=None)
    trash: bytes | None = msgspec.field(name="t", default=None)
    """After a soft delete: the tombstone with the document, as extended JSON."""
    snapshot: bool = msgspec.field(name="p", default=False)
    """Whether this version is kept as a snapshot."""


class LoggedBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one caller wrote at once; it has landed if its `id` is in the entry found."""

    id: Id = msgspec.field(name="i")
    actor: str | None = msgspec.field(name="a", default=None)
    meta: bytes | None = msgspec.field(name="m", default=None)
    """The caller's metadata as extended JSON."""
    changes: tuple[LoggedChange, ...] = msgspec.field(name="c", default=())
