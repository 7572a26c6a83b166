"""Values as readable files write them: extended JSON, but dates that a model declares are plain ISO text.

Documents go from stored JSON to the JSON of files without becoming documents in between: only dates are changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Context, Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from wormdb.errors import CorruptionError, LimitExceededError, WormError
from wormdb.format import json
from wormdb.format.frame import corrupt
from wormdb.format.kinds import Decimal128, Document
from wormdb.schema.model import Field, Model
from wormdb.schema.problems import ProblemReport
from wormdb.schema.validate import coerce, parse_datetime
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = [
    "STAMPS",
    "fault_text",
    "indent",
    "iso_text",
    "normalize_number",
    "plain_document",
    "plain_fields",
    "plain_value",
    "read_member",
    "read_object",
    "read_shape",
    "read_values",
    "to_canonical",
    "value_text",
    "values_text",
]

T = TypeVar("T")

STAMPS: Final[tuple[str, ...]] = ("createdAt", "updatedAt")
"""Dates that every document of a model has without declaring them."""
_STAMP: Final = Field(type="datetime")
_BOM: Final = b"\xef\xbb\xbf"
_DATE: Final = b'"$date"'
_ISO_LENGTH: Final = len("2026-02-24T12:00:00.000Z")
_sorted: Final = msgspec.json.Encoder(order="sorted")
_tree: Final = msgspec.json.Decoder(dict[str, Any])


def fault_text(error: WormError) -> str:
    """Why a file cannot be used, in the words of the error that reading it gave. No requests."""
    if isinstance(error, LimitExceededError) and error.reason:
        return f"{error.what}: {error.reason}"  # the reason is only which limit it is
    return error.reason or error.what


# --- writing ---


def iso_text(ts: datetime) -> str:
    """A moment as files write it: UTC, milliseconds, Z."""
    return f"{ts.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def indent(value: Mapping[str, Any]) -> bytes:
    """JSON for people: indented by two, with a line end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def to_canonical(value: Any) -> bytes:
    """JSON with sorted names and without spaces, in UTF-8: the bytes that checksums are over."""
    return _sorted.encode(value)


def plain_document(document: bytes, model: Model | None) -> dict[str, Any]:
    """A stored document as files show it, as values that JSON has: its id called `id`, and in first place."""
    values = _tree.decode(document)
    identity = values.pop("_id")
    return {"id": identity, **_plain_dates(values, document, model)}


def plain_fields(document: bytes, names: Sequence[str], model: Model | None) -> dict[str, Any]:
    """The part of a stored document that some dotted names reach, as files show it: a row of a manifest. No requests.

    It is cut out of the document, so that any question about these names has the same answer: what is absent stays
    absent, and an array or another value on the way to a name is kept whole.
    """
    values = _plain_dates(_tree.decode(document), document, model)
    row: dict[str, Any] = {}
    for name in names:
        _cut(values, row, name.split("."))
    return row


def _cut(values: dict[str, Any], row: dict[str, Any], path: list[str]) -> None:
    name, *below = path
    if name not in values:
        return
    value = values[name]
    # A part that is in the row whole already holds everything below it.
    if not below or type(value) is not dict or _is_form(value):
        row[name] = value
    elif row.get(name) is not value:
        part = row.setdefault(name, {})
        _cut(value, part, below)


def _is_form(value: dict[str, Any]) -> bool:
    return any(name.startswith("$") for name in value)


def _plain_dates(values: dict[str, Any], document: bytes, model: Model | None) -> dict[str, Any]:
    if model is None or _DATE not in document:
        return values
    for name in STAMPS:
        if name in values:
            values[name] = _plain(values[name], _STAMP)
    for name, field in model.fields.items():
        if name in values:
            values[name] = _plain(values[name], field)
    return values


def plain_value(name: str, value: bytes | None, model: Model | None) -> Any:
    """The value of a top-level field, given as stored JSON, as files show it; None is null."""
    if value is None:
        return None
    tree = msgspec.json.decode(value)
    field = None if model is None else _STAMP if name in STAMPS else model.fields.get(name)
    return tree if field is None or _DATE not in value else _plain(tree, field)


def _plain(value: Any, field: Field) -> Any:
    if type(value) is dict:
        if field.type == "datetime" and "$date" in value:
            return _iso(value)
        for name, declared in field.properties.items():
            if name in value:
                value[name] = _plain(value[name], declared)
    elif type(value) is list and field.items is not None:
        return [_plain(item, field.items) for item in value]
    return value


