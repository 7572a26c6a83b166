"""One function of an aggregation over the cells of one column: what Arrow is asked, and how its answer is read."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import MISSING
from wormdb.query.column_sums import cut, magnitude
from wormdb.query.columns.cells import decoded, element_kind, element_lists, whole
from wormdb.query.columns.keys import Numbered
from wormdb.settings import INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from wormdb.query.columns.cells import Cells
    from wormdb.query.columns.keys import Batch, Found

    Reader = Callable[[Found, Sequence[Any]], None]
    """Adds the results of all groups to their accumulators."""

__all__ = ["add_pairs", "ask_function"]

_NUMBERS: Final = frozenset({"int64", "double", "decimal"})
_COMPARED: Final = frozenset({"int64", "double", "decimal", "string", "bool", "date", "objectid"})
"""Types of which Arrow finds the least and the greatest value as we mean it."""
_NULL_CODE: Final = 1


def ask_function(name: str, cells: Cells | None, batch: Batch) -> Reader | None:
    """Put a function of cells, none of them elsewhere, into a batch; None if it has to be done by `add_pairs`.

    Only to count there are no cells.
    """
    if name == "count":
        return _ask_count(batch)
    assert cells is not None
    if name in {"min", "max"}:
        return _ask_extreme(name, cells, batch) if cells.kind in _COMPARED else None
    if name == "distinct" or cells.kind == "json":
        return None
    return _ask_sum(cells, batch) if cells.kind in _NUMBERS else _ignore  # what is no number does not count


def _ignore(found: Found, targets: Sequence[Any]) -> None:
    """Nothing is to be added."""


def _ask_count(batch: Batch) -> Reader:
    name = batch.ask(None, "count_all")

    def read(found: Found, targets: Sequence[Any]) -> None:
        for target, count in zip(targets, found.values(name), strict=True):
            target.count = count

    return read


# --- sums ---


def _ask_sum(cells: Cells, batch: Batch) -> Reader | None:
    """Doubles that stand for integers are added apart: a sum without a double is an integer."""
    import pyarrow.compute as pc

    known: Reader | None = batch.readers.get(id(cells))
    if known is not None:
        return known
    special, cells_left = _ask_special(cells, (nan, inf, -inf), batch)
    integers = cells.integers()
    parts = [(cells_left, False)]
    if integers is not None:
        nothing = _nothing(cells)
        parts = [
            (replace(cells_left, array=pc.if_else(integers, nothing, cells_left.array)), False),
            (replace(cells_left, array=pc.if_else(integers, cells_left.array, nothing)), True),
        ]
    readers = [special]
    for part, is_integer in parts:
        read = _ask_pieces(part, batch, is_integer=is_integer)
        if read is None:
            return None
        readers.append(read)
    reader = _all_of(readers)
    batch.readers[id(cells)] = reader
    return reader


def _ask_pieces(cells: Cells, batch: Batch, *, is_integer: bool) -> Reader | None:
    pieces = cut(cells)
    if pieces is None:
        return None
    counted = batch.ask(pieces.columns[0], "count") if cells.array.null_count else batch.ask(None, "count_all")
    names = [batch.ask(column, "sum") for column in pieces.columns]

    def read(found: Found, targets: Sequence[Any]) -> None:
        kind, power = pieces.kind, pieces.power
        numbers = pieces.join([found.values(name) for name in names])
        if is_integer:
            kind, power, numbers = int, 0, [_shifted(number, power) for number in numbers]
        for target, count, number in zip(targets, found.values(counted), numbers, strict=True):
            if count:
                target.numbers.add_many(kind, count, number, power)

    return read


def _shifted(number: int, power: int) -> int:
    """A multiple of a power of 2 that is an integer."""
    return number << power if power >= 0 else number >> -power


def _all_of(readers: Sequence[Reader]) -> Reader:
    def read(found: Found, targets: Sequence[Any]) -> None:
        for each in readers:
            each(found, targets)

    return read


def _ask_special(cells: Cells, values: Sequence[float], batch: Batch) -> tuple[Reader, Cells]:
    """What adds some values of a double column to each group that has them, and the column without these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells.kind != "double":
        return _ignore, cells
    array = left = whole(cells.array)
    bits = array.view(pa.int64())
    some = {nan, inf, -inf} if magnitude(array) == inf else set()
    some |= {-0.0} if pc.min(bits).as_py() == INT_MIN else set()  # the bits of -0.0
    asked: list[tuple[float, str]] = []
    for value in values:
        if value not in some:
            continue
        # By bits, because 0.0 equals -0.0; there are many NaN, and it equals none.
        same = pc.is_nan(array) if isnan(value) else pc.equal(bits, _bits(value))
        asked.append((value, batch.ask(same, "any")))
        left = pc.if_else(same, _nothing(cells), left)

    def read(found: Found, targets: Sequence[Any]) -> None:
        for value, name in asked:
            for target, has_any in zip(targets, found.values(name), strict=True):
                if has_any:
                    target.add(value)

    return read, replace(cells, array=left)


def _bits(value: float) -> pa.Scalar:
    import pyarrow as pa

    return pa.array([value], pa.float64()).view(pa.int64())[0]


def _nothing(cells: Cells) -> pa.Scalar:
    import pyarrow as pa

    return pa.scalar(None, cells.array.type)


# --- extremes ---


def _ask_extreme(name: str, cells: Cells, batch: Batch) -> Reader:
    """NaN is a number below all others, and of equal numbers it matters which there are: -0.0 or 0.0, 1 or 1.0."""
    import pyarrow.compute as pc

    special, left = _ask_special(cells, (nan, -0.0), batch)
    integers = cells.integers()
    columns = [left.array]
    if integers is not None:
        nothing = _nothing(cells)
        columns = [pc.if_else(integers, nothing, left.array), pc.if_else(integers, left.array, nothing)]
    names = [batch.ask(column, name) for column in columns]

    def read(found: Found, targets: Sequence[Any]) -> None:
        special(found, targets)
        for place, asked in enumerate(names):
            for target, value in zip(targets, decoded(found.cells(asked), cells.kind), strict=True):
                if value is not MISSING:
                    target.add(int(value) if place else value)

    return read


# --- pairs ---


def add_pairs(name: str, cells: Cells, groups: pa.Array, targets: Sequence[Any]) -> None:
    """Add each different value of each group, given the numbers of the groups; as often as it is there for sums."""
    import pyarrow.compute as pc

    if name == "distinct":
        _add_nulls(cells, groups, targets)
        if element_kind(cells.kind) is not None:
            groups = groups.take(pc.list_parent_indices(whole(cells.array)))
            cells, _ = element_lists(cells)
    if not cells.rows:
        return
    numbered = Numbered.of(cells)
    values = [cells.null if value is MISSING else value for value in numbered.values]
    is_sum = name in {"sum", "avg"}
    if len(targets) == 1 and not is_sum:
        for value in values:
            targets[0].add(value)
        return
    for pair in pc.value_counts(numbered.with_groups(groups)).to_pylist():
        group, number = divmod(pair["values"], len(values))
        for _ in range(pair["counts"] if is_sum else 1):
            targets[group].add(values[number])


def _add_nulls(cells: Cells, groups: pa.Array, targets: Sequence[Any]) -> None:
    """A field that is null has a value, unlike one that is missing."""
    import pyarrow.compute as pc

    if cells.codes is not None:
        for group in pc.unique(groups.filter(whole(pc.equal(cells.codes, _NULL_CODE)))).to_pylist():
            targets[group].add(None)
