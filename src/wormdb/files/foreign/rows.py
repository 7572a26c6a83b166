"""The rows of a manifest as columns, without Python objects for fields that no query needs.

The text of the entities is kept as it stands in the file. For a query msgspec reads only the fields that it needs, and
plain values become columns as they are; values that a model or extended JSON turns into something else are read
exactly as those of an entity's file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from wormdb.engine.blocks.portion import DOCUMENT, Portion, elsewhere_rows, texts_of
from wormdb.errors import LimitExceededError, WormError
from wormdb.files.contents.names import read_id_text
from wormdb.files.contents.values import STAMPS, read_object, read_values
from wormdb.format import json
from wormdb.format.columns import KIND_PREFIX, ColumnSpec, arrow_type, encode_column
from wormdb.format.key import encode_keys
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import get_direct, parse_path, resolve
from wormdb.format.values import normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from wormdb.engine.tree.entries import Range
    from wormdb.schema.model import Field, Model

__all__ = ["DamagedRowsError", "FileRows", "ManifestRows"]

T = TypeVar("T")

_SIMPLE: Final[dict[type, str]] = {str: "string", int: "int64", float: "double", bool: "bool"}
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_PLAIN: Final = frozenset({"any", "string", "number", "boolean"})
_ISO_CHARACTERS: Final = len("2026-02-24T14:30:00.000Z")
_RAW_ROWS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class DamagedRowsError(Exception):
    """Rows cannot be read as they should; the argument says why. It never leaves `wormdb.files.foreign`."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of one file."""

    content: bytes
    """The entities as JSON, by the texts of their ids."""
    texts: tuple[str, ...]
    """In the order of the file."""
    values: Mapping[str, list[Any]] = field(default_factory=dict)
    """By name what was read of the rows at once, as JSON has it: MISSING where there is none."""

    @classmethod
    def of(cls, content: bytes, names: Sequence[str]) -> FileRows:
        """The rows of a text, with the values of some top-level fields. Raises what msgspec raises."""
        rows = _decode(content, names)
        return cls(content, tuple(rows), _columns_of(list(rows.values()), names))


@dataclass(frozen=True, slots=True)
class RowColumn:
    """The values of all rows at one path."""

    type: str
    cells: pa.Array
    kinds: pa.Array | None
    """As `wormdb.format.columns` has them."""
    has_missing: bool
    is_in_order: bool = True
    """Whether values are as in documents: a manifest sorts the fields of a document within them."""


