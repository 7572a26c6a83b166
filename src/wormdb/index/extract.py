"""The keys of many stored documents in one index, without decoding more of them than it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED
from wormdb.format.project import project
from wormdb.index.definition import keys_of
from wormdb.index.entries import packed
from wormdb.limits import INDEX_KEY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.index.definition import Index

__all__ = ["Extracted", "extract"]

_NONE: Final[tuple[bytes, ...]] = ()


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an index holds of some documents, one to one."""

    keys: list[Sequence[bytes]]
    """Of each document its distinct keys, ascending; none if there is no document."""
    values: list[bytes]
    """Of each document the value of its entries: the id and the covered fields."""
    arrays: tuple[bool, ...]
    """For each field of the index whether one of the documents has an array at it or on the way."""


def extract(index: Index, identities: Sequence[bytes], documents: Sequence[bytes | None]) -> Extracted:
    """The keys of documents given as JSON beside their ids; None for a document is none. No requests.

    Equal to `keys_of` for each. Raises InvalidRequestError naming the first document that the index cannot take, and
    CorruptionError for bytes that are no document.
    """
    paths = (*index.fields, *index.covered)
    columns = project(documents, paths, name="document")
    fields, covered = columns[: len(index.fields)], columns[len(index.fields) :]
    kinds = [set(map(type, column)) for column in fields]
    arrays = tuple(list in kind or type(TRAVERSED) in kind for kind in kinds)
    keys: list[Sequence[bytes]] = []
    for identity, document, row in zip(identities, documents, zip(*fields, strict=True), strict=True):
        if document is None:
            keys.append(_NONE)
            continue
        found = _plain_keys(index, row)
        keys.append(_checked_keys(index, identity, document) if found is None else found)
    values = list(identities)
    if covered:
        values = [packed(identity, row) for identity, row in zip(identities, zip(*covered, strict=True), strict=True)]
    return Extracted(keys, values, arrays)


def _plain_keys(index: Index, row: tuple[Any, ...]) -> Sequence[bytes] | None:
    """The keys of a row of values; None if an array is among them, or a key is too long."""
    absent = 0
    parts = []
    for value in row:
        if value is MISSING or value is None:
            absent += 1
            parts.append(encode_key(None))
        elif type(value) is list or value is TRAVERSED:
            return None
        else:
            parts.append(encode_key(value))
    if index.sparse and absent == len(row):
        return _NONE
    key = parts[0] if len(parts) == 1 else b"".join(parts)
    return (key,) if len(key) <= INDEX_KEY_BYTES_MAX else None


def _checked_keys(index: Index, identity: bytes, document: bytes) -> Sequence[bytes]:
    try:
        return keys_of(index, json.decode_document(document, name="document"))
    except InvalidRequestError as error:
        shown = json.decode(identity, name="document id")
        raise InvalidRequestError(f"document {shown!r}: {error.what}", reason=error.reason, fix=error.fix) from error
