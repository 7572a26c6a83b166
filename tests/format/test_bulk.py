from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format import bulk
from wormdb.format.block import Row, write_block
from wormdb.format.blockread import open_block, read_columns
from wormdb.format.bulk import bulk_columns
from wormdb.format.columns import ColumnSpec, EncodedColumn, encode_column
from wormdb.format.json import encode_document
from wormdb.format.project import project

START = datetime(2020, 1, 1, tzinfo=UTC)
TYPES = ("auto", "int64", "double", "string", "bool", "date", "list<string>", "list<int64>", "list<bool>", "json")


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS_MIN", 1)


def slowly(documents: list[bytes | None], specs: list[ColumnSpec]) -> dict[str, EncodedColumn]:
    """The same columns by the way that takes everything."""
    columns = project(documents, [spec.path for spec in specs], name="x")
    return {spec.path: encode_column(spec, values) for spec, values in zip(specs, columns, strict=True)}


def same(one: EncodedColumn, other: EncodedColumn) -> bool:
    kinds = (one.kinds is None) == (other.kinds is None) and (one.kinds is None or one.kinds.equals(other.kinds))
    return (one.stats, one.type) == (other.stats, other.type) and one.cells.equals(other.cells) and kinds


def checked(documents: list[dict[str, Any] | None], specs: list[ColumnSpec]) -> set[str]:
    """The paths that Arrow took, which must be what the slow way makes of them."""
    stored = [
        None if document is None else encode_document({"_id": n, **document}) for n, document in enumerate(documents)
    ]
    found = bulk_columns(stored, list(range(len(stored))), specs)
    expected = slowly(stored, specs)
    for path, column in found.items():
        assert same(column, expected[path]), (path, column, expected[path])
    return set(found)


def scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-3, 3),
        st.floats(allow_nan=True),
        st.sampled_from([0.0, -0.0, 1.0, 5, 2**53 + 1, 1e300, "null", ":null", "\n", "\\u0000"]),
        st.text(max_size=4),
        st.integers(-(10**11), 10**11).map(lambda n: START + timedelta(milliseconds=n)),
        st.binary(max_size=3),
    )


def alike() -> st.SearchStrategy[list[Any]]:
    """Values of one type mostly, as in real columns, so that Arrow has something to take."""
    dates = st.integers(0, 10**12).map(lambda n: START + timedelta(milliseconds=n))
    kinds: list[st.SearchStrategy[Any]] = [
        st.integers(-(2**63), 2**63 - 1),
        st.one_of(st.floats(), st.integers(-3, 3)),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=4),
        st.booleans(),
        dates,
        st.lists(st.none() | st.text(max_size=2), max_size=3),
        st.lists(st.integers(-3, 3), max_size=3),
        st.lists(st.booleans(), max_size=2),
        scalars(),
        st.lists(scalars(), max_size=2),
    ]
    gaps = st.sampled_from([None, ...])
    return st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind | kind | gaps, min_size=1, max_size=6))


