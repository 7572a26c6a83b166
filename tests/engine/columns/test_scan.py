"""Column scans: the same answers as reading whole documents, and no more bytes than they need."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.blocks.rig import noise
from tests.engine.columns.rig import Gone, Layers, all_values
from wormdb.engine.blocks import runs as block_runs
from wormdb.engine.blocks.portion import DOCUMENT, VERSION
from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.columns import fetch as column_fetch
from wormdb.engine.columns import sources as column_sources
from wormdb.engine.columns.scan import is_excluded, scan_columns
from wormdb.engine.tree.entries import Range
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError
from wormdb.format import block, json
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128, ObjectId, equal
from wormdb.format.path import TRAVERSED, get_direct, parse_path, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hypothesis.strategies import SearchStrategy

    from wormdb.engine.state.view import View
    from wormdb.format.blocklist import BlockEntry

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
    fate = draw(st.integers(0, 7))
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

MAPPINGS: list[dict[str, Any]] = [
    {"$set": {"a": 7}},
    {"$set": {"z": 1}},
    {"$unset": {"t": ""}},
    {"$rename": {"b": "a"}},
    {"$rename": {"a": "t"}},
]


@st.composite
def layered(draw: st.DrawFn) -> Layers:
    """Runs, attached blocks, entries and mappings, with columns that change from one to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "_GROUP_ROWS", draw(st.sampled_from([2, 100])))
        patch.setattr(block, "PAGE_BYTES", draw(st.sampled_from([1, block.PAGE_BYTES])))
        return draw(laid())


@st.composite
def laid(draw: st.DrawFn) -> Layers:
    layers = Layers(block_target=draw(st.sampled_from([1, 200, 100_000])))
    identities = IDS[draw(st.sampled_from([*sorted(IDS), "mixed"]))]
    several = st.lists(documents(identities), max_size=8)
    for _ in range(draw(st.integers(0, 3))):
        layers.run(draw(several), draw(COLUMNS))
        if draw(st.integers(0, 2)) == 0:
            layers.upgrade(draw(st.sampled_from(MAPPINGS)))
    for kind in draw(st.lists(st.sampled_from(["attach", "change", "upgrade"]), max_size=3)):
        match kind:
            case "attach":
                layers.attach(draw(several), draw(COLUMNS))
            case "change":
                layers.change(draw(several))
            case _:
                layers.upgrade(draw(st.sampled_from(MAPPINGS)))
    return layers


def same(one: list[Any], other: list[Any]) -> bool:
    marks = (MISSING, TRAVERSED)
    return len(one) == len(other) and all(
        a is b if a in marks or b in marks else equal(a, b) for a, b in zip(one, other, strict=True)
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
        patch.setattr(column_sources, "FEW_SHARE", data.draw(st.sampled_from([0, 1, 1_000])))
        portions = list(scan_columns(layers.view(), ["_id", "a"]))
    assert same(all_values(portions, "_id"), [document["_id"] for document in layers.expected()])
    assert same(all_values(portions, "a"), [direct(document, "a") for document in layers.expected()])


@given(layered(), st.data())
def test_versions_are_those_of_the_rows(layers: Layers, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["a", "_id", DOCUMENT]), unique=True))
    with by_parts(data):
        portions = list(scan_columns(layers.view(), [*names, VERSION], rows=data.draw(st.none() | st.integers(1, 9))))
    alive = [held for _, held in layers.view().scan() if held.document is not None]
    assert [one for portion in portions for one in portion.versions()] == [(held.rev, held.seq) for held in alive]


# --- zone maps ---


def matches(document: dict[str, Any], name: str, span: Range) -> bool:
    """What a query means by a value in a range: null stands for missing, and arrays may be asked in several ranges.

    Of those only what is left of all is known, which may be nothing, though each range has one of the elements.
    """
    if type(value := direct(document, name)) is list or value is TRAVERSED:
        return True
    found = resolve(document, parse_path(name))
    keys = [encode_key(value) for value in found]
    return any(key in span for key in keys) or (MISSING in found and encode_key(None) in span)


