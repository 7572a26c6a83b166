"""Collections of documents with values of every kind, and what their rows must be in a table of Spark."""

from __future__ import annotations

import itertools
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from pyspark.sql import types as spark

import wormdb
from wormdb.format.json import encode_document
from wormdb.format.kinds import Decimal128, ObjectId

if TYPE_CHECKING:
    from wormdb import Database

__all__ = ["FIELDS", "OTHERS", "SCHEMA", "VALUES", "database", "expected", "follow", "sorted_rows", "steps"]

_numbers = itertools.count()

DAY = datetime(2024, 5, 17, 12, 30, 0, 123_000, tzinfo=UTC)
VALUES: list[Any] = [
    *(None, 0, 1, -7, 2**40, 2**53 + 1, 2**62),
    *(0.0, -0.0, 1.0, 1.5, 0.1, -2.5, nan, inf, -inf, 1e300),
    *(Decimal128("1"), Decimal128("1.50"), Decimal128("1e-20"), Decimal128("NaN"), Decimal128("123456789012345678901")),
    *("", "a", "ab", "b", "é", "a\0b", "7", "z" * 90),
    *(True, False, DAY, DAY - timedelta(days=9), b"", b"ab", b"b", ObjectId("65f0c0ffee0123456789abcd")),
    *([], [1, 2], ["a", None], [{"x": 1}], {}, {"x": 1}, {"x": "t", "y": [1]}),
]
FIELDS = ("a", "b", "c")

SCHEMA = spark.StructType(
    [
        spark.StructField("id", spark.StringType()),
        spark.StructField("a", spark.LongType()),
        spark.StructField("b", spark.StringType()),
        spark.StructField("c", spark.DoubleType()),
        spark.StructField("c.x", spark.IntegerType()),
        spark.StructField("_doc", spark.StringType()),
        spark.StructField("_rev", spark.LongType()),
    ]
)
OTHERS: list[spark.DataType] = [
    spark.BooleanType(),
    spark.TimestampType(),
    spark.BinaryType(),
    spark.DecimalType(38, 18),
    spark.DecimalType(5, 1),
    spark.FloatType(),
    spark.ByteType(),
    spark.ArrayType(spark.LongType()),
    spark.ArrayType(spark.StringType()),
    spark.MapType(spark.StringType(), spark.LongType()),
    spark.StructType([spark.StructField("x", spark.LongType()), spark.StructField("y", spark.StringType())]),
]


# --- what a value is in a column, said once more and differently ---


def shown(value: Any, kind: spark.DataType) -> Any:
    match kind:
        case spark.StructType():
            is_document = type(value) is dict
            return {f.name: shown(value.get(f.name), f.dataType) for f in kind} if is_document else None
        case spark.ArrayType():
            return [shown(item, kind.elementType) for item in value] if type(value) is list else None
        case spark.MapType():
            return [(k, shown(v, kind.valueType)) for k, v in value.items()] if type(value) is dict else None
        case spark.LongType() | spark.IntegerType() | spark.ByteType():
            bits = {spark.LongType: 64, spark.IntegerType: 32, spark.ByteType: 8}[type(kind)]
            number = exact(value)
            fits = number is not None and number == int(number) and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
            return int(number) if fits and number is not None else None
        case spark.DoubleType() | spark.FloatType():
            if type(value) is float and isinstance(kind, spark.DoubleType):
                return value
            return floating(value, isinstance(kind, spark.FloatType))
        case spark.DecimalType():
            number = exact(value)
            if number is None or abs(number) >= Decimal(10) ** (kind.precision - kind.scale):
                return None
            scaled = number.scaleb(kind.scale)
            return number if scaled == scaled.to_integral_value() else None
        case _:
            python = {
                spark.StringType: str,
                spark.BooleanType: bool,
                spark.TimestampType: datetime,
                spark.BinaryType: bytes,
            }[type(kind)]
            return value if type(value) is python else None


def exact(value: Any) -> Decimal | None:
    if type(value) not in (int, float, Decimal128):
        return None
    number = value.to_decimal() if type(value) is Decimal128 else Decimal(value)
    return number if number.is_finite() else None


def floating(value: Any, is_single: bool) -> float | None:
    if type(value) is float and (isnan(value) or value in (inf, -inf)):
        return value
    number = exact(value)
    if number is None:
        return None
    try:
        made = struct.unpack("f", struct.pack("f", float(number)))[0] if is_single else float(number)
    except OverflowError:
        return None
    return made if Decimal(made) == number else None


def plain(value: Any) -> Any:
    """NaN and the zeros by what they are, so that rows can be compared."""
    if type(value) is float:
        return repr(value)
    if type(value) is Decimal:
        return value.normalize()
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


# --- states ---


identities = st.integers(0, 30).map(lambda number: f"k{number:02}")
documents = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, st.sampled_from(VALUES)))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.dictionaries(identities, documents, min_size=1, max_size=8)),
        st.tuples(st.just("load"), st.dictionaries(identities, documents, min_size=6, max_size=12)),
        st.tuples(st.just("delete"), identities),
        st.tuples(st.just("forward"), st.none()),
    ),
    min_size=1,
    max_size=8,
)


def database() -> Database:
    """With small blocks, and with batches staged as blocks from a few hundred bytes on."""
    tuned = wormdb.Settings(forward="manual", forward_interval_ms=0, block_bytes=300, stage_bytes=600)
    return wormdb.connect(f"memory://spark-{next(_numbers)}", settings=tuned)


def follow(db: Database, taken: list[tuple[str, Any]], indexed: str | None = None) -> None:
    things = db["things"]
    things.insert({"_id": "k99"})
    if indexed is not None:
        things.create_index(indexed)
    for verb, what in taken:
        if verb == "save":
            with things.batch() as batch:
                for identity, document in what.items():
                    batch.save({"_id": identity, **document})
        elif verb == "load":
            fresh = [{"_id": f"{i}!", "pad": "p" * 120, **d} for i, d in what.items() if not things.exists(f"{i}!")]
            things.insert_many(fresh)
        elif verb == "delete":
            things.delete(what)
        else:
            db.forward(["things"])


def expected(db: Database, schema: spark.StructType, **options: Any) -> list[Any]:
    return [row_of(document, schema) for document in db["things"].find_all(**options)]


def row_of(document: Any, schema: spark.StructType) -> dict[str, Any]:
    values = dict(document)
    row: dict[str, Any] = {}
    for field in schema:
        if field.name == "_doc":
            row["_doc"] = encode_document(
                {"_id": values["id"], **{k: v for k, v in values.items() if k != "id"}}
            ).decode()
        elif field.name == "_rev":
            row["_rev"] = document.rev
        elif field.name == "c.x":
            row["c.x"] = shown(values["c"].get("x"), field.dataType) if type(values.get("c")) is dict else None
        else:
            row[field.name] = plain(shown(values.get(field.name), field.dataType))
    return row


def sorted_rows(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted((plain(row) for row in rows), key=lambda row: str(row["id"]))
