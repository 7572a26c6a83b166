"""A database as one of its collections sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.api.access import Access
    from wormdb.api.connection import Ledgers
    from wormdb.files.keeper import FilesKeeper
    from wormdb.format.blob import BlobKey
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.storage.meter import Usage

__all__ = ["CollectionHome"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CollectionHome:
    """See `wormdb.api.access.Home`."""

    publish: Callable[[], None]
    access_of: Callable[[str], Access[Any]]
    ledgers: Ledgers
    run: Callable[..., Any]
    """Runs a function in a transaction, as `Database.run`."""

    @property
    def files(self) -> FilesKeeper:
        """The keeper of its readable files."""
        return self.ledgers.files

    def usage(self) -> Usage:
        """What its store has counted so far."""
        return self.ledgers.metered.mark()

    def again(self, access: Access[T]) -> Access[T]:
        """A collection in a forked child, on what was opened there. No requests."""
        folder = access.ledger.collection
        if not self.ledgers.lifetime.is_open:
            return access
        known = access.readonly
        foreign = None if known is None else self.ledgers.foreign.of(folder, access.writer.model)
        return replace(access, ledger=self.ledgers.of(folder), plans=self.ledgers.plans_of(folder), readonly=foreign)

    def collect(self, folder: str, *, dry_run: bool, unowned: Iterable[BlobKey] = ()) -> GcResult:
        """Remove garbage from the collection in a folder; of `unowned` blobs without an owner at any age."""
        return self.ledgers.gc(folder, dry_run=dry_run, unowned=unowned)
