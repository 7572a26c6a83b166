"""Scans of columns that are kept decoded, in no order: the same rows as in order, without a request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.columns.rig import Gone, Layers
from tests.engine.columns.test_scan import COLUMNS, IDS, by_parts, documents, layered, spans
from wormdb.engine.blocks.portion import DOCUMENT, VERSION
from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.blocks.shelf import ColumnCache, Label, State
from wormdb.engine.columns import scan as column_loose
from wormdb.engine.columns import scan as column_scan
from wormdb.engine.columns.scan import scan_columns
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED, get_direct, parse_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.state.view import View

NAMES = ["a", "b.c", "t"]
TWO = [ColumnSpec("a", "int64"), ColumnSpec("t", "string")]


def cell(value: Any) -> bytes | str:
    if value is TRAVERSED:
        return "through an array"
    return "missing" if value is MISSING else encode_key(value)


def told(portions: Iterable[Portion], names: list[str]) -> list[tuple[Any, ...]]:
    """All that portions say of their rows, in their order."""
    rows: list[tuple[Any, ...]] = []
    for portion in portions:
        columns: list[list[Any]] = [
            [cell(value) for value in portion.values(name)] for name in ("_id", *names) if name[0] != "$"
        ]
        columns += [portion.documents()] if DOCUMENT in names else []
        columns += [portion.versions()] if VERSION in names else []
        assert DOCUMENT not in portion.types
        rows += zip(*columns, strict=True)
    return rows


def both(layers: Layers, view: View, names: list[str], **how: Any) -> list[str]:
    """Check that a warm scan without order gives what one in order gives; what it asks the store for."""
    expected = told(scan_columns(view, ["_id", *names], **how), names)
    layers.requests.clear()
    found = told(scan_columns(view, ["_id", *names], in_order=False, **how), names)
    assert sorted(found) == sorted(expected)
    return [request.key for request in layers.requests]


@given(layered(), st.sampled_from([0, column_loose.JOINED_ROWS_MAX]), st.data())
def test_the_same_rows_come_and_nothing_is_read(layers: Layers, joined: int, data: st.DataObject) -> None:
    layers.shelf.columns = ColumnCache(1 << 24)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_loose, "JOINED_ROWS_MAX", joined)
        check_states(layers, data)


def check_states(layers: Layers, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([*NAMES, VERSION]), min_size=1, unique=True))
    bounds = data.draw(st.none() | st.fixed_dictionaries({"a": spans()}))
    earlier = layers.view()
    both(layers, earlier, names, bounds=bounds)
    identities = IDS[data.draw(st.sampled_from(sorted(IDS)))]
    for _ in range(2):
        layers.change(data.draw(st.lists(documents(identities), max_size=4)))
        both(layers, layers.view(), names, bounds=bounds)
    layers.attach(data.draw(st.lists(documents(identities), max_size=4)), data.draw(COLUMNS))
    assert both(layers, layers.view(), names) == []
    # What was kept of a later state is nothing to an earlier one.
    assert both(layers, earlier, names) == []


@given(layered(), st.sampled_from([300, 3_000, 10_000]), st.data())
def test_what_is_forgotten_is_read_again(layers: Layers, size: int, data: st.DataObject) -> None:
    layers.shelf.columns = ColumnCache(size)
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    for _ in range(2):
        both(layers, layers.view(), names)
    assert layers.shelf.columns.bytes_held <= size


@given(layered(), st.data())
def test_ranges_and_documents_are_answered_with_a_cache_too(layers: Layers, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([*NAMES, DOCUMENT]), min_size=1, unique=True))
    low = data.draw(st.sampled_from([b"", *sorted(layers.model)]))
    high = data.draw(st.sampled_from([None, *sorted(layers.model)]))
    expected = told(scan_columns(layers.view(), ["_id", *names], low=low, high=high), names)
    layers.shelf.columns = ColumnCache(1 << 24)
    for in_order in (True, False, True):
        found = told(scan_columns(layers.view(), ["_id", *names], low=low, high=high, in_order=in_order), names)
        assert found == expected if in_order else sorted(found) == sorted(expected)
        told(scan_columns(layers.view(), ["_id", *NAMES]), NAMES)


@given(layered(), st.permutations(NAMES), st.data())
def test_columns_that_were_read_one_after_the_other_tell_the_same(
    layers: Layers, order: list[str], data: st.DataObject
) -> None:
    layers.shelf.columns = ColumnCache(1 << 24)
    for count in range(len(order) + 1):
        names = order[:count]
        expected = [
            tuple(cell(get_direct(document, parse_path(name))) for name in ("_id", *names))
            for document in layers.expected()
        ]
        in_order = data.draw(st.booleans())
        with by_parts(data):
            found = told(scan_columns(layers.view(), ["_id", *names], in_order=in_order), names)
        assert found == expected if in_order else sorted(found) == sorted(expected)


def test_a_document_that_tells_two_columns_is_the_newest_form_of_it() -> None:
    layers = Layers()
    layers.shelf.columns = ColumnCache(1 << 24)
    layers.run([{"_id": 1, "b": 1}, {"_id": 2, "b": 1}, {"_id": "x", "a": 0, "b": "y"}])
    layers.upgrade({"$rename": {"b": "a"}})
    told(scan_columns(layers.view(), ["_id"]), [])
    found = told(scan_columns(layers.view(), ["_id", "a"]), ["a"])
    assert found == [(cell(1), cell(1)), (cell(2), cell(1)), (cell("x"), cell("y"))]


def warm(documents: Iterable[dict[str, Any]], size: int = 1 << 24) -> Layers:
    layers = Layers(block_target=200)
    layers.shelf.columns = ColumnCache(size)
    layers.run(documents, TWO)
    assert both(layers, layers.view(), ["a", "t"]) == []
    return layers


def test_a_warm_scan_in_order_makes_no_requests_either() -> None:
    layers = warm({"_id": number, "a": number} for number in range(20))
    layers.requests.clear()
    assert sum(portion.rows for portion in scan_columns(layers.view(), ["a", "t"])) == 20
    assert layers.requests == []
    assert sum(portion.rows for portion in scan_columns(layers.view(), ["a", "b"])) == 20
    assert len(layers.requests) == len(layers.blocks)


def test_the_columns_of_a_state_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = warm({"_id": number, "a": number} for number in range(20))
    layers.change([{"_id": 3, "a": 30}, (5, Gone()), {"_id": 77, "a": 7}])
    both(layers, layers.view(), ["a"])

    def never(*args: Any) -> Any:
        raise AssertionError(args)

    for name in ("portion_of_rows", "marked", "decoded_of"):
        monkeypatch.setattr(column_loose, name, never)
    assert both(layers, layers.view(), ["a"]) == []
    layers.change([{"_id": 4, "a": 40}])
    with pytest.raises(AssertionError):
        list(scan_columns(layers.view(), ["_id", "a"], in_order=False))


def test_blocks_that_nothing_touches_are_handed_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = warm({"_id": number, "a": number} for number in range(20))
    layers.change([{"_id": 0, "a": 30}])
    both(layers, layers.view(), ["a"])
    before = addresses(scan_columns(layers.view(), ["a"]))
    monkeypatch.setattr(column_loose, "JOINED_ROWS_MAX", 0)
    found = list(scan_columns(layers.view(), ["a"], in_order=False))
    assert len(found) == len(layers.blocks) + 1
    assert len(addresses(found) & before) == len(layers.blocks) - 1


def test_portions_whose_columns_are_alike_are_one_and_made_once() -> None:
    layers = warm({"_id": number, "a": number} for number in range(20))
    layers.change([{"_id": 0, "a": 30}])
    both(layers, layers.view(), ["a"])
    once, again = (list(scan_columns(layers.view(), ["a"], in_order=False)) for _ in range(2))
    assert [portion.rows for portion in once] == [20]
    assert len(addresses(once)) == 1
    assert addresses(once) == addresses(again)


def addresses(portions: Iterable[Portion]) -> set[int]:
    return {chunk.buffers()[1].address for portion in portions for chunk in portion.table.column("a").chunks}


def test_without_room_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = Layers()
    layers.run([{"_id": number, "a": number} for number in range(20)], TWO)
    monkeypatch.setattr(column_scan, "LooseScan", None)
    assert len(both(layers, layers.view(), ["a"])) == len(layers.blocks)


# --- rows ---


def test_a_row_that_was_looked_up_is_kept() -> None:
    layers = warm({"_id": number, "a": number} for number in range(20))
    base = layers.view().base
    assert isinstance(base, RunBase)
    key = encode_key(7)
    assert not base.runs.keeps(key)
    found = base.get(key)
    assert found is not None
    assert base.runs.keeps(key)
    assert not base.runs.keeps(encode_key(8))
    layers.requests.clear()
    assert base.get(key) == found
    assert base.get_many([key]) == {key: found}
    assert layers.requests == []


def test_a_row_is_kept_only_where_there_is_room() -> None:
    layers = Layers()
    layers.run([{"_id": number, "a": number} for number in range(20)], TWO)
    base = layers.view().base
    assert isinstance(base, RunBase)
    for _ in range(2):
        layers.requests.clear()
        assert base.get(encode_key(7)) is not None
        assert layers.requests
        assert not base.runs.keeps(encode_key(7))


# --- the cache ---


def test_a_cache_is_bounded_and_drops_what_was_used_longest_ago() -> None:
    cache = ColumnCache(10_000)
    for number in range(30):
        cache.keep(Label("block", "", str(number)), number, 1_000)
        assert cache.find(Label("block", "", "0")) == 0
    assert cache.find(Label("block", "", "1")) is None
    assert cache.find(Label("block", "", "29")) == 29
    assert 5_000 < cache.bytes_held <= 10_000
    cache.keep(Label("block", "", "huge"), 1, 20_000)
    assert cache.find(Label("block", "", "huge")) is None
    assert cache.find(Label("block", "", "0")) == 0


def test_a_cache_has_one_state_of_a_thing() -> None:
    cache = ColumnCache(10_000)
    label, one, two = Label("block", "alive"), State(1, 5, 1), State(1, 6, 1)
    cache.keep(label, "five", 100, one)
    held = cache.bytes_held
    assert cache.find(label, one) == "five"
    assert cache.find(label, two) is None
    assert cache.find(label) is None
    cache.keep(label, "six", 100, two)
    assert (cache.find(label, one), cache.find(label, two)) == (None, "six")
    assert cache.bytes_held == held


def test_a_cache_is_shared_by_threads() -> None:
    cache = ColumnCache(20_000)

    def work(seed: int) -> None:
        for number in range(500):
            label = Label("block", "", str((seed * number) % 40))
            found = cache.find(label)
            assert found in (None, label.column)
            cache.keep(label, label.column, 100 * (number % 7))
            assert cache.bytes_held <= 20_000 + 2_000

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, (3, 5, 7, 11)))
    total = cache.bytes_held
    assert 0 < total <= 20_000
