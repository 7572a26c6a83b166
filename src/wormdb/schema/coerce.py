"""Values of declared fields: does one fit its type, and in which form is it stored?

One table of types. What JSON cannot write is also taken as text where that is exact: ISO dates,
decimals, ObjectIds. Everything else is taken or refused as it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING
from wormdb.format.values import Binary, Decimal128, ObjectId, equal, normalize
from wormdb.schema.report import join_path
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.schema.model import Field
    from wormdb.schema.report import ProblemReport

__all__ = ["coerce", "coerce_fields", "parse_datetime"]


class _MisfitError(Exception):
    """The value has another type; the argument is the fix."""


def coerce(field: Field, value: Any, path: str, report: ProblemReport) -> Any:
    """A normalized value in the form in which the field stores it; what does not fit is reported.

    null fits every type: `required` is checked by whoever holds the document.
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
    """The moment of an ISO 8601 text, as stored: UTC, milliseconds; None if it is none.

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
