"""Aggregations over columns: the same results as `wormdb.bql.aggregation.Tally` over the documents.

Arrow groups the rows and adds up what it can add up exactly, all functions in one pass. What it cannot is done in
Python for each different pair of a group and a value. Rows with a cell that is elsewhere are taken in as documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.accumulators import ACCUMULATORS
from wormdb.bql.aggregation import Tally, aggregation_fields
from wormdb.engine.blocks.portion import join_portions
from wormdb.format.json import decode_document
from wormdb.query.column_functions import add_pairs, ask_function
from wormdb.query.columns.cells import cells_of, rows_of_mask
from wormdb.query.columns.keys import Batch, group_rows

if TYPE_CHECKING:
    from wormdb.bql.aggregation import Aggregation
    from wormdb.engine.blocks.portion import Portion

__all__ = ["ColumnTally"]

KEPT_ROWS: Final = 262_144
"""So many rows are collected before they are added up together."""


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
        self._portions.append(portion)
        self._rows += portion.rows
        if self._rows >= KEPT_ROWS:
            self._settle()

    def tally(self) -> Tally:
        """All that was taken in, to be merged or read; raises LimitExceededError over GROUPS_MAX."""
        self._settle()
        return self._tally

    def result(self) -> dict[str, Any]:
        """As `Tally.result`; raises LimitExceededError over GROUPS_MAX."""
        return self.tally().result()

    def _settle(self) -> None:
        alike: dict[tuple[str, ...], list[Portion]] = {}
        for portion in self._portions:
            types = tuple(f"{portion.types[path]} {portion.table.column(path).type}" for path in sorted(self.paths))
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
            self._add_up(portion)

    def _add_up(self, portion: Portion) -> None:
        """Take in rows of which columns tell everything."""
        functions = self.aggregation.functions
        columns = {path: cells_of(portion, path) for path in self.paths}
        batch = Batch()
        readers = [ask_function(function.name, columns.get(".".join(function.path)), batch) for function in functions]
        rows = group_rows(portion, self.aggregation.group_by or (), numbered=None in readers)
        keys, found = batch.run(rows)
        results = []
        for function, read in zip(functions, readers, strict=True):
            targets = [ACCUMULATORS[function.name]() for _ in keys]
            if read is not None:
                read(found, targets)
            else:
                add_pairs(function.name, columns[".".join(function.path)], rows.groups, targets)
            results.append(targets)
        self._tally.add_groups(keys, zip(*results, strict=True))
