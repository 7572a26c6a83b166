"""Files of another program as one query sees them: what it needs is read once, and stays as it was read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.state.view import StoredVersion
from wormdb.errors import CorruptionError, InvalidRequestError, NotFoundError
from wormdb.files.contents.document import read_entity
from wormdb.files.contents.values import fault_text
from wormdb.files.foreign.manifest import ForeignManifest, RefusedManifest, read_manifest
from wormdb.format import json
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.files.foreign.folder import FileFolder, FileMemory
    from wormdb.settings import BrokenChoice, ForeignCheck

__all__ = ["ContradictionError", "Entities", "Entity", "ForeignFiles", "Listing", "list_entities"]


# --- Documents out of their files, many at once; what is broken is named.

log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 512
"""Files that are asked for together: enough for every thread, and few enough to hold."""


class Entities:
    """Reads files of documents. `skipped` names those that were broken, if that is allowed."""

    def __init__(self, folder: FileFolder, on_broken: BrokenChoice) -> None:
        """No requests."""
        self._folder = folder
        self._on_broken = on_broken
        self.skipped: dict[str, str] = {}
        """By key why each file was passed over."""

    def read(self, entity: Entity) -> StoredVersion | None:
        """One document; None if its file is gone, or broken and passed over. 1 GET; raises CorruptionError."""
        try:
            body = self._folder.store.get(entity.key).body
            document, rev = read_entity(body, key=entity.key, model=self._folder.model, identity=entity.id)
            encoded = json.encode_document(document)
        except NotFoundError as error:
            if error.key != entity.key:
                raise  # the bucket is missing, not this file
            return None
        except (CorruptionError, InvalidRequestError) as error:
            self.broken(entity.key, fault_text(error), error)
            return None
        return StoredVersion(json.encode(entity.id), rev or 0, 0, encoded)

    def stream(self, entities: Sequence[Entity], first: int | None = None) -> Iterator[Sequence[StoredVersion]]:
        """The documents whose files are there and whole, in order, some at a time; the next are read meanwhile.

        With `first`, about that many are wanted at first, and no more are asked for together.
        """
        pending: Iterator[StoredVersion | None] | None = None
        for start, stop in _parts(len(entities), first):
            following = self._folder.pool.map(self.read, entities[start:stop])
            if pending is not None:
                yield [held for held in pending if held is not None]
            pending = following
            if first is not None:
                yield [held for held in pending if held is not None]
                pending = None
        if pending is not None:
            yield [held for held in pending if held is not None]

    def broken(self, key: str, reason: str, cause: Exception | None = None) -> None:
        """Raise for a file that is broken, or pass it over and say so."""
        if self._on_broken == "raise":
            raise CorruptionError(
                f"the file {key} is broken",
                reason=reason,
                fix="correct it, or pass over what is broken with on_broken='skip'",
                key=key,
            ) from cause
        if key not in self.skipped:
            log.warning("%s is broken and was passed over: %s", key, reason)
        self.skipped[key] = reason


def _parts(count: int, first: int | None) -> Iterator[tuple[int, int]]:
    start, size = 0, _AT_ONCE if first is None else max(1, min(first, _AT_ONCE))
    while start < count:
        yield start, min(start + size, count)
        start, size = start + size, min(2 * size, _AT_ONCE)


# --- The files of documents that are there, by a listing of the whole collection.


@dataclass(frozen=True, slots=True)
class Entity:
    """The file of one document: the id that its key stands for, and the key."""

    id: Any
    key: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing found."""

    keys: Mapping[bytes, Entity]
    """By the keys of ids, in their order."""
    twins: tuple[str, ...]
    """Files whose keys stand for an id that another file has too."""
    modified: int
    """When the newest of the files was written, in milliseconds; 0 for none."""
    pages: int
    """Requests that it took."""


def list_entities(folder: FileFolder) -> Listing:
    """Every file of a document; other keys are passed over. 1 LIST for each 1,000 keys of the collection."""
    found: dict[bytes, Entity] = {}
    twins: list[str] = []
    modified = pages = 0
    for page in folder.store.list(folder.collection):
        pages += 1
        for info in page.objects:
            identity = folder.identity_of(info.key)
            if identity is None:
                continue
            key = encode_key(identity)
            if key in found:
                twins.append(info.key)
                continue
            found[key] = Entity(identity, info.key)
            modified = max(modified, info.modified)
    return Listing(dict(sorted(found.items())), tuple(twins), modified, max(pages, 1))


class ContradictionError(Exception):
    """A file is not what a manifest or an index says; the argument says why. It never leaves this package."""


class ForeignFiles:
    """The files of a collection as one query sees them. For one thread at a time."""

    def __init__(self, folder: FileFolder, memory: FileMemory, *, check: ForeignCheck, on_broken: BrokenChoice) -> None:
        """No requests."""
        self.folder = folder
        self.memory = memory
        self.entities = Entities(folder, on_broken)
        self._check = check
        self._listing: Listing | None = None
        self._manifests: dict[tuple[str, ...] | None, ForeignManifest | RefusedManifest] = {}

    def listing(self) -> Listing:
        """The files of documents. At the first call 1 LIST for each 1,000 keys of the collection."""
        if self._listing is None:
            self._listing = list_entities(self.folder)
        return self._listing

    def checked_listing(self) -> Listing | None:
        """The listing, if settings ask to compare manifests and indexes with it; else None."""
        return self.listing() if self._check == "listing" else None

    def manifest(
        self, texts: Sequence[str] | None = None, names: Sequence[str] = ()
    ) -> ForeignManifest | RefusedManifest:
        """The manifest, or as much of it as may have these ids. Costs as `read_manifest` at the first call.

        `names` are fields that will be asked for.
        """
        if None in self._manifests:
            return self._manifests[None]
        wanted = None if texts is None else tuple(texts)
        if wanted not in self._manifests:
            found = read_manifest(self.folder, self.memory, self.checked_listing(), texts, names)
            if not isinstance(found, ForeignManifest) or not found.is_partitioned:
                wanted = None  # there was no part to choose
            self._manifests[wanted] = found
            return found
        return self._manifests[wanted]