@st.composite
def spans(draw: st.DrawFn) -> Range:
    edges = [encode_key(draw(st.one_of(VALUES, st.integers(0, 5), st.just(MISSING)))) for _ in range(2)]
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


def entries_of(layers: Layers) -> list[BlockEntry]:
    base = layers.view().base
    assert isinstance(base, RunBase)
    return list(base.runs.blocks())


SPEC = [ColumnSpec("a")]
FIVE = Range(encode_key(5), encode_key(5) + b"\0")


@pytest.mark.parametrize(
    ("values", "span", "is_out"),
    [
        ([1, 2, 3], FIVE, True),
        ([1, 9], FIVE, False),
        ([5], FIVE, False),
        ([1, [5]], FIVE, False),  # an element counts, and arrays are not in the column
        ([1, "x"], FIVE, False),  # a value of another type might be anything
        ([[1], [2]], FIVE, False),  # nothing is known of arrays
        ([[1, 9]], Range(b"", b""), False),  # its elements may be in several ranges that have nothing in common
        ([[], MISSING], Range(b"", b""), False),
        ([None, MISSING], Range(b"", b""), True),
        ([1, None], FIVE, True),
        ([1, MISSING], FIVE, True),
        ([1, None], Range(b"", FIVE.low), False),
        ([8, None], Range(encode_key(None), encode_key(None) + b"\0"), False),
        ([8, MISSING], Range(encode_key(None), encode_key(None) + b"\0"), False),
        ([8, MISSING], Range(encode_key(MISSING), encode_key(MISSING) + b"\0"), False),
        ([8, None], Range(encode_key(MISSING), encode_key(MISSING) + b"\0"), True),
        ([8], Range(b"", encode_key(8)), True),
        ([8], Range(encode_key(8) + b"\0", None), True),
        ([float("nan"), 8.5], Range(encode_key(9.0), None), True),
        (["y" * 100], Range(encode_key("y" * 99 + "z"), None), False),  # bounds of long texts are shortened outwards
        ([8], Range(b"\xff", b"\xff"), True),
    ],
)
def test_a_block_is_left_out_only_if_it_can_have_no_such_value(values: list[Any], span: Range, is_out: bool) -> None:
    layers = Layers(block_target=100_000)
    layers.run([{"_id": number} | ({} if a is MISSING else {"a": a}) for number, a in enumerate(values)], SPEC)
    (entry,) = entries_of(layers)
    assert is_excluded(layers.shelf, entry, {"a": span}) is is_out
    assert is_excluded(layers.shelf, entry, {"a": span, "unknown": span}) is is_out
    assert not is_excluded(layers.shelf, entry, {"unknown": span})


# --- what it costs ---


def bulky(numbers: range, **more: Any) -> list[dict[str, Any]]:
    """Documents much longer than the gap over which ranges are joined."""
    return [{"_id": f"k{n:03d}", "a": n, "t": "x", "pad": noise(n, 1, 150_000), **more} for n in numbers]


TWO = [ColumnSpec("a", "int64"), ColumnSpec("t", "string")]


def read_by(layers: Layers, view: View, names: list[str], **how: Any) -> list[str]:
    """The endings of the keys of all requests of a scan."""
    layers.requests.clear()
    for _ in scan_columns(view, names, **how):
        pass
    return [request.key.rpartition(".")[2] for request in layers.requests]


def test_a_block_costs_its_map_and_a_get_for_each_range_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "_GROUP_ROWS", 2)
    layers = Layers(block_target=4 * 150_000)
    layers.run(bulky(range(8)), TWO)
    view = layers.view(cold=True)
    # Two row groups, in each of which both columns lie side by side; and the footer.
    assert read_by(layers, view, ["a", "t"]) == ["map", "parquet", "parquet", "parquet"] * 2
    size = sum(request.bytes_down for request in layers.requests if request.key.endswith("parquet"))
    assert size < 20_000
    assert read_by(layers, view, ["a", "t"]) == ["parquet"] * 6
    assert read_by(layers, view, ["a"], low=encode_key("k002"), high=encode_key("k003")) == ["parquet"] * 2


