"""Some rows of some columns, as blocks store them: in Arrow's types, with companions where those tell too little.

A portion is what a column scan yields. Its table has each column under its path and, where one is needed, the
companion `$kind.<path>` (docs/format/objects.md says what its codes mean). Where a cell is elsewhere,
or the whole document was asked for, `$doc` has the document as it is shown now, and of a deleted one at least its id;
in other rows that is null. Where versions were asked for, `$rev` and `$seq` have the revision and the count of changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.columns import ELSEWHERE, KIND_PREFIX, ColumnSpec, EncodedColumn, decode_column, encode_column
from wormdb.format.path import TRAVERSED
from wormdb.format.project import project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa


__all__ = [
    "CODE_BYTES",
    "DOCUMENT",
    "ELSEWHERE_CODE",
    "VERSION",
    "VERSION_TYPES",
    "CodedColumn",
    "ColumnCodes",
    "DecodedColumn",
    "Portion",
    "decoded_of",
    "elsewhere_rows",
    "encode_documents",
    "join_portions",
    "portion_of",
    "texts_of",
    "version_cells",
]

DOCUMENT: Final = "$doc"
"""The name of the column of whole documents, as JSON: no field's name starts with `$`."""

VERSION: Final = "$version"
"""Asks for which version of a document a row is: `Portion.versions` tells."""

_REVISION: Final = "$rev"
_SEQUENCE: Final = "$seq"
VERSION_TYPES: Final = {_REVISION: "int64", _SEQUENCE: "int64"}
"""The columns that versions take."""

ELSEWHERE_CODE: Final = 3
_HERE_CODE: Final = 0
_MISSING_CODE: Final = 2


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of live documents, in order of id. A value: nothing is read from the store any more."""

    table: pa.Table
    types: Mapping[str, str]
    """The stored type of each column, by path."""
    codes: ColumnCodes | None = None
    """Columns of texts as numbers, of a portion that is kept for several questions."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    def kinds(self, name: str) -> pa.ChunkedArray | None:
        """The companion of a column; None where every null is a missing field."""
        place = self.table.schema.get_field_index(KIND_PREFIX + name)
        return self.table.column(place) if place >= 0 else None

    def values(self, name: str) -> list[Any]:
        """The exact values of a column: MISSING, None, TRAVERSED where its path crosses an array, or the value."""
        values = self.stored(name)
        rows = elsewhere_rows(self.kinds(name))
        if rows:
            for row, value in zip(rows, self.elsewhere(name, rows), strict=True):
                values[row] = value
        return values

    def stored(self, name: str) -> list[Any]:
        """The same with ELSEWHERE for what the column itself does not hold."""
        return decode_column(self.table.column(name), self.kinds(name), self.types[name], name=f"column {name}")

    def elsewhere(self, name: str, rows: Sequence[int]) -> list[Any]:
        """The values of those rows whose cells are elsewhere."""
        found: list[Any] = project(self.documents(rows), [name], name=f"column {name}")[0]
        return found

    def documents(self, rows: Sequence[int] | None = None) -> list[bytes]:
        """The documents of all rows, or of some; they must have been asked for, or have a cell elsewhere."""
        import pyarrow as pa

        texts = self.table.column(DOCUMENT)
        chosen = texts if rows is None else texts.take(array_of(rows, pa.int64()))
        assert chosen.null_count == 0, "documents are there where they are needed"
        cells: list[bytes] = chosen.cast(pa.large_binary()).to_pylist()
        return cells

    def versions(self) -> list[tuple[int, int]]:
        """The revision and the count of changes of each row; they must have been asked for."""
        revisions, sequences = (self.table.column(name).to_pylist() for name in VERSION_TYPES)
        return list(zip(revisions, sequences, strict=True))

    def slice(self, start: int, stop: int) -> Portion:
        """Rows from `start` up to but not including `stop`. Nothing is copied."""
        if start == 0 and stop >= self.rows:
            return self
        return Portion(self.table.slice(start, stop - start), self.types)

    def filter(self, mask: pa.ChunkedArray | pa.Array) -> Portion:
        """The rows for which the mask is true."""
        return Portion(self.table.filter(mask), self.types)

    def take(self, rows: pa.Array) -> Portion:
        """Rows by their numbers."""
        return Portion(self.table.combine_chunks().take(rows), self.types)

    def with_columns(self, specs: Sequence[ColumnSpec]) -> Portion:
        """The same rows with more columns, which are made of the documents; those and ids must have been asked for."""
        table, types = self.table, dict(self.types)
        found = encode_documents(self.documents(), specs, self.values("_id"), name="a result")
        for path, column in found.items():
            types[path] = column.type
            table = table.append_column(path, column.cells)
            if column.kinds is not None:
                table = table.append_column(KIND_PREFIX + path, column.kinds)
        return Portion(table, types)

    def without(self, name: str) -> Portion:
        """All but one column."""
        kept = [column for column in self.table.column_names if column not in (name, KIND_PREFIX + name)]
        return Portion(self.table.select(kept), {path: kind for path, kind in self.types.items() if path != name})


