"""Rows of Arrow batches as documents: which values cells stand for. No I/O.

A null cell is a field that is not there, as in Spark's own JSON; inside arrays and maps it is null. A column whose name
has dots is a field of an object. A column `_doc` holds whole documents as extended JSON; then only the id may stand
beside it. `_rev` and `_seq` are told by the log, and are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, WormError
from wormdb.format.json import parse
from wormdb.format.kinds import Decimal128, ObjectId
from wormdb.format.path import parse_path

if TYPE_CHECKING:
    import pyarrow as pa

    from wormdb.engine.bulk.columns import ColumnMaker
    from wormdb.engine.bulk.task import BulkTask
    from wormdb.schema.model import Model

__all__ = ["DOCUMENT_COLUMN", "ID_COLUMNS", "BatchWriter", "RowReader", "set_cell"]

DOCUMENT_COLUMN: Final = "_doc"
ID_COLUMNS: Final = frozenset({"id", "_id"})
TOLD_COLUMNS: Final = frozenset({"_rev", "_seq"})
_CONTAINERS: Final = frozenset({"object", "array"})
_DIGITS_MAX: Final = 34
"""Digits of a decimal of a document."""
_EXACT: Final = Context(prec=100)
"""Enough for every decimal of Arrow."""


class RowReader:
    """Reads batches of one schema."""

    def __init__(self, schema: pa.Schema, model: Model | None = None, texts: Mapping[str, str] | None = None) -> None:
        """`texts` says of columns of text that they stand for json or objectid. No requests.

        Raises InvalidRequestError for columns that cannot be fields, and for types that no value has.
        """
        texts = texts or {}
        names = [name for name in schema.names if name not in TOLD_COLUMNS]
        self._has_documents = DOCUMENT_COLUMN in names
        others = [name for name in names if name != DOCUMENT_COLUMN and name not in ID_COLUMNS]
        if self._has_documents and others:
            raise InvalidRequestError(
                f"column {DOCUMENT_COLUMN}",
                reason=f"it holds whole documents, and {others[0]!r} stands beside it",
                fix=f"write {DOCUMENT_COLUMN} alone, or with the id; or drop it and write the columns",
            )
        self._columns: list[tuple[str, tuple[str, ...], Callable[[Any], Any] | None]] = []
        for name in names:
            if name == DOCUMENT_COLUMN:
                continue
            path = (name,) if name in ID_COLUMNS else tuple(parse_path(name))
            convert = _converter(schema.field(name).type, name, _text(name, model, texts))
            if name in ID_COLUMNS and convert is None and _has_text_ids(model):
                convert = _id_text
            self._columns.append((name, path, convert))
        _check_paths([path for _, path, _ in self._columns])

    def rows(self, batch: pa.RecordBatch) -> list[dict[str, Any] | WormError]:
        """The documents of a batch; an error for a row that is none. No requests."""
        found: list[dict[str, Any] | WormError]
        if self._has_documents:
            found = [_parsed(text) for text in batch.column(DOCUMENT_COLUMN).to_pylist()]
        else:
            found = [{} for _ in range(batch.num_rows)]
        for name, path, convert in self._columns:
            for place, value in enumerate(_cells(batch.column(name), name)):
                row = found[place]
                if value is None and name in ID_COLUMNS and not self._has_documents:
                    found[place] = _NO_ID
                if value is None or isinstance(row, WormError):
                    continue
                try:
                    if isinstance(value, WormError):
                        raise value
                    set_cell(row, path, value if convert is None else convert(value))
                except WormError as error:
                    found[place] = error
        return found


def _cells(column: pa.Array, name: str) -> list[Any]:
    """The values of a column; an error for one that Python has no value for, such as a time of the year 30000."""
    try:
        return [*column.to_pylist()]
    except (ArithmeticError, ValueError):  # a time out of range, or bytes that are not text
        pass
    found = []
    for place in range(len(column)):
        try:
            found.append(column[place].as_py())
        except (ArithmeticError, ValueError) as error:
            found.append(
                InvalidRequestError(
                    f"column {name}",
                    reason=f"{name}: no value of a document: {error}",
                    fix="correct it, or leave it out",
                )
            )
    return found


_NO_ID: Final = InvalidRequestError(
    "a row without an id", reason="its id is null", fix="fill the column in, or drop it so that ids are made"
)


def _parsed(text: str | None) -> dict[str, Any] | WormError:
    try:
        document = None if text is None else parse(text)
    except WormError as error:
        return error
    if not isinstance(document, dict):
        return InvalidRequestError(f"column {DOCUMENT_COLUMN}", reason="it holds no document", fix="give a JSON object")
    return document


def set_cell(row: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Give a document a field at a path whose objects are made. No requests."""
    inner = row
    for part in path[:-1]:
        inner = inner.setdefault(part, {})
    inner[path[-1]] = value


def _check_paths(paths: Sequence[tuple[str, ...]]) -> None:
    known = sorted(paths)
    for one, other in pairwise(known):
        if other[: len(one)] == one:
            raise InvalidRequestError(
                f"columns {'.'.join(one)!r} and {'.'.join(other)!r}",
                reason="one of them would be a part of the other",
                fix="leave one of them out",
            )


# --- values ---


def _has_text_ids(model: Model | None) -> bool:
    return model is not None and model.path.id is not None and model.path.id.type != "any"


