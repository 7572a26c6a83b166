"""Documents of Arrow columns, column by column: for rows that need no look at each.

What comes out is to the byte what `wormdb.engine.bulk.rows` and a writer make of the same rows. Where that cannot be
seen by whole columns (a value that a model would convert, a default, an odd id) a batch is left to them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.engine.bulk.rows import DOCUMENT_COLUMN, ID_COLUMNS, TOLD_COLUMNS
from wormdb.engine.state.view import SEQUENCE_DIGITS_MAX
from wormdb.format import json
from wormdb.format.columns import ColumnSpec, EncodedColumn, arrow_type, column_of, encode_column
from wormdb.format.kinds import MISSING
from wormdb.format.values import are_field_names
from wormdb.format.wrappers import moment
from wormdb.schema.identity import BUILT_IN_TYPES, makes_good_ids, new_ids
from wormdb.schema.validate import has_types
from wormdb.settings import DOCUMENT_BYTES_MAX, ID_BYTES_MAX
from wormdb.system.clock import Chance, Clock, ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from wormdb.schema.model import Field, IdStrategy, Model

__all__ = ["DOCUMENT", "ID", "ColumnMaker", "DocumentTable", "TaskChance", "block_columns", "job_clock", "text_bytes"]


# --- Ids that a task of a bulk job makes: those of one task lie together, apart from those of the others.

_ULID_LETTERS: Final = 16
_TASK_LETTERS: Final = 3
_COUNT_LETTERS: Final = 6
_PAIRS: Final = [bytes((high, low)) for high in range(32) for low in range(32)]
"""Two letters of five bits each."""
_LETTERS: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ" * 8
_LETTER_PAIRS: Final = [pair.translate(_LETTERS) for pair in _PAIRS]
_OBJECTID_BYTES: Final = 8
_OBJECTID_COUNT_BYTES: Final = 3


def job_clock(started_ms: int) -> ManualClock:
    """The one moment of a job: when all of its documents were made."""
    return ManualClock(started_ms)


class TaskChance:
    """Chance for the ids of one task: after the time come the task's number, some chance, and a counter.

    So the ids of a task ascend, and no two tasks have ids between each other's. No other process has them: it had to
    open a job in the same moment, and draw the same numbers.
    """

    def __init__(self, chance: Chance, strategy: IdStrategy, task: int) -> None:
        """`task` is the number of the task in its job."""
        self._chance = chance
        self._strategy = strategy
        self._task = task
        self._count = 0
        self._prefix = b""

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._chance.fraction()

    def token(self, count: int) -> bytes:
        """`count` bytes, from which ids are made."""
        size = {"ulid": _ULID_LETTERS, "objectid": _OBJECTID_BYTES}.get(self._strategy)
        if size is None or count % size:
            return self._chance.token(count)
        return self._letters(count // size) if self._strategy == "ulid" else self._bytes(count // size)

    def ulids(self, count: int, now_ms: int) -> pa.Array:
        """Ids of the strategy ulid as a column: those that `new_ids` makes of `token`. No requests."""
        import pyarrow as pa

        start = self._start(count)
        (first,) = new_ids("ulid", 1, clock=ManualClock(now_ms), chance=_Fixed(self._prefix + bytes(_COUNT_LETTERS)))
        width, stem = len(first), first[:-_COUNT_LETTERS].encode()
        texts = b"".join(_counted(stem, start, start + count))
        ends = array("i", range(0, width * (count + 1), width))
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(texts)])

    def _start(self, rows: int) -> int:
        return self._next(rows, 32**_COUNT_LETTERS, _ULID_LETTERS - _COUNT_LETTERS, _TASK_LETTERS, 5)

    def _letters(self, rows: int) -> bytes:
        """Of each byte the last five bits count."""
        start = self._start(rows)
        prefix, pairs = self._prefix, _PAIRS
        return b"".join(
            [
                b"%b%b%b%b" % (prefix, pairs[number >> 20], pairs[number >> 10 & 1023], pairs[number & 1023])
                for number in range(start, start + rows)
            ]
        )

    def _bytes(self, rows: int) -> bytes:
        size = _OBJECTID_COUNT_BYTES
        start = self._next(rows, 256**size, _OBJECTID_BYTES - size, 1, 8)
        return b"".join([self._prefix + number.to_bytes(size, "big") for number in range(start, start + rows)])

    def _next(self, rows: int, limit: int, size: int, task_size: int, bits: int) -> int:
        """The first number of the next `rows`; at the end of the counter a new prefix is drawn."""
        if not self._prefix or self._count + rows > limit:
            mask = (1 << bits) - 1
            task = bytes(self._task >> bits * place & mask for place in reversed(range(task_size)))
            self._prefix = task + bytes(byte & mask for byte in self._chance.token(size - task_size))
            self._count = 0
        start = self._count
        self._count += rows
        return start


def _counted(stem: bytes, start: int, stop: int) -> Iterator[bytes]:
    """A stem before each of the numbers in a range, in letters; those that end in other letters only are one join."""
    letters = _LETTER_PAIRS
    for high in range(start >> 10, (stop + 1023) >> 10):
        near = stem + letters[high >> 10] + letters[high & 1023]
        yield near.join([b"", *letters[max(start - (high << 10), 0) : min(stop - (high << 10), 1024)]])


class _Fixed:
    """Chance that is none."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fraction(self) -> float:
        """Always the same."""
        return 0.0

    def token(self, count: int) -> bytes:
        """The bytes that were given."""
        assert count == len(self._data)
        return self._data


