"""Documents against their model: defaults, ids, types. No I/O.

Fields that no model declares are kept. `id` and `_id` are the same field, stored as `_id`, first in the
document; createdAt and updatedAt are dates without being declared.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, ValidationError
from wormdb.format.bson_types import bson_type_of, takes_value
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, parse_path, walk, within
from wormdb.format.values import Binary, Decimal128, ObjectId, equal, normalize, normalize_document
from wormdb.schema.identity import id_problem, new_id
from wormdb.schema.model import Field, Model
from wormdb.schema.path import SINGLETON_ID
from wormdb.schema.problems import ProblemReport, join_path
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wormdb.system.clock import Chance, Clock

__all__ = [
    "check_indexed",
    "coerce",
    "coerce_fields",
    "default_values",
    "has_types",
    "new_document",
    "parse_datetime",
    "validate",
]


# --- Values of declared fields: does one fit its type, and in which form is it stored?
#
# One table of types. What JSON cannot write is also taken as text where that is exact: ISO dates,
# decimals, ObjectIds. Everything else is taken or refused as it is.


class _MisfitError(Exception):
    """The value has another type; the argument is the fix."""


def coerce(field: Field, value: Any, path: str, report: ProblemReport) -> Any:
    """A normalized value in the form in which the field stores it; what does not fit is reported.

    null fits every type: `required` is checked by the caller, which has the document.
    """
    if value is None:
        return None
    try:
        value = _TYPES[field.type](value)
    except _MisfitError as misfit:
        report.error(path, f"expected {field.type}, got {_kind(value)} {_short(value)}", str(misfit))
        return value
    if field.enum is not None and not any(_same(value, choice) for choice in field.enum):
        allowed = ", ".join(_short(choice) for choice in field.enum[:12])
        report.error(path, f"{_short(value)} is not allowed", f"use one of {allowed}")
    if isinstance(value, list) and field.items is not None:
        if _is_kept(field.items, value):
            return value
        return [coerce(field.items, item, join_path(path, place), report) for place, item in enumerate(value)]
    if isinstance(value, dict) and field.properties:
        return coerce_fields(field.properties, value, path, report)
    return value


def coerce_fields(
    fields: Mapping[str, Field], values: dict[str, Any], path: str, report: ProblemReport
) -> dict[str, Any]:
    """`coerce` for every declared field of an object; missing or null required ones are reported.

    A required one that is missing gets its default, if it has one: documents of an older model may lack it.
    """
    for name, field in fields.items():
        if field.required and values.get(name) is None:
            if name not in values and field.default is not MISSING:
                values = {**values, name: normalize(field.default)}
                continue
            reason = "is null, but required" if name in values else "is required, but missing"
            report.error(join_path(path, name), reason, f"give it a value of type {field.type}")
    checked = {}
    for name, value in values.items():
        declared = fields.get(name)
        # Most values are of their type as they are: no path is made for them.
        if declared is None or (type(value) is _EXACT.get(declared.type) and declared.enum is None):
            checked[name] = value
        else:
            checked[name] = coerce(declared, value, join_path(path, name), report)
    return checked


def _is_kept(field: Field, values: list[Any]) -> bool:
    """Whether all values are of the field's type as they are, and nothing more is asked of them."""
    return field.enum is None and {_EXACT.get(field.type)}.issuperset(map(type, values))


def parse_datetime(text: str) -> datetime | None:
    """The moment of an ISO 8601 text, as stored: UTC, milliseconds; None for other text.

    Text without a zone is of UTC, as files of data have it; a datetime without one is refused by `normalize`, because
    programs mean the time of their place by it.
    """
    try:
        written = datetime.fromisoformat(text)
        moment = normalize(written.replace(tzinfo=UTC) if written.tzinfo is None else written)
    except (ValueError, InvalidRequestError):
        return None
    assert isinstance(moment, datetime)
    return moment


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _MisfitError(f"use {str(value)!r}" if isinstance(value, int | float) else "use text")


def _number(value: Any) -> Any:
    if isinstance(value, int | float | Decimal128) and not isinstance(value, bool):
        return value
    raise _MisfitError("use a number")


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and INT_MIN <= value < INT_MAX:
        return int(value)
    raise _MisfitError("use a whole number of 64 bits")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _MisfitError("use true or false")


def _datetime(value: Any) -> datetime:
    moment = parse_datetime(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        return moment
    raise _MisfitError("use a datetime or ISO text such as 2026-02-24T14:30:00.000Z")


def _array(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise _MisfitError("use a list")


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise _MisfitError("use an object")


def _decimal(value: Any) -> Decimal128:
    if isinstance(value, Decimal128):
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return Decimal128(Decimal(value))
        except DecimalException:
            pass
    raise _MisfitError("use Decimal, or its digits as text; a float is not exact")


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes | Binary):
        return value
    raise _MisfitError("use bytes")


def _objectid(value: Any) -> ObjectId:
    if isinstance(value, ObjectId):
        return value
    if isinstance(value, str) and ObjectId.is_valid(value):
        return ObjectId(value)
    raise _MisfitError("use an ObjectId or its 24 hex digits")


_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "datetime": _datetime,
    "array": _array,
    "object": _object,
    "any": lambda value: value,
    "decimal": _decimal,
    "binary": _binary,
    "objectid": _objectid,
}

_EXACT: Final[Mapping[str, type]] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "datetime": datetime,
}
"""Of types that hold no others, what a value is if it is stored as it is."""

_KINDS: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    bytes: "binary",
    Decimal128: "decimal",
    ObjectId: "objectid",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _same(value: Any, choice: Any) -> bool:
    if type(value) in {int, float} and type(choice) in {int, float}:
        return bool(value == choice)
    return equal(value, choice)


