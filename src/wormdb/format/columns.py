"""Typed columns of a block: natural types for other tools, and exact values for us.

A column has one type. A value that fits the type exactly is in the column. For all other rows a
companion column `$kind.<path>` says what is there instead; it is written only if one is needed:

0  the value is in the column
1  an explicit null
2  the field is missing (also without a companion: then every Parquet null means missing)
3  the value is elsewhere: of another type, or behind an array; it is in `_doc`
4  the value is an integer that the double column holds exactly
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import nan
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.blocklist import ColumnStats
from wormdb.format.frame import corrupt
from wormdb.format.json import decode, encode
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import MISSING, Decimal128, Missing, ObjectId
from wormdb.format.path import TRAVERSED, parse_path
from wormdb.format.wrappers import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

__all__ = [
    "COLUMN_TYPES",
    "ELSEWHERE",
    "KIND_PREFIX",
    "ColumnSpec",
    "Elsewhere",
    "EncodedColumn",
    "arrow_type",
    "column_of",
    "column_of_json",
    "decode_column",
    "encode_column",
    "plain_type",
    "settle_codes",
]

KIND_PREFIX: Final = "$kind."
"""Before a path it names the companion column; no field name starts with `$`."""

_HERE, _NULL, _MISSING, _ELSEWHERE, _INTEGER = range(5)
_PRESENT: Final = frozenset({_HERE, _INTEGER})
_PLAIN_CODES: Final = bytes((_HERE, _MISSING))
_DECIMAL_DIGITS: Final = 38
_BOUND_BYTES_MAX: Final = 64


class Elsewhere(enum.Enum):
    """The class of `ELSEWHERE`."""

    ELSEWHERE = enum.auto()

    def __repr__(self) -> str:
        return "ELSEWHERE"


ELSEWHERE: Final = Elsewhere.ELSEWHERE
"""A value that its column cannot hold: look into the document."""

# The Python type of the normalized values that a column of this type holds.
_PYTHON: Final[dict[str, type]] = {
    "int64": int,
    "double": float,
    "string": str,
    "bool": bool,
    "date": datetime,
    "binary": bytes,
    "objectid": ObjectId,
    "decimal": Decimal128,
}
_NAMES: Final[dict[type, str]] = {python: name for name, python in _PYTHON.items()}
COLUMN_TYPES: Final = frozenset({*_PYTHON, *(f"list<{name}>" for name in _PYTHON), "json"})
"""What a column can be; `auto` is decided for each block and becomes one of these."""


def plain_type(value: Any) -> str | None:
    """The type of column that holds a normalized value, which is neither a document nor an array; None if none does."""
    return _NAMES.get(type(value))


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A field by its dotted path, and the type of its column; `auto` takes the most frequent one.

    Raises InvalidRequestError for an invalid path and an unknown type.
    """

    path: str
    type: str = "auto"

    def __post_init__(self) -> None:
        parse_path(self.path)
        if self.type != "auto" and self.type not in COLUMN_TYPES:
            raise InvalidRequestError(
                f"column {self.path!r} cannot have type {self.type!r}",
                reason="there is no such type of column",
                fix=f"use auto or one of {', '.join(sorted(COLUMN_TYPES))}",
            )


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column ready for the file; `kinds` is None where no companion is needed."""

    path: str
    type: str
    cells: pa.Array
    kinds: pa.Array | None
    stats: ColumnStats


# --- writing ---


def encode_column(spec: ColumnSpec, values: Sequence[Any]) -> EncodedColumn:
    """The column of `values`, one a row: a value, MISSING, or TRAVERSED. No requests."""
    types = set(map(type, values))
    kind = _kind(values, types) if spec.type == "auto" else spec.type
    scale = _decimal_scale(values) if kind in ("decimal", "list<decimal>") else 0
    codes = None if _is_plain(values, kind, types) else _codes(values, kind, scale)
    cells = values
    if codes is not None:
        cells = [value if code in _PRESENT else None for value, code in zip(values, codes, strict=True)]
        if _INTEGER in codes:
            cells = [None if cell is None else float(cell) for cell in cells]
    elif Missing in types:
        cells = [None if value is MISSING else value for value in values]
    return column_of(spec.path, kind, _arrow_array(cells, kind, scale), codes, cells)


def column_of(path: str, kind: str, array: pa.Array, codes: bytes | None, cells: Sequence[Any] = ()) -> EncodedColumn:
    """The column of cells that are an array already; `codes` say what each row holds, None that nulls are missing.

    `cells` are the values of the array, and are needed for types that Arrow cannot order as we do.
    """
    import pyarrow as pa

    tally = Counter(codes) if codes is not None else {_HERE: len(array) - array.null_count, _MISSING: array.null_count}
    low, high = _bounds(cells, array, kind) if kind in _PYTHON else (None, None)
    stats = ColumnStats(
        path=path,
        type=kind,
        values=tally.get(_HERE, 0) + tally.get(_INTEGER, 0),
        nulls=tally.get(_NULL, 0),
        missing=tally.get(_MISSING, 0),
        others=tally.get(_ELSEWHERE, 0),
        low=low,
        high=high,
    )
    return EncodedColumn(path, kind, array, None if codes is None else array_of(codes, pa.uint8()), stats)


def column_of_json(path: str, texts: Sequence[bytes | Missing]) -> EncodedColumn:
    """The column of type json whose values are JSON already, as `encode` writes them. No requests."""
    cells = [None if text is MISSING or text == b"null" else text.decode() for text in texts]
    codes = None
    if b"null" in texts:
        codes = bytes([_MISSING if text is MISSING else _NULL if text == b"null" else _HERE for text in texts])
    return column_of(path, "json", _arrow_array_of_texts(cells), codes)


def settle_codes(array: pa.Array, kind: str, exact: Mapping[int, Any]) -> bytes | None:
    """What each row of a column holds, given the `exact` values of those rows that the array leaves in doubt.

    Other nulls are missing fields. Empty if no companion is needed; None if the column cannot hold the values.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = _code_values(list(exact.values()), kind, 0)
    valid = array.is_valid().take(array_of(list(exact), pa.int64())).to_pylist()
    if any((code in _PRESENT) != here or code == _ELSEWHERE for code, here in zip(found, valid, strict=True)):
        return None
    if found.translate(None, _PLAIN_CODES) == b"":
        return b""
    codes = bytearray(pc.if_else(array.is_valid(), scalar_of(_HERE), scalar_of(_MISSING)).to_pylist())
    for row, code in zip(exact, found, strict=True):
        codes[row] = code
    return bytes(codes)


