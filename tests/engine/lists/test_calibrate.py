"""What an index of vectors finds by how many lists: as the codes say, and as queries are planned by it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.engine.lists.vectors import MANUAL, as_rows, calibration_of, head_of, make_clusters, root_of
from wormdb.engine.lists.calibrate import LIKES, NEAREST
from wormdb.engine.lists.centroids import choose_lists, decode_centroids
from wormdb.engine.lists.codes import encode_vectors
from wormdb.engine.lists.probes import count_probes, count_ranges, expect_recall, share_needed, share_read
from wormdb.format.list_run import Calibration
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from wormdb.bql.nearest import Distance

DIMENSIONS = 8


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot_product"])
def test_a_calibration_is_what_all_pairs_of_codes_say(distance: Distance) -> None:
    """Also if newer runs take entries of older ones back."""
    vectors = make_clusters(900, DIMENSIONS, seed=4)
    with wormdb.connect(MemoryStore(), settings=MANUAL, clock=ManualClock()) as database:
        things = database["things"]
        things.insert_many(as_rows(vectors[:800]))
        things.create_vector_index("v", dimensions=DIMENSIONS, distance=distance)
        first = calibration_of(things)
        assert (first.entries, first.learned_from, first.learned) == (800, 800, first.changes)
        things.delete_many({"_id": {"$lt": 40}})
        with things.batch() as batch:
            for row in as_rows(vectors[800:], start=100):
                batch.save(row)
        things.forward()
        assert calibration_of(things) == first
        things.analyze_index("v")
        found = calibration_of(things)
        assert (found.entries, found.first, found.learned, found.learned_from) == (
            760,
            first.first,
            first.learned,
            first.learned_from,
        )
        assert found.changes == first.changes + 140
        trained = things._ledger.trees.lists.folder(root_of(things), "v").trained(head_of(things).trained)
        assert trained is not None
        middles = decode_centroids(trained, dimensions=DIMENSIONS, name="x")
    state = np.concatenate([vectors[40:100], vectors[800:], vectors[200:800]])
    codes, scales = encode_vectors(state)
    lists = middles.assign(distance, codes, scales)
    lengths = np.bincount(lists, minlength=middles.count)
    assert (found.lists, found.longest) == (middles.count, lengths.max())
    # Of one number of lists the recall of the sample lies close to that of all vectors.
    wide = codes * scales[:, None]
    scores: Any = wide @ wide.T
    if distance == "cosine":
        scores = scores / np.linalg.norm(wide, axis=1)[None, :]
    elif distance == "euclidean":
        scores = 2 * scores - (wide * wide).sum(axis=1)[None, :]
    np.fill_diagonal(scores, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : LIKES + NEAREST]
    near = np.take_along_axis(scores, order, axis=1)
    # Before the widest gap are those that are nearly equal.
    likes = (near[:, :LIKES] - near[:, 1 : LIKES + 1]).argmax(axis=1) + 1
    best = np.take_along_axis(order, likes[:, None] + np.arange(NEAREST), axis=1)
    order = np.argsort(-middles.rate(distance, codes, scales), axis=1, kind="stable")
    for number, recall, share in found.points:
        read = order[:, :number]
        exact = (lists[best][:, :, None] == read[:, None, :]).any(axis=2).mean()
        assert recall / 10_000 == pytest.approx(exact, abs=0.04)
        assert share / 10_000 == pytest.approx(lengths[read].sum(axis=1).mean() / len(state), abs=0.02)
    assert found.points[-1] == (middles.count, 10_000, 10_000)


POINTS = (
    (1, 4_000, 300),
    (2, 6_000, 600),
    (4, 8_000, 1_100),
    (8, 9_000, 2_000),
    (16, 9_700, 4_000),
    (32, 10_000, 10_000),
)
MEASURED = Calibration(entries=4_096, lists=32, longest=300, points=POINTS, first=3_000)


def test_the_number_of_lists_is_the_least_that_was_measured_to_find_enough_and_a_little_more() -> None:
    # 0.95 and 0.015 more lie between 8 and 16 lists.
    assert count_probes(1_000, None, MEASURED) == count_probes(32, 0.95, MEASURED) == 8 + 8
    assert count_probes(32, 0.9, MEASURED) == 8 + 2
    assert count_probes(32, 0.9999, MEASURED) is None
    numbers = [count_probes(32, wanted / 1_000, MEASURED) or 32 for wanted in range(1, 1_000)]
    assert numbers == sorted(numbers)
    assert share_read(MEASURED) == share_needed(MEASURED) == pytest.approx(0.4)
    assert share_read(MEASURED, 1.0) == 1.0


@pytest.mark.parametrize("wanted", [None, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 0.995])
def test_a_calibration_never_needs_fewer_lists_than_the_rule(wanted: float | None) -> None:
    """What is stored may lie closer together than what is asked for."""
    easy = Calibration(entries=4_096, lists=400, points=((1, 9_990, 100), (400, 10_000, 10_000)))
    hard = Calibration(entries=4_096, lists=400, points=((300, 500, 6_000), (400, 10_000, 10_000)))
    rule = count_probes(400, wanted)
    assert count_probes(400, wanted, easy) == rule
    assert (count_probes(400, wanted, hard) or 400) > (rule or 0)
    assert share_needed(easy) < share_read(easy, wanted)


def test_what_is_told_is_at_least_what_was_asked_for_and_never_what_was_measured() -> None:
    for wanted in (0.3, 0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 0.995):
        probes = count_probes(32, wanted, MEASURED)
        told = expect_recall(probes, MEASURED)
        assert told is not None
        assert told >= wanted - 1e-4
    assert expect_recall(16, MEASURED) == pytest.approx(0.97 - 0.0129, abs=1e-3)
    assert expect_recall(None, MEASURED) == 1.0
    assert expect_recall(16, None) is None


def test_without_a_calibration_the_rule_decides() -> None:
    assert count_probes(100, None) == count_probes(100, 0.95, None) == 24
    assert count_probes(100, None, Calibration(lists=100)) == 24
    assert expect_recall(24, Calibration(lists=100)) is None


@given(
    lists=st.integers(20, 400),
    nearest=st.lists(st.integers(0, 399), min_size=1, max_size=200, unique=True),
)
def test_the_lists_that_are_read_are_the_nearest_and_lie_in_few_places(lists: int, nearest: list[int]) -> None:
    nearest = [number for number in nearest if number < lists] or [0]
    count = len(nearest)
    read = choose_lists(np.array(nearest))
    assert read == sorted(set(read))
    assert set(read) <= set(range(lists))
    places = 1 + sum(after - before > 1 for before, after in pairwise(read))
    assert places <= count_ranges(count)
    assert len(read) >= count
    # The nearest come first; those that are left out lie behind all that are chosen for their nearness.
    assert set(nearest[: count // 4]) <= set(read)
    if 1 + sum(after - before > 1 for before, after in pairwise(sorted(nearest))) <= count_ranges(count):
        assert read == sorted(nearest)
