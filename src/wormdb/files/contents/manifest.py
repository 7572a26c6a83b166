"""The manifest of a collection: some fields of every document in one file, or in several by ranges of ids.

A row is what `plain_fields` cuts out of a document, under the id's text. Rows and names are sorted and without spaces,
so that the checksum of a file of ours is over bytes that are in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from wormdb.files.contents.values import STAMPS, iso_text, plain_fields, read_shape, to_canonical
from wormdb.format.frame import corrupt
from wormdb.schema.validate import parse_datetime

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from wormdb.schema.model import Model

__all__ = [
    "VERSION",
    "Count",
    "ManifestFile",
    "ManifestMeta",
    "check_version",
    "checksum_of",
    "decode_manifest",
    "decode_manifest_meta",
    "encode_manifest",
    "encode_manifest_meta",
    "is_checksum_of",
    "manifest_row",
    "read_time",
    "with_content",
]

VERSION: Final = 1
Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest, or one of its partitions."""

    model: str
    count: int
    last_updated: datetime | None
    checksum: str
    """`sha256:` and the digest of the entities as canonical JSON, as the file says; empty if it says nothing."""
    entities: Mapping[str, Mapping[str, Any]]
    """By the text of its id, the values that each document has of the manifest's fields."""
    partition: int | None = None
    log: int | None = None
    """Through which number of the log it is; None in files of others."""
    fields: tuple[str, ...] | None = None
    """Which fields it holds, beside the two stamps; None if it does not say."""
    content: bytes = b""
    """The entities as the file writes them; empty if it was not read from one."""

    def fault(self, model: Model) -> str | None:
        """Why it must not be used for a model; None if nothing is wrong. No requests."""
        if self.model != model.name:
            return f"it is of model {self.model}"
        if self.count != len(self.entities):
            return f"it says that it has {self.count} entities, and has {len(self.entities)}"
        if self.fields is not None and set(self.fields) != set(model.manifest_fields):
            return f"its fields are {', '.join(self.fields) or 'none'}, not those of the schema"
        if not is_checksum_of(self.checksum, self.content, self.entities):
            return "its checksum is wrong" if self.checksum else "it has no checksum"
        return None


def manifest_row(document: bytes, model: Model) -> dict[str, Any]:
    """The row of a stored document: its manifest fields and stamps, as far as it has them. No requests.

    Where the model does not choose fields, the id is one of them, as S3WORM has it.
    """
    names = (*model.manifest_fields, *STAMPS)
    if model.manifest.fields is not None:
        return plain_fields(document, names, model)
    row = plain_fields(document, ("_id", *names), model)
    return {"id": row.pop("_id"), **row}


def checksum_of(entries: Any) -> str:
    """The checksum of the entities of a manifest or the entries of an index: over their canonical JSON."""
    return _checksum(to_canonical(entries))


def is_checksum_of(checksum: str, content: bytes, entries: Any) -> bool:
    """Whether a file's checksum is right: `content` are the entries as it writes them, empty if unknown."""
    return bool(checksum) and (_checksum(content) == checksum or checksum_of(entries) == checksum)


