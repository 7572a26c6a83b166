"""One column of a result as Arrow: its type follows from the declaration and from its values, and from nothing else.

Blocks choose the types of their columns by what they hold, so the same documents may be stored in different types.
Here the type is decided when all values were seen:

=====================================  =========================================================
values, null and missing aside         column
=====================================  =========================================================
none                                   of the declared type, else null
all of one plain type                  that type; ObjectId as text of 24 digits
integers, doubles, decimals            double, if each is a double exactly; else text
decimals                               decimal128 with as many digits after the point as needed; else text
arrays whose elements are one of these list of it
anything else                          text: each value as extended JSON
=====================================  =========================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.portion import Portion, elsewhere_rows
from wormdb.format.columns import ELSEWHERE, arrow_type, decode_column
from wormdb.format.json import decode_document, encode
from wormdb.format.kinds import MISSING, Decimal128, ObjectId
from wormdb.format.path import TRAVERSED, Path, parse_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa


__all__ = ["ArrowColumn", "follow_path"]

_KINDS: Final[dict[type, str]] = {
    int: "int64",
    float: "double",
    str: "string",
    bool: "bool",
    datetime: "date",
    bytes: "binary",
    ObjectId: "objectid",
    Decimal128: "decimal",
    list: "list",
}
_NUMBERS: Final = frozenset({"int64", "double", "decimal"})
_INTEGER_CODE: Final = 4
_DIGITS: Final = 38
_NOTHING: Final = (None, MISSING, ELSEWHERE)


@dataclass(frozen=True, slots=True)
class _ColumnType:
    """What a column will be; `of` is the type of elements of a list."""

    kind: str
    type: pa.DataType
    of: _ColumnType | None = None


@dataclass(frozen=True, slots=True)
class _Cells:
    """A column of one portion: as stored, and the values that are not in it."""

    type: str
    cells: pa.ChunkedArray
    kinds: pa.ChunkedArray | None
    others: dict[int, Any]

    def values(self) -> list[Any]:
        """The exact values."""
        values = decode_column(self.cells, self.kinds, self.type, name="a result")
        for row, value in self.others.items():
            values[row] = value
        return values

    def present(self) -> list[Any]:
        """The exact values that are neither null nor missing."""
        return [value for value in self.values() if value is not None and value is not MISSING]


@dataclass(slots=True)
class ArrowColumn:
    """Collects one column, portion by portion; no requests."""

    name: str
    declared: str | None = None
    """The column type of the field, or None; `list<string>` for an array of texts."""
    _parts: list[_Cells] = field(default_factory=list)

    def add(self, portion: Portion) -> None:
        """The rows that come next."""
        kinds = portion.kinds(self.name)
        rows = elsewhere_rows(kinds)
        others: dict[int, Any] = {}
        if rows:
            path = parse_path(self.name)
            found = zip(rows, portion.elsewhere(self.name, rows), portion.documents(rows), strict=True)
            others = {row: _value_along(body, path) if value is TRAVERSED else value for row, value, body in found}
        self._parts.append(_Cells(portion.types[self.name], portion.table.column(self.name), kinds, others))

    def finish(self) -> pa.ChunkedArray:
        """All rows."""
        import pyarrow as pa

        final = _TypeChoice(self._parts, self.declared).final()
        parts = [chunk for part in self._parts for chunk in _converted(part, final)]
        return pa.chunked_array(parts, final.type)


def _value_along(document: bytes, path: Path) -> Any:
    return follow_path(decode_document(document, name="document"), path)


def follow_path(value: Any, path: Path) -> Any:
    """The value of a path, with an array of values where it crosses an array, as in MongoDB's expressions.

    Elements that have no such field are passed over. MISSING if there is none.
    """
    for place, segment in enumerate(path):
        if type(value) is list:
            found = [follow_path(item, path[place:]) for item in value if type(item) is dict]
            return [item for item in found if item is not MISSING]
        if type(value) is not dict:
            return MISSING
        value = value.get(segment, MISSING)
    return value


# --- which type ---


@dataclass(frozen=True, slots=True)
class _TypeChoice:
    parts: Sequence[_Cells]
    declared: str | None

    def final(self) -> _ColumnType:
        if self.declared == "json":
            return _text("json")
        seen = self._seen()
        if seen == {"list"} or (not seen and (self.declared or "").startswith("list<")):
            return self._list()
        return _plain(seen, None if "list" in seen else self.declared, self._present)

    def _seen(self) -> set[str]:
        """The kinds of all values. Stops at one that only text can hold."""
        seen: set[str] = set()
        for part in self.parts:
            seen |= _stored_kinds(part)
            seen |= {_kind(value) for value in part.others.values() if value is not None and value is not MISSING}
            if "json" in seen:
                break
        return seen

    def _list(self) -> _ColumnType:
        import pyarrow as pa

        seen: set[str] = set()
        for part in self.parts:
            if part.type.startswith("list<"):
                flat = part.cells.combine_chunks().flatten()
                seen |= {part.type[5:-1]} if flat.null_count < len(flat) else set()
                seen |= {_kind(item) for value in part.others.values() for item in _elements(value)}
            else:
                seen |= {_kind(item) for value in part.present() for item in _elements(value)}
        if "list" in seen:
            return _text("json")
        declared = self.declared[5:-1] if self.declared is not None and self.declared.startswith("list<") else None
        of = _plain(seen, declared, self._elements)
        return _text("json") if of.kind == "json" else _ColumnType("list", pa.list_(of.type), of)

    def _present(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part.present()

    def _elements(self) -> Iterator[Any]:
        for value in self._present():
            yield from _elements(value)


def _elements(value: Any) -> list[Any]:
    return [item for item in value if item is not None] if type(value) is list else []


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "json")


def _stored_kinds(part: _Cells) -> set[str]:
    """The kinds of the values that the column itself holds."""
    import pyarrow.compute as pc

    if part.cells.null_count == len(part.cells):
        return set()
    if part.type.startswith("list<"):
        return {"list"}
    if part.type == "json":
        # What begins with a name is a document, unless the name is one of extended JSON's.
        documents = pc.match_substring_regex(part.cells, r'^\{(\}|"[^$])')
        if pc.any(documents).as_py():
            return {"json"}
        values = decode_column(part.cells, part.kinds, part.type, name="a result")
        return {_kind(value) for value in values if value not in _NOTHING}
    if part.type != "double" or part.kinds is None:
        return {part.type}
    integers = pc.sum(pc.equal(part.kinds, _INTEGER_CODE)).as_py()
    here = len(part.cells) - part.cells.null_count
    return ({"int64"} if integers else set()) | ({"double"} if integers < here else set())


def _text(kind: str) -> _ColumnType:
    import pyarrow as pa

    return _ColumnType(kind, pa.string())


def _plain(seen: set[str], declared: str | None, values: Callable[[], Iterable[Any]]) -> _ColumnType:
    """The type of values of these kinds, none of them an array; `values` gives them if it depends on them."""
    import pyarrow as pa

    kinds = seen or ({declared} if declared is not None else set())
    if not kinds:
        return _ColumnType("null", pa.null())
    if kinds == {"decimal"}:
        return _decimal(values())
    if len(kinds) > 1 or (declared == "double" and kinds <= _NUMBERS):
        is_exact = kinds <= _NUMBERS and (kinds == {"double"} or all(map(_is_double, values())))
        return _ColumnType("double", pa.float64()) if is_exact else _text("json")
    (kind,) = kinds
    return _text(kind) if kind in ("objectid", "json") else _ColumnType(kind, arrow_type(kind))


def _is_double(value: Any) -> bool:
    """Whether a number is a double exactly."""
    if type(value) is Decimal128:
        number = value.to_decimal()
        return bool(number.is_finite() and Decimal.from_float(float(number)) == number)  # noqa: FURB164 - exact
    return type(value) is float or float(value) == value


def _decimal(values: Iterable[Any]) -> _ColumnType:
    """Decimals of one scale, if every one fits with it; else their texts."""
    import pyarrow as pa

    scale = whole = 0
    for value in values:
        number = value.to_decimal()
        if not number.is_finite():
            return _text("decimal text")
        scale = max(scale, -number.as_tuple().exponent)
        whole = max(whole, 0 if number.is_zero() else number.adjusted() + 1)
    return _ColumnType("decimal", pa.decimal128(_DIGITS, scale)) if scale + whole <= _DIGITS else _text("decimal text")


# --- conversion ---


def _converted(part: _Cells, final: _ColumnType) -> list[pa.Array]:
    import pyarrow as pa

    if not part.others and _is_stored_as(part, final):
        chunks: list[pa.Array] = part.cells.cast(final.type).chunks
        return chunks
    convert = _converter(final)
    values = [None if value is None or value is MISSING else convert(value) for value in part.values()]
    return [pa.array(values, final.type)]


def _is_stored_as(part: _Cells, final: _ColumnType) -> bool:
    """Whether the cells need no more than a cast that Arrow does exactly."""
    if final.of is not None:
        return final.of.kind not in ("objectid", "decimal text") and part.type == f"list<{final.of.kind}>"
    return part.type == final.kind != "objectid"


def _converter(final: _ColumnType) -> Callable[[Any], Any]:
    if final.of is not None:
        item = _converter(final.of)
        return lambda value: [None if one is None else item(one) for one in value]
    return _CONVERTERS.get(final.kind, lambda value: value)


def _double(value: Any) -> float:
    return float(value.to_decimal() if type(value) is Decimal128 else value)


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "json": lambda value: encode(value).decode(),
    "double": _double,
    "objectid": str,
    "decimal": lambda value: value.to_decimal(),
    "decimal text": str,
}