def elsewhere_rows(kinds: pa.ChunkedArray | pa.Array | None) -> list[int]:
    """The rows whose cells are elsewhere, by what the companion says."""
    import pyarrow.compute as pc

    if kinds is None:
        return []
    rows: list[int] = pc.indices_nonzero(pc.equal(kinds, scalar_of(ELSEWHERE_CODE))).to_pylist()
    return rows


def texts_of(documents: Sequence[bytes | None]) -> pa.Array:
    """Documents as a column of texts."""
    import pyarrow as pa

    return array_of(documents, pa.large_binary()).cast(pa.large_string())


def version_cells(revisions: Sequence[int], sequences: Sequence[int]) -> dict[str, pa.Array]:
    """The columns of versions."""
    import pyarrow as pa

    return {_REVISION: array_of(revisions, pa.int64()), _SEQUENCE: array_of(sequences, pa.int64())}


def encode_documents(
    documents: Sequence[bytes | None], specs: Sequence[ColumnSpec], ids: Sequence[Any], *, name: str
) -> dict[str, EncodedColumn]:
    """Columns out of whole documents, as a block of these would have them; None stands for one that is gone.

    `ids` are those of the rows. No requests; raises CorruptionError naming object `name`.
    """
    from wormdb.format.bulk import bulk_columns  # a process that gets documents by id makes no columns

    done = bulk_columns(documents, ids, specs) if specs else {}
    left = [spec for spec in specs if spec.path not in done]
    if left:
        values = project(documents, [spec.path for spec in left], name=name)
        done |= {spec.path: encode_column(spec, column) for spec, column in zip(left, values, strict=True)}
    return done


# --- several as one ---


def join_portions(portions: Sequence[Portion]) -> Portion:
    """The rows of several portions of the same columns, one after the other."""
    import pyarrow as pa

    first, *others = portions
    if not others:
        return first
    if all(other.types == first.types and other.table.schema.equals(first.table.schema) for other in others):
        return Portion(pa.concat_tables([portion.table for portion in portions]), first.types)
    columns: dict[str, pa.ChunkedArray] = {}
    types: dict[str, str] = {}
    for name in first.types:
        types[name], columns[name], kinds = _joined(name, portions)
        if kinds is not None:
            columns[KIND_PREFIX + name] = kinds
    if any(DOCUMENT in portion.table.column_names for portion in portions):
        texts = [_texts(portion) for portion in portions]
        columns[DOCUMENT] = pa.chunked_array([chunk for text in texts for chunk in text.chunks], pa.large_string())
    return Portion(pa.table(columns), types)


def _texts(portion: Portion) -> pa.ChunkedArray:
    import pyarrow as pa

    if DOCUMENT in portion.table.column_names:
        return portion.table.column(DOCUMENT)
    return pa.chunked_array([pa.nulls(portion.rows, pa.large_string())])


def _joined(name: str, portions: Sequence[Portion]) -> tuple[str, pa.ChunkedArray, pa.ChunkedArray | None]:
    """One column of all: of the type that most rows have, or of JSON if not everything fits that exactly."""
    import pyarrow as pa

    largest = max(portions, key=lambda portion: portion.rows)
    kind, target = largest.types[name], largest.table.column(name).type
    found = [column for portion in portions if (column := _recoded(portion, name, kind, target)) is not None]
    if len(found) < len(portions):
        kind = "json"
        found = [column for portion in portions if (column := _recoded(portion, name, kind, pa.string())) is not None]
    cells = pa.chunked_array([chunk for column in found for chunk in column.cells.chunks], found[0].cells.type)
    if all(column.kinds is None for column in found):
        return kind, cells, None
    kinds = [_told(column) for column in found]
    return kind, cells, pa.chunked_array([chunk for one in kinds for chunk in one.chunks], pa.uint8())


@dataclass(frozen=True, slots=True)
class _Column:
    type: str
    cells: pa.ChunkedArray
    kinds: pa.ChunkedArray | None


def _recoded(portion: Portion, name: str, kind: str, target: pa.DataType) -> _Column | None:
    """A column in a type that may be another one; None if a value does not fit that exactly."""
    import pyarrow as pa

    cells = portion.table.column(name)
    if portion.types[name] == kind and cells.type == target:
        return _Column(kind, cells, portion.kinds(name))
    values = [TRAVERSED if value is ELSEWHERE else value for value in portion.stored(name)]
    encoded = encode_column(ColumnSpec(name, kind), values)
    if encoded.stats.others != values.count(TRAVERSED) or encoded.cells.type != target:
        return None
    kinds = None if encoded.kinds is None else pa.chunked_array([encoded.kinds])
    return _Column(kind, pa.chunked_array([encoded.cells]), kinds)


