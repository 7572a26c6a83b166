"""Aggregations over columns are those of whole documents."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from bson import Decimal128, MaxKey, MinKey, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.columns.portions_rig import COLLECTIONS, WAYS, Values, Way, make_portion, make_portions
from wormdb.bql import aggregation as aggregation_module
from wormdb.bql.aggregation import Aggregation, aggregate, parse_aggregation
from wormdb.errors import LimitExceededError
from wormdb.format.columns import ColumnSpec
from wormdb.format.json import encode
from wormdb.query.columns import tally as column_groups
from wormdb.query.columns import tally as column_sums
from wormdb.query.columns.cells import Cells
from wormdb.query.columns.tally import ColumnTally, split_sums

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.blocks.portion import Portion

FIELDS = st.sampled_from(["a", "b", "a", "b", "a.b", "a.0", "id", "b.a"])
OPERANDS = FIELDS | st.lists(FIELDS, min_size=1, max_size=2)
FUNCTIONS = ("sum", "avg", "min", "max", "distinct")


@st.composite
def aggregations(draw: st.DrawFn) -> Aggregation:
    names = draw(st.lists(st.sampled_from(["count", *FUNCTIONS]), min_size=1, max_size=4, unique=True))
    options: dict[str, Any] = {name: True if name == "count" else draw(OPERANDS) for name in names}
    return parse_aggregation({"group_by": draw(st.none() | OPERANDS), **options})


def group_portions(aggregation: Aggregation, portions: Iterable[Portion]) -> dict[str, Any]:
    tally = ColumnTally(aggregation)
    for portion in portions:
        tally.add(portion)
    return tally.result()


@settings(max_examples=2 * settings().max_examples)
@given(documents=COLLECTIONS, aggregation=aggregations(), way=WAYS, kept=st.sampled_from([1, 4, 1000]))
def test_columns_agree_with_documents(documents: list[Values], aggregation: Aggregation, way: Way, kept: int) -> None:
    with patch.object(column_groups, "KEPT_ROWS", kept):
        found = group_portions(aggregation, make_portions(documents, ColumnTally(aggregation).paths | {"_id"}, way))
        # As text 1 differs from 1.0, and 0.0 from -0.0.
        assert encode(found) == encode(aggregate(aggregation, documents))


VALUES: dict[str, list[Any]] = {
    "int64": [1, 2, 3, -5],
    "int64 over 64 bits": [2**63 - 1, 2**63 - 1, -(2**63), 7],
    "double": [0.1] * 10 + [1e16, 1.0, -1e16, 3.5],
    "double of zeros": [0.0, -0.0, 0.0],
    "double of negative zeros": [-0.0, -0.0],
    "double with integers": [1, 1.0, 2.5, 2**53, 0, -0.0],
    "double of integers alone": [1.5, 7, 9],
    "double far apart": [1e300, 1e-300, 5e-324, -1e300, 2.0**-1000],
    "double too large": [1.7e308, 1.7e308, -1.0],
    "double with NaN": [math.nan, 1.0, 2.0],
    "double of NaN": [math.nan, math.nan],
    "double with infinities": [math.inf, 1.0, math.inf],
    "double with both infinities": [math.inf, -math.inf],
    "decimal": [Decimal128("1.10"), Decimal128("2.20"), Decimal128("0.00")],
    "string": ["b", "a", "\uffff", "\U0001f600", ""],
    "bool": [True, False],
    "date": [datetime(2020, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)],
    "binary": [b"aa", b"b", b"c"],
    "objectid": [ObjectId(bytes(12)), ObjectId(b"\xff" * 12)],
    "list<int64>": [[1, 2], [2, None], []],
    "json": [{"x": 1}, [1, "a", [2]], 1, 1.0, MinKey(), MaxKey()],
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("others", [[], [None, None], ["odd", 1, [3], {"x": 1}, None]])
def test_every_type_of_column(name: str, others: list[Any]) -> None:
    """All functions of a column, and groups by it."""
    kind = name.split(maxsplit=1)[0]
    values = VALUES[name] + others
    documents: list[Values] = [{"_id": number, "g": number % 2, "v": v} for number, v in enumerate(values)]
    documents.append({"_id": -1, "g": 5})
    portion = make_portion(documents, ["_id", "g", "v"], Way((ColumnSpec("v", kind),), is_stored=False))
    functions = dict.fromkeys(FUNCTIONS, "v")
    for options in (
        functions,
        {"group_by": "g", **functions},
        {"group_by": "g", "sum": "v", "avg": "v", "count": True},
    ):
        aggregation = parse_aggregation(options)
        assert encode(group_portions(aggregation, [portion])) == encode(aggregate(aggregation, documents))
    for written in ("v", ["v", "g"]):
        for extra in ({"count": True, "sum": "g"}, {"distinct": "g"}):
            aggregation = parse_aggregation({"group_by": written, **extra})
            assert encode(group_portions(aggregation, [portion])) == encode(aggregate(aggregation, documents))


@given(numbers=st.lists(st.floats(-1e280, 1e280), max_size=30))
def test_the_pieces_of_doubles_have_the_exact_sum(numbers: list[float]) -> None:
    pieces = split_sums(Cells(pa.array(numbers, pa.float64()), "double"))
    assert pieces is not None
    (total,) = pieces.join([[sum(column.to_pylist())] for column in pieces.columns])
    assert total * Fraction(2) ** pieces.power == sum(map(Fraction, numbers))


def test_decimals_that_are_too_large_to_be_added_at_once() -> None:
    documents: list[Values] = [{"_id": number, "v": Decimal128(f"{number}.5")} for number in range(20)]
    aggregation = parse_aggregation({"sum": "v", "avg": "v"})
    portion = make_portion(documents, ["v"])
    assert portion.types["v"] == "decimal"
    expected = encode(aggregate(aggregation, documents))
    with patch.object(column_sums, "DECIMAL_MAX", 20 * 195 - 1):
        assert encode(group_portions(aggregation, [portion])) == expected
    assert encode(group_portions(aggregation, [portion])) == expected


def test_two_documents_of_one_group_in_other_types() -> None:
    """Portions of other types are added up apart, and meet in the groups."""
    documents: list[Values] = [{"_id": 1, "g": 1, "v": 1}, {"_id": 2, "g": 1.0, "v": 2.5}, {"_id": 3, "g": "x", "v": 4}]
    aggregation = parse_aggregation({"group_by": "g", "sum": "v", "min": "v"})
    portions = make_portions(documents, ["g", "v"], Way(is_stored=False, step=1))
    assert len({portion.types["g"] for portion in portions}) == 3
    assert group_portions(aggregation, portions) == {"groups": {"1": {"sum": 3.5, "min": 1}, "x": {"sum": 4, "min": 4}}}


def test_tallies_of_parts_are_merged() -> None:
    documents: list[Values] = [{"_id": number, "g": number % 3, "v": number / 10} for number in range(30)]
    aggregation = parse_aggregation({"group_by": "g", "avg": "v", "count": True})
    first, second = ColumnTally(aggregation), ColumnTally(aggregation)
    first.add(make_portion(documents[:11], first.paths))
    second.add(make_portion(documents[11:], second.paths))
    tally = first.tally()
    tally.merge(second.tally())
    assert tally.result() == aggregate(aggregation, documents)


def test_rows_are_counted_without_columns() -> None:
    tally = ColumnTally(parse_aggregation({"count": True}))
    assert tally.paths == frozenset()
    assert tally.result() == {"count": 0}
    tally.add(make_portion([{"_id": 1}, {"_id": 2}], ["_id"]))
    assert tally.result() == {"count": 2}


def test_too_many_groups() -> None:
    documents: list[Values] = [{"_id": number, "v": number} for number in range(5)]
    portion = make_portion(documents, ["v"])
    aggregation = parse_aggregation({"group_by": "v", "count": True})
    with patch.object(aggregation_module, "GROUPS_MAX", 4), pytest.raises(LimitExceededError, match="too many groups"):
        group_portions(aggregation, [portion])


def test_numbers_are_added_without_python() -> None:
    documents: list[Values] = [
        {"_id": number, "g": f"g{number % 3}", "v": number / 7, "w": number} for number in range(9)
    ]
    portion = make_portion(documents, ["g", "v", "w"])
    aggregation = parse_aggregation({"group_by": "g", "sum": ["v", "w"], "avg": "v", "min": "g", "max": "w"})
    with patch.object(column_groups, "add_pairs", side_effect=AssertionError("all is typed")):
        assert group_portions(aggregation, [portion]) == aggregate(aggregation, documents)