def _is_plain(values: Sequence[Any], kind: str, types: set[type]) -> bool:
    """Whether all rows hold a value of the type or nothing, seen by the Python types alone."""
    python = _PYTHON.get(_element(kind))
    if python in (None, Decimal128):
        return False
    if kind in _PYTHON:
        return types <= {python, Missing}
    return types <= {list, Missing} and _element_types(values) <= {python}


def _codes(values: Sequence[Any], kind: str, scale: int) -> bytes | None:
    """What each row holds, or None if all rows hold the value or nothing."""
    codes = _code_values(values, kind, scale)
    return None if codes.translate(None, _PLAIN_CODES) == b"" else codes


def _code_values(values: Sequence[Any], kind: str, scale: int) -> bytes:
    fits = _fitting(kind, scale)
    return bytes([_code(value, fits, integers=kind == "double") for value in values])


def _element(kind: str) -> str:
    return kind[5:-1] if kind.startswith("list<") else kind


def _element_types(values: Sequence[Any]) -> set[type]:
    """The types of all elements of all arrays, null aside."""
    arrays = [value for value in values if type(value) is list]
    return set(map(type, chain.from_iterable(arrays))) - {type(None)}


def _code(value: Any, fits: Callable[[Any], bool], *, integers: bool) -> int:
    if value is MISSING:
        return _MISSING
    if value is None:
        return _NULL
    if value is TRAVERSED:
        return _ELSEWHERE
    if fits(value):
        return _HERE
    return _INTEGER if integers and type(value) is int and float(value) == value else _ELSEWHERE


def _fitting(kind: str, scale: int) -> Callable[[Any], bool]:
    if kind == "json":
        return lambda _: True
    if kind == "decimal":
        return lambda value: type(value) is Decimal128 and _fits_scale(value, scale)
    if kind.startswith("list<"):
        item = _fitting(_element(kind), scale)
        return lambda value: type(value) is list and all(part is None or item(part) for part in value)
    python = _PYTHON[kind]
    return lambda value: type(value) is python


def _kind(values: Sequence[Any], types: set[type]) -> str:
    """The type that holds most of the values; json where no other type does."""
    names = [_NAMES.get(kind) for kind in types - {Missing}]
    if len(names) == 1 and names[0] is not None:
        return names[0]
    return _most_frequent(values, Counter(map(type, values)))


def _most_frequent(values: Sequence[Any], counts: Counter[type]) -> str:
    held = Counter({name: counts[python] for python, name in _NAMES.items()})
    if counts[float]:
        held["double"] += sum(float(value) == value for value in values if type(value) is int)
    held["json"] = counts[dict]
    elements = _element_types(values) if counts[list] else set()
    if len(elements) == 1:
        held[_list_type(elements)] += counts[list]
    else:
        held.update(_list_type(set(map(type, value))) for value in values if type(value) is list)
    # Order breaks ties: int64 before double, and the plain types before json.
    best = max((*_PYTHON, *sorted(held.keys() - _PYTHON.keys())), key=held.__getitem__)
    return best if held[best] else "string"


def _list_type(elements: set[type]) -> str:
    names = {_NAMES.get(kind, "json") for kind in elements - {type(None)}} or {"string"}
    return f"list<{names.pop()}>" if len(names) == 1 and "json" not in names else "json"


def _decimals(values: Iterable[Any]) -> Iterable[Decimal128]:
    for value in values:
        if type(value) is Decimal128:
            yield value
        elif type(value) is list:
            yield from (part for part in value if type(part) is Decimal128)


