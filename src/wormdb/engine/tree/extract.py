"""The keys of many stored documents in one index, without decoding more of them than it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.tree.definition import Index, check_row, is_row_of, keys_of
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.blob import blob_keys_in
from wormdb.format.key import check_index_key, encode_key, encode_keys
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED
from wormdb.format.project import project
from wormdb.settings import INDEX_KEY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["IndexKeys", "extract", "extract_columns"]

_NONE: Final[tuple[bytes, ...]] = ()


@dataclass(frozen=True, slots=True)
class IndexKeys:
    """What an index holds of some documents, one to one."""

    keys: list[Sequence[bytes]]
    """Of each document its distinct keys, ascending; none if there is no document."""
    arrays: tuple[bool, ...]
    """For each field of the index whether one of the documents has an array at it or on the way."""


def extract(index: Index, identities: Sequence[bytes], documents: Sequence[bytes | None]) -> IndexKeys:
    """The keys of documents given as JSON beside their ids; None for a document is none. No requests.

    Equal to `keys_of` for each. Raises InvalidRequestError naming the first document that the index cannot take, and
    CorruptionError for bytes that are no document.
    """
    if index.is_owners:
        owned = [sorted(encode_key(str(key)) for key in blob_keys_in(document)) for document in documents]
        return IndexKeys(list(owned), (False,) * len(index.fields))
    found, arrays = _found(index, project(documents, index.fields, name="document"))
    keys = [
        _NONE if document is None else _checked_keys(index, identity, document) if own is None else own
        for identity, document, own in zip(identities, documents, found, strict=True)
    ]
    return IndexKeys(keys, arrays)


def extract_columns(index: Index, identities: Sequence[bytes], columns: Sequence[Sequence[Any]]) -> IndexKeys:
    """The keys of documents whose values at the fields of an index are given; no array is one.

    Raises InvalidRequestError naming the document for a key that is too long, or of another type. No requests.
    """
    found, arrays = _found(index, columns)
    assert not any(arrays), "an array has to be gone through in its document"
    if None in found:
        rows = zip(identities, found, zip(*columns, strict=True), strict=True)
        _refuse(index, *next((identity, row) for identity, own, row in rows if own is None))
    return IndexKeys([own for own in found if own is not None], arrays)


def _found(index: Index, fields: Sequence[Sequence[Any]]) -> tuple[list[Sequence[bytes] | None], tuple[bool, ...]]:
    """The keys of each row of values, None where the document must be asked; and which fields have arrays."""
    kinds = [set(map(type, column)) for column in fields]
    arrays = tuple(list in kind or type(TRAVERSED) in kind for kind in kinds)
    found: list[Sequence[bytes] | None]
    if kinds == [{str}]:
        found = [(key,) if len(key) <= INDEX_KEY_BYTES_MAX else None for key in encode_keys(fields[0])]
    else:
        found = _column_keys(index, fields[0]) if len(fields) == 1 else _row_keys(index, fields)
    if index.bson_types:
        rows = zip(found, zip(*fields, strict=True), strict=True)
        found = [own if is_row_of(map(_plain, row), index.bson_types) else None for own, row in rows]
    return found, arrays


def _column_keys(index: Index, column: Sequence[Any]) -> list[Sequence[bytes] | None]:
    """The keys of each value; None for an array, and for a key that is too long."""
    absent = _NONE if index.sparse else (encode_key(None),)
    keys: list[Sequence[bytes] | None] = []
    for value in column:
        if type(value) is list or value is TRAVERSED:
            keys.append(None)
        elif value is MISSING or value is None:
            keys.append(absent)
        else:
            key = encode_key(value)
            keys.append((key,) if len(key) <= INDEX_KEY_BYTES_MAX else None)
    return keys


def _row_keys(index: Index, columns: Sequence[Sequence[Any]]) -> list[Sequence[bytes] | None]:
    """The keys of each row of values; None for one that has an array, and for a key that is too long."""
    keys: list[Sequence[bytes] | None] = []
    for row in zip(*columns, strict=True):
        plain = list(map(_plain, row))
        if any(type(value) is list or value is TRAVERSED for value in plain):
            keys.append(None)
        elif index.sparse and all(value is None for value in plain):
            keys.append(_NONE)
        else:
            key = b"".join(map(encode_key, plain))
            keys.append((key,) if len(key) <= INDEX_KEY_BYTES_MAX else None)
    return keys


def _checked_keys(index: Index, identity: bytes, document: bytes) -> Sequence[bytes]:
    try:
        return keys_of(index, json.decode_document(document, name="document"))
    except InvalidRequestError as error:
        raise _named(identity, error) from error


def _plain(value: Any) -> Any:
    return None if value is MISSING else value


def _refuse(index: Index, identity: bytes, row: Sequence[Any]) -> None:
    plain = list(map(_plain, row[: len(index.fields)]))
    try:
        if index.bson_types:
            check_row(plain, index.fields, index.bson_types, name=index.name)
        check_index_key(b"".join(map(encode_key, plain)), index=index.name)
    except InvalidRequestError as error:
        raise _named(identity, error) from error


def _named(identity: bytes, error: InvalidRequestError) -> InvalidRequestError:
    shown = json.decode(identity, name="document id")
    return InvalidRequestError(f"document {shown!r}: {error.what}", reason=error.reason, fix=error.fix)
