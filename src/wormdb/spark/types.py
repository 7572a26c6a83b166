"""What columns can be: Spark's types, and what a value must be to stand in one.

A value stands in a column if it is exactly one of its type; numbers may be of another numeric type if nothing of
them is lost. Any other value is null there, and so are null and missing: `_doc` has the whole document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from wormdb.engine.state.definition import COLUMN_TYPES_OF
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from wormdb.schema.model import Field

__all__ = [
    "JSON",
    "KIND_METADATA",
    "SCORE",
    "ColumnShape",
    "SparkColumn",
    "arrow_schema",
    "shape_of_field",
    "shape_of_type",
    "spark_field",
]

KIND_METADATA: Final = "wormdb"
"""Among the metadata of a column of text: which kind of values it stands for."""

SCORE: Final = "$score"
"""The path of a score, which is in no document."""

DECIMAL_DIGITS: Final = 38
DECIMAL_SCALE: Final = 18
"""Digits after the point of a declared decimal, as everywhere in Spark where nothing else is said."""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """What a column holds: a kind of values, or how they are put together."""

    kind: str
    """One of `_PLAIN`, or json, objectid (both shown as text), decimal, struct, list, map."""
    fields: tuple[tuple[str, ColumnShape], ...] = ()
    of: ColumnShape | None = None
    precision: int = DECIMAL_DIGITS
    scale: int = DECIMAL_SCALE


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """One column of the table that Spark sees."""

    name: str
    path: str
    """Where it lies in documents; or `_id`, `$doc`, `$version`, `$score`."""
    shape: ColumnShape


JSON: Final = ColumnShape("json")

_PLAIN: Final[dict[str, type[spark.DataType]]] = {
    "string": spark.StringType,
    "json": spark.StringType,
    "objectid": spark.StringType,
    "int8": spark.ByteType,
    "int16": spark.ShortType,
    "int32": spark.IntegerType,
    "int64": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "bool": spark.BooleanType,
    "date": spark.TimestampType,
    "binary": spark.BinaryType,
}
_KINDS: Final = {kind: name for name, kind in reversed(_PLAIN.items())}
_TEXTS: Final = frozenset({"json", "objectid"})


def shape_of_field(field: Field) -> ColumnShape:
    """The shape of a declared field; JSON where the declaration does not tell. No requests."""
    if field.type == "object" and field.properties:
        return ColumnShape("struct", tuple((name, shape_of_field(inner)) for name, inner in field.properties.items()))
    if field.type == "array" and field.items is not None:
        return ColumnShape("list", of=shape_of_field(field.items))
    return ColumnShape(COLUMN_TYPES_OF.get(field.type, "json"))


def shape_of_type(kind: spark.DataType, known: ColumnShape | None, name: str) -> ColumnShape:
    """The shape of a column that is wanted as a type; `known` is what documents are declared to have there.

    Raises InvalidRequestError for a type that no column can have. No requests.
    """
    if isinstance(kind, spark.StructType):
        inner = dict(known.fields) if known is not None else {}
        fields = (
            (field.name, shape_of_type(field.dataType, inner.get(field.name), f"{name}.{field.name}")) for field in kind
        )
        return ColumnShape("struct", tuple(fields))
    if isinstance(kind, spark.ArrayType):
        return ColumnShape("list", of=shape_of_type(kind.elementType, None if known is None else known.of, name))
    if isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        return ColumnShape("map", of=shape_of_type(kind.valueType, None if known is None else known.of, name))
    if isinstance(kind, spark.DecimalType):
        return ColumnShape("decimal", precision=kind.precision, scale=kind.scale)
    if isinstance(kind, spark.StringType):
        return _text(known)
    if type(kind) in _KINDS:
        return ColumnShape(_KINDS[type(kind)])
    raise InvalidRequestError(
        f"column {name} as {kind.simpleString()}",
        reason="no value of a document has that type",
        fix="use string, bigint, double, boolean, timestamp, binary, decimal, struct, array, or map<string, …>",
    )


def _text(known: ColumnShape | None) -> ColumnShape:
    """What a column of text stands for: documents and arrays are shown as JSON, if they are declared."""
    if known is None or known.kind not in {*_TEXTS, "struct", "list", "map"}:
        return ColumnShape("string")
    return known if known.kind in _TEXTS else JSON


def spark_type(shape: ColumnShape) -> spark.DataType:
    """The type that Spark sees. No requests."""
    match shape.kind:
        case "struct":
            return spark.StructType([spark.StructField(name, spark_type(inner)) for name, inner in shape.fields])
        case "list":
            return spark.ArrayType(spark_type(_of(shape)))
        case "map":
            return spark.MapType(spark.StringType(), spark_type(_of(shape)))
        case "decimal":
            return spark.DecimalType(shape.precision, shape.scale)
        case kind:
            return _PLAIN[kind]()


def spark_field(column: SparkColumn) -> spark.StructField:
    """A column as a field of Spark's schema. No requests."""
    metadata = {KIND_METADATA: column.shape.kind} if column.shape.kind in _TEXTS else None
    return spark.StructField(column.name, spark_type(column.shape), metadata=metadata)


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """What batches of a schema must be in Arrow, to the letter. No requests."""
    import pyarrow as pa

    return pa.schema([_arrow_field(field) for field in schema])


def _arrow_field(field: spark.StructField) -> pa.Field:
    import pyarrow as pa

    return pa.field(field.name, _arrow_type(field.dataType), nullable=field.nullable)


def _arrow_type(kind: spark.DataType) -> Any:
    import pyarrow as pa

    if isinstance(kind, spark.StructType):
        return pa.struct([_arrow_field(field) for field in kind])
    if isinstance(kind, spark.ArrayType):
        return pa.list_(pa.field("element", _arrow_type(kind.elementType), nullable=kind.containsNull))
    if isinstance(kind, spark.MapType):
        value = pa.field("value", _arrow_type(kind.valueType), nullable=kind.valueContainsNull)
        return pa.map_(pa.field("key", pa.string(), nullable=False), value)
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _arrow_plain(_KINDS[type(kind)])


def _arrow_plain(kind: str) -> Any:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "date": pa.timestamp("us", tz="UTC"),
        "binary": pa.binary(),
    }[kind]


def _of(shape: ColumnShape) -> ColumnShape:
    assert shape.of is not None
    return shape.of
