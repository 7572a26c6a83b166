"""One type for each column of an export, though its files are written apart.

A file is written with the types that its own values have. Where files differ, `agreed` says what all of them can have:
the rule is that of `Collection.to_arrow`. Then the export is written once more with these types.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

__all__ = ["AsText", "Seen", "agreed", "seen_of", "unpacked"]

_DIGITS: Final = 38
_DOUBLE_MAX: Final = 2**53


@dataclass(frozen=True, slots=True)
class Seen:
    """The types of the columns of one file, and what decides how they can be changed."""

    schema: bytes
    """Arrow's own form of a schema."""
    digits: dict[str, int] = field(default_factory=dict)
    """Of columns of decimals: digits before the point, at most."""
    wide: tuple[str, ...] = ()
    """Columns of integers that no double holds exactly."""


class AsText:
    """Stands for a type: all values as extended JSON."""


def seen_of(table: pa.Table) -> Seen:
    """What a file shows of its columns. No requests."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits: dict[str, int] = {}
    wide: list[str] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_decimal(column.type):
            most: Any = pc.max(pc.abs(column)).as_py()
            digits[name] = 0 if not most else max(most.adjusted() + 1, 0)
        elif pa.types.is_int64(column.type):
            ends: Any = pc.min_max(column).as_py()
            if any(abs(end) > _DOUBLE_MAX for end in ends.values() if end is not None):
                wide.append(name)
    return Seen(table.schema.serialize().to_pybytes(), digits, tuple(wide))


def unpacked(schema: bytes) -> pa.Schema:
    """A schema as Arrow's value. No requests."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(schema))


def agreed(names: Sequence[str], files: Iterable[Seen]) -> dict[str, pa.DataType | type[AsText]] | None:
    """The type of each column in which files differ, with the types of all others; None if none differ."""
    found = list(files)
    schemas = [unpacked(seen.schema) for seen in found]
    types = {name: _agreed(name, [schema.field(name).type for schema in schemas], found) for name in names}
    is_same = all(schema.field(name).type == types[name] for name in names for schema in schemas)
    return None if is_same else types


def _agreed(name: str, given: Sequence[pa.DataType], files: Sequence[Seen]) -> pa.DataType | type[AsText]:
    import pyarrow as pa

    kinds = list(dict.fromkeys(kind for kind in given if not pa.types.is_null(kind)))
    if not kinds:
        return pa.null()
    if len(kinds) > 1 and all(map(pa.types.is_list, kinds)):
        kinds = [kind for kind in kinds if not pa.types.is_null(kind.value_type)]  # empty ones become any other
    if len(kinds) == 1:
        return kinds[0]
    if all(map(pa.types.is_decimal, kinds)):
        scale = max(kind.scale for kind in kinds)
        whole = max(seen.digits.get(name, 0) for seen in files)
        return pa.decimal128(_DIGITS, scale) if scale + whole <= _DIGITS else AsText
    if set(kinds) == {pa.int64(), pa.float64()} and not any(name in seen.wide for seen in files):
        return pa.float64()
    return AsText
