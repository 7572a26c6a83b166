"""Documents, filters and updates as they travel: JSON or BSON in, JSON or BSON out. Pure.

A filter or update is BSON if its bytes say so themselves (its length in front, a zero at the end), otherwise JSON.
Documents go by the attributes of the session.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import bson
import msgspec
from bson.codec_options import CodecOptions
from bson.errors import BSONError

from wormdb.errors import InvalidRequestError, WormError
from wormdb.format import json
from wormdb.format.kinds import ObjectId
from wormdb.server.lenient import make_strict
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Format = Literal["bson", "json"]

__all__ = [
    "Format",
    "read_document",
    "read_filter",
    "read_json",
    "read_object",
    "show_ids",
    "show_rows",
    "written_filter",
]

if not TYPE_CHECKING:
    Format = Literal["bson", "json"]

_PLAIN: Final = msgspec.json.Decoder(dict[str, Any])
_CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(tz_aware=True)
_HEX: Final = re.compile(r"[0-9a-fA-F]{24}")
_SEEMS_HEX: Final = re.compile(rb"[\"'][0-9a-fA-F]{24}[\"']")
_SEEMS_NEITHER: Final = "Invalid BSON format"


def _is_bson(data: bytes) -> bool:
    return len(data) >= 5 and not data[-1] and int.from_bytes(data[:4], "little") == len(data)


def read_json(data: bytes, *, operators: bool = False) -> Any:
    """A value of JSON, strict or as MongoDB's shell has it. Raises InvalidRequestError, LimitExceededError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError("JSON", reason="it is not UTF-8") from error
    try:
        return json.parse(text, operators=operators)
    except InvalidRequestError as strict:
        try:
            return json.parse(make_strict(text), operators=operators)
        except (ValueError, RecursionError):
            raise strict from None


def read_object(data: bytes, what: str) -> dict[str, Any]:
    """An object of JSON, such as a projection; an ErrorReply if it is something else."""
    try:
        found = read_json(data, operators=True)
    except WormError as error:
        raise ErrorReply(f"Invalid {what}: {error}") from error
    if not isinstance(found, dict):
        raise ErrorReply(f"Invalid {what}: it must be an object")
    return found


def _read_bson(data: bytes) -> dict[str, Any]:
    return bson.decode(data, _CODEC)


def read_filter(data: bytes) -> dict[str, Any]:
    """A filter or an update. An ErrorReply if it is neither JSON nor BSON."""
    if b"$" not in data and data[:1] == b"{" and not _SEEMS_HEX.search(data):
        # Most filters: fields with plain values. What is wrong with one is told by what follows.
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            return dict(_PLAIN.decode(data))
    if _is_bson(data):
        try:
            return _read_bson(data)
        except (BSONError, ValueError, RecursionError) as error:
            raise ErrorReply(f"BQL parse error: {_SEEMS_NEITHER}") from error
    try:
        found = read_json(data, operators=True)
    except WormError as error:
        raise ErrorReply(f"BQL parse error: {_SEEMS_NEITHER}: {error}") from error
    if not isinstance(found, dict):
        raise ErrorReply(f"BQL parse error: {_SEEMS_NEITHER}: it must be an object")
    return _with_objectids(found) if _SEEMS_HEX.search(data) else found


def _hint(data: bytes, form: Format) -> str:
    if form == "json" or not data.lstrip().startswith(b"{"):
        return ""
    return "; it seems to be JSON: SESSION.ATTRIBUTE SET input_type json"


def read_document(data: bytes, form: Format) -> dict[str, Any]:
    """A document to be inserted, its `_id` an ObjectId if it is 24 hex digits. An ErrorReply if it cannot be read."""
    try:
        found = _read_bson(data) if form == "bson" else read_json(data)
    except (BSONError, ValueError, RecursionError, WormError) as error:
        raise ErrorReply(f"Invalid {form.upper()} document: {error}{_hint(data, form)}") from error
    if not isinstance(found, dict):
        raise ErrorReply(f"Invalid {form.upper()} document: it must be an object")
    identity = found.get("_id")
    if isinstance(identity, str) and _HEX.fullmatch(identity):
        found["_id"] = ObjectId(identity)
    return found