def test_a_small_block_is_one_get() -> None:
    layers = Layers(block_target=200)
    layers.run([{"_id": number, "a": number} for number in range(8)], TWO)
    assert read_by(layers, layers.view(cold=True), ["a", "t"]) == ["parquet"] * len(layers.blocks)
    assert len(layers.blocks) > 2


def test_documents_are_read_only_where_a_column_does_not_tell() -> None:
    layers = Layers(block_target=100_000_000)
    documents = bulky(range(8))
    documents[5]["a"] = "another type"
    layers.run(documents, TWO)
    view = layers.view()
    assert read_by(layers, view, ["t"]) == ["map", "parquet", "parquet"]
    assert read_by(layers, view, ["a"]) == ["parquet", "parquet", "parquet"]
    page = layers.requests[-1].bytes_down
    assert 70_000 < page < 2 * 150_000
    assert all_values(scan_columns(view, ["a"]), "a") == [0, 1, 2, 3, 4, "another type", 6, 7]


def test_blocks_that_bounds_exclude_are_not_read_and_go_on_hiding() -> None:
    layers = Layers(block_target=4 * 150_000)
    layers.run(bulky(range(8)), TWO)
    layers.run(bulky(range(1), a=99), TWO)
    few = {"a": Range(encode_key(0), encode_key(2))}
    view = layers.view()
    read_by(layers, view, ["t"])  # so that all maps are known
    # Of the older run one block has such values. The newer one has none, but hides a document that has.
    assert read_by(layers, view, ["a"], bounds=few) == ["parquet"] * 4
    assert sum(request.bytes_down for request in layers.requests) < 20_000
    assert all_values(scan_columns(view, ["a"], bounds=few), "a") == [1, 2, 3]
    # Where nothing older is read, not even its ids are.
    assert read_by(layers, view, ["a"], bounds={"a": Range(encode_key(50), encode_key(60))}) == []
    assert read_by(layers, view, ["a"], bounds={"a": Range(encode_key(5), encode_key(7))}) == ["parquet"] * 2


def test_ids_are_read_only_where_ranges_are_shared() -> None:
    layers = Layers(block_target=4 * 150_000)
    layers.run([document | {"_id": f"{document['_id']}{'y' * 400}"} for document in bulky(range(8))], TWO)
    layers.change([{"_id": "k006", "a": 60}])
    view = layers.view()
    read_by(layers, view, ["a"])
    apart, shared = (sum(r.bytes_down for r in layers.requests if r.key == key) for key in sorted(keys_of(layers)))
    assert 0 < apart < shared
    assert all_values(scan_columns(view, ["a"]), "a") == [0, 1, 2, 3, 4, 5, 60, 6, 7]


def keys_of(layers: Layers) -> set[str]:
    return {layers.shelf.block_key(entry.name) for entry in layers.blocks}