def _decimal_scale(values: Sequence[Any]) -> int:
    """Digits after the point of most of the decimals."""
    scales = Counter(scale for value in _decimals(values) if (scale := _scale(value)) is not None)
    return min(scales, key=lambda scale: (-scales[scale], scale), default=0)


def _scale(value: Decimal128) -> int | None:
    number = value.to_decimal()
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -_DECIMAL_DIGITS <= exponent <= 0:
        return None
    # A column of decimals knows no negative zero.
    return None if number.is_zero() and number.is_signed() else -exponent


def _fits_scale(value: Decimal128, scale: int) -> bool:
    return _scale(value) == scale


def _bounds(cells: Sequence[Any], array: pa.Array, kind: str) -> tuple[bytes | None, bytes | None]:
    import pyarrow.compute as pc

    if array.null_count == len(array):
        return None, None
    if kind in ("objectid", "decimal"):
        keys = [encode_key(cell) for cell in cells if cell is not None]
        return _low(min(keys)), _high(max(keys))
    # NaN compares with nothing, so it is put aside; it has a key of its own.
    whole = kind != "double" or not pc.any(pc.is_nan(array)).as_py()
    numbers = array if whole else array.filter(pc.invert(pc.is_nan(array)))
    extremes = [] if whole else [nan]
    if len(numbers) > numbers.null_count:
        extremes += [_scalar(value, kind) for value in pc.min_max(numbers).values()]
    keys = [encode_key(value) for value in extremes]
    return _low(min(keys)), _high(max(keys))


def _scalar(value: pa.Scalar, kind: str) -> Any:
    return moment(value.value) if kind == "date" else value.as_py()


def _low(key: bytes) -> bytes:
    return key[:_BOUND_BYTES_MAX]


def _high(key: bytes) -> bytes | None:
    return key if len(key) <= _BOUND_BYTES_MAX else prefix_end(key[:_BOUND_BYTES_MAX])


def arrow_type(kind: str, scale: int = 0) -> pa.DataType:
    """The type of an Arrow column; `scale` is that of decimals."""
    import pyarrow as pa

    if kind.startswith("list<"):
        return pa.list_(arrow_type(_element(kind), scale))
    return {
        "int64": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
        "date": pa.timestamp("ms", tz="UTC"),
        "binary": pa.binary(),
        "objectid": pa.binary(12),
        "decimal": pa.decimal128(_DECIMAL_DIGITS, scale),
        "json": pa.string(),
    }[kind]


def _arrow_array(cells: Sequence[Any], kind: str, scale: int) -> pa.Array:

    if (write := _CELL_WRITERS.get(kind)) is not None:
        cells = [None if cell is None else write(cell) for cell in cells]
    elif (write := _CELL_WRITERS.get(_element(kind))) is not None:
        cells = [None if cell is None else [None if part is None else write(part) for part in cell] for cell in cells]
    return array_of(cells, arrow_type(kind, scale))


def _arrow_array_of_texts(cells: Sequence[str | None]) -> pa.Array:

    return array_of(cells, arrow_type("json"))


_CELL_WRITERS: Final[dict[str, Callable[[Any], Any]]] = {
    "objectid": lambda value: value.binary,
    "decimal": lambda value: value.to_decimal(),
    "json": lambda value: encode(value).decode(),
}


# --- reading ---


def decode_column(cells: pa.ChunkedArray, kinds: pa.ChunkedArray | None, kind: str, *, name: str) -> list[Any]:
    """The exact values of a column: MISSING, None, ELSEWHERE, or what was stored. No requests.

    Raises CorruptionError naming object `name` if column and companion contradict each other.
    """
    values = _python_values(cells, kind, name)
    if kinds is None:
        return [MISSING if value is None else value for value in values] if None in values else values
    return [_value(value, code, name) for value, code in zip(values, kinds.to_pylist(), strict=True)]


def _value(value: Any, code: int, name: str) -> Any:
    if (value is None) == (code in (_HERE, _INTEGER)) or code > _INTEGER:
        corrupt(name, f"a cell and its kind {code} contradict each other")
    if code == _HERE:
        return value
    if code == _INTEGER:
        return int(value)
    return (None, None, MISSING, ELSEWHERE)[code]


def _python_values(cells: pa.ChunkedArray, kind: str, name: str) -> list[Any]:
    import pyarrow as pa

    base = _element(kind)
    if base == "date":
        cells = cells.cast(pa.int64() if base == kind else pa.list_(pa.int64()))
    values: list[Any] = cells.to_pylist()
    read = _cell_reader(base, name)
    if read is None:
        return values
    if base == kind:
        return [None if value is None else read(value) for value in values]
    return [None if value is None else [None if part is None else read(part) for part in value] for value in values]


def _cell_reader(kind: str, name: str) -> Callable[[Any], Any] | None:
    if kind == "json":
        return lambda text: decode(text.encode(), name=name)
    return _CELL_READERS.get(kind)


_CELL_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "objectid": ObjectId,
    "decimal": Decimal128,
    "date": moment,
}
