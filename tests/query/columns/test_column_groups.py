"""Aggregations over columns are those of whole documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.columns.portions_rig import COLLECTIONS, COLUMNS, Values, make_portions
from wormdb.bql.aggregation import Aggregation, aggregate, parse_aggregation
from wormdb.format.json import encode
from wormdb.query import column_groups
from wormdb.query.column_groups import ColumnTally

if TYPE_CHECKING:
    from wormdb.format.columns import ColumnSpec

FIELDS = st.sampled_from(["a", "b", "a.b", "a.0", "id", "b.a"])
OPERANDS = FIELDS | st.lists(FIELDS, min_size=1, max_size=2, unique=True)


@st.composite
def aggregations(draw: st.DrawFn) -> Aggregation:
    names = draw(st.lists(st.sampled_from(["count", "sum", "avg", "min", "max", "distinct"]), min_size=1, unique=True))
    options: dict[str, Any] = {name: True if name == "count" else draw(OPERANDS) for name in names}
    return parse_aggregation({"group_by": draw(st.none() | OPERANDS), **options})


def exactly(result: dict[str, Any]) -> bytes:
    """A result as text that tells 1 from 1.0 and 0.0 from -0.0."""
    return encode(result)


@settings(max_examples=10 * settings().max_examples)
@given(
    documents=COLLECTIONS,
    aggregation=aggregations(),
    columns=COLUMNS,
    tail=st.integers(0, 3),
    kept=st.sampled_from([1, 4, 1000]),
)
def test_columns_agree_with_documents(
    documents: list[Values], aggregation: Aggregation, columns: list[ColumnSpec], tail: int, kept: int
) -> None:
    with patch.object(column_groups, "KEPT_ROWS", kept):
        tally = ColumnTally(aggregation)
        for portion in make_portions(documents, sorted(tally.paths | {"_id"}), columns, tail=min(tail, len(documents))):
            tally.add(portion)
        assert exactly(tally.result()) == exactly(aggregate(aggregation, documents))
