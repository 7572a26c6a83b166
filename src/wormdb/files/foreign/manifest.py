"""The manifest of a collection that another program keeps: how much of it can be trusted, and why not.

One file, or several by ranges of ids. It is taken if it can be read, is of version 1 and of this model, has the rows
and the fields it says, and its checksum is right; with `listing` also only if no file of a document is newer, and the
ids are those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from wormdb.errors import CorruptionError
from wormdb.files.contents.manifest import (
    VERSION,
    Count,
    ManifestMeta,
    checksum_of,
    decode_manifest_meta,
    read_time,
)
from wormdb.files.foreign.rows import DamagedRowsError, FileRows, ManifestRows
from wormdb.format.wrappers import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from wormdb.files.foreign.files import Listing
    from wormdb.files.foreign.folder import FileFolder, FileMemory
    from wormdb.schema.model import Model
    from wormdb.storage.store import StoredObject

__all__ = ["ForeignManifest", "RefusedManifest", "read_manifest"]

_BOM: Final = b"\xef\xbb\xbf"
_MISSING: Final = "no manifest"


@dataclass(frozen=True, slots=True)
class ForeignManifest:
    """Rows that can be trusted: of all documents, or of those in some partitions."""

    rows: ManifestRows
    fields: frozenset[str] | None
    """Which fields it holds; None if it does not say: then those that every row has."""
    count: int
    """Documents of the whole collection."""
    last_updated: datetime | None
    size_bytes: int
    """The size of the files that were read."""
    files: int
    """How many were read."""
    is_partitioned: bool = False
    exists: ClassVar[bool] = True
    is_fresh: ClassVar[bool] = True

    def available(self, paths: Iterable[str]) -> frozenset[str]:
        """The paths of `paths` that it has: its fields, and what lies within them. Raises DamagedRowsError."""
        wanted = [path for path in paths if path != "_id"]
        known = self.fields or _with_stamps(self.rows.model.manifest_fields)
        ways = {path: [way for way in _prefixes(path) if way in known] for path in wanted}
        if self.fields is None:
            self.rows.prepare({way for some in ways.values() for way in some})
            ways = {path: [way for way in some if self.rows.has_all(way)] for path, some in ways.items()}
        return frozenset(["_id", *(path for path, some in ways.items() if some)])


def _prefixes(path: str) -> list[str]:
    """The path, and those that it lies within."""
    segments = path.split(".")
    return [".".join(segments[:end]) for end in range(1, len(segments) + 1)]


@dataclass(frozen=True, slots=True)
class RefusedManifest:
    """Why a manifest is not used; for people."""

    reason: str
    exists: bool = True
    count: int | None = None
    """Documents, as far as it says."""
    last_updated: datetime | None = None
    size_bytes: int = 0
    is_fresh: ClassVar[bool] = False


def read_manifest(
    folder: FileFolder,
    memory: FileMemory,
    listing: Listing | None = None,
    texts: Sequence[str] | None = None,
    names: Sequence[str] = (),
) -> ForeignManifest | RefusedManifest:
    """The manifest, or why it is not used. 1 GET; in several files 1 for each that is read, and 1 for `_meta.json`.

    Where it is in several files is remembered; one more GET finds it out. With `texts` of ids only the partitions
    that may have these are read, if `_meta.json` tells which. With `listing` it is held to what is there. `names` are
    top-level fields that will be asked for: they are decoded at once.
    """
    orders = (_in_parts, _in_one) if memory.is_partitioned else (_in_one, _in_parts)
    for read in orders:
        found = read(folder, memory, None if listing is not None else texts, names)
        if found is not None:
            memory.is_partitioned = read is _in_parts
            return found if listing is None or isinstance(found, RefusedManifest) else _held_to(found, listing)
    return RefusedManifest(_MISSING, exists=False)


# --- one file ---


class _ManifestHead(msgspec.Struct, frozen=True):
    version: int
    model: str
    count: Count
    entities: msgspec.Raw
    last_updated: str = msgspec.field(name="lastUpdated", default="")
    checksum: str = ""
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _ManifestPart:
    """What one file says, and whether it can be trusted."""

    fault: str | None
    table: FileRows
    checksum: str = ""
    fields: tuple[str, ...] | None = None
    count: int = 0
    last_updated: datetime | None = None
    size: int = 0
    rows: ManifestRows | None = None
    """Where the file is all of a manifest."""


_HEAD: Final = msgspec.json.Decoder(_ManifestHead)
_NO_TABLE: Final = FileRows(b"{}", ())


def _in_one(
    folder: FileFolder, memory: FileMemory, _: Sequence[str] | None, names: Sequence[str]
) -> ForeignManifest | RefusedManifest | None:
    found = folder.store.probe(folder.names.manifest).found
    if found is None:
        return None
    file = memory.read(found, lambda body: _file_of(body, folder.model, names, is_whole=True))
    if file.fault is not None or file.rows is None:
        return RefusedManifest(f"manifest is stale: {file.fault}", True, file.count, file.last_updated, file.size)
    fields = None if file.fields is None else _with_stamps(file.fields)
    return ForeignManifest(file.rows, fields, len(file.rows), file.last_updated, file.size, 1)


def _file_of(found: StoredObject, model: Model, names: Sequence[str], *, is_whole: bool) -> _ManifestPart:
    size = len(found.body)
    try:
        head = _HEAD.decode(found.body.removeprefix(_BOM))
        table = FileRows.of(bytes(head.entities), names)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _ManifestPart(f"it cannot be read: {error}", _NO_TABLE, size=size)
    fault = _fault(head, model, len(table.texts)) or _checksum_fault(head.checksum, table.content)
    rows = None
    if fault is None and is_whole:
        try:
            rows = ManifestRows((table,), model)
        except DamagedRowsError as error:
            fault = str(error)
    return _ManifestPart(fault, table, head.checksum, head.fields, head.count, read_time(head.last_updated), size, rows)


def _fault(head: _ManifestHead, model: Model, rows: int) -> str | None:
    if head.version != VERSION:
        return f"it is of version {head.version}, not {VERSION}"
    if head.model != model.name:
        return f"it is of model {head.model}"
    if head.count != rows:
        return f"it says that it has {head.count} entities, and has {rows}"
    return _fields_fault(head.fields, model)


def _fields_fault(fields: Sequence[str] | None, model: Model) -> str | None:
    if fields is None or set(fields) == set(model.manifest_fields):
        return None
    return f"its fields are {', '.join(fields) or 'none'}, not those of the schema"


def _checksum_fault(checksum: str, content: bytes) -> str | None:
    """None if the checksum is that of the entities as they are written, in order, or in the form of wormdb."""
    if not checksum:
        return "it has no checksum"
    if checksum == _digest(content):
        return None
    try:
        entities = msgspec.json.decode(content)
        if checksum in (_digest(msgspec.json.encode(entities)), checksum_of(entities)):
            return None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"it cannot be read: {error}"
    return "its checksum is wrong"


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def _with_stamps(fields: Iterable[str]) -> frozenset[str]:
    return frozenset((*fields, "createdAt", "updatedAt"))


# --- several files ---


def _in_parts(
    folder: FileFolder, memory: FileMemory, texts: Sequence[str] | None, _: Sequence[str]
) -> ForeignManifest | RefusedManifest | None:
    found = folder.store.probe(folder.names.manifest_meta).found
    if found is None:
        return None
    meta = memory.read(found, _meta_of)
    if isinstance(meta, str):
        return RefusedManifest(f"manifest is stale: {meta}")
    refused = RefusedManifest("", True, meta.total_count, meta.last_updated, len(found.body))
    fault = f"it is of model {meta.model}" if meta.model not in ("", folder.model.name) else None
    fault = fault or _fields_fault(meta.fields, folder.model)
    if fault is not None:
        return _because(refused, fault)
    numbers = _numbers(meta, texts)
    keys = [folder.names.manifest_partition(number) for number in numbers]
    bodies = folder.store.get_many(keys, folder.pool)
    files: list[_ManifestPart] = []
    for number, body in zip(numbers, bodies, strict=True):
        if body is None:
            return _because(refused, f"partition {number} is missing")
        file = memory.read(body, lambda one: _file_of(one, folder.model, (), is_whole=False))
        fault = file.fault or _part_fault(meta, number, file)
        if fault is not None:
            return _because(refused, f"partition {number}: {fault}")
        files.append(file)
    if len(numbers) == meta.partition_count and sum(len(file.table.texts) for file in files) != meta.total_count:
        return _because(refused, f"its partitions do not have the {meta.total_count} entities that it says")
    return _joined(folder.model, meta, files, len(found.body))


def _joined(
    model: Model, meta: ManifestMeta, files: Sequence[_ManifestPart], size: int
) -> ForeignManifest | RefusedManifest:
    size += sum(file.size for file in files)
    try:
        rows = ManifestRows(tuple(file.table for file in files), model)
    except DamagedRowsError as error:
        return RefusedManifest(f"manifest is stale: {error}", True, meta.total_count, meta.last_updated, size)
    told = {file.fields for file in files} | {meta.fields}
    fields = None if None in told and meta.fields is None else _with_stamps(meta.fields or ())
    times = [file.last_updated for file in files]
    oldest = None if None in times else min((time for time in times if time is not None), default=meta.last_updated)
    return ForeignManifest(rows, fields, meta.total_count, oldest, size, 1 + len(files), is_partitioned=True)


def _meta_of(found: StoredObject) -> ManifestMeta | str:
    try:
        return decode_manifest_meta(found.body, key=found.key)
    except CorruptionError as error:
        return error.reason


def _numbers(meta: ManifestMeta, texts: Sequence[str] | None) -> list[int]:
    """The partitions to read: a part of them only where it is known which, and that they are the right ones."""
    everything = list(range(meta.partition_count))
    if texts is None or not meta.ranges or meta.checksums is None or meta.fields is None:
        return everything
    found = {meta.partition_of(text) for text in texts}
    return everything if None in found else sorted(number for number in found if number is not None)


def _part_fault(meta: ManifestMeta, number: int, file: _ManifestPart) -> str | None:
    if meta.checksums is not None and meta.checksums[number] != file.checksum:
        return "it is not the one that _meta.json names"
    if meta.ranges:
        low, high = meta.ranges[number]
        if any(text < low or (high is not None and text >= high) for text in file.table.texts):
            return "it has ids of another one"
    return None


def _because(refused: RefusedManifest, fault: str) -> RefusedManifest:
    return RefusedManifest(f"manifest is stale: {fault}", True, refused.count, refused.last_updated, refused.size_bytes)


# --- what is there ---


def _held_to(manifest: ForeignManifest, listing: Listing) -> ForeignManifest | RefusedManifest:
    fault = None
    if set(manifest.rows.keys) != listing.keys.keys():
        fault = "its ids are not those of the files that are there"
    elif manifest.last_updated is None:
        fault = "it does not say when it was written"
    elif listing.modified > milliseconds(manifest.last_updated):
        fault = "a file of a document is newer"
    if fault is None:
        return manifest
    return RefusedManifest(
        f"manifest is stale: {fault}", True, manifest.count, manifest.last_updated, manifest.size_bytes
    )