def _iso(value: dict[str, Any]) -> str:
    """The text of a stored date."""
    text = value["$date"]
    if type(text) is str and len(value) == 1 and text.endswith("Z"):
        if len(text) == _ISO_LENGTH:
            return text
        if len(text) == _ISO_LENGTH - 4:
            return f"{text[:-1]}.000Z"
    return iso_text(json.decode(msgspec.json.encode(value), name="document"))


# --- reading ---


def read_object(body: bytes, *, key: str) -> Document:
    """The JSON object in a file, extended forms read; raises CorruptionError naming the key. No requests."""
    return json.decode_document(body.removeprefix(_BOM), name=key)


def read_shape(decoder: msgspec.json.Decoder[T], body: bytes, *, key: str, what: str) -> T:
    """What a file says, in the shape of a decoder; raises CorruptionError naming the key and what it is not."""
    try:
        return decoder.decode(body.removeprefix(_BOM))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        corrupt(key, f"{what}: {error}")


def read_values(values: Document, model: Model | None) -> Document:
    """Values of a file in the types that a model declares; what does not fit a type stays as it is. No requests."""
    if model is None:
        return values
    made = {}
    for name, value in values.items():
        field = model.fields.get(name)
        if field is None and name in STAMPS and type(value) is str:
            made[name] = parse_datetime(value) or value
        else:
            made[name] = value if field is None else coerce(field, value, name, ProblemReport())
    return made


def read_member(values: Mapping[str, Any], name: str, kind: type | tuple[type, ...], *, key: str) -> Any:
    """A member of a file that must be of a type; None if it is absent or null. Raises CorruptionError. No requests."""
    value = values.get(name)
    if value is None or (isinstance(value, kind) and not (type(value) is bool and kind is not bool)):
        return value
    raise CorruptionError(f"{key} is damaged", reason=f"its {name} is {value!r}", key=key)


# --- One form for numbers that are equal, whatever their type: integer before double before decimal.

_ALL_DIGITS: Final = Context(prec=34, Emin=-6143, Emax=6144)
"""The precision of a Decimal128: no digit is rounded away."""


def normalize_number(value: Any) -> Any:
    """A number in the first of the three types that has it exactly; any other value as it is. No requests."""
    if type(value) is float:
        # No double is the largest integer: the next one is, and it does not fit.
        return int(value) if value.is_integer() and INT_MIN <= value < INT_MAX else value
    return _of_decimal(value) if type(value) is Decimal128 else value


def _of_decimal(value: Decimal128) -> Any:
    exact = value.to_decimal()
    if not exact.is_finite():
        return float(exact)
    if INT_MIN <= exact <= INT_MAX and exact == exact.to_integral_value():
        return int(exact)
    nearest = float(exact)
    if isfinite(nearest) and Decimal(nearest) == exact:
        return nearest
    return Decimal128(exact.normalize(_ALL_DIGITS))


# --- Values as the names of an index file's entries: text that people read, equal exactly for equal values.
#
# Text is itself, unless it could be taken for another value: then it is written with quotes. Everything else is compact
# extended JSON. Numbers that are equal have one text whatever their type, as they have one key in an index.

_BEGINS: Final = frozenset('"[{-0123456789tfn')


def value_text(value: Any, *, plain_dates: bool = False) -> str:
    """The text of a normalized value; `plain_dates` if the field is declared a date. No requests."""
    if type(value) is datetime and plain_dates:
        return iso_text(value)
    if type(value) is str:
        return json.encode(value).decode() if _is_json(value) else value
    return json.encode(_comparable(value)).decode()


def values_text(values: Sequence[Any], plain_dates: Sequence[bool]) -> str:
    """The text of the values of several fields, in order: an array of JSON. No requests."""
    parts = [
        iso_text(value) if type(value) is datetime and plain else _comparable(value)
        for value, plain in zip(values, plain_dates, strict=True)
    ]
    return json.encode(parts).decode()


def _is_json(text: str) -> bool:
    """Whether text could be taken for the JSON of another value."""
    if text[:1] not in _BEGINS:
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _comparable(value: Any) -> Any:
    """A value with every number in one form."""
    if type(value) is dict:
        return {name: _comparable(item) for name, item in value.items()}
    if type(value) is list:
        return [_comparable(item) for item in value]
    return normalize_number(value)
