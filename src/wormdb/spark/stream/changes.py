"""Changes of the log as rows of Spark: the document that a change left in typed columns, and the change beside them.

A row has the columns of a scan, of the document after the change; of a deleted one only `id` is there. What is told of
the change itself has names that begin with an underscore:

    _op                 create, update, delete, restore or purge
    _log, _place        the log entry, and the place in it: together the order of all changes
    _seq                counts the changes of one document
    _time, _actor       when and by whom
    _metadata           as JSON
    _before, _after     whole documents as JSON; null where there is none
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from wormdb.engine.blocks.portion import DOCUMENT, VERSION
from wormdb.engine.columns.fetch import ColumnRequest
from wormdb.engine.columns.sources import portion_of_rows
from wormdb.engine.state.view import StoredVersion, View
from wormdb.errors import InvalidRequestError
from wormdb.format.columns import ColumnSpec
from wormdb.format.past import operation_of
from wormdb.spark.read.cells import batches, names_of
from wormdb.spark.read.infer import columns_of_schema, columns_of_state
from wormdb.spark.types import SparkColumn, arrow_schema, spark_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
    from wormdb.schema.model import Model

__all__ = ["CHANGE_COLUMNS", "ChangeTable", "PlacedChange", "schema_of_changes"]

BATCH_ROWS: Final = 1_024
"""Rows come with two whole documents, so batches are shorter than those of a scan."""


@dataclass(frozen=True, slots=True)
class PlacedChange:
    """One change, with the batch and the entry that it came in, and its place there."""

    entry: Entry
    place: int
    batch: LoggedBatch
    change: LoggedChange


CHANGE_COLUMNS: Final[dict[str, tuple[spark.DataType, Callable[[PlacedChange], Any]]]] = {
    "_op": (spark.StringType(), lambda told: operation_of(told.change)),
    "_log": (spark.LongType(), lambda told: told.entry.number),
    "_place": (spark.LongType(), lambda told: told.place),
    "_seq": (spark.LongType(), lambda told: told.change.seq),
    "_time": (spark.TimestampType(), lambda told: told.entry.misc >> 8),
    "_actor": (spark.StringType(), lambda told: told.batch.actor),
    "_metadata": (spark.StringType(), lambda told: _text(told.batch.meta)),
    "_before": (spark.StringType(), lambda told: _text(told.change.before)),
    "_after": (spark.StringType(), lambda told: _text(told.change.after)),
}
"""What is told of a change: its type, and where it comes from."""


def schema_of_changes(view: View, model: Model | None, names: Sequence[str] | None) -> spark.StructType:
    """The columns of a feed for which `names` are wanted; without them all that are known. No requests.

    Raises InvalidRequestError for a name that no document can have.
    """
    own = None if names is None else [name for name in names if name not in CHANGE_COLUMNS]
    fields = [spark_field(column) for column in columns_of_state(view, model, own)]
    known = {field.name: field for field in fields}
    known |= {name: spark.StructField(name, kind) for name, (kind, _) in CHANGE_COLUMNS.items()}
    if names is None:
        names = [*(field.name for field in fields if field.name not in CHANGE_COLUMNS), *CHANGE_COLUMNS]
    _check_once(names)
    return spark.StructType([known[name] for name in names])


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """Which columns rows of changes have; a value that Spark pickles."""

    columns: tuple[SparkColumn, ...]
    """Those of the document after a change."""
    schema: spark.StructType
    """All columns, in order."""

    @classmethod
    def of(cls, view: View, model: Model | None, schema: spark.StructType) -> ChangeTable:
        """Raises InvalidRequestError for a name or a type that a column cannot have. No requests."""
        _check_once(schema.fieldNames())
        for field in schema:
            kind, _ = CHANGE_COLUMNS.get(field.name, (field.dataType, None))
            if field.dataType != kind:
                raise InvalidRequestError(
                    f"column {field.name} as {field.dataType.simpleString()}",
                    reason=f"it is {kind.simpleString()}",
                    fix="leave its type out of the schema, or name it with the option columns",
                )
        own = spark.StructType([field for field in schema if field.name not in CHANGE_COLUMNS])
        return cls(tuple(columns_of_schema(view, model, own)), schema)

    @property
    def with_before(self) -> bool:
        """Whether a column needs the document before a change."""
        return not {"_op", "_before"}.isdisjoint(self.schema.fieldNames())

    def batches(self, changes: Iterator[PlacedChange]) -> Iterator[pa.RecordBatch]:
        """Changes as rows, in their order. No requests of its own."""
        whole = arrow_schema(self.schema)
        while several := list(islice(changes, BATCH_ROWS)):
            yield self._batch(several, whole)

    def _batch(self, told: Sequence[PlacedChange], whole: pa.Schema) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = dict(zip((column.name for column in self.columns), self._typed(told, whole), strict=True))
        for field in whole:
            if field.name in CHANGE_COLUMNS:
                _, value = CHANGE_COLUMNS[field.name]
                cells = pa.array([value(one) for one in told], pa.int64() if field.name == "_time" else field.type)
                arrays[field.name] = cells.cast(field.type)
        return pa.RecordBatch.from_arrays([arrays[name] for name in whole.names], schema=whole)

    def _typed(self, told: Sequence[PlacedChange], whole: pa.Schema) -> Sequence[pa.Array]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.columns:
            return []
        names = names_of(self.columns)
        wanted = ColumnRequest(
            {name: ColumnSpec(name) for name in names if name not in ("_id", DOCUMENT, VERSION)},
            with_ids="_id" in names,
            with_documents=DOCUMENT in names,
            with_versions=VERSION in names,
        )
        rows = [StoredVersion(one.change.id, one.entry.number, one.change.seq, one.change.after) for one in told]
        schema = pa.schema([whole.field(column.name) for column in self.columns])
        (batch,) = batches(iter([portion_of_rows(rows, wanted)]), self.columns, schema)
        is_there = pa.array([one.change.after is not None for one in told])
        pairs = zip(self.columns, batch.columns, strict=True)
        return [
            pc.if_else(is_there, array, pa.scalar(None, array.type)) if column.path == DOCUMENT else array
            for column, array in pairs
        ]


def _text(body: bytes | None) -> str | None:
    return None if body is None else body.decode()


def _check_once(names: Sequence[str]) -> None:
    for name in CHANGE_COLUMNS:
        if list(names).count(name) > 1:
            raise InvalidRequestError(f"column {name!r}", reason="it is named twice", fix="name it once")
