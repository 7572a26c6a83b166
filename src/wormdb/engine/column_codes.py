"""Columns of few different texts as numbers: which texts there are, and of each row the number of its own.

A condition is then asked of these texts, and of small numbers instead of all texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CODE_BYTES", "Coded", "ColumnCodes"]

CODE_BYTES: Final = 1
"""What the number of a row takes."""
_TEXTS_MAX: Final = 256
_LOOK_ROWS: Final = 4_096
"""Among so many rows there are already too many different texts, as a rule, if there are in all."""


@dataclass(frozen=True, slots=True)
class Coded:
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
        self._coded: dict[str, Coded | None] = {}

    def find(self, name: str) -> Coded | None:
        """A column of texts; None at the first call, and if there are too many different ones. No requests."""
        if name in self._coded:
            return self._coded[name]
        if name not in self._asked:
            self._asked.add(name)
            return None
        coded = self._coded[name] = _code(self._table.column(name))
        return coded


def _code(column: pa.ChunkedArray) -> Coded | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.num_chunks != 1 or pc.count_distinct(column.slice(0, _LOOK_ROWS)).as_py() > _TEXTS_MAX:
        return None
    encoded = column.chunk(0).dictionary_encode()
    if len(encoded.dictionary) > _TEXTS_MAX:
        return None
    return Coded(encoded.dictionary, pa.chunked_array([encoded.indices.cast(pa.uint8())]))