# --- A text of 24 hex digits in a filter may mean an ObjectId, which JSON replies show so, or a text: both are tried.

_ORDERS: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})


def _both(value: Any) -> list[Any]:
    return [ObjectId(value), value] if isinstance(value, str) and _HEX.fullmatch(value) else [value]


def _with_objectids(tree: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if name in ("$and", "$or", "$nor") and isinstance(value, list):
            found[name] = [_with_objectids(each) if isinstance(each, dict) else each for each in value]
        elif name.startswith("$"):
            found[name] = _with_objectids(value) if isinstance(value, dict) else value
        else:
            found[name] = _condition(value, is_id=name == "_id")
    return found


def _condition(value: Any, *, is_id: bool) -> Any:
    if isinstance(value, dict):
        return _operators(value, is_id=is_id)
    both = _both(value)
    return value if len(both) == 1 else both[0] if is_id else {"$in": both}


def _operators(tree: dict[str, Any], *, is_id: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        both = _both(value)
        if name in ("$in", "$nin") and isinstance(value, list):
            found[name] = [one for each in value for one in _both(each)]
        elif name == "$eq" and len(both) > 1:
            found["$in"] = both
        elif name == "$ne" and len(both) > 1:
            found["$nin"] = both
        elif name in _ORDERS and len(both) > 1 and is_id:
            found[name] = both[0]
        elif name in ("$not", "$elemMatch") and isinstance(value, dict):
            is_plain = all(key.startswith("$") for key in value)
            found[name] = _operators(value, is_id=is_id) if is_plain else _with_objectids(value)
        else:
            found[name] = value
    return found


# --- out ---

_OID: Final = b'{"id":{"$oid":"'
_ID: Final = b'{"id":'
_OID_BYTES: Final = len(_OID)


def show_rows(rows: Iterable[bytes], form: Format) -> list[bytes]:
    """Documents as a reply has them, of rows as `Collection.cursor` gives them with `raw`: JSON with `id`."""
    if form == "json":
        return [_json_row(row) for row in rows]
    return [bson.encode(_stored(json.decode_document(row, name="row"))) for row in rows]


def _json_row(row: bytes) -> bytes:
    if row.startswith(_OID):
        return b'{"_id":"%b%b' % (row[_OID_BYTES : _OID_BYTES + 25], row[_OID_BYTES + 26 :])
    if row.startswith(_ID):
        return b'{"_id":' + row[len(_ID) :]
    if b'"id"' not in row:
        return row
    values = _stored(json.decode_document(row, name="row"))
    if isinstance(values.get("_id"), ObjectId):
        values["_id"] = str(values["_id"])
    return json.encode(values)


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    return {("_id" if name == "id" else name): value for name, value in values.items()}


def show_ids(ids: Iterable[Any], form: Literal["bytes", "hex"]) -> list[bytes | str]:
    """Ids as a reply has them: ObjectIds as 12 bytes or hex digits, texts as they are, others as JSON."""
    return [_shown_id(each, form) for each in ids]


def _shown_id(identity: Any, form: Literal["bytes", "hex"]) -> bytes | str:
    if isinstance(identity, ObjectId):
        return identity.binary if form == "bytes" else str(identity)
    return identity if isinstance(identity, str) else json.encode(identity)


def written_filter(tree: Mapping[str, Any]) -> bytes:
    """A filter as JSON, for lists of cursors."""
    from wormdb.format.values import normalize

    try:
        return json.encode(_plain(tree, normalize))
    except WormError:
        return b"{}"


def _plain(value: Any, normalize: Any) -> Any:
    """Values of a filter in plain types; names of operators are no names of fields, so they are gone through here."""
    if isinstance(value, dict):
        return {name: _plain(each, normalize) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, normalize) for each in value]
    return normalize(value)
