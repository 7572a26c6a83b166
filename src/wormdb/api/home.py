"""A database as one of its collections sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.access import Access
    from wormdb.api.connection import Ledgers
    from wormdb.files.keeper import FilesKeeper
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.storage.meter import MeteredStore, Usage

__all__ = ["CollectionHome"]


@dataclass(frozen=True, slots=True)
class CollectionHome:
    """See `wormdb.api.access.Home`."""

    publish: Callable[[], None]
    access_of: Callable[[str], Access[Any]]
    ledgers: Ledgers
    metered: MeteredStore

    @property
    def files(self) -> FilesKeeper:
        """The keeper of its readable files."""
        return self.ledgers.files

    def usage(self) -> Usage:
        """What its store has counted so far."""
        return self.metered.mark()

    def collect(self, folder: str, *, dry_run: bool) -> GcResult:
        """Remove garbage from the collection in a folder."""
        return self.ledgers.gc(folder, dry_run=dry_run)