def _checksum(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def encode_manifest(manifest: ManifestFile) -> bytes:
    """The file of a manifest; its `count` and `checksum` are made from the entities. No requests."""
    content = to_canonical(manifest.entities)
    head: dict[str, Any] = {
        "version": VERSION,
        "model": manifest.model,
        "count": len(manifest.entities),
        "lastUpdated": None if manifest.last_updated is None else iso_text(manifest.last_updated),
        "checksum": _checksum(content),
        "partition": manifest.partition,
        "log": manifest.log,
        "fields": manifest.fields,
    }
    return with_content(head, "entities", content)


def with_content(head: Mapping[str, Any], name: str, content: bytes) -> bytes:
    """A compact JSON object of what is known in `head` and, last, one member that is JSON already."""
    known = msgspec.json.encode({member: value for member, value in head.items() if value is not None})
    return b'%b,"%b":%b}\n' % (known[:-1], name.encode(), content)


class _ManifestShape(msgspec.Struct, frozen=True):
    version: int
    model: str
    count: Count
    entities: msgspec.Raw
    last_updated: str = msgspec.field(name="lastUpdated", default="")
    checksum: str = ""
    partition: Count | None = None
    log: Count | None = None
    fields: tuple[str, ...] | None = None


_MANIFEST: Final = msgspec.json.Decoder(_ManifestShape)
_ENTITIES: Final = msgspec.json.Decoder(dict[str, dict[str, Any]])


def decode_manifest(body: bytes, *, key: str) -> ManifestFile:
    """What a manifest or a partition of one says; whether it may be used is told by `fault`. No requests.

    Raises CorruptionError naming the key if it cannot be read, or is of another version.
    """
    found = read_shape(_MANIFEST, body, key=key, what="it must be a manifest")
    content = bytes(found.entities)
    entities = read_shape(_ENTITIES, content, key=key, what="it must be a manifest")
    check_version(found.version, key=key)
    return ManifestFile(
        model=found.model,
        count=found.count,
        last_updated=read_time(found.last_updated),
        checksum=found.checksum,
        entities=entities,
        partition=found.partition,
        log=found.log,
        fields=found.fields,
        content=content,
    )


def check_version(version: int, *, key: str) -> None:
    """Raise CorruptionError for a file of another version: it may mean anything."""
    if version != VERSION:
        corrupt(key, f"it is of version {version}, not {VERSION}")


def read_time(text: str) -> datetime | None:
    """The time in a file; None if it is none."""
    return parse_datetime(text) if text else None


# --- several files ---


@dataclass(frozen=True, slots=True)
class ManifestMeta:
    """What says that a manifest is in several files, and which ids are in which."""

    total_count: int
    ranges: tuple[tuple[str, str | None], ...]
    """For each partition its first text of an id, and the first text after it; None: no end.

    Empty if the file does not say.
    """
    partition_count: int = 0
    """As the file says; it is made from the ranges when it is written."""
    partition_by: str = "id_prefix"
    model: str = ""
    fields: tuple[str, ...] | None = None
    last_updated: datetime | None = None
    log: int | None = None
    checksums: tuple[str, ...] | None = None
    """The checksum of each partition; None if the file does not say."""

    def partition_of(self, text: str) -> int | None:
        """The partition that has an id if any has; None if that is not known."""
        for number, (low, high) in enumerate(self.ranges):
            if low <= text and (high is None or text < high):
                return number
        return None


def encode_manifest_meta(meta: ManifestMeta) -> bytes:
    """The file `_meta.json` of a manifest. No requests."""
    written = {
        "version": VERSION,
        "model": meta.model or None,
        "partitionCount": len(meta.ranges),
        "partitionBy": meta.partition_by,
        "totalCount": meta.total_count,
        "lastUpdated": None if meta.last_updated is None else iso_text(meta.last_updated),
        "log": meta.log,
        "fields": meta.fields,
        "checksums": meta.checksums,
    }
    return with_content(written, "ranges", msgspec.json.encode(meta.ranges))


class _ManifestMetaShape(msgspec.Struct, frozen=True):
    partition_count: Count = msgspec.field(name="partitionCount")
    total_count: Count = msgspec.field(name="totalCount")
    version: int = VERSION
    model: str = ""
    partition_by: str = msgspec.field(name="partitionBy", default="id_prefix")
    ranges: tuple[tuple[str, str | None], ...] = ()
    last_updated: str = msgspec.field(name="lastUpdated", default="")
    log: Count | None = None
    fields: tuple[str, ...] | None = None
    checksums: tuple[str, ...] | None = None


_META: Final = msgspec.json.Decoder(_ManifestMetaShape)


def decode_manifest_meta(body: bytes, *, key: str) -> ManifestMeta:
    """What `_meta.json` says; raises CorruptionError naming the key. No requests."""
    found = read_shape(_META, body, key=key, what="it does not say what the partitions are")
    check_version(found.version, key=key)
    for name, several in (("ranges", found.ranges), ("checksums", found.checksums)):
        if several and len(several) != found.partition_count:
            corrupt(key, f"it names {len(several)} {name} for {found.partition_count} partitions")
    return ManifestMeta(
        total_count=found.total_count,
        ranges=found.ranges,
        partition_count=found.partition_count,
        partition_by=found.partition_by,
        model=found.model,
        fields=found.fields,
        last_updated=read_time(found.last_updated),
        log=found.log,
        checksums=found.checksums,
    )