@given(alike(), alike(), st.sampled_from(TYPES), st.sampled_from(TYPES), st.booleans())
def test_what_arrow_takes_is_what_the_slow_way_makes(
    flat: list[Any], deep: list[Any], first: str, second: str, holes: bool
) -> None:
    documents: list[dict[str, Any] | None] = []
    for one, other in zip(flat, deep, strict=False):
        document: dict[str, Any] = {} if one is ... else {"a": one}
        documents.append(document if other is ... else {**document, "b": {"c": other}})
    if holes:
        documents[len(documents) // 2] = None
    checked(documents, [ColumnSpec("a", first), ColumnSpec("b.c", second), ColumnSpec("b.d")])


def test_the_usual_columns_are_taken() -> None:
    documents: list[dict[str, Any] | None] = [
        {"s": f"é{n}", "i": n, "f": n + 0.5, "b": n % 2 == 0, "d": START, "l": ["x", None], "n": {"s": "y"}}
        for n in range(20)
    ]
    documents[3] = None
    documents[4] = {"s": None, "i": 1, "f": 7, "d": None, "n": None}
    documents[5] = {"f": 2.0, "n": {}}
    paths = ["s", "i", "f", "b", "d", "l", "n.s"]
    types = ["string", "int64", "double", "bool", "date", "list<string>", "string"]
    assert checked(documents, [ColumnSpec(path) for path in paths]) == set(paths)
    specs = [ColumnSpec(path, kind) for path, kind in zip(paths, types, strict=True)]
    assert checked(documents, specs) == set(paths)


@pytest.mark.parametrize(
    "odd",
    [
        {"a": "x"},
        {"a": [1]},
        {"a": {"b": 1}},
        {"a": datetime(1950, 1, 1, tzinfo=UTC)},
        {"a": float("nan")},
    ],
)
def test_one_odd_value_leaves_the_columns_to_the_slow_way(odd: dict[str, Any]) -> None:
    assert checked([*[{"a": 1}] * 5, odd], [ColumnSpec("a")]) == set()


def test_integers_beside_doubles_and_columns_beside_odd_values_are_taken() -> None:
    documents: list[dict[str, Any] | None] = [{"a": 1, "b": "x", "c": n} for n in range(5)]
    documents += [{"a": 1.5, "b": 7, "c": 5}]
    assert checked(documents, [ColumnSpec("a"), ColumnSpec("b"), ColumnSpec("c")]) == {"a", "c"}


def test_an_integer_that_no_double_holds_leaves_its_column_only() -> None:
    documents: list[dict[str, Any] | None] = [{"a": 1.5, "b": 1}, {"a": 2**53 + 1, "b": 2}]
    assert checked(documents, [ColumnSpec("a", "double"), ColumnSpec("b", "int64")]) == {"b"}


def test_a_field_that_is_read_itself_is_not_read_below() -> None:
    documents: list[dict[str, Any] | None] = [{"a": {"b": 1}}, {"a": "x"}]
    assert checked(documents, [ColumnSpec("a", "string"), ColumnSpec("a.b", "int64")]) == set()
    assert checked([{"a": {"b": 1}}], [ColumnSpec("a", "json"), ColumnSpec("a.b", "int64")]) == {"a", "a.b"}


_objects = st.dictionaries(st.text("ab$", min_size=1, max_size=2).filter(lambda name: name[0] != "$"), scalars())


@given(
    st.lists(
        st.fixed_dictionaries(
            {"x": st.just(1)},
            optional={
                "a": _objects | st.lists(_objects, max_size=2) | st.none() | scalars(),
                "b": _objects,
                "c": st.lists(_objects, max_size=2),
            },
        ),
        min_size=1,
        max_size=6,
    )
)
def test_json_is_taken_as_it_stands(documents: list[dict[str, Any] | None]) -> None:
    specs = [ColumnSpec("x", "int64"), ColumnSpec("a", "json"), ColumnSpec("b"), ColumnSpec("c")]
    assert checked(documents, specs) >= {"x", "a"}


def test_columns_of_documents_and_of_arrays_of_documents_are_taken() -> None:
    documents: list[dict[str, Any] | None] = [
        {"x": 1, "a": {"b": 1}, "c": [{"d": "ü"}, {}], "when": START},
        {"x": 2, "a": None, "c": [{}]},
        {"x": 3, "c": []},
        None,
    ]
    assert checked(documents, [ColumnSpec(name) for name in ("x", "a", "c")]) == {"x", "a", "c"}
    # More arrays without elements than others, a date among documents: another type may be the most frequent.
    assert checked([{"x": 1, "c": []}, {"x": 1, "c": [{}]}], [ColumnSpec("x"), ColumnSpec("c")]) == {"x"}
    assert checked([{"x": 1, "c": [START]}, {"x": 1, "c": {}}], [ColumnSpec("x"), ColumnSpec("c")]) == {"x"}


def test_documents_of_other_ids_or_of_several_lines_are_left_alone() -> None:
    specs = [ColumnSpec("a", "int64")]
    assert bulk_columns([b'{"_id":1,"a":1}'], [1], specs).keys() == {"a"}
    assert bulk_columns([b'{"_id":1,"a":1}'], [2], specs) == {}
    assert bulk_columns([b'{"_id":"1","a":1}'], ["1"], specs).keys() == {"a"}
    assert bulk_columns([b'{"_id":"1","a":1}'], [1], specs) == {}
    assert bulk_columns([b'{"_id":1.0,"a":1}'], [1.0], specs) == {}
    assert bulk_columns([b'{"_id":1,"a":1}\n{"_id":2,"a":1}'], [1], specs) == {}
    assert bulk_columns([b'{"_id":1,"a":1'], [1], specs) == {}


def test_what_is_no_document_is_corruption_however_it_is_read() -> None:
    stored = [Row(n, 1, 1, b'{"_id":%d,"a":{"$date":5}}' % n) for n in range(3)]
    for kind in ("auto", "date", "int64"):
        with pytest.raises(CorruptionError):
            write_block(stored, [ColumnSpec("a", kind)])


def test_a_block_has_both_kinds_of_columns_in_their_order() -> None:
    documents = [{"_id": f"k{n:03}", "j": {"x": [n]}, "a": n, "b": {"c": "é" * 300_000}} for n in range(3)]
    rows = [Row(document["_id"], 1, 1, encode_document(document)) for document in documents]
    specs = [ColumnSpec("j", "json"), ColumnSpec("a", "int64"), ColumnSpec("b", "json"), ColumnSpec("b.c", "string")]
    block = write_block(rows, specs)
    columns = read_columns(open_block(block.parquet, name="x", sha256=block.sha256), ["_id", *(s.path for s in specs)])
    assert [stats.path for stats in block.columns] == list(columns)
    assert columns["j"] == [document["j"] for document in documents]
    assert columns["a"] == [0, 1, 2]
    assert columns["b.c"] == ["é" * 300_000] * 3
