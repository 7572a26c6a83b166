"""The record of the readable files: how far they are written, read whole and swapped by compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import AlreadyExistsError, CorruptionError, OutcomeUnknownError, PermissionDeniedError
from wormdb.files.contents.names import Placement
from wormdb.format.files_record import FilesPlaces, FilesRecord, decode_files_record, encode_files_record
from wormdb.storage.readback import put_swapped
from wormdb.storage.store import IfAbsent, Store
from wormdb.system.clock import Chance, new_write_id

if TYPE_CHECKING:
    from wormdb.system.types import Version

__all__ = ["CLAIMS", "KnownRecord", "RecordRegister", "claim_name", "find_owner", "placement_of", "places_of"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownRecord:
    """The record as it was read, with the store's version; without a record if there is none that can be read."""

    record: FilesRecord | None
    version: Version | None


@dataclass(frozen=True, slots=True)
class RecordRegister:
    """The record of one collection, at `key`."""

    store: Store
    key: str
    collection: str
    chance: Chance

    def read(self) -> KnownRecord:
        """The record now. 1 GET. A damaged record counts as none: everything in it can be found again.

        Raises UnsupportedFormatError.
        """
        found = self.store.probe(self.key).found
        if found is None:
            return KnownRecord(None, None)
        try:
            record = decode_files_record(found.body, name=self.key, path=self.collection)
        except CorruptionError as error:
            log.warning("%s: all readable files are written again: %s", self.collection, error)
            return KnownRecord(None, found.version)
        return KnownRecord(record, found.version)

    def is_current(self, known: KnownRecord) -> bool:
        """Whether the record is still the one that was read. 1 GET."""
        found = self.store.probe(self.key).found
        return known.version == (None if found is None else found.version)

    def swap(self, known: KnownRecord, following: FilesRecord) -> KnownRecord:
        """Replace the record that was read by another, once. Costs and raises as `put_swapped`."""
        revision = 0 if known.record is None else known.record.revision
        made = msgspec.structs.replace(following, revision=revision + 1, write_id=new_write_id(self.chance))
        landed = put_swapped(self.store, self.key, encode_files_record(made), known.version, what="record")
        return KnownRecord(made, landed.version)


def places_of(placement: Placement, file_name: str) -> FilesPlaces:
    """A placement as the record has it."""
    oplog, snapshots, trash = placement.oplog, placement.snapshots, placement.trash
    return FilesPlaces(oplog=oplog, snapshots=snapshots, trash=trash, name=placement.name, file=file_name)


def placement_of(places: FilesPlaces) -> Placement:
    """What the record says as a placement."""
    return Placement(places.oplog, places.snapshots, places.trash, places.name)


# --- Which collection has a short name in the folders at the root of a bucket.
#
# `org/customers/` and `archive/customers/` would both keep their oplog in `.oplog/customers/`. The first
# collection that claims the name has it for ever, by an object; any other uses its whole path.

CLAIMS: Final = ".worm.names/"
"""The folder of the claims: one object for each short name."""


class _Claim(msgspec.Struct, frozen=True):
    collection: str


_DECODER: Final = msgspec.json.Decoder(_Claim)


def claim_name(store: Store, last: str, collection: str) -> str:
    """The folder of `collection` (ends with /) in root layouts: `last` and / if no other has that name, else all of it.

    1 PUT; 1 GET more if the name is taken or the answer is lost. Asked again, the answer is the same.
    """
    key = f"{CLAIMS}{last}"
    try:
        store.put(key, msgspec.json.encode(_Claim(collection)), IfAbsent(), content_type="application/json")
    except PermissionDeniedError:
        return collection
    except (AlreadyExistsError, OutcomeUnknownError):
        return f"{last}/" if find_owner(store, last) == collection else collection
    return f"{last}/"


def find_owner(store: Store, last: str) -> str | None:
    """The collection that has a short name; None if it is not claimed. 1 GET."""
    found = store.probe(f"{CLAIMS}{last}").found
    try:
        return None if found is None else _DECODER.decode(found.body).collection
    except msgspec.MsgspecError:
        return None
