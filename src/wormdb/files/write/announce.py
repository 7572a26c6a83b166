"""The sentinel of a bucket: which models it has, and where their folders lie, for people and other programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import AlreadyExistsError, ConflictError, CorruptionError, OutcomeUnknownError
from wormdb.files.contents.expected import EDITED, MISSING
from wormdb.files.contents.names import BUCKET_SENTINEL, Placement
from wormdb.files.contents.sentinel import BucketSentinel, bucket_sentinel, read_bucket_sentinel
from wormdb.storage.store import IfAbsent, IfMatch, Store, StoredObject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.schema.model import Model

__all__ = ["Announcement", "announce_all"]

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
        """A digest of what the sentinel says of the collection."""
        said = (self.bucket, self.model.name, self.collection, self.storage, self.placement.name)
        return sha256(msgspec.json.encode(said)).digest()

    @property
    def storage(self) -> dict[str, str]:
        """The placement as a schema writes it: the layout that most folders have, and those that differ."""
        places = {"oplog": self.placement.oplog, "snapshots": self.placement.snapshots, "trash": self.placement.trash}
        layout, _ = Counter(places.values()).most_common(1)[0]
        return {"layout": layout, **{kind: place for kind, place in places.items() if place != layout}}

    def make(self, store: Store) -> None:
        """Add the collection to the sentinel of the bucket. 1 GET, and 1 PUT unless it is there already.

        If others write it all the time, or the outcome is not known, it is left as it is: a sentinel only informs.
        """
        _swap(store, self._body)

    def fault(self, found: StoredObject | None) -> str | None:
        """What is wrong with the sentinel as far as this collection goes; None if nothing is. No requests.

        Any name of the bucket is right: processes may reach it by different names.
        """
        if found is None:
            return MISSING
        try:
            said = read_bucket_sentinel(found.body, key=BUCKET_SENTINEL)
        except CorruptionError as error:
            return f"{EDITED}: {error.reason}"
        if self.model.name not in said.models:
            return f"{EDITED}: it does not have the model {self.model.name}"
        if said.places.get(self.collection, said.storage) != self.storage:
            return f"{EDITED}: it says that the folders of {self.collection} lie elsewhere"
        is_right = bool(said.bucket) and bool(said.schema) and said.names.get(self.collection) == self.folder
        return None if is_right else EDITED

    @property
    def folder(self) -> str | None:
        """The folder in root layouts, where it is not the last name of the collection."""
        is_long = self.placement.name != f"{self.model.path.collection_name}/"
        has_root = "root" in (self.placement.oplog, self.placement.snapshots, self.placement.trash)
        return self.placement.name if is_long and has_root else None

    def _body(self, found: StoredObject | None) -> bytes:
        said = _said(found)
        # Other collections may rely on what is said of all; but if this is the only one, it is said of all.
        is_alone = not self.model.path.outer and not set(said.models) - {self.model.name}
        storage = self.storage if is_alone or not said.storage else said.storage
        places = {} if is_alone else said.places
        return _written(said, [self], self.bucket, {*said.models, self.model.name}, (storage, places))


def announce_all(store: Store, told: Sequence[Announcement]) -> None:
    """Say of several collections where their folders lie, most of them in `storage`. Costs as `Announcement.make`.

    Where the sentinel names models that are not among them, or that have more collections than these, what it says of
    all stays: other programs may rely on it.
    """
    if told:
        _swap(store, lambda found: _body_of_all(found, told))


def _body_of_all(found: StoredObject | None, told: Sequence[Announcement]) -> bytes:
    said, models = _said(found), {each.model.name for each in told if not each.model.path.outer}
    storage, places = said.storage, said.places
    if not storage or not set(said.models) - models:
        frequent = Counter(tuple(each.storage.items()) for each in told)
        most, _ = min(frequent.items(), key=lambda one: (-one[1], one[0]))
        storage, places = dict(most), {}
    names = {*said.models, *(each.model.name for each in told)}
    return _written(said, told, told[0].bucket, names, (storage, places))


def _written(
    said: BucketSentinel,
    told: Sequence[Announcement],
    bucket: str,
    models: set[str],
    places: tuple[dict[str, str], dict[str, dict[str, str]]],
) -> bytes:
    """The sentinel with what is `told`, where `places` are those of all and of other collections."""
    storage, others = places
    own = {each.collection for each in told}
    names = {prefix: name for prefix, name in said.names.items() if prefix not in own}
    names |= {each.collection: each.folder for each in told if each.folder is not None}
    elsewhere = {prefix: place for prefix, place in others.items() if prefix not in own}
    elsewhere |= {each.collection: each.storage for each in told if each.storage != storage}
    return bucket_sentinel(bucket, sorted(models), storage, said.schema or _SCHEMA_VERSION, names, elsewhere)


def _said(found: StoredObject | None) -> BucketSentinel:
    try:
        return _NOTHING if found is None else read_bucket_sentinel(found.body, key=BUCKET_SENTINEL)
    except CorruptionError:
        return _NOTHING


def _swap(store: Store, body_of: Callable[[StoredObject | None], bytes]) -> None:
    for _ in range(_ATTEMPTS_MAX):
        found = store.probe(BUCKET_SENTINEL).found
        body = body_of(found)
        if found is not None and found.body == body:
            return
        precondition = IfAbsent() if found is None else IfMatch(found.version)
        try:
            store.put(BUCKET_SENTINEL, body, precondition, content_type="application/json")
        except (AlreadyExistsError, ConflictError, OutcomeUnknownError):
            continue
        return
