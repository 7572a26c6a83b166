"""The file of an index: for each value the ids of the documents that have it, in one file or in several.

What a document has in an index is what the engine says (`wormdb.engine.tree.definition`): arrays count by their
elements, and a sparse index leaves out what is missing or null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.engine.tree.definition import Index, claims_of
from wormdb.files.contents.manifest import (
    VERSION,
    Count,
    check_version,
    checksum_of,
    is_checksum_of,
    read_time,
    with_content,
)
from wormdb.files.contents.values import STAMPS, iso_text, read_shape, to_canonical, value_text, values_text
from wormdb.format import json
from wormdb.format.frame import corrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from wormdb.schema.model import Model

__all__ = [
    "IndexFile",
    "IndexMeta",
    "IndexTexts",
    "decode_index_file",
    "decode_index_meta",
    "encode_index_file",
    "encode_index_meta",
    "index_texts",
    "plain_dates_of",
    "type_in_file",
    "value_text",
]

IndexType = Literal["standard", "multiValue", "compound"]


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index, or one of its partitions."""

    model: str
    fields: tuple[str, ...]
    type: IndexType
    unique: bool
    last_updated: datetime | None
    entries: Mapping[str, Sequence[str]]
    """By value, as `value_text`, the sorted texts of the ids that have it."""
    log: int | None = None
    checksum: str = ""
    partition: int | None = None
    content: bytes = b""
    """The entries as the file writes them; empty if it was not read from one."""

    def fault(self, model: Model, *, fields: Sequence[str] | None = None) -> str | None:
        """Why it must not be used for an index over `fields` of a model; None if nothing is wrong. No requests.

        Files of others have no checksum: of these only what they say is known.
        """
        if self.model != model.name:
            return f"it is of model {self.model}"
        if fields is not None and tuple(fields) != self.fields:
            return f"it is over {', '.join(self.fields)}"
        if self.checksum and not is_checksum_of(self.checksum, self.content, _written(self)):
            return "its checksum is wrong"
        return None


def type_in_file(index: Index) -> IndexType:
    """What the file of an index says of its type. No requests."""
    return "compound" if index.compound else "multiValue" if index.multi_valued else "standard"


def index_texts(index: Index, document: bytes, model: Model | None) -> list[str]:
    """The values that a stored document has in an index, as text, sorted; none if the index leaves it out.

    No requests. Raises InvalidRequestError, LimitExceededError for a document that the index cannot take.
    """
    claims = claims_of(index, json.decode_document(document, name="document"))
    plain = plain_dates_of(index.fields, model)
    if index.compound:
        return sorted(values_text(value, plain) for value in claims.values())
    return sorted(value_text(value, plain_dates=plain[0]) for value in claims.values())


def plain_dates_of(fields: Sequence[str], model: Model | None) -> tuple[bool, ...]:
    """For each field whether its dates are plain text in files."""
    return tuple(model is not None and _is_date(name, model) for name in fields)


def _is_date(name: str, model: Model) -> bool:
    field = model.field_at(name)
    if field is not None and field.type == "array":
        field = field.items
    return name in STAMPS if field is None else field.type == "datetime"


def encode_index_file(index: IndexFile) -> bytes:
    """The file of an index; its `checksum` is made from the entries. No requests."""
    written = _written(index)
    content = to_canonical(written)
    head: dict[str, Any] = {
        "version": VERSION,
        "model": index.model,
        "field": "+".join(index.fields),
        "fields": index.fields if len(index.fields) > 1 else None,
        "type": index.type,
        "unique": index.unique,
        "lastUpdated": None if index.last_updated is None else iso_text(index.last_updated),
        "checksum": checksum_of(written),
        "partition": index.partition,
        "log": index.log,
    }
    return with_content(head, "entries", content)


def _written(index: IndexFile) -> dict[str, Any]:
    """The entries as a file has them: of a unique index the one id itself."""
    if not index.unique:
        return {value: list(ids) for value, ids in index.entries.items()}
    return {value: ids[0] if len(ids) == 1 else list(ids) for value, ids in index.entries.items()}


class _IndexShape(msgspec.Struct, frozen=True):
    version: int
    model: str
    field: str
    entries: msgspec.Raw
    type: IndexType = "standard"
    unique: bool = False
    fields: tuple[str, ...] | None = None
    last_updated: str = msgspec.field(name="lastUpdated", default="")
    checksum: str = ""
    partition: Count | None = None
    log: Count | None = None


_FILE: Final = msgspec.json.Decoder(_IndexShape)
_ENTRIES: Final = msgspec.json.Decoder(dict[str, str | tuple[str, ...]])


def decode_index_file(body: bytes, *, key: str) -> IndexFile:
    """What an index file or a partition of one says; whether it may be used is told by `fault`. No requests.

    Raises CorruptionError naming the key if it cannot be read, or is of another version.
    """
    found = read_shape(_FILE, body, key=key, what="it must be an index")
    content = bytes(found.entries)
    entries = read_shape(_ENTRIES, content, key=key, what="it must be an index")
    check_version(found.version, key=key)
    return IndexFile(
        model=found.model,
        fields=found.fields or (found.field,),
        type=found.type,
        unique=found.unique,
        last_updated=read_time(found.last_updated),
        entries={value: (ids,) if isinstance(ids, str) else ids for value, ids in entries.items()},
        log=found.log,
        checksum=found.checksum,
        partition=found.partition,
        content=content,
    )