# --- The types that a model's indexes name: what documents may hold in the fields of each. No I/O.


def has_types(model: Model | None) -> bool:
    """Whether an index of a model says which types its fields may have. No requests."""
    return model is not None and any(index.bson_type for index in model.indexes.values())


def check_indexed(model: Model, document: Document, report: ProblemReport) -> None:
    """Report the values of a normalized document that have another type than `bsonType` of an index says.

    Elements of arrays count, as in the index; null and missing fit every type. No requests.
    """
    for index in model.indexes.values():
        for field, name in zip(index.fields, index.bson_type, strict=False):
            takes = takes_value(bson_type_of(name) or name)
            wrong = next((value for value in _values(document, parse_path(field)) if not takes(value)), MISSING)
            if wrong is not MISSING:
                report.error(field, f"{wrong!r:.80} is not of the type {name}", "write a value of that type")


def _values(value: Any, path: Path | None) -> Iterator[Any]:
    """What an index has of a value: elements of arrays, None where nothing is."""
    reached, rest = walk(value, path)
    if rest is None:
        yield None if reached is MISSING else reached
        return
    for position, element in enumerate(reached):
        for place in within(element, position, rest):
            yield from _values(*place)


_TIMESTAMPS: Final = ("createdAt", "updatedAt")
_TIMESTAMP: Final = Field("datetime")
_IDS: Final = frozenset({"_id", "id"})
_ID_FIXES: Final = {
    "given": "give it: ids of this model are not made",
    "seq": "it is the next number of the collection, made when it is saved",
}


def new_document(model: Model, data: Mapping[str, Any], *, clock: Clock, chance: Chance) -> Document:
    """A document ready to be saved: defaults applied, id made, normalized and validated.

    Has no `_id` where `data` gives none and the strategy is seq (the commit numbers it) or given
    (the caller has to). Raises ValidationError listing every field that does not fit, and
    InvalidRequestError for values that cannot be stored. No requests.
    """
    document = _with_id_first(model, normalize_document(data))
    if "_id" not in document:
        made = new_id(model.id, clock=clock, chance=chance)
        document = document if made is None else {"_id": made, **document}
    return _validated(model, _with_defaults(model.fields, document), need_id=False)


def validate(model: Model, document: Mapping[str, Any]) -> Document:
    """The document as it is stored: a fresh copy with every declared value in its type.

    Raises ValidationError listing every field that does not fit, with its dotted path, the reason
    and the fix, a missing id included; InvalidRequestError for values that cannot be stored. No requests.
    """
    return _validated(model, _with_id_first(model, normalize_document(document)), need_id=True)


def default_values(fields: Mapping[str, Field]) -> Document:
    """What a document has that gives none of these fields; raises ValidationError if it must. No requests."""
    report = ProblemReport()
    values = coerce_fields(fields, _with_defaults(fields, {}), "", report)
    if report.errors:
        raise ValidationError("this document", problems=report.errors)
    return values


def _validated(model: Model, document: Document, *, need_id: bool) -> Document:
    report = ProblemReport()
    if "_id" in document:
        problem = id_problem(model, document["_id"])
        if problem is not None:
            report.error(problem.path, problem.reason, problem.fix)
    elif need_id:
        report.error("_id", "is missing", _ID_FIXES.get(model.id, "make the document with create(…)"))
    fields = model.fields
    if not _IDS.isdisjoint(fields):
        fields = {name: field for name, field in fields.items() if name not in _IDS}
    checked = coerce_fields(fields, document, "", report)
    for name in _TIMESTAMPS:
        if name in checked and name not in fields:
            checked[name] = coerce(_TIMESTAMP, checked[name], name, report)
    check_indexed(model, checked, report)
    if report.errors:
        raise ValidationError(f"the document does not fit the model {model.name}", problems=report.errors)
    return checked


def _with_id_first(model: Model, document: Document) -> Document:
    """`id` becomes `_id`; raises ValidationError for one that is null or empty."""
    given = [document.pop(name) for name in ("_id", "id") if name in document]
    if any(value is None or value == "" for value in given):
        report = ProblemReport()
        report.error("_id", "must not be null or empty", "leave it out where ids are made, or give one")
        raise ValidationError(f"the document does not fit the model {model.name}", problems=report.errors)
    if model.is_singleton:
        if any(value != SINGLETON_ID for value in given):
            report = ProblemReport()
            report.error(
                "_id", f"{given[0]!r:.60} is another id than {SINGLETON_ID!r}, which it always has", "leave it out"
            )
            raise ValidationError(f"the document does not fit the model {model.name}", problems=report.errors)
        return {"_id": SINGLETON_ID, **document}
    if len(given) == 2 and not equal(given[0], given[1]):
        report = ProblemReport()
        report.error(
            "_id", f"{given[0]!r} differs from id {given[1]!r}: both are the document's id", "give one of them"
        )
        raise ValidationError(f"the document does not fit the model {model.name}", problems=report.errors)
    return {"_id": given[0], **document} if given else document


def _with_defaults(fields: Mapping[str, Field], values: Document) -> Document:
    """Missing fields get their default; inside objects and arrays too, where these are given."""
    for name, field in fields.items():
        if field.default is not MISSING and name not in values and name not in _IDS:
            values[name] = normalize(field.default)
        if field.properties or field.items is not None:
            _fill(field, values.get(name))
    return values


def _fill(field: Field, value: Any) -> None:
    if isinstance(value, dict):
        _with_defaults(field.properties, value)
    elif isinstance(value, list) and field.items is not None and (field.items.properties or field.items.items):
        for item in value:
            _fill(field.items, item)
