"""Aggregations over columns: the same results as `wormdb.bql.aggregation.Tally` over the documents.

Arrow numbers the groups of the rows and adds up what it can add up exactly. All else is done in Python for each
different pair of a group and a value. Rows with a cell that is elsewhere are taken in as documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.accumulators import ACCUMULATORS, Count, Distinct, Sum
from wormdb.bql.aggregation import Tally, aggregation_fields
from wormdb.engine.portion import join_portions
from wormdb.format.json import decode_document, encode
from wormdb.format.kinds import MISSING
from wormdb.query.column_cells import Cells, cells_of, decoded, element_kind, element_lists, rows_of_mask
from wormdb.query.column_sums import SUM_ROWS_MAX, sums_by_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from wormdb.bql.accumulators import Accumulator
    from wormdb.bql.aggregation import Aggregation, Function
    from wormdb.engine.portion import Portion
    from wormdb.format.path import Path

__all__ = ["ColumnTally", "group_portions"]

KEPT_ROWS: Final = 262_144
"""So many rows are collected before they are added up together."""

_NUMBERS: Final = frozenset({"int64", "double", "decimal"})
_COMPARED: Final = frozenset({"int64", "double", "decimal", "string", "bool", "date", "objectid"})
"""Types of which Arrow finds the least and the greatest value as we mean it."""


def group_portions(aggregation: Aggregation, portions: Iterable[Portion]) -> dict[str, Any]:
    """The result of an aggregation over portions that have the columns `ColumnTally.paths`.

    No requests of its own; raises LimitExceededError over GROUPS_MAX.
    """
    tally = ColumnTally(aggregation)
    for portion in portions:
        tally.add(portion)
    return tally.result()


class ColumnTally:
    """The state of one aggregation over some portions."""

    def __init__(self, aggregation: Aggregation) -> None:
        """No rows yet."""
        self.aggregation = aggregation
        self._tally = Tally(aggregation)
        self._portions: list[Portion] = []
        self._rows = 0

    @property
    def paths(self) -> frozenset[str]:
        """The columns that portions must have. None are needed to count all rows."""
        return frozenset(aggregation_fields(self.aggregation))

    def add(self, portion: Portion) -> None:
        """Take in rows. No requests; raises LimitExceededError over GROUPS_MAX."""
        for start in range(0, portion.rows, SUM_ROWS_MAX // 2):
            part = portion.slice(start, min(start + SUM_ROWS_MAX // 2, portion.rows))
            self._portions.append(part)
            self._rows += part.rows
            if self._rows >= KEPT_ROWS:
                self._settle()

    def tally(self) -> Tally:
        """All that was taken in; raises LimitExceededError over GROUPS_MAX."""
        self._settle()
        return self._tally

    def result(self) -> dict[str, Any]:
        """As `Tally.result`; raises LimitExceededError over GROUPS_MAX."""
        return self.tally().result()

    def _settle(self) -> None:
        alike: dict[tuple[str, ...], list[Portion]] = {}
        for portion in self._portions:
            types = tuple(str(portion.table.column(path).type) + portion.types[path] for path in sorted(self.paths))
            alike.setdefault(types, []).append(portion)
        self._portions, self._rows = [], 0
        for portions in alike.values():
            self._take_in(join_portions(portions))

    def _take_in(self, portion: Portion) -> None:
        import pyarrow.compute as pc

        for path in self.paths:
            elsewhere = cells_of(portion, path).elsewhere()
            if elsewhere is not None:
                for body in portion.documents(rows_of_mask(elsewhere).to_pylist()):
                    self._tally.add(decode_document(body, name="a document"))
                portion = portion.filter(pc.invert(elsewhere))
        if portion.rows:
            grouped = _Grouped.of(portion, self.aggregation.group_by or ())
            columns = [grouped.accumulated(portion, function) for function in self.aggregation.functions]
            for key, accumulators in zip(grouped.keys, zip(*columns, strict=True), strict=True):
                self._tally.add_group(key, accumulators)


# --- groups ---


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Cells by numbers: equal numbers are equal values, of one type and written alike."""

    numbers: pa.Array
    values: Sequence[Any]
    """Of each number; MISSING where the cell is null."""

    @classmethod
    def of(cls, cells: Cells) -> _Numbered:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind, array = cells.kind, _whole(cells.array)
        if element_kind(kind) is not None:
            texts = [None if value is MISSING else encode(value).decode() for value in decoded(array, kind)]
            kind, array = "json", pa.array(texts, pa.string())
        encoded = array.dictionary_encode(null_encoding="encode")
        values = decoded(encoded.dictionary, kind)
        integers = cells.integers()
        if integers is None:
            return cls(encoded.indices, values)
        both = pc.add(pc.multiply(encoded.indices.cast(pa.int64()), 2), _whole(integers).cast(pa.int64()))
        numbered = both.dictionary_encode()
        shown = [int(values[n >> 1]) if n & 1 else values[n >> 1] for n in numbered.dictionary.to_pylist()]
        return cls(numbered.indices, shown)

    def with_groups(self, groups: pa.Array) -> pa.Array:
        """One number for each pair of a group and a value: `divmod` by how many values there are tells them apart."""
        import pyarrow as pa
        import pyarrow.compute as pc

        scaled = pc.multiply(groups.cast(pa.int64()), pa.scalar(len(self.values), pa.int64()))
        return pc.add(scaled, self.numbers.cast(pa.int64()))


