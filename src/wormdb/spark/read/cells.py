"""Columns of portions as the Arrow arrays that Spark wants: by a cast where that is enough, else value by value."""

from __future__ import annotations

import struct
from datetime import datetime
from decimal import Context, Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.columns import follow_path
from wormdb.engine.blocks.portion import DOCUMENT, VERSION, VERSION_TYPES, Portion, elsewhere_rows
from wormdb.format.json import decode_document, encode
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128, ObjectId
from wormdb.format.path import TRAVERSED, parse_path
from wormdb.spark.types import SCORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.spark.types import ColumnShape, SparkColumn

__all__ = ["NO_SCORES", "batches", "names_of"]

NO_SCORES: Final[Mapping[bytes, float]] = MappingProxyType({})
"""Of rows that were not ranked."""

BATCH_ROWS: Final = 65_536
BATCH_DOCUMENTS: Final = 16_384
"""With whole documents batches are shorter: the JVM holds several of them at once."""

_REVISION: Final = next(iter(VERSION_TYPES))
_STORED_AS: Final = frozenset({"string", "int64", "double", "bool", "date", "binary", "json"})
"""Kinds whose columns in blocks need no more than a cast."""
_EXACT: Final = Context(prec=2_000)
_INT_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def names_of(columns: Sequence[SparkColumn]) -> list[str]:
    """What a scan must be asked for. No requests."""
    paths = dict.fromkeys(column.path for column in columns)
    if SCORE in paths:
        del paths[SCORE]
        paths["_id"] = None
    return list(paths) or ["_id"]


def batches(
    portions: Iterator[Portion],
    columns: Sequence[SparkColumn],
    schema: pa.Schema,
    scores: Mapping[bytes, float] = NO_SCORES,
) -> Iterator[pa.RecordBatch]:
    """The rows of portions as batches of a schema, whose fields are `columns` in order. No requests of its own.

    `scores` has those of the ids, by their keys, if one of the columns shows them.
    """
    import pyarrow as pa

    rows_max = BATCH_DOCUMENTS if any(column.path == DOCUMENT for column in columns) else BATCH_ROWS
    for portion in portions:
        for start in range(0, portion.rows, rows_max):
            part = portion.slice(start, min(start + rows_max, portion.rows))
            if not columns:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * part.rows, pa.struct([])))
                continue
            arrays = [
                _scores(part, scores) if column.path == SCORE else _array(part, column, field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _scores(portion: Portion, scores: Mapping[bytes, float]) -> pa.Array:
    import pyarrow as pa

    return pa.array([scores[encode_key(value)] for value in portion.values("_id")], pa.float64())


def _array(portion: Portion, column: SparkColumn, target: Any) -> pa.Array:
    if column.path == DOCUMENT:
        return _joined(portion.table.column(DOCUMENT).cast(target))
    if column.path == VERSION:
        return _joined(portion.table.column(_REVISION).cast(target))
    stored = _stored(portion, column, target)
    return _built(portion, column, target) if stored is None else stored


def _stored(portion: Portion, column: SparkColumn, target: Any) -> pa.Array | None:
    """The array as it is stored, or None if it is not of that kind, or a cell elsewhere would stand in it."""
    import pyarrow as pa

    cells = portion.table.column(column.path)
    stored, shape = portion.types[column.path], column.shape
    rows = elsewhere_rows(portion.kinds(column.path))
    if rows and any(cell is not None for cell in map(_converter(shape), _exact(portion, column.path, rows))):
        return None
    if cells.null_count == len(cells):
        return pa.nulls(len(cells), target)
    if not _is_stored_as(stored, shape):
        return None
    try:
        return _joined(cells.cast(target))
    except pa.ArrowInvalid:  # a decimal that does not fit: the others do
        return None


def _is_stored_as(stored: str, shape: ColumnShape) -> bool:
    if shape.kind == "list":
        assert shape.of is not None
        return shape.of.kind in _STORED_AS - {"json"} and stored == f"list<{shape.of.kind}>"
    return stored == shape.kind and (shape.kind in _STORED_AS or shape.kind == "decimal")


def _joined(cells: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    joined = cells.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):  # as older versions give for one chunk or none
        return pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], cells.type)
    return joined


