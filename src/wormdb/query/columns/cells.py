"""One column as a filter looks at it: typed cells, what a null among them means, and which rows are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.engine.blocks.portion import ELSEWHERE_CODE
from wormdb.format.columns import decode_column
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Coded, Portion

__all__ = [
    "Cells",
    "Outcome",
    "by_distinct",
    "cells_of",
    "complement",
    "decoded",
    "element_kind",
    "element_lists",
    "mask_of_rows",
    "rows_of_mask",
    "whole",
]

Outcome: TypeAlias = "bool | pa.Array | pa.ChunkedArray"
"""A mask, or a bool that stands for the same in every row."""

_NULL_CODE: Final = 1
_MISSING_CODE: Final = 2
_INTEGER_CODE: Final = 4


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column, or the elements of its arrays."""

    array: pa.Array | pa.ChunkedArray
    kind: str
    codes: pa.Array | pa.ChunkedArray | None = None
    """The companion of the column, if it has one."""
    null: Any = MISSING
    """What a null is where there is no companion: MISSING in a column, None among the elements of an array."""
    coded: Callable[[], Coded | None] = lambda: None
    """The cells as numbers, if they are texts and that is known."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.array)

    def elsewhere(self) -> pa.Array | pa.ChunkedArray | None:
        """A mask of the rows whose values are not in the column; None if there are none."""
        return self._coded(ELSEWHERE_CODE)

    def integers(self) -> pa.Array | pa.ChunkedArray | None:
        """A mask of the cells of a double column that stand for integers; None if there are none."""
        return self._coded(_INTEGER_CODE) if self.kind == "double" else None

    def completed(self, outcome: Outcome, is_true: Callable[[Any], bool]) -> Outcome:
        """An outcome for values as one for all rows but those elsewhere: null and missing are given to `is_true`.

        In a mask, null cells are null or false.
        """
        import pyarrow.compute as pc

        if not self.array.null_count:
            return outcome
        if self.codes is None:
            passed = is_true(self.null)
            if isinstance(outcome, bool):
                return outcome if outcome is passed else self.array.is_null() if passed else self.array.is_valid()
            filled = pc.fill_null(outcome, False)
            return pc.or_(filled, self.array.is_null()) if passed else filled
        if outcome is True:
            outcome = self.array.is_valid()
        elif outcome is not False:
            outcome = pc.fill_null(outcome, False)
        for code, value in ((_NULL_CODE, None), (_MISSING_CODE, MISSING)):
            if is_true(value):
                mask = pc.equal(self.codes, code)
                outcome = mask if outcome is False else pc.or_(outcome, mask)
        return outcome

    def _coded(self, code: int) -> pa.Array | pa.ChunkedArray | None:
        import pyarrow.compute as pc

        if self.codes is None:
            return None
        mask = pc.equal(self.codes, code)
        return mask if pc.any(mask).as_py() else None


def cells_of(portion: Portion, name: str) -> Cells:
    """The cells of a column of a portion."""
    cells = Cells(portion.table.column(name), portion.types[name], portion.kinds(name))
    if portion.codes is None or cells.kind != "string":
        return cells
    return replace(cells, coded=partial(portion.codes.find, name))


def element_kind(kind: str) -> str | None:
    """The type of the elements of a column of arrays; None of another column."""
    return kind[5:-1] if kind.startswith("list<") else None


def element_lists(cells: Cells) -> tuple[Cells, Callable[[Outcome], Outcome]]:
    """The elements of all arrays, and how an outcome for them becomes one for the arrays: whether it is true of any.

    The outcome for elements has no nulls; that for what is no array is false.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = whole(cells.array)
    elements = Cells(arrays.flatten(), element_kind(cells.kind) or "", null=None)
    lengths = pc.fill_null(pc.list_value_length(arrays), 0).cast(pa.int64())

    def any_of(outcome: Outcome) -> Outcome:
        if outcome is False:
            return False
        if outcome is True:
            return pc.greater(lengths, 0)
        counts = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(outcome.cast(pa.int64()))])
        ends = pc.cumulative_sum(lengths)
        return pc.greater(counts.take(ends), counts.take(pc.subtract(ends, lengths)))

    return elements, any_of


def decoded(array: pa.Array | pa.ChunkedArray, kind: str) -> list[Any]:
    """The exact values of cells of a type; MISSING for null. CorruptionError for what is no value. No requests."""
    import pyarrow as pa

    chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return decode_column(chunked, None, kind, name="a column")


def by_distinct(test: Callable[[Any], bool], array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    """A mask of the cells whose values pass a test, which is asked once for each different cell; null stays null."""
    import pyarrow as pa

    encoded = whole(array).dictionary_encode()
    passed = pa.array([test(value) for value in decoded(encoded.dictionary, kind)], pa.bool_())
    return passed.take(encoded.indices)


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Cells in one piece; copied only if they are in several."""
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def complement(outcome: Outcome) -> Outcome:
    """True where it is false."""
    import pyarrow.compute as pc

    return not outcome if isinstance(outcome, bool) else pc.invert(outcome)


def mask_of_rows(rows: Iterable[int], count: int) -> pa.Array:
    """A mask over `count` rows that is true in some."""
    import pyarrow as pa

    bits = bytearray((count + 7) // 8)
    for row in rows:
        bits[row >> 3] |= 1 << (row & 7)
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bytes(bits))])


def rows_of_mask(mask: pa.Array | pa.ChunkedArray, among: Outcome = True) -> pa.Array:
    """The numbers of the rows in which a mask is true, and `among` is too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if among is False:
        return pa.array([], pa.uint64())
    return pc.indices_nonzero(mask if among is True else pc.and_(mask, among))
