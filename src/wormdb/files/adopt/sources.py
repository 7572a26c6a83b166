"""Files of other programs that became a collection and stay theirs: which they were, and what became of them since.

Files of many documents, and packed ones, are not written back. So nothing of ours changes one, and a file that is not
as it was when it was adopted was changed by its own program: the database does not have that.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import ConflictError, CorruptionError
from wormdb.files.adopt.lines import stored_in_order
from wormdb.files.adopt.listing import list_sources
from wormdb.files.contents.names import FileNames, Placement
from wormdb.format.adopt_record import AdoptedObject, AdoptRecord, decode_adopt_record, encode_adopt_record

if TYPE_CHECKING:
    from wormdb.schema.model import Model
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["SourceFile", "changed_sources", "record_sources"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of another program that is not what was adopted."""

    key: str
    what: str


def record_sources(store: Store, pool: Pool, names: FileNames, record: AdoptRecord) -> None:
    """Remember the files as they are, before the entry that adopts them. 1 GET for each file, and 1 PUT.

    It says nothing until the entry is there. Raises ConflictError if a file is gone.
    """
    found = [info for _, info in list_sources(store, names)]
    objects = []
    for info, stored in zip(found, stored_in_order(store, pool, found), strict=True):
        if stored is None:
            raise ConflictError(f"the file {info.key}", reason="it is gone", fix="run this again", key=info.key)
        name = info.key.removeprefix(names.collection)
        objects.append(AdoptedObject(key=name, version=str(info.version), digest=sha256(stored.body).digest()))
    made = AdoptRecord(
        path=record.path,
        job=record.job,
        write_id=record.job,
        limit=record.limit,
        plan=record.plan,
        objects=tuple(objects),
    )
    store.put(EnginePaths.of_collection(names.collection).adopted, encode_adopt_record(made))


def changed_sources(store: Store, pool: Pool, model: Model, collection: str) -> list[SourceFile]:
    """The files that are not what was adopted: changed, new, or gone. Nothing for a collection that has none of others.

    1 GET, 1 LIST for each 1,000 objects, and 1 GET for each file that has another version.
    """
    if not model.path.is_of_others:
        return []
    names = FileNames(model, collection, Placement())
    key = EnginePaths.of_collection(collection).adopted
    stored = store.probe(key).found
    if stored is None:
        return []
    try:
        record = decode_adopt_record(stored.body, name=key, path=collection)
    except CorruptionError as error:
        return [SourceFile(key, error.reason or "it is damaged")]
    before = {collection + each.key: each for each in record.objects}
    found = {info.key: info for _, info in list_sources(store, names)}
    changed = [info for key, info in found.items() if key in before and str(info.version) != before[key].version]
    faults = [
        SourceFile(info.key, "it was changed since it was adopted, and the database does not have that")
        for info, now in zip(changed, stored_in_order(store, pool, changed), strict=True)
        if now is not None and sha256(now.body).digest() != before[info.key].digest
    ]
    faults += [
        SourceFile(key, "it came after the adoption, and the database does not have it")
        for key in sorted(found.keys() - before.keys())
    ]
    faults += [
        SourceFile(key, "it is gone since it was adopted; the database has its documents")
        for key in sorted(before.keys() - found.keys())
    ]
    return sorted(faults, key=lambda fault: fault.key)
