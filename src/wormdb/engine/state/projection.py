"""What one forwarding brings to the projections of the log: documents, indexes, history.

A projection is a function of a step that writes new objects and returns what the next root says of it. It never
deletes, and nothing that it wrote counts before the root was swapped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wormdb.engine.state.erased import erasures_of
from wormdb.engine.state.view import id_key
from wormdb.settings import BLOCK_BYTES_TARGET, RUN_BYTES_SMALLEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Place
    from wormdb.engine.state.jobs import Jobs
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry
    from wormdb.format.event import JobAttached
    from wormdb.format.root import Root
    from wormdb.system.types import StoreTime

__all__ = ["DEFAULT_SIZES", "LogStage", "Net", "ProjectionResult", "ProjectionStep", "Sizes", "net_of"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large blocks and runs are meant to be, in bytes."""

    block_target: int = BLOCK_BYTES_TARGET
    """Of documents in a block, before compression."""
    run_smallest: int = RUN_BYTES_SMALLEST
    """Of a stored run up to which it counts for the lowest tier."""


DEFAULT_SIZES = Sizes()


@dataclass(frozen=True, slots=True)
class Net:
    """One document that the tail touched: what it was at the root, and what it is now."""

    key: bytes
    """The order-preserving key of its id."""
    before: bytes | None
    """The document as JSON; None if there was none."""
    held: StoredVersion
    """What is there now: `held.document` is None after a delete."""


@dataclass(frozen=True, slots=True)
class LogStage:
    """A state on the way: what a root says that has come so far."""

    view: View
    digest: bytes
    """The hash of the entry at its number."""
    jobs: Jobs
    entries: tuple[Entry, ...]
    """Those since the stage before it."""


@dataclass(frozen=True)
class ProjectionStep:
    """From one root to the state of a view, which has no more than one job attached after it.

    Either `attached` is None and `net` says what changed, in order of key; or the only entry is the attachment of
    blocks, at number `view.number`, and `net` is empty.
    """

    place: Place
    view: View
    entries: tuple[Entry, ...]
    """Those after the root, through `view.number`."""
    net: tuple[Net, ...]
    writer: ObjectWriter
    sizes: Sizes = DEFAULT_SIZES
    attached: JobAttached | None = None
    joined: tuple[BlockEntry, ...] | None = None
    """What became of the blocks of a job that overlap: one run of the same documents."""
    time: StoreTime | None = None
    """When the root was read, by the store's time, if its answer told."""

    @cached_property
    def erased(self) -> Mapping[bytes, int]:
        """The documents that its entries erase, by the keys of their ids, each with the entry that does."""
        return erasures_of(self.entries)

    @property
    def root(self) -> Root:
        """The root that the step starts from."""
        return self.place.root

    @property
    def blocks(self) -> Sequence[BlockEntry]:
        """Of the attached job, in order of key."""
        blocks = self.joined if self.joined is not None or self.attached is None else self.attached.blocks
        return sorted(blocks or (), key=lambda block: block.key_first)


@dataclass(frozen=True, slots=True)
class ProjectionResult:
    """What the next root says of one projection, and which objects it no longer names."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of Root by name."""
    retired: tuple[str, ...] = ()
    """Whole object keys."""


def net_of(entries: Sequence[Entry], view: View) -> tuple[Net, ...]:
    """What some entries changed, in order of key: each document before the first and after the last of them.

    `view` is the state after them. No requests.
    """
    before: dict[bytes, bytes | None] = {}
    for entry in entries:
        for batch in entry.batches:
            for change in batch.changes:
                before.setdefault(id_key(change.id), change.before)
    net = []
    for key, document in sorted(before.items()):
        held = view.overlay.get(key, view.number)
        assert held is not None, "the overlay has what its entries changed"
        net.append(Net(key, document, held))
    return tuple(net)