def _told(column: _Column) -> pa.ChunkedArray:
    """What each cell is, also where no companion was needed to tell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.kinds is not None:
        return column.kinds
    codes = pc.if_else(column.cells.is_valid(), scalar_of(_HERE_CODE, pa.uint8()), scalar_of(_MISSING_CODE, pa.uint8()))
    return codes if isinstance(codes, pa.ChunkedArray) else pa.chunked_array([codes])


# --- Columns of few different texts as numbers: which texts there are, and of each row the number of its own.
#
# A condition is then asked of these texts, and of small numbers instead of all texts.

CODE_BYTES: Final = 1
"""What the number of a row takes."""
_TEXTS_MAX: Final = 256
_LOOK_ROWS: Final = 4_096
"""Rows that are looked at first: as a rule they have too many different texts already, if all rows have."""


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """One column."""

    texts: pa.Array
    """Each once; none is null."""
    codes: pa.ChunkedArray
    """The place of each row's text among them; null where the cell is."""


class ColumnCodes:
    """The columns of one table, coded when they are asked for again: once would cost more than it saves. Thread-safe.

    What it finds out stays as long as the table does, which never changes.
    """

    def __init__(self, table: pa.Table) -> None:
        """Nothing is coded yet."""
        self._table = table
        self._asked: set[str] = set()
        self._coded: dict[str, CodedColumn | None] = {}

    def find(self, name: str) -> CodedColumn | None:
        """A column of texts; None at the first call, and if there are too many different ones. No requests."""
        if name in self._coded:
            return self._coded[name]
        if name not in self._asked:
            self._asked.add(name)
            return None
        coded = self._coded[name] = _code(self._table.column(name))
        return coded


def _code(column: pa.ChunkedArray) -> CodedColumn | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.num_chunks != 1 or pc.count_distinct(column.slice(0, _LOOK_ROWS)).as_py() > _TEXTS_MAX:
        return None
    encoded = column.chunk(0).dictionary_encode()
    if len(encoded.dictionary) > _TEXTS_MAX:
        return None
    return CodedColumn(encoded.dictionary, pa.chunked_array([encoded.indices.cast(pa.uint8())]))


# --- columns one by one, as they are kept ---


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """One column of some rows."""

    cells: pa.ChunkedArray
    kinds: pa.ChunkedArray | None
    type: str
    texts: pa.ChunkedArray | None = None
    """The documents of the rows whose cells are elsewhere; None if there are none."""

    @property
    def bytes(self) -> int:
        """In memory."""
        return sum(int(column.nbytes) for column in (self.cells, self.kinds, self.texts) if column is not None)

    def filter(self, mask: pa.Array) -> DecodedColumn:
        """The rows for which the mask is true."""
        kinds, texts = self.kinds, self.texts
        return DecodedColumn(
            self.cells.filter(mask),
            None if kinds is None else kinds.filter(mask),
            self.type,
            None if texts is None else texts.filter(mask),
        )


def decoded_of(portion: Portion) -> dict[str, DecodedColumn]:
    """The columns of a portion, each by itself and in one piece."""
    return {name: _decoded(portion, name) for name in portion.types}


def _decoded(portion: Portion, name: str) -> DecodedColumn:
    import pyarrow.compute as pc

    kinds, texts = portion.kinds(name), None
    if elsewhere_rows(kinds):
        documents = portion.table.column(DOCUMENT)
        are_elsewhere = pc.equal(kinds, scalar_of(ELSEWHERE_CODE))
        texts = _whole(pc.if_else(are_elsewhere, documents, scalar_of(None, documents.type)))
    cells = _whole(portion.table.column(name))
    return DecodedColumn(cells, None if kinds is None else _whole(kinds), portion.types[name], texts)


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if column.num_chunks == 1:
        return column
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])


def portion_of(columns: Mapping[str, DecodedColumn]) -> Portion:
    """The portion that has these columns, in this order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays: dict[str, pa.ChunkedArray] = {}
    texts: list[pa.ChunkedArray] = []
    for name, column in columns.items():
        arrays[name] = column.cells
        if column.kinds is not None:
            arrays[KIND_PREFIX + name] = column.kinds
        if column.texts is not None:
            texts.append(column.texts)
    if texts:
        arrays[DOCUMENT] = texts[0] if len(texts) == 1 else pc.coalesce(*texts)
    return Portion(pa.table(arrays), {name: column.type for name, column in columns.items()})