def _id_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _text(name: str, model: Model | None, texts: Mapping[str, str]) -> str:
    """What a column of text stands for."""
    if name in texts:
        return texts[name]
    field = None if model is None or name in ID_COLUMNS else model.field_at(name)
    return "json" if field is not None and field.type in _CONTAINERS else ""


def _converter(kind: pa.DataType, name: str, text: str = "") -> Callable[[Any], Any] | None:
    """What makes the value of a cell; None if that is the value."""
    import pyarrow as pa

    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return _json if text == "json" else ObjectId if text == "objectid" else None
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind):
        return None
    if types.is_binary(kind) or types.is_large_binary(kind):
        return None
    if types.is_timestamp(kind):
        return _moment
    if types.is_date(kind):
        return _day
    if types.is_decimal(kind):
        return _decimal
    if types.is_struct(kind):
        return _struct({kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}, name)
    if types.is_map(kind) and (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
        return _map(_converter(kind.item_type, name))
    if types.is_list(kind) or types.is_large_list(kind):
        return _list(_converter(kind.value_type, name))
    raise InvalidRequestError(
        f"column {name} of type {kind}",
        reason="no value of a document has that type",
        fix="cast it to a string, number, boolean, timestamp, binary, struct, array or map with texts as keys",
    )


def _json(text: str) -> Any:
    return parse(text)


def _moment(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _day(value: date) -> datetime:
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _decimal(value: Decimal) -> Decimal128:
    # Trailing zeros only tell the column's scale. The usual context would round to 28 digits.
    whole = _EXACT.normalize(value)
    digits, exponent = whole.as_tuple()[1:]
    if len(digits) > _DIGITS_MAX:
        raise InvalidRequestError(
            f"decimal {value}"[:80],
            reason=f"it has {len(digits)} digits, and a decimal at most {_DIGITS_MAX}",
            fix="round it, or cast it to a string",
        )
    is_whole = isinstance(exponent, int) and 0 < exponent <= _DIGITS_MAX - len(digits)
    return Decimal128(_EXACT.quantize(whole, Decimal(1)) if is_whole else whole)


def _struct(fields: Mapping[str, pa.DataType], name: str) -> Callable[[Any], Any]:
    converters = {field: _converter(kind, f"{name}.{field}") for field, kind in fields.items()}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field, inner in value.items():
            if inner is not None:
                own = converters[field]
                made[field] = inner if own is None else own(inner)
        return made

    return convert


def _map(own: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return lambda pairs: {key: inner if inner is None or own is None else own(inner) for key, inner in pairs}


def _list(own: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if own is None:
        return None
    return lambda items: [None if item is None else own(item) for item in items]


# --- Rows of any kind into one task of a bulk job: checked, with the bad ones named or set aside.

if TYPE_CHECKING:
    Rejected = Callable[[int, WormError], None]


ROWS_AT_ONCE: Final = 1_000


class BatchWriter:
    """Gives rows to a task. Not thread-safe."""

    def __init__(
        self,
        task: BulkTask,
        rejected: Rejected | None = None,
        *,
        model: Model | None = None,
        texts: Mapping[str, str] | None = None,
        maker: ColumnMaker | None = None,
    ) -> None:
        """`texts` says what columns of text stand for, as for `RowReader`. No requests.

        With a `maker` batches go column by column where that is possible, which is many times faster.
        """
        self._maker = None if texts else maker
        self.task = task
        self._rejected = rejected
        self._model = model
        self._texts = texts
        self._reader: tuple[pa.Schema, RowReader] | None = None

    def add(self, batch: pa.RecordBatch | Sequence[Mapping[str, Any]]) -> None:
        """Take in some rows. Raises and costs as `BulkTask.add`."""
        if self._maker is not None and not isinstance(batch, Sequence):
            columns = self._maker.columns(batch)
            if columns is not None:
                self.task.read += batch.num_rows
                self.task.add_columns(columns)
                return
        rows = self._rows(batch)
        start, self.task.read = self.task.read, self.task.read + len(rows)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            self._some(rows[first : first + ROWS_AT_ONCE], start + first)

    def _rows(self, batch: pa.RecordBatch | Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        if isinstance(batch, Sequence):
            return batch
        schema = batch.schema
        if self._reader is None or not self._reader[0].equals(schema):
            self._reader = schema, RowReader(schema, self._model, self._texts)
        return self._reader[1].rows(batch)

    def _some(self, rows: Sequence[Any], start: int) -> None:
        make = self.task.documents.inserts
        if not any(isinstance(row, WormError) for row in rows):
            try:
                operations = make(rows).operations
            except WormError:
                pass  # one by one they tell which it is
            else:
                self.task.add(operations)
                return
        for place, row in enumerate(rows, start):
            try:
                if isinstance(row, WormError):
                    raise row
                operations = make([row]).operations
            except WormError as error:
                self._reject(place, error)
            else:
                self.task.add(operations)

    def _reject(self, place: int, error: WormError) -> None:
        if self._rejected is None:
            raise InvalidRequestError(
                f"row {place} of task {self.task.task}: {error.what}",
                reason=error.reason,
                fix=error.fix,
                problems=error.problems if isinstance(error, InvalidRequestError) else (),
            ) from error
        self.task.rejected += 1
        self._rejected(place, error)
