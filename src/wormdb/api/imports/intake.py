"""Records on their way into an import: which document each of them becomes, and why one does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import shake_256
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.api.imports.rows import Rows, pack_record, unpack_record
from wormdb.api.records import Record
from wormdb.engine.bulk.rows import ID_COLUMNS, RowReader
from wormdb.engine.commit.operations import Insert, InsertNext, Operation
from wormdb.engine.state.view import sequence_of
from wormdb.errors import InvalidRequestError, Problem, WormError
from wormdb.format import json
from wormdb.schema.cells import CellReader
from wormdb.schema.identity import format_sequence, new_id
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.api.write import Writer
    from wormdb.schema.model import IdStrategy, Model

__all__ = ["MADE", "Intake", "Kind", "New", "RejectedRecord", "Rejection", "makes_ids", "with_id_column"]

Kind = Literal["record", "csv", "unreadable"]
MADE: Final = frozenset({"uuid", "ulid", "objectid"})
"""Strategies whose ids can be made alike in every run."""
_COUNTED_BITS: Final = {"ulid": 5, "objectid": 8}
"""Of strategies whose ids begin with the time: how many bits of each byte of chance become part of the id."""
_IDS: Final = ("id", "_id")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that was not imported, and why."""

    record: Record
    reason: str
    fix: str = ""
    problems: tuple[Problem, ...] = ()
    """Every field that does not fit the model."""
    file: str = ""

    @classmethod
    def of(cls, file: str, record: Record, error: WormError) -> Rejection:
        """A record of which an error says why it does not fit."""
        problems = error.problems if isinstance(error, InvalidRequestError) else ()
        return cls(record, error.reason or error.what, error.fix, problems, file)

    def pack(self) -> bytes:
        """As bytes."""
        return msgspec.msgpack.encode((pack_record(self.record), self.reason, self.fix, self.problems, self.file))

    @classmethod
    def unpack(cls, body: bytes) -> Rejection:
        """Out of bytes."""
        kind = tuple[bytes, str, str, tuple[Problem, ...], str]
        record, reason, fix, problems, file = msgspec.msgpack.decode(body, type=kind)
        return cls(unpack_record(record), reason, fix, problems, file)


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that was not imported, and why, as a line of a file."""

    file: str
    line: int
    """Where it begins, from 1; of Parquet and of tables its row."""
    reason: str
    fix: str
    text: str
    """The record as JSON, or what was there instead."""
    kind: Kind = "record"
    """What `text` is: JSON, JSON of cells that are all text, or no record at all."""
    problems: tuple[str, ...] = ()
    """All that is wrong, if that is more than the reason says."""

    @classmethod
    def of(cls, rejected: Rejection) -> RejectedRecord:
        """No requests."""
        record = rejected.record
        kind: Kind = "unreadable" if record.values is None else "csv" if record.is_text else "record"
        text = record.text
        if record.values is not None:
            text = unpack_text(record)
        problems = tuple(map(str, rejected.problems)) if len(rejected.problems) > 1 else ()
        return cls(rejected.file, record.line, rejected.reason, rejected.fix, text, kind, problems)

    def to_line(self) -> bytes:
        """A line of JSON, as `worm import --from-rejects` reads it after people corrected it."""
        found: dict[str, Any] = {"file": self.file, "line": self.line, "reason": self.reason}
        if self.fix:
            found["fix"] = self.fix
        if self.problems:
            found["problems"] = list(self.problems)
        if self.kind == "csv":
            found["form"] = "csv"
        if self.kind == "unreadable":
            return json.encode({**found, "text": self.text}) + b"\n"
        return json.encode({**found, "record": json.parse(self.text)}) + b"\n"

    def rejected(self) -> Rejection:
        """The record and the reason, for who is told of each. No requests."""
        is_read = self.kind != "unreadable"
        values = json.parse(self.text) if is_read else None
        text = "" if is_read else self.text
        record = Record(self.line, values, len(self.text), self.kind == "csv", "" if is_read else self.reason, text)
        return Rejection(record, self.reason, self.fix, file=self.file)


def unpack_text(record: Record) -> str:
    """The values of a record as JSON; what cannot be stored as Python shows it. No requests."""
    packed = unpack_record(pack_record(record))
    return packed.text if packed.values is None else json.encode(packed.values).decode()


@dataclass(frozen=True, slots=True)
class New:
    """A record that fits, and the document that it becomes."""

    place: int
    """Which record of its piece it is, from 0."""
    file: str
    record: Record
    insert: Insert | InsertNext
    """Without an id, if the commit gives it one."""
    is_placed: bool = True
    """Whether its line is that of the whole file."""

    @property
    def shown(self) -> str:
        """Where it is, for people; empty if that is not known."""
        line = f"the record of line {self.record.line:,}"
        return "" if not self.is_placed else f"{line} of {self.file}" if self.file else line


@dataclass(slots=True)
class Intake:
    """Takes the records of one piece. Not thread-safe."""

    documents: Writer[Any]
    reject: Callable[[Rejection], None]
    """Told of each record that does not fit."""
    id_field: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    """What columns of text stand for."""
    needs_ids: bool = False
    """Whether a record is rejected if a second run would give it another id; rows of columns are not."""
    number: int | None = None
    """The greatest id of a collection that numbers its documents: those without an id get the next ones."""
    is_commit: bool = False
    """Whether the commit numbers them instead."""
    read: int = 0
    _reader: tuple[pa.Schema, RowReader] | None = None

    @property
    def model(self) -> Model | None:
        """What decides about types."""
        return self.documents.model

    def take(self, rows: Rows) -> list[New]:
        """The documents of some records, in order; those that are none are rejected. No requests."""
        first, cells = self.read, CellReader(self.model)
        records = rows.records if rows.batch is None else list(self._records(rows))
        self.read += len(records)
        found: list[tuple[int, Record, dict[str, Any] | Rejection]] = []
        for place, record in enumerate(records):
            found.append((first + place, record, self._values(rows, place, record, cells)))
        fitting = [values for _, _, values in found if isinstance(values, dict)]
        operations = iter(self._operations(fitting))
        news = []
        for place, record, values in found:
            operation = next(operations) if isinstance(values, dict) else values
            if isinstance(operation, WormError):
                operation = Rejection.of(rows.file, record, operation)
            if isinstance(operation, Rejection):
                self.reject(operation)
            else:
                news.append(New(place, rows.file, record, operation, rows.is_placed))
        return news

    # --- parts ---

    def _records(self, rows: Rows) -> Iterator[Record]:
        """The rows of a batch, one by one."""
        assert rows.batch is not None, "records are given as they are"
        batch = with_id_column(rows.batch, self.id_field, self.model)
        if self._reader is None or not self._reader[0].equals(batch.schema):
            self._reader = batch.schema, RowReader(batch.schema, self.model, self.texts)
        for line, values in enumerate(self._reader[1].rows(batch), rows.first + 1):
            if isinstance(values, WormError):
                yield Record(line, None, problem=values.reason or values.what, text=_shown(batch, line - rows.first))
            else:
                yield Record(line, values)

    def _values(self, rows: Rows, place: int, record: Record, cells: CellReader) -> dict[str, Any] | Rejection:
        if record.values is None:
            return Rejection(record, record.problem, file=rows.file)
        try:
            values = cells.document(record.values) if record.is_text else record.values
            return self._identified(rows, place, _with_given_id(values, self.id_field, self.model))
        except InvalidRequestError as error:
            return Rejection.of(rows.file, record, error)

    def _identified(self, rows: Rows, place: int, values: dict[str, Any]) -> dict[str, Any]:
        """The values with the id that counts, made if it can be made alike in every run."""
        if any(name in values for name in _IDS):
            return values
        strategy: IdStrategy = "ulid" if self.model is None else self.model.id
        if rows.source is not None and strategy in MADE:
            return {**values, "id": _derived(strategy, rows.source, rows.first + place + 1)}
        is_singleton = self.model is not None and self.model.is_singleton
        if self.needs_ids and rows.batch is None and strategy != "given" and not is_singleton:
            raise InvalidRequestError(
                "record without an id",
                reason="it has no id, and a second run would insert it again",
                fix="give it one, or do not ignore conflicts",
            )
        return values

    def _operations(self, fitting: Sequence[dict[str, Any]]) -> list[Insert | InsertNext | WormError]:
        """What inserts each of them, or what is wrong with it."""
        try:
            found: Sequence[Operation] = self.documents.inserts(fitting).operations
        except WormError:
            return [self._operation(values) for values in fitting]  # one by one they tell which it is
        return [self._insert(operation) for operation in found]

    def _operation(self, values: dict[str, Any]) -> Insert | InsertNext | WormError:
        try:
            (found,) = self.documents.inserts([values]).operations
            return self._insert(found)
        except WormError as error:
            return error

    def _insert(self, operation: Operation) -> Insert | InsertNext | WormError:
        """An insert; of a document without an id one with the next number."""
        if isinstance(operation, Insert):
            if self.number is not None:
                self.number = max(self.number, sequence_of(operation.id))
            return operation
        assert isinstance(operation, InsertNext), "records are inserted"
        if self.is_commit:
            return operation
        if self.number is None:
            return InvalidRequestError(
                "record without an id",
                reason="it has no id, and this model's ids are numbered one after the other",
                fix="give it one, or import it with --engine local",
            )
        try:
            identity = json.encode(format_sequence(self.number + 1))
        except WormError as error:
            return error
        self.number += 1
        body = operation.document[1:]
        return Insert(identity, b'{"_id":%b%b%b' % (identity, b"" if body == b"}" else b",", body))


def makes_ids(model: Model | None) -> bool:
    """Whether ids are made alike in every run for records that have none. No requests."""
    return model is None or (model.id in MADE and not model.is_singleton)


def with_id_column(batch: pa.RecordBatch, id_field: str | None, model: Model | None) -> pa.RecordBatch:
    """A batch whose column `id_field` is the id. No requests."""
    names = batch.schema.names
    if id_field is None or id_field not in names or any(name in ID_COLUMNS for name in names):
        return batch
    stays = model is not None and id_field in model.fields
    column = batch.column(id_field)
    return (batch if stays else batch.drop_columns([id_field])).add_column(0, "id", column)


class _PlaceChance:
    """Bytes that are always the same for one place in one file; those of ids that begin with the time ascend with it.

    The first half of such an id is the file's and the second half counts, so that the parts of an import lie one behind
    the other and need not be merged. Ids of the strategy uuid are random by their definition.
    """

    def __init__(self, strategy: IdStrategy, source: bytes, place: int) -> None:
        self._bits = _COUNTED_BITS.get(strategy)
        self._source = source
        self._place = place

    def fraction(self) -> float:
        """Always the same."""
        return 0.0

    def token(self, count: int) -> bytes:
        """`count` bytes."""
        if self._bits is None:
            return shake_256(self._source + self._place.to_bytes(8, "big")).digest(count)
        size, mask = count // 2, (1 << self._bits) - 1
        rounds = self._place >> self._bits * size  # a file with more records than the counter has numbers
        stem = shake_256(self._source + rounds.to_bytes(8, "big")).digest(count - size)
        return stem + bytes([self._place >> self._bits * digit & mask for digit in reversed(range(size))])


def _derived(strategy: IdStrategy, source: bytes, place: int) -> str:
    clock = ManualClock(int.from_bytes(shake_256(source).digest(5), "big"))
    made = new_id(strategy, clock=clock, chance=_PlaceChance(strategy, source, place))
    assert made is not None, "the strategy makes ids"
    return made


def _with_given_id(values: dict[str, Any], id_field: str | None, model: Model | None) -> dict[str, Any]:
    """The values of a record with the id that it brings, from `id_field` if that is named: as text if ids are text.

    Raises InvalidRequestError for two ids.
    """
    if id_field is not None and id_field not in _IDS and values.get(id_field, "") != "":
        if any(name in values for name in _IDS):
            raise InvalidRequestError(
                "record with two ids", reason=f"it has an id and {id_field!r}", fix="rename one of them"
            )
        rest = values if model is not None and id_field in model.fields else _without(values, id_field)
        values = {"id": values[id_field], **_without(rest, "id")}
    given = next((name for name in _IDS if name in values), None)
    if given is None or type(values[given]) is not int or not _has_text_ids(model):
        return values
    return {**values, given: str(values[given])}


def _has_text_ids(model: Model | None) -> bool:
    return model is not None and model.path.id is not None and model.path.id.type != "any"


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in values.items() if each != name}


def _shown(batch: pa.RecordBatch, row: int) -> str:
    one = batch.slice(row - 1, 1)
    try:
        return str(one.to_pylist()[0])
    except (ArithmeticError, ValueError):  # Python has no value for one of its cells
        return str(one)