# --- several files ---


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """What says that an index is in several files, and which values are in which.

    A value whose ids span several partitions is in each of them with some of its ids.
    """

    model: str
    fields: tuple[str, ...]
    type: IndexType
    unique: bool
    total_count: int
    """Pairs of a value and an id."""
    ranges: tuple[tuple[tuple[str, str], tuple[str, str] | None], ...]
    """For each partition its first pair (text of a value, text of an id), and the first pair after it."""
    last_updated: datetime | None = None
    log: int | None = None
    checksums: tuple[str, ...] | None = None

    def partitions_of(self, value: str) -> list[int]:
        """The partitions that may have ids of a value, given as text."""
        return [
            number
            for number, (low, high) in enumerate(self.ranges)
            if low[0] <= value and (high is None or (value, "") < high)
        ]


def encode_index_meta(meta: IndexMeta) -> bytes:
    """The file `_meta.json` of an index. No requests."""
    written = {
        "version": VERSION,
        "model": meta.model,
        "field": "+".join(meta.fields),
        "fields": meta.fields if len(meta.fields) > 1 else None,
        "type": meta.type,
        "unique": meta.unique,
        "partitionCount": len(meta.ranges),
        "partitionBy": "value_id",
        "totalCount": meta.total_count,
        "lastUpdated": None if meta.last_updated is None else iso_text(meta.last_updated),
        "log": meta.log,
        "checksums": meta.checksums,
    }
    return with_content(written, "ranges", msgspec.json.encode(meta.ranges))


class _IndexMetaShape(msgspec.Struct, frozen=True):
    version: int
    model: str
    field: str
    partition_count: Count = msgspec.field(name="partitionCount")
    total_count: Count = msgspec.field(name="totalCount")
    ranges: tuple[tuple[tuple[str, str], tuple[str, str] | None], ...]
    type: IndexType = "standard"
    unique: bool = False
    fields: tuple[str, ...] | None = None
    last_updated: str = msgspec.field(name="lastUpdated", default="")
    log: Count | None = None
    checksums: tuple[str, ...] | None = None


_META: Final = msgspec.json.Decoder(_IndexMetaShape)


def decode_index_meta(body: bytes, *, key: str) -> IndexMeta:
    """What `_meta.json` of an index says; raises CorruptionError naming the key. No requests."""
    found = read_shape(_META, body, key=key, what="it does not say what the partitions are")
    check_version(found.version, key=key)
    for name, several in (("ranges", found.ranges), ("checksums", found.checksums)):
        if several is not None and len(several) != found.partition_count:
            corrupt(key, f"it names {len(several)} {name} for {found.partition_count} partitions")
    return IndexMeta(
        model=found.model,
        fields=found.fields or (found.field,),
        type=found.type,
        unique=found.unique,
        total_count=found.total_count,
        ranges=found.ranges,
        last_updated=read_time(found.last_updated),
        log=found.log,
        checksums=found.checksums,
    )


# --- What documents have in several indexes, quickly: only the fields that count are read, and equal ones once.

_KEPT_MAX: Final = 10_000
_KEPT_BYTES_MAX: Final = 200
_ABSENT: Final = msgspec.Raw()


class IndexTexts:
    """Some indexes of a model. For one thread."""

    def __init__(self, indexes: Sequence[Index], model: Model) -> None:
        """Nothing is kept yet."""
        self._indexes = indexes
        self._model = model
        names = list(dict.fromkeys(_top(field) for index in indexes for field in index.fields))
        fields = [(f"f{number}", msgspec.Raw, msgspec.field(default=_ABSENT)) for number in range(len(names))]
        rename = {f"f{number}": name for number, name in enumerate(names)}
        shape = msgspec.defstruct("Indexed", fields, rename=rename, gc=False)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        self._tops = [tuple(dict.fromkeys(_top(field) for field in index.fields)) for index in indexes]
        self._attributes = [tuple(f"f{names.index(top)}" for top in tops) for tops in self._tops]
        self._is_plain = [
            len(index.fields) == 1 and index.fields == tops for index, tops in zip(indexes, self._tops, strict=True)
        ]
        self._kept: list[dict[tuple[bytes, ...], list[str]]] = [{} for _ in indexes]

    def of(self, document: bytes | None) -> list[list[str]]:
        """For each index the values that a stored document has in it, as `index_texts` gives them. No requests."""
        if document is None:
            return [[] for _ in self._indexes]
        found = self._decoder.decode(document)
        return [self._texts(number, found) for number in range(len(self._indexes))]

    def _texts(self, number: int, found: Any) -> list[str]:
        values = tuple(bytes(getattr(found, name)) for name in self._attributes[number])
        kept = self._kept[number]
        texts = kept.get(values)
        if texts is None:
            texts = self._made(number, values)
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            if sum(map(len, values)) <= _KEPT_BYTES_MAX:
                kept[values] = texts
        return texts

    def _made(self, number: int, values: tuple[bytes, ...]) -> list[str]:
        if self._is_plain[number] and values[0][:1] == b'"':
            return [value_text(msgspec.json.decode(values[0]))]
        members = [
            b"%b:%b" % (msgspec.json.encode(name), value)
            for name, value in zip(self._tops[number], values, strict=True)
            if value
        ]
        return index_texts(self._indexes[number], b"{%b}" % b",".join(members), self._model)


def _top(field: str) -> str:
    """The name in a document that a dotted name begins with."""
    return field.split(".", 1)[0]
