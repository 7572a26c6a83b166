"""Files of another program as one query sees them: what it needs is read once, and stays as it was read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.state.view import StoredVersion
from wormdb.errors import CorruptionError, InvalidRequestError, NotFoundError
from wormdb.files.contents.document import read_entity, read_line
from wormdb.files.contents.fitting import describe_misfit
from wormdb.files.contents.records import lines_of
from wormdb.files.contents.values import fault_text
from wormdb.files.foreign.manifest import ForeignManifest, RefusedManifest, read_manifest
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.packed import unpack
from wormdb.schema.path import is_hidden
from wormdb.settings import FILE_BYTES_MAX, RECORDS_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.files.contents.records import FileLine
    from wormdb.files.foreign.folder import FileFolder, FileMemory
    from wormdb.settings import BrokenChoice, ForeignCheck

__all__ = ["ContradictionError", "Entities", "Entity", "ForeignFiles", "Listing", "list_entities"]


# --- Documents out of their files, many at once; what is broken is named.

log: Final = logging.getLogger(__name__)
_OTHERS_MAX: Final = 1_000
_AT_ONCE: Final = 512
"""Files that are asked for together: enough for every thread, and few enough to hold."""


class Entities:
    """Reads files of documents. `skipped` names those that were broken, if that is allowed."""

    def __init__(self, folder: FileFolder, on_broken: BrokenChoice) -> None:
        """No requests."""
        self._folder = folder
        self._on_broken = on_broken
        self.skipped: dict[str, str] = {}
        """By key why each file was passed over; a line of one as `key:number`."""

    def read(self, entity: Entity) -> StoredVersion | None:
        """One document; None if its file is gone, or broken and passed over. 1 GET; raises CorruptionError.

        No requests for one of many in a file: it was read with the listing.
        """
        if entity.held is not None:
            return entity.held
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
        if entities and entities[0].held is not None:
            for start in range(0, len(entities), _AT_ONCE):
                yield [each.held for each in entities[start : start + _AT_ONCE] if each.held is not None]
            return
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

    def broken(self, key: str, reason: str, cause: Exception | None = None, *, line: int | None = None) -> None:
        """Raise for a file, or a line of it, that is broken, or pass it over and say so."""
        place = key if line is None else f"{key}:{line}"
        reason = reason if line is None else f"line {line}: {reason}"
        if self._on_broken == "raise":
            raise CorruptionError(
                f"the file {key} is broken",
                reason=reason,
                fix="correct it, or pass over what is broken with on_broken='skip'",
                key=key,
            ) from cause
        if place not in self.skipped:
            log.warning("%s is broken and was passed over: %s", place, reason)
        self.skipped[place] = reason


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
    held: StoredVersion | None = None
    """The document itself, where a file has many."""
    size: int = 0
    """Bytes of the file, if it was listed."""


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
    others: tuple[str, ...] = ()
    """Some keys there that are not files of documents."""


def list_entities(folder: FileFolder) -> Listing:
    """Every file of a document; other keys are passed over. 1 LIST for each 1,000 keys of the collection."""
    others: list[str] = []
    found: dict[bytes, Entity] = {}
    twins: list[str] = []
    modified = pages = 0
    for page in folder.store.list(folder.collection):
        pages += 1
        for info in page.objects:
            identity = folder.identity_of(info.key)
            if identity is None:
                if len(others) < _OTHERS_MAX and not is_hidden(info.key[len(folder.collection) :].split("/")):
                    others.append(info.key)
                continue
            key = encode_key(identity)
            if key in found:
                twins.append(info.key)
                continue
            found[key] = Entity(identity, info.key, size=info.size)
            modified = max(modified, info.modified)
    return Listing(dict(sorted(found.items())), tuple(twins), modified, max(pages, 1), tuple(others))


def read_many(folder: FileFolder, entities: Entities, files: Listing) -> Listing:
    """Every document of files that have many, by its own id, or by its file and line: `2024/a#17`. 1 GET for each file.

    Raises CorruptionError naming key and line, LimitExceededError if all lines together are too many to hold.
    """
    found: dict[bytes, Entity] = {}
    room = RECORDS_BYTES_MAX
    for some in _groups(list(files.keys.values())):
        for file, stored in zip(some, folder.store.get_many([file.key for file in some], folder.pool), strict=True):
            if stored is None:
                continue  # it was there a moment ago
            try:
                body = unpack(stored.body, key=file.key, limit=room)
            except CorruptionError as error:
                entities.broken(file.key, fault_text(error), error)
                continue
            room -= len(body)
            for line in lines_of(body):
                entity = _of_line(folder, entities, file, line)
                if entity is not None and found.setdefault(encode_key(entity.id), entity) is not entity:
                    entities.broken(file.key, f"another document has its id, {entity.id!r}", line=line.number)
    return Listing(dict(sorted(found.items())), (), files.modified, files.pages + len(files.keys), files.others)


def _groups(files: Sequence[Entity]) -> Iterator[list[Entity]]:
    """Files that are fetched together: a few, and not much more than a large one has."""
    waiting: list[Entity] = []
    for file in files:
        if waiting and (len(waiting) == _AT_ONCE or sum(each.size for each in waiting) + file.size > FILE_BYTES_MAX):
            yield waiting
            waiting = []
        waiting.append(file)
    if waiting:
        yield waiting


def _of_line(folder: FileFolder, entities: Entities, file: Entity, line: FileLine) -> Entity | None:
    """The document of one line; None if it is broken and passed over."""
    if line.problem:
        entities.broken(file.key, line.problem, line=line.number)
        return None
    try:
        document, rev = read_line(line.text, line.number, key=file.key, model=folder.model, file=file.id)
        identity, encoded = document["_id"], json.encode_document(document)
    except (CorruptionError, InvalidRequestError) as error:
        entities.broken(file.key, fault_text(error), error, line=line.number)
        return None
    return Entity(identity, file.key, StoredVersion(json.encode(identity), rev or 0, 0, encoded))


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
        self._misfit: NotFoundError | None = None
        self._manifests: dict[tuple[str, ...] | None, ForeignManifest | RefusedManifest] = {}

    def listing(self, *, is_strict: bool = True) -> Listing:
        """The files of documents. At the first call 1 LIST for each 1,000 keys of the collection.

        Where files have many documents, 1 GET more for each. Where no file is at the model's path 1 LIST more, and
        NotFoundError if files of data are there, or elsewhere where no model is, unless it is not `is_strict`.
        """
        if self._listing is None:
            found = list_entities(self.folder)
            self._misfit = None if found.keys else self._described(found)
            if self.folder.model.path.holds_many:
                found = read_many(self.folder, self.entities, found)
            self._listing = found
        if is_strict and self._misfit is not None:
            raise self._misfit
        return self._listing

    def _described(self, found: Listing) -> NotFoundError | None:
        """Why there is nothing, if files of data are here, or where no model of the schema is. 1 LIST.

        A folder that is empty where it has outer parts is that of a new tenant.
        """
        if found.others:
            return describe_misfit(self.folder.names, found.others)
        if self.folder.model.path.outer:
            return None
        listed = [info.key for page in islice(self.folder.store.list(), 1) for info in page.objects]
        listed = [key for key in listed if "/" in key]  # files of no folder are a schema, a read-me
        keys = [key for key in listed if not any(other.has_key(key) for other in self.folder.others)]
        return describe_misfit(self.folder.names, [key for key in keys if not is_hidden(key.split("/"))])

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
        if self.folder.model.path.holds_many:
            return self._manifests.setdefault(None, RefusedManifest("its files have many documents each", exists=False))
        wanted = None if texts is None else tuple(texts)
        if wanted not in self._manifests:
            found = read_manifest(self.folder, self.memory, self.checked_listing(), texts, names)
            if not isinstance(found, ForeignManifest) or not found.is_partitioned:
                wanted = None  # there was no part to choose
            self._manifests[wanted] = found
            return found
        return self._manifests[wanted]
