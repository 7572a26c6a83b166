"""What is known of the readable files of a collection: one small object, swapped by compare-and-set.

It says through which log number the files are written, and what of the tables (manifest and indexes) still waits. It is
a value like the root: a new one has the next `revision` and a `write_id` of its own. If it is lost, all files are
written again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from wormdb.format.event import Place
from wormdb.format.frame import (
    Count,
    Digest,
    FrameKind,
    Id,
    Name,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.settings import ROOT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FilesFill",
    "FilesPart",
    "FilesPlaces",
    "FilesRecord",
    "FilesTable",
    "decode_files_record",
    "encode_files_record",
]

_VERSION: Final = 1


class FilesPlaces(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where system folders lie, and the name that the file of every document has."""

    oplog: Place = msgspec.field(name="o")
    snapshots: Place = msgspec.field(name="s")
    trash: Place = msgspec.field(name="t")
    name: str = msgspec.field(name="n")
    file: str = msgspec.field(name="e", default="")


class FilesFill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All documents are being written, in order of id, because of what the log alone does not tell."""

    since: Count = msgspec.field(name="a")
    """When it is done, the files are written through this log number."""
    cursor: bytes = msgspec.field(name="c", default=b"")
    """Ids whose key is not above this are done."""
    former: tuple[FilesPlaces, ...] = msgspec.field(name="f", default=())
    """Where files may lie that are to be removed."""
    is_lost: bool = msgspec.field(name="l", default=False)
    """Whether there was a record that cannot be read: files may be there that no record names."""


class FilesPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a table: the whole of it, or the part from `low` up to the next one's."""

    low: tuple[str, str] = msgspec.field(name="l", default=("", ""))
    """The text of a value and of an id; in a manifest the text of an id and nothing."""
    first: bytes = msgspec.field(name="f", default=b"")
    last: bytes = msgspec.field(name="t", default=b"")
    """The keys of all ids in it are from `first` to `last`, and those of others may be."""
    log: Count = msgspec.field(name="n", default=0)
    """The log number that it was written at; 0 if it is to be written now."""
    count: Count = msgspec.field(name="c", default=0)
    size: Count = msgspec.field(name="b", default=0)
    checksum: str = msgspec.field(name="h", default="")
    version: str | None = msgspec.field(name="v", default=None)
    """The store's, of the object."""
    pending: Count = msgspec.field(name="p", default=0)
    """Changes that are not in it yet."""
    since: Count | None = msgspec.field(name="s", default=None)
    """When the first of them was seen: milliseconds since 1970."""

    @property
    def is_unknown(self) -> bool:
        """Whether it is not known which ids are in it: it is to be written, and has no `first` and `last`."""
        return self.log == 0 and not self.last


class FilesTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A manifest or the file of an index, in one file or in parts."""

    kind: Literal["manifest", "index"] = msgspec.field(name="k")
    fields: tuple[str, ...] = msgspec.field(name="f", default=())
    """Of an index; in a manifest none."""
    shape: Digest = msgspec.field(name="d")
    """Changes with what the definition says of it."""
    is_parted: bool = msgspec.field(name="m", default=False)
    parts: tuple[FilesPart, ...] = msgspec.field(name="p", default=())
    meta: str | None = msgspec.field(name="v", default=None)
    """The store's version of the object that names the parts."""
    obsolete: tuple[Name, ...] = msgspec.field(name="x", default=())
    """Keys of files that it had before, to be deleted in this order when it is complete."""
    has_erased: bool = msgspec.field(name="u", default=False)
    """Whether its files may have something of an erased document: they are written, whatever the model says."""


class FilesRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The readable files of one collection."""

    path: Name = msgspec.field(name="p")
    """Where the collection lies in the database."""
    revision: Count = msgspec.field(name="v")
    write_id: Id = msgspec.field(name="w")
    through: Count = msgspec.field(name="a", default=0)
    """Entities, oplog, snapshots and trash are complete through this log number; 0 if they never were."""
    misc: Count = msgspec.field(name="t", default=0)
    """Of the last entry until then that changed something."""
    shape: Digest = msgspec.field(name="d")
    """Changes with what the model says of these files."""
    places: FilesPlaces = msgspec.field(name="l")
    fill: FilesFill | None = msgspec.field(name="f", default=None)
    tables: tuple[FilesTable, ...] = msgspec.field(name="x", default=())
    sentinel: str | None = msgspec.field(name="s", default=None)
    """The store's version of the collection's sentinel."""
    is_unannounced: bool = msgspec.field(name="u", default=False)
    """Whether the sentinel does not say yet what was changed last."""
    announced: Digest | None = msgspec.field(name="b", default=None)
    """What the sentinel of the bucket was told of this collection."""

    @property
    def fill_since(self) -> int:
        """The number that a fill goes through, if there is one."""
        return 0 if self.fill is None else self.fill.since


_DECODER: Final = msgspec.msgpack.Decoder(FilesRecord)


def encode_files_record(record: FilesRecord) -> bytes:
    """The bytes of a record; equal records give equal bytes. No requests; raises LimitExceededError."""
    fault = _fault(record)
    assert fault is None, fault
    payload = encode_message(
        record, what=f"the record of the files of {record.path}", bytes_max=ROOT_BYTES_MAX, fix="use fewer partitions"
    )
    return encode_frame(FrameKind.FILES, version=_VERSION, identity=record.path, payload=payload)


def decode_files_record(data: bytes, *, name: str, path: str) -> FilesRecord:
    """The record stored as object `name`, which must belong to the collection at `path`. No requests.

    Raises CorruptionError, UnsupportedFormatError.
    """
    frame = decode_frame(
        data, FrameKind.FILES, name=name, identity=path, version_max=_VERSION, bytes_max=ROOT_BYTES_MAX
    )
    record = decode_message(_DECODER, frame.payload, name=name)
    if fault := _fault(record):
        corrupt(name, fault)
    return record


def _fault(record: FilesRecord) -> str | None:
    for table in record.tables:
        if not table.parts or (len(table.parts) > 1 and not table.is_parted):
            return f"a table has {len(table.parts)} files"
        if not _ascending([part.low for part in table.parts]):
            return "the parts of a table are not in order"
    return None


def _ascending(lows: Sequence[tuple[str, str]]) -> bool:
    return all(one < next_one for one, next_one in pairwise(lows))