@dataclass(frozen=True, slots=True)
class _Grouped:
    """The rows of a portion in groups."""

    groups: pa.Array
    """Of each row the number of its group."""
    keys: Sequence[tuple[Any, ...]]
    """Of each group. Several may be equal, such as those of 1 and 1.0."""

    @classmethod
    def of(cls, portion: Portion, paths: Sequence[Path]) -> _Grouped:
        import pyarrow as pa

        found: _Grouped | None = None
        for path in paths:
            numbered = _Numbered.of(cells_of(portion, ".".join(path)))
            values = [None if value is MISSING else value for value in numbered.values]
            if found is None:
                found = cls(numbered.numbers, [(value,) for value in values])
                continue
            pairs = numbered.with_groups(found.groups).dictionary_encode()
            split = [divmod(pair, len(values)) for pair in pairs.dictionary.to_pylist()]
            found = cls(pairs.indices, [(*found.keys[group], values[number]) for group, number in split])
        return found or cls(pa.repeat(pa.scalar(0, pa.int32()), portion.rows), [()])

    def accumulated(self, portion: Portion, function: Function) -> list[Accumulator]:
        """One function of all groups."""
        import pyarrow.compute as pc

        if function.name == "count":
            found = [0] * len(self.keys)
            for item in pc.value_counts(self.groups).to_pylist():
                found[item["values"]] = item["counts"]
            return [Count(count) for count in found]
        targets = [ACCUMULATORS[function.name]() for _ in self.keys]
        cells = cells_of(portion, ".".join(function.path))
        if function.name == "distinct":
            self._add_distinct(cells, targets)
        elif function.name in {"min", "max"}:
            self._add_extremes(cells, function.name, targets)
        else:
            self._add_sums(cells, targets)
        return targets

    # sums

    def _add_sums(self, cells: Cells, targets: Sequence[Any]) -> None:
        import pyarrow.compute as pc

        if cells.kind == "json":
            return self._add_counted(cells, targets)
        if cells.kind not in _NUMBERS:
            return None  # what is no number does not count
        if cells.kind == "double":
            cells = self._without(cells, pc.is_finite(cells.array), targets)
        sums = sums_by_group(cells, self.groups)
        if sums is None:
            return self._add_counted(cells, targets)
        for group, kind, count, numbers in sums:
            target = targets[group]
            assert isinstance(target, Sum)
            target.numbers.add_many(kind, count, numbers)
        return None

    def _without(self, cells: Cells, plain: Any, targets: Sequence[Accumulator]) -> Cells:
        """Cells with null for those that are not plain, which are few: they are added here, each by itself."""
        import pyarrow as pa
        import pyarrow.compute as pc

        odd = rows_of_mask(pc.fill_null(pc.invert(plain), False))  # noqa: FBT003 - Arrow's own signature
        if not len(odd):
            return cells
        for group, value in zip(
            self.groups.take(odd).to_pylist(), decoded(cells.array.take(odd), cells.kind), strict=True
        ):
            targets[group].add(value)
        return replace(cells, array=pc.if_else(plain, cells.array, pa.scalar(None, cells.array.type)))

    def _add_counted(self, cells: Cells, targets: Sequence[Accumulator]) -> None:
        for group, value, count in self._pairs(cells):
            for _ in range(count):
                targets[group].add(value)

    def _pairs(self, cells: Cells) -> Iterator[tuple[int, Any, int]]:
        """Every pair of a group and a value, MISSING for null, and how often it is there."""
        import pyarrow.compute as pc

        numbered = _Numbered.of(cells)
        for item in pc.value_counts(numbered.with_groups(self.groups)).to_pylist():
            group, number = divmod(item["values"], len(numbered.values))
            yield group, numbered.values[number], item["counts"]

    # extremes

    def _add_extremes(self, cells: Cells, name: str, targets: Sequence[Accumulator]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if cells.kind not in _COMPARED:
            for group, value, _ in self._pairs(cells):
                targets[group].add(value)
            return
        columns = [cells.array]
        if cells.kind == "double":
            # NaN and the negative zero are odd: Arrow passes over the one, and does not tell the other from zero.
            bits = _whole(cells.array).view(pa.int64())
            odd = pc.or_(pc.is_nan(_whole(cells.array)), pc.equal(bits, pa.scalar(-(2**63), pa.int64())))
            cells = self._without(cells, pc.invert(odd), targets)
            columns = [cells.array]
            if (integers := cells.integers()) is not None:
                nothing = pa.scalar(None, cells.array.type)
                columns = [pc.if_else(integers, nothing, cells.array), pc.if_else(integers, cells.array, nothing)]
        for place, column in enumerate(columns):
            found = pa.table({"group": self.groups, "x": column}).group_by("group").aggregate([("x", name)])
            values = decoded(found.column(f"x_{name}"), cells.kind)
            for group, value in zip(found.column("group").to_pylist(), values, strict=True):
                if value is not MISSING:
                    targets[group].add(int(value) if place else value)

    # distinct values

    def _add_distinct(self, cells: Cells, targets: Sequence[Accumulator]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if cells.codes is not None:
            for group in pc.unique(self.groups.filter(_whole(pc.equal(cells.codes, 1)))).to_pylist():
                targets[group].add(None)
        grouped = self
        if element_kind(cells.kind) is not None:
            arrays = _whole(cells.array)
            grouped = _Grouped(self.groups.take(pc.list_parent_indices(arrays)), self.keys)
            cells, _ = element_lists(cells)
            if not cells.rows:
                return
        for group, value, _ in grouped._pairs(cells):  # noqa: SLF001 - of the same class
            if value is not MISSING or cells.null is None:
                targets[group].add(None if value is MISSING else value)


def _whole(array: Any) -> pa.Array:
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
