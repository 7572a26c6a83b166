"""Which files there are of each document of a collection that is to be adopted, and what lies where it should not."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.errors import Problem
from wormdb.files.contents.names import identity_in
from wormdb.format.key import encode_key
from wormdb.schema.path import is_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from wormdb.files.contents.names import FileNames
    from wormdb.storage.store import ObjectInfo, Store

__all__ = [
    "DocumentLine",
    "DocumentListing",
    "Inventory",
    "files_digest",
    "list_sources",
    "sources_digest",
    "take_inventory",
]

_SYSTEM: Final = {"oplog": ".oplog/", "snapshots": ".snapshots/", "trash": ".worm.trash/"}
_KINDS: Final = frozenset({"entity", "oplog", "snapshot", "trashed", "tombstone"})


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A document that lies in one line of a file, which was read with the listing."""

    place: str
    """The key of the file and the number of the line."""
    document: bytes


@dataclass(slots=True)
class DocumentListing:
    """The files of one document."""

    id: Any
    has_entity: bool = False
    has_trashed: bool = False
    has_tombstone: bool = False
    oplog: list[int] = field(default_factory=list)
    snapshots: dict[datetime, str] = field(default_factory=dict)
    """When each was taken, and its key."""
    digest: bytes = b""
    """Stands for what they were found to say."""
    size: int = 0
    """Bytes of all of them."""
    line: DocumentLine | None = None
    """What it is, if it has no file of its own."""

    def place(self, names: FileNames) -> str:
        """Where it lies, for messages."""
        return names.entity(self.id) if self.line is None else self.line.place

    @property
    def count(self) -> int:
        """How many files it has."""
        return self.has_entity + self.has_trashed + self.has_tombstone + len(self.oplog) + len(self.snapshots)

    def keys(self, names: FileNames) -> Iterator[str]:
        """Their keys."""
        if self.has_entity:
            yield names.entity(self.id)
        yield from (names.oplog(self.id, seq) for seq in self.oplog)
        yield from self.snapshots.values()
        if self.has_trashed:
            yield names.trashed(self.id)
        if self.has_tombstone:
            yield names.tombstone(self.id)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that there is to adopt. A few hundred bytes in memory for each document."""

    documents: list[tuple[bytes, DocumentListing]]
    """By the keys of their ids, in order."""
    digest: bytes
    """A digest of the names, sizes, times and versions of all files: it changes if any file is written."""
    strays: list[Problem]
    """What lies in a system folder, or where documents lie, and cannot be told."""
    unnamed: int = 0
    """How many of those are files of documents, in folders whose names are not ids."""
    objects: int | None = None
    """How many files there are, where only other programs write them."""

    @property
    def files(self) -> int:
        """How many there are."""
        if self.objects is not None:
            return self.objects
        return sum(listed.count for _, listed in self.documents)


def take_inventory(store: Store, names: FileNames, told: Callable[[int], None] = lambda _: None) -> Inventory:
    """List the files of a collection. 1 LIST for each 1,000 objects, and up to 3 for system folders of other layouts.

    `told` is called with the number of files so far.
    """
    found: dict[bytes, DocumentListing] = {}
    strays: list[Problem] = []
    digest = sha256()
    count = unnamed = 0
    for info in _objects(store, names):
        key = names.parse(info.key)
        if key is None or key.kind not in _KINDS:
            if key is None and (stray := _stray(info.key, names)) is not None:
                strays.append(stray)
                unnamed += _is_unnamed(info.key, names)
            continue
        digest.update(_told(info))
        listed = found.setdefault(encode_key(key.id), DocumentListing(key.id))
        listed.size += info.size
        match key.kind:
            case "entity":
                listed.has_entity = True
            case "trashed":
                listed.has_trashed = True
            case "tombstone":
                listed.has_tombstone = True
            case "oplog":
                assert key.seq is not None
                listed.oplog.append(key.seq)
            case _:
                assert key.ts is not None
                listed.snapshots[key.ts] = info.key
        count += 1
        if count % 1000 == 0:
            told(count)
    for listed in found.values():
        listed.oplog.sort()
    strays += _elsewhere(store, names)
    return Inventory(sorted(found.items(), key=lambda item: item[0]), digest.digest(), strays, unnamed)


def files_digest(store: Store, names: FileNames) -> bytes:
    """The digest of an inventory that is taken now, without keeping it. Costs as `take_inventory`."""
    digest = sha256()
    for info in _objects(store, names):
        key = names.parse(info.key)
        if key is not None and key.kind in _KINDS:
            digest.update(_told(info))
    return digest.digest()


def list_sources(store: Store, names: FileNames) -> list[tuple[Any, ObjectInfo]]:
    """The files of a collection that only other programs write, each with the id that its key stands for.

    In order of keys. 1 LIST for each 1,000 objects.
    """
    inside = (info for info in _objects(store, names) if info.key.startswith(names.collection))
    found = ((identity_in(info.key, names.model, names.collection), info) for info in inside)
    return sorted(((identity, info) for identity, info in found if identity is not None), key=lambda one: one[1].key)


def sources_digest(sources: Iterable[tuple[Any, ObjectInfo]]) -> bytes:
    """A digest that changes if any of these files is written. No requests."""
    return sha256(b"".join(_told(info) for _, info in sources)).digest()


def _told(info: ObjectInfo) -> bytes:
    return f"{info.key}\0{info.size}\0{info.modified}\0{info.version}\n".encode()


def _objects(store: Store, names: FileNames) -> Iterator[ObjectInfo]:
    engine = names.collection + ENGINE_FOLDER
    for prefix in names.roots:
        for page in store.list(prefix):
            yield from (info for info in page.objects if not info.key.startswith(engine))


def _is_unnamed(key: str, names: FileNames) -> bool:
    """Whether a key without a meaning is that of a document, except for its folder."""
    rest = key.removeprefix(names.collection)
    if names.model.path.is_deep:
        return rest.endswith(names.model.path.extension) and not is_hidden(rest.split("/"))
    if names.model.path.is_flat:
        return "/" not in rest and rest.endswith(names.model.path.extension) and not rest.startswith(".")
    return rest.count("/") == 1 and rest.endswith("/" + names.model.path.file_name) and not rest.startswith(".")


def _stray(key: str, names: FileNames) -> Problem | None:
    """What is wrong with a key that has no meaning here; None if it can be ignored."""
    if any(f"/{folder}" in f"/{key}" for folder in _SYSTEM.values()):
        return Problem(
            key,
            "it lies in a system folder, and is not named as the layout of the schema says",
            "give the bucket's layout as `storage` in the schema, or move the file away",
        )
    if _is_unnamed(key, names):
        what = "file" if names.model.path.is_flat else "folder"
        return Problem(key, f"its {what} is not an id as wormdb writes it", f"rename the {what}, or move it away")
    return None


def _elsewhere(store: Store, names: FileNames) -> Iterator[Problem]:
    """System folders of this collection at the root of the bucket, where the layout says another place."""
    for kind, folder in _SYSTEM.items():
        prefix = f"{folder}{names.model.path.collection_name}/"
        if getattr(names.placement, kind) == "root" or names.model.path.outer:
            continue
        if any(page.objects for page in islice(store.list(prefix), 1)):
            yield Problem(
                prefix,
                f'it is there, and the layout of {kind} is "{getattr(names.placement, kind)}"',
                "give the bucket's layout as `storage` in the schema, or move the folder away",
            )