ID: Final = "$id"
DOCUMENT: Final = "$doc"
"""Beside the fields, whose names never begin with `$`."""

_TIMES: Final = ("createdAt", "updatedAt")
_ODD: Final = r'["\\\x00-\x1f]'
"""What JSON writes in another way, and keys too."""
_ODD_BYTES: Final = bytes(range(32)) + b'"\\'
_FIT: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"string", "any"}),
    "int64": frozenset({"integer", "number", "any"}),
    "double": frozenset({"number", "any"}),
    "bool": frozenset({"boolean", "any"}),
    "date": frozenset({"datetime", "any"}),
}
"""Of each kind of column the declared types whose values are stored as they are."""
_DATE_END: Final = 253_402_300_800_000
"""The year 10000, in milliseconds."""
_DATE_DAY: Final = 10
_EXACT: Final = 2**53
_INTEGER_CODE, _MISSING_CODE = 4, 2
_COUNTED_ID: Final = rf"^([0-9]{{0,{SEQUENCE_DIGITS_MAX}}}|.*[^0-9].*)$"
"""No number beyond the counter of a collection."""
_FILE_ID: Final = "^[A-Za-z0-9_-]{1,80}$"
_BYTES_MAX: Final = DOCUMENT_BYTES_MAX - 8 * ID_BYTES_MAX


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """Documents as a table: `$id`, `$doc`, and their fields in the types of blocks."""

    table: pa.Table
    fresh: bool
    """Whether their ids were made."""


class _OddError(Exception):
    """Something has to be looked at row by row."""