def _built(portion: Portion, column: SparkColumn, target: Any) -> pa.Array:
    import pyarrow as pa

    values = portion.stored(column.path)
    rows = elsewhere_rows(portion.kinds(column.path))
    for row, value in zip(rows, _exact(portion, column.path, rows) if rows else (), strict=True):
        values[row] = value
    return pa.array(map(_converter(column.shape), values), target, size=len(values))


def _exact(portion: Portion, path: str, rows: Sequence[int]) -> list[Any]:
    """The values of cells that are elsewhere; of a path that crosses arrays, an array of what it meets."""
    parsed = parse_path(path)
    found = zip(portion.elsewhere(path, rows), portion.documents(rows), strict=True)
    return [
        follow_path(decode_document(body, name="document"), parsed) if value is TRAVERSED else value
        for value, body in found
    ]


# --- values ---


def _converter(shape: ColumnShape) -> Callable[[Any], Any]:
    """What a value is in a column of a shape; None for null, missing, and what does not stand in it."""
    make = _maker(shape)
    return lambda value: None if value is None or value is MISSING else make(value)


def _maker(shape: ColumnShape) -> Callable[[Any], Any]:
    match shape.kind:
        case "struct":
            fields = [(name, _converter(inner)) for name, inner in shape.fields]
            return lambda value: (
                {name: convert(value.get(name)) for name, convert in fields} if type(value) is dict else None
            )
        case "list" | "map":
            assert shape.of is not None
            convert = _converter(shape.of)
            if shape.kind == "list":
                return lambda value: [convert(item) for item in value] if type(value) is list else None
            return lambda value: (
                [(name, convert(item)) for name, item in value.items()] if type(value) is dict else None
            )
        case "decimal":
            return lambda value: _decimal(value, shape.precision, shape.scale)
        case kind if kind in _INT_BITS:
            limit = 1 << (_INT_BITS[kind] - 1)
            return lambda value: _integer(value, limit)
        case kind:
            return _MAKERS[kind]


def _of(python: type) -> Callable[[Any], Any]:
    return lambda value: value if type(value) is python else None


def _integer(value: Any, limit: int) -> int | None:
    number = _number(value)
    if number is None or number != number.to_integral_value(context=_EXACT):
        return None
    whole = int(number)
    return whole if -limit <= whole < limit else None


def _double(value: Any) -> float | None:
    if type(value) is float:
        return value
    number = _number(value)
    if number is None:
        return None
    double = float(number)
    return double if Decimal.from_float(double) == number else None  # noqa: FURB164 - exact


def _single(value: Any) -> float | None:
    double = _double(value)
    if double is None or double != double:  # noqa: PLR0124 - NaN is itself in any width
        return double
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", double))
    except OverflowError:
        return None
    return double if single == double else None


def _decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    number = _number(value)
    if number is None or (number and number.adjusted() >= precision - scale):
        return None
    fitted = _EXACT.quantize(number, Decimal((0, (1,), -scale)))
    return fitted if fitted == number else None


def _number(value: Any) -> Decimal | None:
    """A finite number, exactly."""
    if type(value) is int:
        return Decimal(value)
    if type(value) is float:
        number = Decimal.from_float(value)  # noqa: FURB164 - exact
    elif type(value) is Decimal128:
        number = value.to_decimal()
    else:
        return None
    return number if number.is_finite() else None


_MAKERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _of(str),
    "bool": _of(bool),
    "date": _of(datetime),
    "binary": _of(bytes),
    "objectid": lambda value: str(value) if type(value) is ObjectId else None,
    "json": lambda value: encode(value).decode(),
    "double": _double,
    "float": _single,
}
