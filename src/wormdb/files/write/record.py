"""The record of the readable files: how far they are written, read whole and swapped by compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.errors import CorruptionError
from wormdb.files.placement import Placement
from wormdb.format.files_record import FilesPlaces, FilesRecord, decode_files_record, encode_files_record
from wormdb.storage.readback import put_swapped
from wormdb.system.clock import new_write_id

if TYPE_CHECKING:
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance
    from wormdb.system.types import Version

__all__ = ["Known", "RecordRegister", "placement_of", "places_of"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
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

    def read(self) -> Known:
        """The record now. 1 GET. A damaged one is as good as none: it holds nothing that cannot be found again.

        Raises UnsupportedFormatError.
        """
        found = self.store.probe(self.key).found
        if found is None:
            return Known(None, None)
        try:
            record = decode_files_record(found.body, name=self.key, path=self.collection)
        except CorruptionError as error:
            log.warning("%s: all readable files are written again: %s", self.collection, error)
            return Known(None, found.version)
        return Known(record, found.version)

    def is_current(self, known: Known) -> bool:
        """Whether nobody has swapped the record since it was read. 1 GET."""
        found = self.store.probe(self.key).found
        return known.version == (None if found is None else found.version)

    def swap(self, known: Known, following: FilesRecord) -> Known:
        """Replace the record that was read by another, once. Costs and raises as `put_swapped`."""
        revision = 0 if known.record is None else known.record.revision
        made = msgspec.structs.replace(following, revision=revision + 1, write_id=new_write_id(self.chance))
        landed = put_swapped(self.store, self.key, encode_files_record(made), known.version, what="record")
        return Known(made, landed.version)


def places_of(placement: Placement, file_name: str) -> FilesPlaces:
    """A placement as the record has it."""
    oplog, snapshots, trash = placement.oplog, placement.snapshots, placement.trash
    return FilesPlaces(oplog=oplog, snapshots=snapshots, trash=trash, name=placement.name, file=file_name)


def placement_of(places: FilesPlaces) -> Placement:
    """What the record says as a placement."""
    return Placement(places.oplog, places.snapshots, places.trash, places.name)
