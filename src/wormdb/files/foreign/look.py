"""One look at somebody else's files: whatever a query needs is read once, and stays as it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.files.foreign.entities import Entities
from wormdb.files.foreign.listing import list_entities
from wormdb.files.foreign.manifest import Manifest, read_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.files.foreign.listing import Listing
    from wormdb.files.foreign.manifest import Refused
    from wormdb.files.foreign.site import Site

__all__ = ["ContradictionError", "Look"]


class ContradictionError(Exception):
    """A file is not what a manifest or an index says; the argument says why. It never leaves this package."""


class Look:
    """What one query sees. For one thread at a time."""

    def __init__(self, site: Site) -> None:
        """No requests."""
        self.site = site
        self.entities = Entities(site)
        self._listing: Listing | None = None
        self._manifests: dict[tuple[str, ...] | None, Manifest | Refused] = {}

    def listing(self) -> Listing:
        """The files of documents. At the first call 1 LIST for each 1,000 keys of the collection."""
        if self._listing is None:
            self._listing = list_entities(self.site)
        return self._listing

    def checked_listing(self) -> Listing | None:
        """The same if what others say has to be held to it; None if not."""
        return self.listing() if self.site.check == "listing" else None

    def manifest(self, texts: Sequence[str] | None = None, names: Sequence[str] = ()) -> Manifest | Refused:
        """The manifest, or as much of it as may have these ids. Costs as `read_manifest` at the first call.

        `names` are fields that will be asked for.
        """
        if None in self._manifests:
            return self._manifests[None]
        wanted = None if texts is None else tuple(texts)
        if wanted not in self._manifests:
            found = read_manifest(self.site, self.checked_listing(), texts, names)
            if not isinstance(found, Manifest) or not found.is_partitioned:
                wanted = None  # there was no part to choose
            self._manifests[wanted] = found
            return found
        return self._manifests[wanted]
