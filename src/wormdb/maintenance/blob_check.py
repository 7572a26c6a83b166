"""Blobs that documents refer to: each is there, and its bytes have the digest that names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from wormdb.engine.state.definition import BlobStates
from wormdb.engine.tree.definition import OWNERS
from wormdb.errors import NotFoundError
from wormdb.format.blob import BlobKey, blob_keys_in
from wormdb.settings import BLOB_READ_BYTES
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from wormdb.format.block import Row
    from wormdb.format.root import Root
    from wormdb.maintenance.audit.report import Report
    from wormdb.maintenance.site import Site

__all__ = ["BlobCheck"]


@dataclass(slots=True)
class BlobCheck:
    """The blobs of one root. About 200 bytes in memory for each that is referred to."""

    site: Site
    root: Root
    report: Report
    _keys: set[BlobKey] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """A document of the root, alive or in the trash. No requests."""
        self._keys |= blob_keys_in(row.document) | blob_keys_in(row.trash)

    def checked(self) -> list[str]:
        """The keys that `compare` looks at: none in a collection that never had a blob. No requests."""
        return [] if self.root.index(OWNERS.name) is None else sorted(map(str, self._keys))

    def compare(self) -> None:
        """Look at each of them. 1 GET for each 4 MiB."""
        condemned = BlobStates.of_root(self.root).condemned
        for key in map(BlobKey.parse, self.checked()):
            assert key is not None, "it was one"
            path = self.site.paths.blob(key.name)
            self.report.count("blobs")
            self.report.look(path)
            if key in condemned:
                self.report.add("blob", path, f"documents refer to it, and entry {condemned[key]} condemned it")
            digest = self._digest(path)
            if digest is None:
                self.report.add("blob", path, "documents refer to it, and it is missing")
            elif digest != key.sha256:
                self.report.add("blob", path, "its bytes have another SHA-256 than its name says")

    def _digest(self, path: str) -> str | None:
        """Of the bytes of an object, a part at a time; None if it is not there."""
        digest, start = sha256(), 0
        while True:
            try:
                some = self.site.store.get_range(path, ByteRange(start, BLOB_READ_BYTES))
            except NotFoundError as error:
                if error.key != path:
                    raise  # the bucket is missing, not this object
                return None
            digest.update(some)
            start += len(some)
            if len(some) < BLOB_READ_BYTES:
                return digest.hexdigest()
