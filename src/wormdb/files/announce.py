"""Sentinels: tell who looks into a bucket what is in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import AlreadyExistsError, ConflictError, CorruptionError, OutcomeUnknownError
from wormdb.files.names import BUCKET_SENTINEL
from wormdb.files.sentinel import BucketSentinel, bucket_sentinel, read_bucket_sentinel
from wormdb.schema.model import StorageDefinition
from wormdb.storage.store import IfAbsent, IfMatch

if TYPE_CHECKING:
    from wormdb.files.placement import Placement
    from wormdb.schema.model import Model
    from wormdb.storage.store import Store, StoredObject

__all__ = ["Announcement", "storage_of"]

_ATTEMPTS_MAX: Final = 8
_SCHEMA_VERSION: Final = "1.0"
_NOTHING: Final = BucketSentinel(None, None, (), {}, {})


@dataclass(frozen=True, slots=True)
class Announcement:
    """What the sentinel of a bucket says of one collection."""

    bucket: str
    model: Model
    collection: str
    placement: Placement

    @property
    def digest(self) -> bytes:
        """Changes with what is said."""
        said = (self.bucket, self.model.name, self.collection, self._storage.to_json(), self.placement.name)
        return sha256(msgspec.json.encode(said)).digest()

    def make(self, store: Store) -> None:
        """Add the collection to the sentinel of the bucket. 1 GET, and 1 PUT unless it is said already.

        If others write it all the time, or the outcome is not known, it is left as it is: a sentinel only informs.
        """
        for _ in range(_ATTEMPTS_MAX):
            found = store.probe(BUCKET_SENTINEL).found
            body = self._body(found)
            if found is not None and found.body == body:
                return
            precondition = IfAbsent() if found is None else IfMatch(found.version)
            try:
                store.put(BUCKET_SENTINEL, body, precondition, content_type="application/json")
            except (AlreadyExistsError, ConflictError, OutcomeUnknownError):
                continue
            return

    def _body(self, found: StoredObject | None) -> bytes:
        try:
            said = _NOTHING if found is None else read_bucket_sentinel(found.body, key=BUCKET_SENTINEL)
        except CorruptionError:
            said = _NOTHING
        names = {key: name for key, name in said.names.items() if key != self.collection}
        is_long = self.placement.name != f"{self.model.path.collection_name}/"
        if is_long and "root" in (self.placement.oplog, self.placement.snapshots, self.placement.trash):
            names[self.collection] = self.placement.name
        models = sorted({*said.models, self.model.name})
        return bucket_sentinel(self.bucket, models, self._storage, said.schema or _SCHEMA_VERSION, names)

    @property
    def _storage(self) -> StorageDefinition:
        return storage_of(self.placement)


def storage_of(placement: Placement) -> StorageDefinition:
    """A placement as a schema writes it: the layout that most folders have, and those that differ."""
    places = (placement.oplog, placement.snapshots, placement.trash)
    layout, _ = Counter(places).most_common(1)[0]
    oplog, snapshots, trash = (None if place == layout else place for place in places)
    return StorageDefinition(layout, oplog, snapshots, trash)