class ColumnMaker:
    """Makes documents of batches, for one collection and one task."""

    def __init__(self, model: Model | None, clock: Clock, chance: Chance) -> None:
        """Times and ids come from `clock` and `chance`. No requests."""
        self._model = model
        self._clock = clock
        self._chance = chance
        self._fields: Mapping[str, Field] = {} if model is None else model.fields
        is_plain = model is None or (not model.is_singleton and not set(_TIMES) & set(model.fields))
        self._is_open = is_plain and not has_types(model)
        now = json.encode({} if model is None else dict.fromkeys(_TIMES, moment(clock.now_ms())))
        self._end = "}" if model is None else f",{now[1:].decode()}"

    def columns(self, batch: pa.RecordBatch) -> DocumentTable | None:
        """The documents of a batch; None if it has to be looked at row by row. No requests."""
        try:
            return self._columns(batch) if self._is_open and batch.num_rows else None
        except _OddError:
            return None

    def _columns(self, batch: pa.RecordBatch) -> DocumentTable:
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [name for name in batch.schema.names if name not in TOLD_COLUMNS]
        given = [name for name in names if name in ID_COLUMNS]
        fields = [name for name in names if name not in ID_COLUMNS]
        self._check_names(names, fields, given)
        cells = {name: _natural(batch.column(name)) for name in fields}
        for name in {*cells, *self._fields}:
            self._check_field(name, cells.get(name))
        ids = self._given(batch.column(given[0])) if given else self._made(batch.num_rows)
        # All parts of all members in one pass; what a document does not have is empty.
        parts = ['{"_id":"', ids, '"']
        for name, (kind, column) in cells.items():
            parts += _parts(name, kind, column)
        documents = pc.binary_join_element_wise(*_fewer([*parts, self._end]), "").cast(pa.large_string())
        if pc.max(pc.binary_length(documents)).as_py() > _BYTES_MAX:
            raise _OddError
        table = pa.table({ID: ids, DOCUMENT: documents, **{name: column for name, (_, column) in cells.items()}})
        return DocumentTable(table, fresh=not given)

    def _check_names(self, names: Sequence[str], fields: Sequence[str], given: Sequence[str]) -> None:
        is_odd = DOCUMENT_COLUMN in names or len(given) > 1 or len(set(names)) < len(names)
        is_odd = is_odd or any("." in name or '"' in name or "\\" in name or not name.isascii() for name in fields)
        if is_odd or not are_field_names(fields) or (self._model is not None and set(_TIMES) & set(fields)):
            raise _OddError

    def _check_field(self, name: str, found: tuple[str, pa.Array] | None) -> None:
        """Raise unless all cells of a column are stored as they are."""
        field = self._fields.get(name)
        if field is None:
            return
        is_bare = found is None or found[1].null_count > 0
        if (is_bare and (field.required or field.default is not MISSING)) or field.enum is not None:
            raise _OddError
        if found is not None and field.type not in _FIT[found[0]]:
            raise _OddError

    # --- ids ---

    def _given(self, ids: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_string(ids.type) or ids.null_count:
            raise _OddError
        shortest, longest = pc.min_max(pc.binary_length(ids)).values()
        if not shortest.as_py() or longest.as_py() > ID_BYTES_MAX:
            raise _OddError
        if not pc.all(pc.string_is_ascii(ids)).as_py() or _has_odd(ids):
            raise _OddError
        for pattern in self._patterns():
            if not pc.all(pc.match_substring_regex(ids, pattern)).as_py():
                raise _OddError
        return ids

    def _patterns(self) -> list[str]:
        """What ids must match to be those of the model."""
        model = self._model
        if model is None:
            return []
        kind = None if model.path.id is None else model.path.id.type
        if kind is None or kind in model.dynamic_types or kind not in BUILT_IN_TYPES:
            raise _OddError
        patterns = [f"^({BUILT_IN_TYPES[kind]})$"] if BUILT_IN_TYPES[kind] else []
        if model.id == "seq":
            patterns.append(_COUNTED_ID)
        return [*patterns, _FILE_ID] if model.files else patterns

    def _made(self, count: int) -> pa.Array:
        import pyarrow as pa

        model = self._model
        if model is not None and not makes_good_ids(model):
            raise _OddError
        strategy = "ulid" if model is None else model.id
        if strategy == "ulid" and isinstance(self._chance, TaskChance):
            return self._chance.ulids(count, self._clock.now_ms())
        return pa.array(new_ids(strategy, count, clock=self._clock, chance=self._chance), pa.string())


# --- the JSON of a column ---


def _natural(cells: pa.Array) -> tuple[str, pa.Array]:
    """The kind of a column, and its cells in the type that blocks have for it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types, kind = pa.types, cells.type
    if types.is_string(kind) or types.is_large_string(kind):
        return "string", cells.cast(pa.string())
    if types.is_signed_integer(kind):
        return "int64", cells.cast(pa.int64())
    if types.is_floating(kind):
        numbers = cells.cast(pa.float64())
        if not pc.all(pc.is_finite(numbers)).as_py() and numbers.null_count < len(numbers):
            raise _OddError
        return "double", numbers
    if types.is_boolean(kind):
        return "bool", cells
    if types.is_timestamp(kind):
        return "date", _moments(cells)
    raise _OddError


def _moments(cells: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    zoned = cells if cells.type.tz is not None else cells.cast(pa.timestamp(cells.type.unit, tz="UTC"))
    dates = zoned.cast(pa.timestamp("ms", tz="UTC"), safe=False)
    first, last = (value.value for value in pc.min_max(dates).values())
    # Before 1970 they are written in another way, and cut to milliseconds the other way round.
    if first is not None and (pc.min(zoned).value < 0 or last >= _DATE_END):
        raise _OddError
    return dates


def _parts(name: str, kind: str, cells: pa.Array) -> list[Any]:
    """A member of each document in parts, to be joined with those of the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    start, end, texts = f',"{name}":', "", cells
    if kind == "string":
        start, end, texts = f'{start}"', '"', _escaped(cells)
    elif kind == "double":
        texts = _doubles(cells)
    elif kind == "date":
        start, end, texts = f'{start}{{"$date":"', 'Z"}', _dates(cells)
    else:
        texts = cells.cast(pa.string())
    if not cells.null_count:
        return [start, texts, end]
    return [pc.fill_null(pc.binary_join_element_wise(start, texts, end, ""), "")]


def _fewer(parts: Sequence[Any]) -> list[Any]:
    """The same parts with constant neighbours as one: each part costs as much as the letters of it."""
    fewer: list[Any] = []
    for part in parts:
        if isinstance(part, str) and fewer and isinstance(fewer[-1], str):
            fewer[-1] += part
        else:
            fewer.append(part)
    return fewer


def _escaped(cells: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _has_odd(cells):
        return cells
    odd = pc.fill_null(pc.match_substring_regex(cells, _ODD), fill_value=False)
    written = [json.encode_plain(text)[1:-1].decode() for text in cells.filter(odd).to_pylist()]
    return pc.replace_with_mask(cells, odd, pa.array(written, pa.string()))


def _has_odd(cells: pa.Array) -> bool:
    """Whether a text has a character that JSON writes in another way: seen in the bytes of all of them at once."""
    texts = text_bytes(cells)
    return len(texts.translate(None, _ODD_BYTES)) < len(texts)


def text_bytes(cells: pa.Array) -> bytes:
    """All texts of a column, one after another. No requests."""
    data = cells.buffers()[2]
    if data is None or not len(cells):
        return b""
    offsets = memoryview(cells.buffers()[1]).cast("i")
    start, stop = offsets[cells.offset], offsets[cells.offset + len(cells)]
    texts: bytes = data.slice(start, stop - start).to_pybytes()
    return texts


def _doubles(cells: pa.Array) -> pa.Array:
    """As JSON has them elsewhere too: Arrow writes 1.0 as 1, which is another value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(cells, 0.0) if cells.null_count else cells
    numbers = memoryview(filled.buffers()[1]).cast("d")[filled.offset : filled.offset + len(filled)].tolist()
    texts = pc.split_pattern(pa.scalar(msgspec.json.encode(numbers)[1:-1].decode()), ",").values
    return pc.if_else(cells.is_valid(), texts, None) if cells.null_count else texts


def _dates(cells: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = cells.cast(pa.timestamp("ms"))
    seconds = plain.cast(pa.timestamp("s"), safe=False)
    is_whole = pc.equal(seconds.cast(pa.timestamp("ms")), plain)
    if pc.all(is_whole).as_py():
        texts = seconds.cast(pa.string())
    elif not pc.any(is_whole).as_py():
        texts = plain.cast(pa.string())
    else:
        texts = pc.if_else(is_whole, seconds.cast(pa.string()), plain.cast(pa.string()))
    return pc.binary_replace_slice(texts, _DATE_DAY, _DATE_DAY + 1, "T")


# --- columns of blocks ---


def block_columns(table: pa.Table, specs: Sequence[ColumnSpec], now: Any) -> list[EncodedColumn]:
    """The columns of a block of documents that `ColumnMaker` made at the moment `now`, `_id` first. No requests."""
    return [column_of("_id", "string", table.column(ID), None), *(_column(spec, table, now) for spec in specs)]


def _column(spec: ColumnSpec, table: pa.Table, now: Any) -> EncodedColumn:
    import pyarrow as pa

    rows = table.num_rows
    if spec.path not in table.column_names:
        if spec.path in _TIMES and spec.type == "date" and now is not None:
            return column_of(spec.path, "date", pa.repeat(pa.scalar(now, arrow_type("date")), rows), None)
        return encode_column(spec, [MISSING] * rows)
    cells = table.column(spec.path)
    kind = next(kind for kind in _FIT if arrow_type(kind) == cells.type)
    wanted = kind if spec.type == "auto" and cells.null_count < rows else spec.type
    if kind == wanted:
        return column_of(spec.path, kind, cells, None)
    if kind == "int64" and wanted == "double" and _is_exact(cells):
        present = bytes((_MISSING_CODE, _INTEGER_CODE))
        codes = cells.is_valid().cast(pa.uint8())
        return column_of(
            spec.path, "double", cells.cast(pa.float64()), bytes(codes.to_pylist()).translate(present + bytes(254))
        )
    return encode_column(spec, [MISSING if value is None else value for value in cells.to_pylist()])


def _is_exact(cells: pa.Array) -> bool:
    import pyarrow.compute as pc

    least, greatest = (value.as_py() for value in pc.min_max(cells).values())
    return least is not None and least >= -_EXACT and greatest <= _EXACT
