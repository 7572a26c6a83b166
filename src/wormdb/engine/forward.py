"""Bring the tail of the log into blocks, and name them in the root: the only visible step.

Forwarding writes what changed since the root, as one new run of blocks, and merges runs by the rule of
`tiers`; so its cost follows what was written, not what is stored. New objects have new names; a crash
anywhere leaves the old root or the new one, and perhaps objects that nobody names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.clock import new_write_id
from wormdb.engine.blockwrite import BlockWriter
from wormdb.engine.runs import RunBase, merge_runs, runs_of
from wormdb.engine.tiers import plan_cascade
from wormdb.engine.trim import with_mark
from wormdb.errors import ConflictError
from wormdb.format.root import Retired, Root
from wormdb.limits import BLOCK_BYTES_TARGET, RUN_BYTES_SMALLEST

if TYPE_CHECKING:
    from wormdb.clock import Chance
    from wormdb.engine.misc_clock import MiscClock
    from wormdb.engine.register import Register, RootState
    from wormdb.engine.state import View
    from wormdb.format.blocklist import BlockEntry

__all__ = ["DEFAULT_SIZES", "Forwarder", "Sizes"]

log = logging.getLogger(__name__)

STORED_SHARE = 0.35
"""About what compression leaves of a document: enough to guess a run's tier before it is written."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large blocks and runs are meant to be, in bytes."""

    block_target: int = BLOCK_BYTES_TARGET
    """Of documents in a block, before compression."""
    run_smallest: int = RUN_BYTES_SMALLEST
    """Of a stored run up to which it counts for the lowest tier."""


DEFAULT_SIZES = Sizes()


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Forwards one collection."""

    register: Register
    misc: MiscClock
    chance: Chance
    sizes: Sizes = DEFAULT_SIZES

    @property
    def collection(self) -> str:
        """Its folder."""
        return self.register.collection

    def run(self, view: View, digest: bytes) -> RootState:
        """Bring the root to the state of `view`, whose last entry has hash `digest`.

        Returns the root as it then is, which is another's if that is as new. 1 GET, 2 PUTs a block and 1 for
        the root; a merge adds 1 GET for each block it reads, a lost race 1.
        """
        current = self.register.read()
        if current.root is not None and current.root.applied >= view.number:
            return current
        blocks = self._blocks(current.root, view)
        try:
            state = self.register.swap(current, self._following(current, view, digest, blocks))
        except ConflictError:
            log.info("%s: another root came before entry %d was forwarded", self.collection, view.number)
            return self.register.read()
        log.info("%s: forwarded through entry %d, %d blocks", self.collection, view.number, len(blocks))
        return state

    def _blocks(self, root: Root | None, view: View) -> tuple[BlockEntry, ...]:
        """The root's next blocks: the tail as a new run, together with the runs that it completes a tier with."""
        applied = 0 if root is None else root.applied
        changed = [(key, held) for key, held in view.overlay.scan(view.number) if held.rev > applied]
        runs = runs_of(() if root is None else root.blocks)
        if not changed:
            return tuple(block for run in runs for block in run.blocks)
        size = int(STORED_SHARE * sum(len(held.document or b"") for _, held in changed))
        joined = runs[: plan_cascade(size, [run.size for run in runs], self.sizes.run_smallest)]
        base = RunBase(self.register.store, self.register.paths, [block for run in joined for block in run.blocks])
        rows = merge_runs([iter(changed), *(base.scan_run(run) for run in joined)])
        writer = BlockWriter(self.register.store, self.register.paths, self.misc, self.chance, self.sizes.block_target)
        level = max((block.level + 1 for run in joined for block in run.blocks), default=0)
        written = writer.write(rows, view.definition.columns, run=view.number, level=level)
        return (*written, *(block for run in runs[len(joined) :] for block in run.blocks))

    def _following(self, current: RootState, view: View, digest: bytes, blocks: tuple[BlockEntry, ...]) -> Root:
        root = current.root or self._first(digest)
        kept, paths = {block.name for block in blocks}, self.register.paths
        retired = tuple(
            Retired(name=key.removeprefix(paths.folder), revision=root.revision + 1)
            for block in root.blocks
            if block.name not in kept
            for key in (paths.block(block.name), paths.sidecar(block.sidecar.name))
        )
        return msgspec.structs.replace(
            root,
            revision=root.revision + 1,
            write_id=new_write_id(self.chance),
            misc=self.misc.next(),
            applied=view.number,
            hash_applied=digest,
            marks=with_mark(current.root, current.time),
            definition=view.definition.body,
            rows=view.count,
            blocks=blocks,
            retired=root.retired + retired,
            closed=view.definition.closed,
        )

    def _first(self, digest: bytes) -> Root:
        return Root(
            path=self.collection,
            collection=new_write_id(self.chance),
            revision=0,
            write_id=new_write_id(self.chance),
            misc=0,
            hash_applied=digest,
            hash_trimmed=bytes(32),
            definition=b"",
        )
