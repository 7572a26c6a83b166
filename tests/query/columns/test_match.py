"""Masks over columns say what filters say of documents."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bql.written import FILTERS, LEAVES, filled, parts
from tests.query.columns.portions_rig import COLLECTIONS, WAYS, Values, Way, make_portion, make_portions
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.tree import Size
from wormdb.engine.blocks.portion import DOCUMENT, ColumnCodes, Portion
from wormdb.errors import InvalidRequestError
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.query.columns import cells as column_tests
from wormdb.query.columns import match as column_conditions
from wormdb.query.columns.cells import Cells
from wormdb.query.columns.match import compile_columns

if TYPE_CHECKING:
    from collections.abc import Iterator


def found(portion: Portion, written: Values) -> list[Any]:
    """The ids that a mask finds; of columns that are kept, too."""
    tree = compile_columns(parse_filter(written))
    mask = tree.mask(portion)
    assert len(mask) == portion.rows
    assert mask.null_count == 0
    for each in kept(portion):
        assert tree.mask(each).to_pylist() == mask.to_pylist()
    return portion.filter(mask).values("_id")


def kept(portion: Portion) -> Iterator[Portion]:
    """The same portion as it is when it is asked for the first time, and then coded; if it has texts."""
    if "string" not in portion.types.values():
        return iter(())
    table = portion.table.combine_chunks()
    twice = Portion(table, portion.types, ColumnCodes(table))
    return iter([twice, twice])


def matching(documents: list[Values], written: Values) -> list[Any]:
    """The same by whole documents, in order of id."""
    matches = compile_filter(parse_filter(written))
    ordered = sorted(documents, key=lambda document: encode_key(document["_id"]))
    return [document["_id"] for document in ordered if matches(document)]


NEAR = st.dictionaries(st.sampled_from(["a", "b", "a", "b", "a.b", "id"]), st.one_of(*LEAVES), min_size=1, max_size=2)
NEAR_FILTERS = NEAR | st.builds(
    lambda name, filters: {name: filters},
    st.sampled_from(["$and", "$or", "$nor"]),
    st.lists(NEAR, min_size=1, max_size=3),
)
"""Filters of the fields that documents have."""


@settings(max_examples=2 * settings().max_examples)
@given(documents=COLLECTIONS, written=FILTERS | NEAR_FILTERS, way=WAYS, whole=st.booleans())
def test_masks_agree_with_documents(documents: list[Values], written: Values, way: Way, whole: bool) -> None:
    values = [part for document in documents for part in parts(document) if part is not document]
    written = filled(written, values or [0])
    try:
        names = compile_columns(parse_filter(written)).paths
    except InvalidRequestError:
        return
    portions = make_portions(documents, names | {"_id", *([DOCUMENT] if whole else [])}, way)
    actual = [identity for portion in portions for identity in found(portion, written)]
    assert list(map(repr, actual)) == list(map(repr, matching(documents, written)))


# --- every operand on every type of column ---

ZERO, ONE = ObjectId(bytes(12)), ObjectId(b"\xff" * 12)
CELLS: dict[str, list[Any]] = {
    "int64": [0, 1, -1, 3, 2**31 - 1, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)],
    "double": [
        0.0,
        -0.0,
        1.0,
        1.5,
        -1.5,
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        -(2.0**63),
        5e-324,
        -5e-324,
        1e308,
        math.nan,
        math.inf,
        -math.inf,
    ],
    "decimal": [Decimal128(text) for text in ("0.00", "1.00", "1.50", "-1.50", "9007199254740993.00", "1.005")],
    "string": ["", "a", "ab", "b", "A", "a\0b", "a\nb", "é", "ß", "\uffff", "\U0001f600"],
    "bool": [True, False],
    "date": [datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)],
    "binary": [b"", b"a", b"b", b"ab"],
    "objectid": [ZERO, ONE],
}
NUMBERS: list[Any] = [
    *[*CELLS["int64"], *CELLS["double"], *CELLS["decimal"], 0.1, 2.5, -(2.0**64), 1e300],
    *map(Decimal128, ["NaN", "Infinity", "-Infinity", "-0", "1E-6176", "-1E-6176", "1E+6144", "-1E+400", "0.1", "1.5"]),
    *map(Decimal128, ["9007199254740993", "9007199254740992.5", "9223372036854775808", "-9223372036854775809"]),
]
OTHERS: list[Any] = [None, MinKey(), MaxKey(), [], {}, [1], ["a", "b"], {"a": 1}, Binary(b"a", 5), 2, 2.5, "ab", ["ab"]]


def operands(kind: str) -> list[Any]:
    """Values that are related to those of a column, and one of each other type."""
    if kind.startswith("list<"):
        return [*OTHERS, *CELLS[kind[5:-1]][::2]]
    related = NUMBERS if kind in {"int64", "double", "decimal"} else CELLS.get(kind, [0, 1.5, "", ONE])
    return [*OTHERS, *related, ZERO, b"a", True]


def columns() -> list[Any]:
    """A column of each type with values of it, alone and among null and values of other types."""
    found = []
    for kind, values in CELLS.items():
        lists: list[Any] = [[], [None], *([value] for value in values), values, [*values[:1], None]]
        for name, cells in ((kind, values), (f"list<{kind}>", lists)):
            alone = [{"v": value} for value in cells]
            found.append(pytest.param(name, [*alone, {}], id=name))
            found.append(pytest.param(name, [{}, *({"v": value} for value in OTHERS), *alone], id=f"{name} and others"))
    mixed = [{"v": value} for value in [*OTHERS, *(values[-1] for values in CELLS.values())] if value is not None]
    found.append(pytest.param("json", mixed, id="json"))
    found.append(pytest.param("json", [*mixed, {}, {"v": None}], id="json and others"))
    return found


def check(kind: str, cells: list[Values], conditions: list[Any]) -> None:
    """Each condition on one column."""
    documents = [{"_id": number, **cell} for number, cell in enumerate(cells)]
    portion = make_portion(documents, ["_id", "v"], Way((ColumnSpec("v", kind),), is_stored=False))
    assert portion.types["v"] == kind
    for condition in conditions:
        tree = parse_filter({"v": condition})
        for each in (portion, *kept(portion)):
            mask = compile_columns(tree).mask(each)
            assert mask.to_pylist() == list(map(compile_filter(tree), documents)), condition


@pytest.mark.parametrize(("kind", "cells"), columns())
def test_every_comparison_on_every_type(kind: str, cells: list[Values]) -> None:
    conditions = [{op: operand} for op in ("$eq", "$gt", "$gte", "$lt", "$lte") for operand in operands(kind)]
    check(kind, cells, conditions)


def test_a_condition_without_a_case_of_its_own_is_asked_of_each_value() -> None:
    """A new operator is right before it is fast. `Size` stands for it: cells are never asked about it."""
    for values, kind, expected in (
        ([1, 2, None, 4], "int64", [False, True, None, True]),
        (["a", "bb", None, "bb"], "string", [False, True, None, True]),
    ):
        cells = Cells(pa.array(values), kind)
        outcome = column_tests.ask_cells(Size(("v",), 1), cells, lambda value: value in (2, 4, "bb"))
        assert isinstance(outcome, pa.Array)
        assert outcome.to_pylist() == expected


@pytest.mark.parametrize(("kind", "cells"), columns())
def test_every_other_condition_on_every_type(kind: str, cells: list[Values]) -> None:
    values = operands(kind)
    lists = [values, values[::2], values[1::2], [], [None], [0], [-0.0], [math.nan], ["a", Regex("b$")]]
    types = ["int", "long", "double", "string", "bool", "date", "binData", "objectId", "decimal", "null", "array"]
    check(
        kind,
        cells,
        [
            *({op: listed} for op in ("$in", "$nin", "$all") for listed in lists),
            *({"$contains": operand} for operand in values),
            *({"$type": name} for name in [*types, ["int", "long"], ["double", "int"], ["double", "long"], "object"]),
            *({"$exists": there} for there in (True, False)),
            *({"$size": count} for count in (0, 1, 2)),
            *({"$mod": [by, rest]} for by in (1, 2, -3, 2**31, 2**63 - 1, -(2**63)) for rest in (0, 1, -1)),
            *({op: text} for op in ("$startsWith", "$endsWith") for text in ("", "a", "\0b", "é", "\U0001f600")),
            *({"$elemMatch": {op: 1}} for op in ("$eq", "$gt", "$ne")),
            *({"$elemMatch": {"$gte": low, "$lt": high}} for low, high in ((0, 2), ("", "b"), (None, None))),
            *({"$elemMatch": condition} for condition in ({"x": 1}, {"$exists": True}, {"$not": {"$type": "string"}})),
            *({"$elemMatch": {"$in": listed}} for listed in lists),
        ],
    )


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("a", ""),
        ("^a", ""),
        ("A", "i"),
        ("^b$", "m"),
        ("a.b", ""),
        ("a.b", "s"),
        ("a b # c", "x"),
        ("^.$", ""),
        (r"\w", ""),
        (r"\W", "i"),
        ("[[:alpha:]]+", ""),
        (r"\pL", ""),
        (r"^\PL*$", ""),
        ("é", ""),
        ("É", "i"),
        (r"\x{1F600}", ""),
        ("", ""),
        ("s", "i"),
        ("a|é", ""),
    ],
)
def test_regular_expressions(pattern: str, options: str) -> None:
    texts = [*CELLS["string"], "\u017f", "É", "xay", "a b # c", "ab\n"]
    documents = [{"_id": number, "v": text} for number, text in enumerate(texts)]
    portion = make_portion(documents, ["_id", "v"])
    assert portion.types["v"] == "string"
    for written in ({"$regex": pattern, "$options": options}, {"$not": {"$regex": pattern, "$options": options}}):
        assert found(portion, {"v": written}) == matching(documents, {"v": written})


def test_a_pattern_that_arrow_refuses_is_asked_of_python() -> None:
    documents = [{"_id": 1, "v": "ab"}, {"_id": 2, "v": "b"}]
    portion = make_portion(documents, ["_id", "v"])
    with patch("pyarrow.compute.match_substring_regex", side_effect=pa.ArrowInvalid("too large")):
        assert found(portion, {"v": {"$regex": "^a.$"}}) == [1]


def test_a_long_list_of_values() -> None:
    documents = [{"_id": number, "v": f"k{number}"} for number in range(300)]
    portion = make_portion(documents, ["_id", "v"])
    wanted = [f"k{number}" for number in range(0, 9000, 3)]
    assert found(portion, {"v": {"$in": wanted}}) == list(range(0, 300, 3))


# --- columns that are kept ---


@pytest.mark.parametrize("different", [1, 3, 7, 256, 257, 5_000])
@pytest.mark.parametrize("nulls", [0, 5])
def test_texts_are_coded_where_few_are_different(different: int, nulls: int) -> None:
    texts: list[str | None] = [f"t{number % different}" for number in range(6_000)]
    texts[10 : 10 + nulls] = [None] * nulls
    table = pa.table({"v": texts})
    codes = ColumnCodes(table)
    assert codes.find("v") is None, "once would not be worth it"
    coded = codes.find("v")
    assert (coded is None) is (different > 256)
    assert codes.find("v") is coded
    if coded is not None:
        assert coded.texts.null_count == 0
        assert [None if code is None else coded.texts[code].as_py() for code in coded.codes.to_pylist()] == texts


@pytest.mark.parametrize("wanted", [0, 1, 6, 7, 40, 300])
def test_conditions_on_coded_texts_of_many_rows(wanted: int) -> None:
    documents: list[Values] = [{"_id": number, "v": f"t{number % 50:02}"} for number in range(500)]
    documents += [{"_id": 500, "v": None}, {"_id": 501}]
    portion = next(kept(make_portion(documents, ["_id", "v"])))
    for written in (
        {"v": {"$in": [f"t{number:02}" for number in range(wanted)]}},
        {"v": {"$nin": [f"t{number:02}" for number in range(wanted)]}},
        {"v": {"$gte": f"t{wanted:02}"}},
        {"v": {"$in": [None, "t07"]}},
        {"v": {"$regex": "7$"}},
        {"v": {"$exists": True}},
        {"v": {"$type": "string"}},
        {"v": {"$startsWith": "t4"}},
    ):
        for _ in range(3):
            assert found(portion, written) == matching(documents, written)


# --- what is asked of Python ---


def test_only_rows_that_still_matter_are_looked_at() -> None:
    """Conditions that Arrow answers come first, and the others are asked of the rows that are left."""
    documents: list[Values] = [{"_id": number, "a": number, "b": number} for number in range(8)]
    documents[2]["b"], documents[3]["b"], documents[5]["b"] = "x", "x", [{"c": 1}]
    portion = make_portion(documents, ["_id", "a", "b"], Way((ColumnSpec("b", "int64"),)))
    looked: list[list[int]] = []
    elsewhere = Portion.elsewhere

    def note(self: Portion, name: str, rows: Any) -> list[Any]:
        looked.append(list(rows))
        return elsewhere(self, name, rows)

    with patch.object(Portion, "elsewhere", note):
        assert found(portion, {"b": "x"}) == [2, 3]
        assert found(portion, {"b": "x", "a": {"$gt": 2}}) == [3]
        assert found(portion, {"$or": [{"b": "x"}, {"a": {"$lt": 5}}]}) == [0, 1, 2, 3, 4]
        assert found(portion, {"$nor": [{"b": "x"}, {"a": {"$lt": 5}}]}) == [5, 6, 7]
        assert found(portion, {"b": "x", "a": {"$gt": 5}}) == []
        assert found(portion, {"a": {"$type": "string"}, "b": "x"}) == []
        assert found(portion, {"$nor": [{"a": {"$type": "int"}}, {"b": "x"}]}) == []
    assert looked == [[2, 3, 5], [3, 5], [5], [5]]


def test_typed_columns_need_no_python() -> None:
    documents: list[Values] = [{"_id": number, "a": number, "b": f"k{number}", "c": [number]} for number in range(9)]
    portion = make_portion(documents, ["_id", "a", "b", "c"])
    refuse = AssertionError("no value is decoded")
    with (
        patch.object(column_tests, "ask_distinct", side_effect=refuse),
        patch.object(column_conditions, "ask_distinct", side_effect=refuse),
        patch.object(column_conditions, "decode_cells", side_effect=refuse),
    ):
        written = {"a": {"$gt": 2, "$mod": [2, 0]}, "b": {"$regex": "^k[1-6]"}, "c": {"$elemMatch": {"$lt": 6}}}
        assert found(portion, written) == [4]
        assert found(portion, {"a": {"$in": [1, 2.0]}, "b": {"$startsWith": "k"}, "c": {"$size": 1}}) == [1, 2]


def test_a_filter_names_its_columns() -> None:
    tree = parse_filter({"a.b": 1, "$or": [{"id": 2}, {"c": {"$elemMatch": {"d": 1}}}], "e": {"$all": [1, 2]}})
    assert compile_columns(tree).paths == {"a.b", "_id", "c", "e"}
    assert compile_columns(parse_filter({})).paths == frozenset()


def test_filters_without_conditions() -> None:
    portion = make_portion([{"_id": 1}, {"_id": 2}], ["_id"])
    assert found(portion, {}) == [1, 2]
    assert found(portion, {"$not": {}}) == []
    assert found(portion.slice(0, 0), {"_id": 1}) == []
