from __future__ import annotations

import msgspec
import pytest

from tests.engine.tree.rig import Shelf, numbered, span_of
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.entries import Range, changes_of
from wormdb.engine.tree.nodes import NodeLimits, Tree
from wormdb.engine.tree.statistics import (
    BOUND_BYTES_MAX,
    BUCKETS,
    LEAVES_SAMPLED,
    IndexStatistics,
    decode_statistics,
    encode_statistics,
    measure,
)
from wormdb.errors import CorruptionError
from wormdb.format.json import encode
from wormdb.format.key import encode_key

COUNT = 10_000


def grouped(count: int, values: int) -> tuple[Shelf, Tree]:
    """An index of `count` documents that have `values` different values, in leaves of 32."""
    shelf = Shelf(NodeLimits(32, 32 * 256))
    index = Index("byGroup", ("group",))
    changes = [changes_of(index, encode(number), None, {"group": number % values}) for number in range(count)]
    return shelf, shelf.load(sorted((key, value) for ((key, value),) in changes if value is not None))


@pytest.fixture(scope="module")
def many() -> tuple[Shelf, Tree]:
    return grouped(COUNT, COUNT)


def test_a_histogram_has_buckets_of_equal_depth(many: tuple[Shelf, Tree]) -> None:
    shelf, tree = many
    statistics = measure(shelf.reader(tree))
    assert len(statistics.bounds) == BUCKETS - 1
    depths = [after - before for before, after in zip((0, *statistics.ranks), (*statistics.ranks, COUNT), strict=True)]
    assert max(depths) - min(depths) <= 2 * 48
    assert [shelf.reader(tree).count(Range(high=bound)) for bound in statistics.bounds] == list(statistics.ranks)


def test_ranges_are_estimated_within_a_bucket_at_each_end(many: tuple[Shelf, Tree]) -> None:
    shelf, tree = many
    statistics = measure(shelf.reader(tree))
    for first, last in [(0, 10), (0, COUNT), (2500, 7500), (9000, 9500), (123, 124)]:
        span = span_of(encode_key(first), encode_key(last), upper_inclusive=False)
        assert abs(statistics.estimate(span) - (last - first)) <= 2 * COUNT / BUCKETS
    assert statistics.estimate(Range()) == COUNT
    assert statistics.estimate(Range(b"b", b"a")) == 0
    bound = statistics.bounds[7]
    assert statistics.estimate(Range(high=bound)) == statistics.ranks[7]


@pytest.mark.parametrize(("values", "tolerance"), [(1, 0), (3, 0), (200, 0), (3000, 150), (5000, 0), (COUNT, 0)])
def test_distinct_values_are_estimated_from_a_sample(values: int, tolerance: int) -> None:
    shelf, tree = grouped(COUNT, values)
    statistics = measure(shelf.reader(tree))
    assert abs(statistics.distinct - values) <= tolerance
    assert statistics.entries_per_value == COUNT / statistics.distinct


def test_few_nodes_are_read(many: tuple[Shelf, Tree]) -> None:
    shelf, tree = many
    before = shelf.gets()
    measure(shelf.reader(tree))
    # The sample, the histogram, and for both ends of each leaf a count.
    assert shelf.gets() - before <= LEAVES_SAMPLED * tree.height + BUCKETS + 1 + 2 * LEAVES_SAMPLED * 2 * tree.height
    assert len(shelf.names()) > 300


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_small_trees_are_measured_too(count: int) -> None:
    shelf, tree = grouped(count, max(count, 1))
    statistics = measure(shelf.reader(tree), arrays=(True,))
    assert (statistics.entries, statistics.distinct, statistics.arrays) == (count, count, (True,))
    assert statistics.estimate(Range()) == count
    assert statistics.entries_per_value == (1.0 if count else 0.0)


def test_long_bounds_are_cut() -> None:
    shelf = Shelf(NodeLimits(8, 8 * 2048))
    tree = shelf.load((b"x" * 100 + numbered(number), b'"a"') for number in range(200))
    statistics = measure(shelf.reader(tree), value_key=lambda entry: entry[0])
    assert statistics.bounds == (b"x" * BOUND_BYTES_MAX,)
    assert len(encode_statistics(statistics)) < 200


def test_statistics_come_back_from_bytes(many: tuple[Shelf, Tree]) -> None:
    shelf, tree = many
    statistics = measure(shelf.reader(tree), arrays=(False, True))
    data = encode_statistics(statistics)
    assert decode_statistics(data, name="block0") == statistics
    assert len(data) < 1500
    assert decode_statistics(encode_statistics(IndexStatistics(entries=1, distinct=1)), name="x").bounds == ()


def test_rubbish_is_no_statistics() -> None:
    with pytest.raises(CorruptionError) as caught:
        decode_statistics(msgspec.msgpack.encode({"e": -1, "d": 0}), name="block0")
    assert caught.value.key == "block0"


def test_a_few_frequent_values_do_not_hide_the_rare_ones() -> None:
    """Half of the documents have one value, the other half a value each."""
    shelf = Shelf(NodeLimits(32, 32 * 256))
    index = Index("byGroup", ("group",))
    changes = [
        changes_of(index, encode(number), None, {"group": 0 if number % 2 else number})
        for number in range(1, COUNT + 1)
    ]
    tree = shelf.load(sorted((key, value) for ((key, value),) in changes if value is not None))
    assert abs(measure(shelf.reader(tree)).distinct - COUNT / 2) <= COUNT / 20
