"""The bases of a collection's views: the documents of a root, and of blocks that a job attached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.blocks.runs import AttachedBase, RunBase
from wormdb.engine.log.root import Place
from wormdb.engine.state.view import EmptyBase

if TYPE_CHECKING:
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.log.root import RootState
    from wormdb.engine.state.view import Base
    from wormdb.format.event import JobAttached
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.types import LogNumber

__all__ = ["BaseShelf"]


@dataclass(frozen=True, slots=True)
class BaseShelf:
    """Makes the bases of one collection's views, without requests until they are used."""

    store: Store
    pool: Pool
    paths: EnginePaths
    trees: IndexShelf
    """Of its indexes."""
    shelf: Shelf

    def root(self, state: RootState) -> Base:
        """The documents of a root."""
        if state.root is None:
            return EmptyBase()
        return RunBase(Place(self.store, self.pool, self.paths, state.root), self.shelf)

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches."""
        return AttachedBase(self.store, self.pool, self.paths, event.blocks, number, self.shelf)
