"""What Spark's filters say about keys: ranges and points outside of which no row can meet them.

They only leave things out: Spark gets every filter back and applies it to the rows. So a range may be wider than its
filter, and never narrower. Where the two orders differ, Spark's counts: for Spark NaN is the greatest number, among
keys it is the least.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource as given

from wormdb.engine.tree.entries import Range
from wormdb.errors import InvalidRequestError
from wormdb.format.key import encode_key
from wormdb.format.kinds import ObjectId
from wormdb.format.values import normalize
from wormdb.jobs.row_filter import RowBounds, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from wormdb.spark.types import ColumnShape, SparkColumn

__all__ = ["narrowing_of"]

_PRESENT: Final = Range(encode_key(None) + b"\0")
_COMPARED: Final = (given.GreaterThan, given.GreaterThanOrEqual, given.LessThan, given.LessThanOrEqual)


def narrowing_of(filters: Iterable[given.Filter], columns: Sequence[SparkColumn]) -> RowBounds:
    """What filters on columns of a source say together. No requests."""
    shapes = {column.name: (column.path, column.shape) for column in columns}
    found = RowBounds()
    nan_paths: set[str] = set()
    for one in filters:
        attribute = getattr(one, "attribute", None)
        target = None if attribute is None else _target(attribute, shapes)
        if target is None:
            continue
        path, shape = target
        keys = _points(one, shape)
        span = _span(one, shape) if keys is None else _hull(keys)
        if keys is not None:
            found.points[path] = found.points.get(path, keys) & keys
        if span is not None:
            found.ranges[path] = overlap(found.ranges.get(path, Range()), span)
            if shape.kind in ("double", "float") and isinstance(one, _COMPARED[:2]):
                nan_paths.add(path)
    return RowBounds(found.ranges, found.points, frozenset(nan_paths))


def _target(attribute: tuple[str, ...], shapes: dict[str, tuple[str, ColumnShape]]) -> tuple[str, ColumnShape] | None:
    """The path of a column, or of a field of a struct, and what is there."""
    path, shape = shapes.get(attribute[0], (None, None))
    if path is None or shape is None or path.startswith("$"):
        return None
    for name in attribute[1:]:
        inner = dict(shape.fields).get(name)
        if inner is None or shape.kind != "struct":
            return None
        path, shape = f"{path}.{name}", inner
    return path, shape


def _points(one: given.Filter, shape: ColumnShape) -> frozenset[bytes] | None:
    """The keys of equality; None for other filters, and for values without keys."""
    if isinstance(one, given.EqualTo | given.EqualNullSafe) and one.value is not None:
        values: Sequence[Any] = [one.value]
    elif isinstance(one, given.In):
        values = [value for value in one.value if value is not None]  # null is equal to nothing
    else:
        return None
    keys = [_key(value, shape) for value in values]
    return None if None in keys else frozenset(key for key in keys if key is not None)


def _span(one: given.Filter, shape: ColumnShape) -> Range | None:
    if isinstance(one, given.IsNotNull):
        return _PRESENT
    if isinstance(one, given.StringStartsWith) and shape.kind == "string":
        return Range.prefix(encode_key(one.value)[:-1])
    # Keys of binary values order the shorter first, as MongoDB does; Spark compares byte by byte.
    if not isinstance(one, _COMPARED) or shape.kind in ("objectid", "binary"):
        return None
    key = _key(one.value, shape)
    if key is None:
        return None
    bracket = Range.prefix(key[:1])
    # A time has more digits in Spark than here, so the millisecond it lies in belongs to both sides.
    is_open = isinstance(one, given.GreaterThan | given.LessThan) and shape.kind != "date"
    if isinstance(one, given.GreaterThan | given.GreaterThanOrEqual):
        return Range(key + b"\0" if is_open else key, bracket.high)
    return Range(bracket.low, key if is_open else key + b"\0")


def _key(value: Any, shape: ColumnShape) -> bytes | None:
    """The key of the value in documents that Spark shows as `value`; None if that cannot be told."""
    make = _VALUES.get(shape.kind)
    if make is None:
        return None
    try:
        return encode_key(normalize(make(value)))
    except (InvalidRequestError, ValueError, TypeError, ArithmeticError):
        return None


def _hull(keys: frozenset[bytes]) -> Range:
    return Range(min(keys), max(keys) + b"\0") if keys else Range(b"", b"")


def _only(python: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not python:
            raise TypeError
        return value

    return check


def _object_id(value: Any) -> ObjectId:
    if not ObjectId.is_valid(value) or value != value.lower():
        raise ValueError
    return ObjectId(value)


def _date(value: Any) -> datetime:
    if value.tzinfo is None:
        raise ValueError
    moment: datetime = value.replace(microsecond=value.microsecond // 1000 * 1000)
    return moment


_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _only(str),
    "bool": _only(bool),
    "binary": bytes,
    "date": _date,
    "objectid": _object_id,
    "decimal": Decimal,
    "double": _only(float),
    "float": _only(float),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), _only(int)),
}
