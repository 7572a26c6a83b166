"""Index files of another program: which ids have a value, if the file can be trusted.

wormdb wrote a file with a right checksum. One without a checksum is used only if a manifest that has its field gives
exactly its entries; which version was confirmed is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.tree import Compare, Filter, In
from wormdb.engine.tree.definition import Index, claims_of
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.files.contents.index import IndexFile, IndexMeta, decode_index_file, decode_index_meta, plain_dates_of
from wormdb.files.contents.names import read_id_text
from wormdb.files.contents.values import value_text, values_text
from wormdb.files.foreign.manifest import ForeignManifest, RefusedManifest
from wormdb.files.foreign.rows import DamagedRowsError
from wormdb.format.key import encode_key
from wormdb.format.kinds import Decimal128, ObjectId
from wormdb.format.wrappers import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.files.foreign.files import ForeignFiles
    from wormdb.files.foreign.folder import FileFolder, FileMemory
    from wormdb.schema.model import IndexDefinition, Model
    from wormdb.storage.store import StoredObject

__all__ = ["IndexFileStatus", "IndexedCondition", "IndexedIds", "index_status", "indexed_conditions", "read_index"]

_SCALARS: Final = frozenset({str, int, float, bool, Decimal128, ObjectId, datetime})
_NOTHING: Final = frozenset({"null", "[]"})
"""Entries of what has no value: no look-up asks for them."""


@dataclass(frozen=True, slots=True)
class IndexedCondition:
    """A condition that an index can answer."""

    name: str
    index: IndexDefinition
    condition: Filter
    texts: tuple[str, ...]
    """The values that are looked for, as files write them."""
    is_all: bool
    """Whether the condition is the whole filter."""


@dataclass(frozen=True, slots=True)
class IndexedIds:
    """The ids that have a value, in no order, and how many files told so."""

    ids: tuple[Any, ...]
    files: int
    size_bytes: int


def indexed_conditions(filters: Sequence[Filter], model: Model) -> list[IndexedCondition]:
    """The conditions that declared indexes can answer: one field, equal to a value or to one of some. No requests."""
    found = []
    for condition in filters:
        if not isinstance(condition, Compare | In):
            continue
        values = condition.values if isinstance(condition, In) else (condition.value,)
        if isinstance(condition, Compare) and condition.op != "eq":
            continue
        for name, index in model.indexes.items():
            if (
                not index.is_lists
                and index.fields == (".".join(condition.path),)
                and (texts := _texts(values, index, model)) is not None
            ):
                found.append(IndexedCondition(name, index, condition, texts, len(filters) == 1))
    return found


def _texts(values: Sequence[Any], index: IndexDefinition, model: Model) -> tuple[str, ...] | None:
    """Values as entries are named; None if one of them may stand elsewhere: null, an array, a part of a document."""
    is_date = plain_dates_of(index.fields, model)[0]
    # Where dates are text in files, text that looks like one is not equal to it.
    if not values or any(type(value) not in _SCALARS or (is_date and type(value) is str) for value in values):
        return None
    return tuple(dict.fromkeys(value_text(value, plain_dates=is_date) for value in values))


def read_index(files: ForeignFiles, asked: IndexedCondition) -> IndexedIds | str:
    """The ids that have one of the values; or why the index cannot tell, for people.

    1 GET; for an index in several files 1 more for `_meta.json` and 1 for each that is read; for one without a checksum
    that was not confirmed yet, what the manifest costs.
    """
    read = _read(files, asked.name, asked.index, asked.texts)
    return read if isinstance(read, str) else _gathered(files, asked, read)


@dataclass(frozen=True, slots=True)
class _Read:
    """Files of an index that can be trusted."""

    files: tuple[IndexFile, ...]
    requests: int
    size_bytes: int


def _read(files: ForeignFiles, name: str, index: IndexDefinition, texts: Sequence[str] | None) -> _Read | str:
    """The files that have some values, or all files; or why they are not used."""
    folder, memory = files.folder, files.memory
    found = folder.store.probe(folder.names.index(index.fields)).found
    if found is None:
        return _read_parts(folder, memory, name, index, texts)
    file = memory.read(found, lambda body: _file_of(body, folder.model, index.fields))
    if isinstance(file, str):
        return f"index {name} is stale: {file}"
    if not file.checksum and (reason := _unconfirmed(files, Index(name, index.fields), found, file)) is not None:
        return f"index {name} is not used: {reason}"
    return _Read((file,), 1, len(found.body))


def _file_of(found: StoredObject, model: Model, fields: Sequence[str]) -> IndexFile | str:
    try:
        file = decode_index_file(found.body, key=found.key)
    except CorruptionError as error:
        return error.reason
    return file.fault(model, fields=fields) or file


def _gathered(files: ForeignFiles, asked: IndexedCondition, read: _Read) -> IndexedIds | str:
    texts = dict.fromkeys(text for file in read.files for value in asked.texts for text in file.entries.get(value, ()))
    ids = {encode_key(identity): identity for identity in map(read_id_text, texts)}
    listing = files.checked_listing()
    if listing is not None:
        times = [file.last_updated for file in read.files]
        if any(time is None or listing.modified > milliseconds(time) for time in times):
            return f"index {asked.name} is stale: a file of a document is newer"
        if not ids.keys() <= listing.keys.keys():
            return f"index {asked.name} is stale: it has ids that are not there"
    return IndexedIds(tuple(ids.values()), read.requests, read.size_bytes)


# --- several files ---


def _read_parts(
    folder: FileFolder, memory: FileMemory, name: str, index: IndexDefinition, texts: Sequence[str] | None
) -> _Read | str:
    body = folder.store.probe(folder.names.index_meta(index.fields)).found
    if body is None:
        return f"index {name} has no file"
    meta = memory.read(body, lambda found: _meta_of(found, folder.model, index.fields))
    if isinstance(meta, str):
        return f"index {name} is stale: {meta}"
    numbers = list(range(len(meta.ranges)))
    if texts is not None:
        numbers = sorted({number for text in texts for number in meta.partitions_of(text)})
    bodies = folder.store.get_many([folder.names.index_partition(index.fields, one) for one in numbers], folder.pool)
    files: list[IndexFile] = []
    for number, part in zip(numbers, bodies, strict=True):
        file = None if part is None else memory.read(part, lambda one: _file_of(one, folder.model, index.fields))
        if not isinstance(file, IndexFile) or meta.checksums is None or file.checksum != meta.checksums[number]:
            why = "missing" if part is None else file if isinstance(file, str) else "not the one that _meta.json names"
            return f"index {name} is stale: partition {number} is {why}"
        files.append(file)
    size = len(body.body) + sum(len(part.body) for part in bodies if part is not None)
    return _Read(tuple(files), 1 + len(files), size)


def _meta_of(found: StoredObject, model: Model, fields: Sequence[str]) -> IndexMeta | str:
    try:
        meta = decode_index_meta(found.body, key=found.key)
    except CorruptionError as error:
        return error.reason
    if meta.model != model.name:
        return f"it is of model {meta.model}"
    if meta.fields != tuple(fields):
        return f"it is over {', '.join(meta.fields)}"
    return "it has no checksums" if meta.checksums is None else meta


# --- files without a checksum ---


def _unconfirmed(files: ForeignFiles, index: Index, found: StoredObject, file: IndexFile) -> str | None:
    """Why nothing confirms an index; None if a manifest does, now or when this version was first seen."""
    memory = files.memory
    if memory.confirmed.get(found.key) == found.version:
        return None
    manifest = files.manifest()
    if isinstance(manifest, RefusedManifest):
        return f"it has no checksum, and {manifest.reason}"
    try:
        if not manifest.available(index.fields) >= set(index.fields):
            return f"it has no checksum, and manifest lacks: {index.label}"
        is_same = _entries(manifest, index, files.folder.model) == _read_entries(file.entries)
    except (DamagedRowsError, InvalidRequestError) as error:
        return f"it has no checksum, and the manifest cannot confirm it: {error}"
    if not is_same:
        return "it has no checksum, and the manifest has other values"
    memory.confirmed[found.key] = found.version
    return None


def _entries(manifest: ForeignManifest, index: Index, model: Model) -> dict[str, frozenset[bytes]]:
    """The entries that the index should have by the manifest."""
    dates = plain_dates_of(index.fields, model)
    found: dict[str, set[bytes]] = {}
    for row, key in enumerate(manifest.rows.keys):
        for value in claims_of(index, manifest.rows.document(row)).values():
            text = values_text(value, dates) if index.compound else value_text(value, plain_dates=dates[0])
            found.setdefault(text, set()).add(key)
    return {text: frozenset(keys) for text, keys in found.items() if text not in _NOTHING}


def _read_entries(entries: Mapping[str, Iterable[str]]) -> dict[str, frozenset[bytes]]:
    found = {
        text: frozenset(encode_key(read_id_text(one)) for one in texts)
        for text, texts in entries.items()
        if text not in _NOTHING
    }
    return {text: keys for text, keys in found.items() if keys}


# --- for people ---


@dataclass(frozen=True, slots=True)
class IndexFileStatus:
    """Whether an index file is used, and how much is in it."""

    reason: str | None
    """Why it is not used; None if it is."""
    entries: int = 0
    distinct: int = 0

    @property
    def is_used(self) -> bool:
        """Whether queries use it."""
        return self.reason is None


def index_status(files: ForeignFiles, name: str, index: IndexDefinition) -> IndexFileStatus:
    """Whether an index file is used, and how much is in it. Costs as `read_index`, with every partition."""
    if index.is_lists:
        return IndexFileStatus(f"an index of type {index.type} has no readable file")
    read = _read(files, name, index, None)
    if isinstance(read, str):
        return IndexFileStatus(read)
    values = {value for file in read.files for value in file.entries}
    return IndexFileStatus(None, sum(len(ids) for file in read.files for ids in file.entries.values()), len(values))