@dataclass(eq=False, slots=True)
class ManifestRows:
    """The rows of the files of one manifest, in order of id. A value; what is made of it is kept with it."""

    tables: tuple[FileRows, ...]
    model: Model
    ids: list[Any] = field(init=False)
    _order: list[int] | None = field(init=False)
    """For each row its place in the files; None if they are in order already."""
    _keys: list[bytes] | None = field(init=False, default=None)
    _columns: dict[str, RowColumn] = field(init=False, default_factory=dict)
    _raw: list[msgspec.Raw] | None = field(init=False, default=None)
    _read: dict[str, list[Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        texts = [text for table in self.tables for text in table.texts]
        ids = texts if "%" not in "".join(texts) else list(map(read_id_text, texts))
        keys: list[Any] = ids if set(map(type, ids)) <= {str} else encode_keys(ids)
        if len(set(keys)) < len(keys):
            raise DamagedRowsError("two of its rows have the same id")
        self._order = None
        if keys != sorted(keys):
            self._order = sorted(range(len(keys)), key=keys.__getitem__)
            ids = [ids[place] for place in self._order]
        self.ids = ids
        if len(self.tables) == 1:
            self._read = {name: self._ordered(values) for name, values in self.tables[0].values.items()}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def keys(self) -> list[bytes]:
        """The keys of the ids."""
        if self._keys is None:
            self._keys = encode_keys(self.ids)
        return self._keys

    # --- columns ---

    def prepare(self, paths: Iterable[str]) -> None:
        """Read the values at some paths together: that is cheaper than one by one. Raises DamagedRowsError."""
        self._values([path for path in paths if "." not in path and path not in self._columns])

    def has_all(self, path: str) -> bool:
        """Whether every row has a value at a path, null counted in. Raises DamagedRowsError."""
        if path not in self._columns and "." not in path:
            return MISSING not in self._values([path])[path]
        return not self.columns([path])[path].has_missing

    def columns(self, paths: Iterable[str]) -> dict[str, RowColumn]:
        """By path the values of all rows. Raises DamagedRowsError."""
        wanted = list(paths)
        missing = [path for path in wanted if path not in self._columns]
        if missing:
            read = self._values([path for path in missing if "." not in path])
            for path in missing:
                self._columns[path] = self._column(path, read)
        return {path: self._columns[path] for path in wanted}

    def portion(self, paths: Sequence[str], span: Range) -> Portion:
        """Columns of the rows in a range of ids, `_id` among them, as a scan gives them. Raises DamagedRowsError."""
        import pyarrow as pa

        names = [path for path in paths if path not in ("_id", DOCUMENT)]
        columns = {"_id": self._id_column(), **self.columns(names)}
        cells: dict[str, pa.Array] = {}
        needed: set[int] = set(range(len(self))) if DOCUMENT in paths else set()
        for path, column in columns.items():
            cells[path] = column.cells
            if column.kinds is not None:
                cells[KIND_PREFIX + path] = column.kinds
                needed.update(elsewhere_rows(column.kinds))
        if needed:
            bodies = [self._encoded(row) if row in needed else None for row in range(len(self))]
            cells[DOCUMENT] = texts_of(bodies)
        portion = Portion(pa.table(cells), {path: column.type for path, column in columns.items()})
        if not span.low and span.high is None:
            return portion
        rows = [row for row, key in enumerate(self.keys) if span.low <= key and (span.high is None or key < span.high)]
        return portion.take(pa.array(rows, pa.int64()))

    def document(self, row: int) -> Document:
        """The part of a document that a row has, with its id. Raises DamagedRowsError."""
        if self._raw is None:
            found = [raw for table in self.tables for raw in _RAW_ROWS.decode(table.content).values()]
            self._raw = self._ordered(found)
        try:
            values = read_object(bytes(self._raw[row]), key="a row")
            values = {name: value for name, value in values.items() if name not in ("id", "_id")}
            document: Document = normalize({"_id": self.ids[row], **read_values(values, self.model)})
        except WormError as error:
            raise DamagedRowsError(f"the row of {self.ids[row]!r} cannot be read: {error}") from error
        return document

    # --- inside ---

    def _encoded(self, row: int) -> bytes:
        try:
            return json.encode_document(self.document(row))
        except LimitExceededError as error:
            raise DamagedRowsError(f"the row of {self.ids[row]!r} is too large: {error}") from error

    def _values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """By top-level name the values of all rows as JSON has them, MISSING where there is none."""
        unread = [name for name in names if name not in self._read]
        if unread:
            self._read |= self._decoded(unread)
        return {name: self._read[name] for name in names}

    def _decoded(self, names: Sequence[str]) -> dict[str, list[Any]]:
        try:
            rows = [row for table in self.tables for row in _decode(table.content, names).values()]
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise DamagedRowsError(f"its rows cannot be read: {error}") from error
        return _columns_of(self._ordered(rows), names)

    def _ordered(self, rows: list[T]) -> list[T]:
        return rows if self._order is None else [rows[place] for place in self._order]

    def _column(self, path: str, read: dict[str, list[Any]]) -> RowColumn:
        values = read.get(path)
        column = None if values is None else _plain_column(path, values, self.model)
        if column is not None:
            return column
        parsed = parse_path(path)
        documents = [self.document(row) for row in range(len(self))]
        column = _encoded(path, [get_direct(document, parsed) for document in documents])
        is_in_order = not any(_has_fields(value) for document in documents for value in resolve(document, parsed))
        return replace(column, is_in_order=is_in_order)

    def _id_column(self) -> RowColumn:
        if "_id" not in self._columns:
            types = set(map(type, self.ids))
            self._columns["_id"] = _alike(self.ids, types) or _encoded("_id", self.ids)
        return self._columns["_id"]


def _decode(content: bytes, names: Sequence[str]) -> dict[str, Any]:
    members = [(f"f{place}", Any, msgspec.field(name=name, default=MISSING)) for place, name in enumerate(names)]
    row: Any = msgspec.defstruct("Row", members, gc=False)
    found: dict[str, Any] = msgspec.json.decode(content, type=dict[str, row])
    return found


def _columns_of(rows: list[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: list(map(attrgetter(f"f{place}"), rows)) for place, name in enumerate(names)}


def _has_fields(value: Any) -> bool:
    """Whether there is a document of several fields in a value."""
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_has_fields, value.values()))
    return isinstance(value, list) and any(map(_has_fields, value))


def _encoded(path: str, values: Sequence[Any]) -> RowColumn:
    found = encode_column(ColumnSpec(path), values)
    return RowColumn(found.type, found.cells, found.kinds, bool(found.stats.missing))


# --- values that are what they look like ---


def _alike(values: Sequence[Any], types: set[type]) -> RowColumn | None:
    """The column of values of one simple type, all of them there."""
    import pyarrow as pa

    kind = _SIMPLE.get(next(iter(types))) if len(types) == 1 else None
    return None if kind is None else RowColumn(kind, pa.array(values, arrow_type(kind)), None, has_missing=False)


def _plain_column(path: str, values: list[Any], model: Model) -> RowColumn | None:
    """The column of values that stay as JSON has them, or are dates in their usual form; None if some do not."""
    declared = model.fields.get(path)
    types = set(map(type, values))
    try:
        if (declared is None and path in STAMPS) or (declared is not None and declared.type == "datetime"):
            return _dates(values)
        if _stay(declared, types - {list}) and (list not in types or _arrays_stay(declared, values)):
            return _alike(values, types) or _encoded(path, values)
    except (ValueError, OverflowError):
        pass
    return None


def _stay(declared: Field | None, types: set[type]) -> bool:
    """Whether values of these types are stored as they are where this is declared."""
    kind = "any" if declared is None else declared.type
    allowed = {*_SCALARS, type(MISSING)} | ({float} if kind != "integer" else set())
    return types <= allowed and (kind in _PLAIN or kind in ("integer", "array"))


def _arrays_stay(declared: Field | None, values: list[Any]) -> bool:
    inner = None if declared is None else declared.items
    types = {type(part) for value in values if type(value) is list for part in value}
    return (declared is None or declared.type in ("any", "array")) and _stay(inner, types)


def _dates(values: list[Any]) -> RowColumn | None:
    """A column of dates in the one form that nearly all writers use."""
    import pyarrow as pa

    texts = [None if value is MISSING else value for value in values]
    if not all(
        text is None or (type(text) is str and len(text) == _ISO_CHARACTERS and text[-1] == "Z") for text in texts
    ):
        return None
    if None in values:
        return None
    try:
        cells = pa.array(texts, pa.string()).cast(arrow_type("date"))
    except pa.ArrowException:
        return None
    return RowColumn("date", cells, None, has_missing=bool(cells.null_count))
