"""The blobs of one collection: written before any document refers to them, and referred to only while they are there.

A blob's name is the digest of its bytes, so the same content is one object however often it is written, and writing it
again does no harm. What keeps readers safe is the order of the log: gc condemns a blob by an entry, if no document owns
it then, and deletes it later; a batch that refers to a blob is refused after such an entry. So whichever of the two
comes first, the other one sees it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from wormdb.engine.commit.operations import Guards, Purge, Remove, Save
from wormdb.engine.index.read import read_index
from wormdb.engine.state.view import View
from wormdb.engine.tree.definition import OWNERS
from wormdb.engine.tree.entries import Range, value_key_of
from wormdb.errors import ConflictError, NotFoundError
from wormdb.format.blob import BlobKey, blob_keys_in
from wormdb.format.key import encode_key
from wormdb.settings import BLOB_KEYS_REMEMBERED, UPLOAD_PART_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from wormdb.engine.commit.operations import Operation, Pending
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store, UploadSource

__all__ = ["Blobs", "is_owned", "missing_blob"]

TRIES_MAX: Final = 8
"""How often content is written again because gc condemned what was found of it."""


@dataclass(frozen=True, slots=True)
class _KnownBlobs:
    """Keys whose objects were there: they stay until they are condemned, and that is seen in the log."""

    keys: OrderedDict[BlobKey, None]
    lock: threading.Lock

    def add(self, keys: Iterable[BlobKey]) -> None:
        with self.lock:
            for key in keys:
                self.keys[key] = None
                self.keys.move_to_end(key)
            while len(self.keys) > BLOB_KEYS_REMEMBERED:
                self.keys.popitem(last=False)

    def unknown(self, keys: Iterable[BlobKey]) -> list[BlobKey]:
        with self.lock:
            return sorted(key for key in keys if key not in self.keys)


class Blobs:
    """Writes blobs, and checks references to them. Thread-safe."""

    def __init__(
        self,
        collection: str,
        store: Store,
        paths: EnginePaths,
        pool: Pool,
        trees: IndexShelf,
        view: Callable[[], View],
    ) -> None:
        """`view` is the newest state. No requests."""
        self._collection = collection
        self._store = store
        self._paths = paths
        self._pool = pool
        self._trees = trees
        self._view = view
        self._seen = _KnownBlobs(OrderedDict(), threading.Lock())

    @property
    def store(self) -> Store:
        """Where they are."""
        return self._store

    @property
    def folder(self) -> str:
        """Where they lie in it."""
        return self._paths.blobs

    def path(self, key: BlobKey) -> str:
        """The object of a blob."""
        return self._paths.blob(key.name)

    def write(self, sha256: str, body: UploadSource, content_type: str) -> BlobKey:
        """Have the content there, and its key: of an object that is there already, or of a new one.

        1 GET and 1 HEAD, then 1 PUT, or as `Store.upload` if it is long; 1 more GET instead if it was there. The index
        of owners must have been made. Raises UnavailableError, OutcomeUnknownError, and ConflictError if what was found
        is condemned again and again.
        """
        for _ in range(TRIES_MAX):
            key = self._chosen(self._view(), sha256)
            found = self._size(key)
            if found != body.size:  # what is shorter was damaged by others: written again it is whole
                self._put(key, body, content_type)
            # What was just written is too young for gc; what was found may be condemned in this moment.
            if found != body.size or self._view().definition.blobs.is_usable(key) is not False:
                self._seen.add([key])
                return key
        raise ConflictError(
            f"blob sha256:{sha256} of {self._collection}",
            reason=f"it was removed {TRIES_MAX} times while it was written",
            fix="write it again",
        )

    def _chosen(self, view: View, sha256: str) -> BlobKey:
        """The key that content has now, or gets."""
        blobs = view.definition.blobs
        if blobs.newest:
            # Keys of before live on while a document owns them.
            reader = read_index(view, OWNERS, self._trees)
            span = Range.prefix(encode_key(f"sha256:{sha256}")[:-1])
            found = () if reader is None else reader.scan(span)
            owned = {key for key in map(_key_of_entry, found) if blobs.is_usable(key) is not False}
            if owned:
                return max(owned)
        return blobs.fresh(sha256)

    def _size(self, key: BlobKey) -> int | None:
        path = self.path(key)
        try:
            return self._store.head(path).size
        except NotFoundError as error:
            if error.key != path:
                raise  # the bucket is missing, not this object
            return None

    def _put(self, key: BlobKey, body: UploadSource, content_type: str) -> None:
        if body.size <= UPLOAD_PART_BYTES:
            self._store.put(self.path(key), b"".join(body.parts()), content_type=content_type)
        else:
            self._store.upload(self.path(key), body, content_type=content_type)

    # --- references ---

    def owners(self, view: View, key: BlobKey) -> int:
        """How many documents refer to a blob at the state of a view, those in the trash apart. Costs as `is_owned`."""
        reader = read_index(view, OWNERS, self._trees)
        if reader is None:
            return sum(key in blob_keys_in(held.document) for _, held in view.scan())
        return reader.count(Range.prefix(encode_key(str(key))))

    def guarded(self, pending: Pending) -> Pending:
        """The batch, if every blob that it refers to is there; from now on its guard refuses those that are condemned.

        1 HEAD for each blob that this process does not know, unless its document was read with it. Raises
        NotFoundError. A batch without references is given back as it is.
        """
        keys = frozenset(chain.from_iterable(map(_new_keys, pending.operations)))
        if not keys:
            return pending
        self.require(keys)
        return replace(pending, guard=Guards.of(pending.guard, _BlobGuard(self, keys)), is_steady=False)

    def require(self, keys: AbstractSet[BlobKey]) -> None:
        """Raise NotFoundError if one of the blobs is not there. 1 HEAD for each that this process does not know."""
        unknown = self._seen.unknown(keys)
        sizes = tuple(self._pool.map(self._size, unknown))
        for key, size in zip(unknown, sizes, strict=True):
            if size is None:
                raise missing_blob(key, self._collection)
        self._seen.add(keys)

    def check(self, keys: Iterable[BlobKey], view: View) -> None:
        """Raise NotFoundError if documents may not begin to refer to one of the keys at the state of a view.

        Costs a look-up in the index of owners for keys of long ago.
        """
        for key in keys:
            usable = view.definition.blobs.is_usable(key)
            if usable is None:
                usable = is_owned(view, key, self._trees)
            if not usable:
                raise missing_blob(key, self._collection, "it was removed, because no document referred to it")


@dataclass(frozen=True, slots=True)
class _BlobGuard:
    """Refuses a batch after an entry that condemned a blob to which it refers."""

    blobs: Blobs
    keys: frozenset[BlobKey]

    def check(self, view: View) -> None:
        self.blobs.check(self.keys, view)


def is_owned(view: View, key: BlobKey, trees: IndexShelf) -> bool:
    """Whether a document refers to a blob at the state of a view; what lies in the trash does not count.

    1 GET for each node of the index that is not held; a scan if the index is not ready.
    """
    if isinstance(view.base, View):  # batches of one group are on top of a view
        changed = any(key in blob_keys_in(held.document) for _, held in view.overlay.scan(view.number))
        return changed or is_owned(view.base, key, trees)
    reader = read_index(view, OWNERS, trees)
    if reader is None:
        return any(key in blob_keys_in(held.document) for _, held in view.scan())
    return next(reader.scan(Range.prefix(encode_key(str(key))), limit=1), None) is not None


def missing_blob(key: BlobKey, collection: str, reason: str = "it is not there") -> NotFoundError:
    """What is raised for a blob that is not there."""
    return NotFoundError(
        f"blob {key} of {collection}",
        reason=reason,
        fix="write it again with create_blob_target, and use the reference that it gives",
        key=str(key),
    )


def _new_keys(operation: Operation) -> frozenset[BlobKey]:
    """The blobs that a document refers to and, as far as its writer knows, did not before."""
    keys = blob_keys_in(None if isinstance(operation, Remove | Purge) else operation.document)
    if keys and isinstance(operation, Save) and operation.loaded is not None:
        keys -= blob_keys_in(operation.loaded.held.document)
    return keys


def _key_of_entry(entry: tuple[bytes, bytes]) -> BlobKey:
    # The key of a text is the text between a tag and an end.
    key = BlobKey.parse(value_key_of(entry)[1:-1].decode())
    assert key is not None, "the index of owners has keys of blobs"
    return key
