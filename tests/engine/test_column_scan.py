"""Column scans: the same answers as reading whole documents, and no more bytes than they need."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.columns_rig import Gone, Layers, all_values
from wormdb.engine import column_fetch, column_merge, column_sources
from wormdb.engine.column_scan import is_excluded, scan_columns
from wormdb.engine.portion import DOCUMENT
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError
from wormdb.format import block, json
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128, ObjectId, equal
from wormdb.format.path import TRAVERSED, get_direct, parse_path, resolve
from wormdb.index.entries import Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

    from wormdb.engine.state import View

NAMES = ("a", "b.c", "t")

# --- layers at random ---

IDS: dict[str, list[Any]] = {
    "text": [f"k{number}" for number in range(12)] + ["", "k1\0", "k1\1", "ä"],
    "numbers": [*range(-3, 9), 2**60, -(2**60)],
    "objects": [ObjectId(f"{number:024x}") for number in range(10)],
    "mixed": ["x", 1, 1.0, 2, Decimal128("2"), ObjectId("0" * 24), datetime(2020, 1, 1, tzinfo=UTC), {"q": 1}],
}
VALUES = st.one_of(
    st.sampled_from([0, 1, 2, 3, 2**60, 2**53 + 1]),
    st.sampled_from([0.0, 1.0, 1.5, float("nan"), -0.0]),
    st.sampled_from(["", "x", "y" * 70]),
    st.sampled_from([None, True, datetime(2020, 1, 1, tzinfo=UTC), Decimal128("1.0"), Decimal128("1.00"), b"x"]),
    st.sampled_from([[], [1, 2], [1, "x"], {"c": 1}, {}, [{"c": 1}, {"d": 2}, {"c": "z"}]]),
)
FAMILIES: list[SearchStrategy[Any]] = [st.integers(0, 5), st.sampled_from(["a", "b", "c"]), VALUES]


@st.composite
def documents(draw: st.DrawFn, identities: list[Any]) -> Any:
    identity = draw(st.sampled_from(identities))
    fate = draw(st.integers(0, 9))
    if fate == 0:
        return identity, Gone()
    if fate == 1:
        return identity, Gone({"_id": identity, "a": 9})
    values: dict[str, Any] = {"_id": identity}
    if draw(st.booleans()):
        values["a"] = draw(draw(st.sampled_from(FAMILIES)))
    if draw(st.booleans()):
        values["b"] = draw(st.one_of(VALUES, st.fixed_dictionaries({"c": VALUES})))
    if draw(st.booleans()):
        values["t"] = draw(st.sampled_from(["one", "two"]))
    return values


COLUMNS = st.lists(
    st.sampled_from([ColumnSpec("a"), ColumnSpec("a", "double"), ColumnSpec("b.c"), ColumnSpec("t", "string")]),
    unique_by=lambda spec: spec.path,
)


@st.composite
def layered(draw: st.DrawFn) -> Layers:
    """Runs, attached blocks and entries, with columns that change from one to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "_GROUP_ROWS", draw(st.sampled_from([2, 100])))
        patch.setattr(block, "PAGE_BYTES", draw(st.sampled_from([1, block.PAGE_BYTES])))
        return draw(laid())


@st.composite
def laid(draw: st.DrawFn) -> Layers:
    layers = Layers(block_target=draw(st.sampled_from([1, 200, 100_000])))
    identities = IDS[draw(st.sampled_from(sorted(IDS)))]
    several = st.lists(documents(identities), max_size=8)
    for _ in range(draw(st.integers(0, 3))):
        layers.run(draw(several), draw(COLUMNS))
    for kind in draw(st.lists(st.sampled_from(["attach", "change"]), max_size=3)):
        if kind == "attach":
            layers.attach(draw(several), draw(COLUMNS))
        else:
            layers.change(draw(several))
    return layers


def same(one: list[Any], other: list[Any]) -> bool:
    marks = (MISSING, TRAVERSED)
    return len(one) == len(other) and all(
        a is b if a in marks or b in marks else equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


def direct(document: dict[str, Any], name: str) -> Any:
    return get_direct(document, parse_path(name))


@contextmanager
def by_parts(data: st.DataObject) -> Iterator[None]:
    """Blocks are read whole, or as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_fetch, "BLOCK_WHOLE_BYTES", data.draw(st.sampled_from([0, 1 << 30])))
        yield


@given(layered(), st.data())
def test_a_scan_gives_what_the_documents_hold(layers: Layers, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([*NAMES, "_id", DOCUMENT]), min_size=1, unique=True))
    low = data.draw(st.sampled_from([b"", *sorted(layers.model), encode_key("k3")]))
    high = data.draw(st.sampled_from([None, *sorted(layers.model), encode_key("k7")]))
    expected = layers.expected(low, high)
    with by_parts(data):
        portions = list(scan_columns(layers.view(), names, low=low, high=high))
    for name in names:
        if name == DOCUMENT:
            found = [document for portion in portions for document in portion.documents()]
            assert found == [json.encode_document(document) for document in expected]
        else:
            assert same(all_values(portions, name), [direct(document, name) for document in expected])
            assert all(portion.rows for portion in portions)
        assert all(set(portion.types) == set(names) - {DOCUMENT} for portion in portions)


@given(layered(), st.data())
def test_few_rows_among_many_are_placed_as_sorting_would(layers: Layers, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_merge, "FEW_SHARE", data.draw(st.sampled_from([0, 1, 1_000])))
        portions = list(scan_columns(layers.view(), ["_id", "a"]))
    assert same(all_values(portions, "_id"), [document["_id"] for document in layers.expected()])
    assert same(all_values(portions, "a"), [direct(document, "a") for document in layers.expected()])


# --- zone maps ---


def matches(document: dict[str, Any], name: str, span: Range) -> bool:
    """What a query means by a value in a range: an element of an array counts, and null stands for missing."""
    found = resolve(document, parse_path(name))
    keys = [encode_key(value) for value in found]
    return any(key in span for key in keys) or (MISSING in found and encode_key(None) in span)


@st.composite
def spans(draw: st.DrawFn) -> Range:
    edges = sorted(encode_key(draw(st.one_of(VALUES, st.integers(0, 5), st.just(MISSING)))) for _ in range(2))
    return Range(draw(st.sampled_from([b"", edges[0]])), draw(st.sampled_from([None, edges[1], edges[1] + b"\0"])))


@given(layered(), st.data())
def test_zone_maps_never_change_an_answer(layers: Layers, data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from([*NAMES, "_id"]), min_size=1, max_size=2, unique=True))
    bounds = {path: data.draw(spans()) for path in paths}
    with by_parts(data):
        portions = list(scan_columns(layers.view(), ["_id", DOCUMENT], bounds=bounds))
    found = [json.decode_document(body, name="doc") for portion in portions for body in portion.documents()]
    everything = layers.expected()

    def chosen(several: list[dict[str, Any]]) -> list[Any]:
        kept = [one for one in several if all(matches(one, path, span) for path, span in bounds.items())]
        return [json.encode_document(one) for one in kept]

    assert chosen(found) == chosen(everything)
    whole = [json.encode_document(one) for one in everything]
    assert [body for body in whole if body in {json.encode_document(one) for one in found}] == [
        json.encode_document(one) for one in found
    ]