class EagerPool:
    """Does everything when it is asked to, and counts what was not yet taken."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        done = [function(item) for item in items]
        self.waiting += len(done)
        self.most = max(self.most, self.waiting)
        return self._given(done)

    def _given(self, done: list[Any]) -> Iterator[Any]:
        for each in done:
            self.waiting -= 1
            yield each

    def close(self) -> None:
        pass


def test_blocks_are_fetched_ahead_and_few_at_a_time() -> None:
    pool = EagerPool()
    layers = Layers(block_target=1, pool=pool)
    layers.run([{"_id": number, "a": number} for number in range(60)], TWO)
    view = layers.view()
    layers.requests.clear()
    pool.most = pool.waiting = 0
    scan = scan_columns(view, ["a"])
    for taken, portion in enumerate(scan):
        assert portion.rows == 1
        assert len(layers.requests) == min(taken + 1 + column_sources.AHEAD_BLOCKS, 60)
    assert pool.most == column_sources.AHEAD_BLOCKS + 1


@pytest.mark.parametrize(("rows", "asked"), [(1, [1, 3, 6, 8]), (3, [3, 6, 7, 8]), (20, [5, 6, 7, 8])])
def test_no_more_is_fetched_ahead_than_will_be_taken_and_then_more(rows: int, asked: list[int]) -> None:
    layers = Layers(block_target=1, pool=EagerPool())
    layers.run([{"_id": number, "a": number} for number in range(9)], TWO)
    scan = scan_columns(layers.view(), ["a"], rows=rows)
    layers.requests.clear()
    found = [len(layers.requests) for _ in scan]
    assert found[: len(asked)] == asked
    assert found[-1] == 9


@pytest.mark.parametrize("names", [[DOCUMENT], ["unknown"], ["a", "unknown"]])
def test_blocks_of_which_documents_are_read_are_fetched_one_ahead(names: list[str]) -> None:
    layers = Layers(block_target=1, pool=EagerPool())
    layers.run([{"_id": number, "a": number} for number in range(9)], TWO)
    scan = scan_columns(layers.view(), names)
    layers.requests.clear()
    next(scan)
    assert len(layers.requests) == 2


def test_large_blocks_are_fetched_one_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_sources, "AHEAD_BYTES", 1)
    layers = Layers(block_target=1, pool=EagerPool())
    layers.run([{"_id": number, "a": number} for number in range(9)], TWO)
    scan = scan_columns(layers.view(), ["a"])
    layers.requests.clear()
    next(scan)
    assert len(layers.requests) == 2


# --- what goes wrong ---


def test_what_is_no_path_is_refused_at_once() -> None:
    view = Layers().view()
    for name in ("", "a..b", "$a"):
        with pytest.raises(InvalidRequestError):
            scan_columns(view, [name])


@pytest.mark.parametrize("ending", ["parquet", "map"])
def test_damage_is_noticed_and_named(ending: str) -> None:
    layers = Layers(block_target=100_000_000)
    layers.run(bulky(range(4)), TWO)
    (entry,) = entries_of(layers)
    key = layers.shelf.block_key(entry.name) if ending == "parquet" else layers.shelf.sidecar_key(entry.name)
    body = bytearray(layers.memory.get(key).body)
    body[20] ^= 1
    layers.memory.put(key, bytes(body))
    with pytest.raises(CorruptionError) as caught:
        list(scan_columns(layers.view(cold=True), ["_id", "a"]))
    assert caught.value.key == key


def test_a_block_that_is_gone_says_that_the_state_is_too_old() -> None:
    layers = Layers()
    layers.run([{"_id": 1, "a": 1}], TWO)
    (entry,) = entries_of(layers)
    layers.memory.delete(layers.shelf.block_key(entry.name))
    with pytest.raises(SnapshotTooOldError) as caught:
        list(scan_columns(layers.view(), ["a"]))
    assert caught.value.key == layers.shelf.block_key(entry.name)


def test_long_lists_of_blocks_are_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_runs, "LIST_INLINE_BYTES_MAX", 1)
    monkeypatch.setattr(block_runs, "LIST_PAGE_BLOCKS", 3)
    layers = Layers(block_target=1)
    layers.run([{"_id": number, "a": number} for number in range(10)], TWO)
    layers.run([{"_id": number, "a": -number} for number in range(4, 6)], TWO)
    view = layers.view(cold=True)
    assert all_values(scan_columns(view, ["a"]), "a") == [0, 1, 2, 3, -4, -5, 6, 7, 8, 9]
    assert read_by(layers, layers.view(cold=True), ["a"]).count("list") == 5
