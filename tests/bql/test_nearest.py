"""Vectors, distances and scores, by other means than those of the code."""

from __future__ import annotations

import struct
from array import array
from decimal import Decimal
from fractions import Fraction
from math import inf, nan, sqrt
from typing import Any

import numpy as np
import pytest
from bson import Int64
from hypothesis import given
from hypothesis import strategies as st

from wormdb.bql.nearest import DISTANCES, Near, make_scorer, nearest, parse_near, read_given_vector
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.kinds import Binary, Decimal128
from wormdb.format.vector import pack_vector, read_vector
from wormdb.settings import VECTOR_DIMENSIONS_MAX

NUMBERS = st.floats(-1e3, 1e3, width=32)
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_both_forms_of_a_vector_are_one_vector(numbers: list[float]) -> None:
    packed = pack_vector(array("f", numbers))
    stored = json.decode(json.encode(packed), name="vector")
    assert bytes(packed) == b"\x27\0" + struct.pack(f"<{len(numbers)}f", *numbers)
    assert read_vector(stored) == read_vector(numbers) == array("f", numbers)
    assert read_given_vector(np.array(numbers)) == read_given_vector(tuple(numbers)) == array("f", numbers)


def test_integers_of_one_byte_and_decimals_are_numbers() -> None:
    assert read_vector(Binary(b"\x03\0\x01\xff\x80", 9)) == array("f", [1, -1, -128])
    assert read_vector([1, Decimal128("0.5"), 2.0]) == array("f", [1, 0.5, 2])


def test_numbers_of_other_libraries_are_numbers_of_a_question() -> None:
    given = [Int64(1), Decimal("0.5"), np.float32(2), np.int8(3), Decimal128("4")]
    assert read_given_vector(given) == array("f", [1, 0.5, 2, 3, 4])
    with pytest.raises(InvalidRequestError, match="number 0 must be finite"):
        read_given_vector([Decimal("sNaN")])


def test_whole_numbers_without_end_are_read_as_far_as_they_count() -> None:
    asked = {"vector": [1.0, 2.0]}
    assert parse_near({"v": {**asked, "min_score": 10**400}}).min_score == inf
    assert parse_near({"v": {**asked, "min_score": -(10**400)}}).min_score == -inf
    mistakes: list[dict[str, Any]] = [{"recall": 10**400}, {"exact": []}, {"exact": 0}]
    for written in mistakes:
        with pytest.raises(InvalidRequestError, match="it must be"):
            parse_near({"v": {**asked, **written}})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1.0], "it must have 2 numbers, not 1"),
        ([1.0, "x"], "number 1 must be a number, not str"),
        ([True, 1.0], "number 0 must be a number, not bool"),
        ([1.0, nan], "number 1 must be finite, not nan"),
        ([inf, 1.0], "number 0 must be finite, not inf"),
        ([1e39, 1.0], "number 0 is beyond float32: 1e+39"),
        ([1.0, 1 << 129], f"number 1 is beyond float32: {1 << 129!r:.40}"),
        ([1.0, -(10**400)], "number 1 is beyond float32: a whole number of 1,329 bits"),
        ([1.0, Decimal128("1E+6000")], "number 1 must be finite, not inf"),
        ([1.0, Decimal128("sNaN")], "number 1 must be finite, not nan"),
        ("text", "it must be an array of numbers, not str"),
        (b"\x27\0", "it must be an array of numbers, not bytes"),
        (Binary(b"\x27\0", 4), "it must be Binary of subtype 9, not 4"),
        (Binary(b"\x10\0\xff", 9), "its numbers must be float32 or int8"),
        (Binary(b"\x27\0\0\0\0", 9), "its numbers must be float32 or int8"),
        (Binary(b"", 9), "its numbers must be float32 or int8"),
    ],
)
def test_what_is_no_vector_is_told(value: Any, reason: str) -> None:
    assert read_vector(value, 2) == reason


def test_a_vector_has_a_number_and_at_most_the_limit() -> None:
    assert read_vector([]) == "it must have 1 to 4,096 numbers, not 0"
    assert len(read_vector([1.0] * VECTOR_DIMENSIONS_MAX)) == VECTOR_DIMENSIONS_MAX
    assert read_vector([1.0] * (VECTOR_DIMENSIONS_MAX + 1)) == "it must have 1 to 4,096 numbers, not 4,097"


@pytest.mark.parametrize("distance", DISTANCES)
@given(one=VECTORS, other=VECTORS)
def test_scores_are_those_of_fractions(distance: Any, one: list[float], other: list[float]) -> None:
    a, b = list(map(Fraction, one)), list(map(Fraction, other))
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    lengths = sqrt(sum(x * x for x in a)) * sqrt(sum(y * y for y in b))
    score = make_scorer(Near(("v",), tuple(one), distance=distance))(other)
    if distance == "dot_product":
        assert score == (1.0 + float(dot)) / 2.0
    elif distance == "euclidean":
        assert score == pytest.approx(float(1 / (1 + sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))), rel=1e-12)
    elif not lengths:
        assert score is None
    else:
        assert score == pytest.approx((1 + float(dot) / lengths) / 2, abs=1e-12)
        assert 0.0 <= (score or 0.0) <= 1.0


def test_the_best_come_first_and_ties_are_in_order_of_id() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": "b", "v": [0.0, 1.0]},
        {"_id": "c", "v": [1.0, 0.0]},
        {"_id": "a", "v": [0.0, 2.0]},
        {"_id": "d"},
        {"_id": "e", "v": None},
        {"_id": "f", "v": [1.0]},
        {"_id": "g", "v": [0.0, 0.0]},
        {"_id": "h", "v": [[1.0, 0.0]]},
    ]
    near = Near(("v",), (1.0, 0.0), distance="cosine")
    assert [(score, each["_id"]) for score, each in nearest(near, documents)] == [(1.0, "c"), (0.5, "a"), (0.5, "b")]
    best = Near(("v",), (1.0, 0.0), k=2, distance="euclidean", min_score=0.4)
    assert [(score, each["_id"]) for score, each in nearest(best, documents)] == [(1.0, "c"), (0.5, "g")]


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        ({}, []),
        ({"a": {"vector": [1]}, "b": {"vector": [1]}}, []),
        ("a", []),
        ({"a": [1.0]}, []),
        ({"a": {}}, ["a.vector"]),
        ({"a": {"vector": [nan], "k": 0}}, ["a.vector", "a.k"]),
        ({"a": {"vector": [1], "k": 1001}}, ["a.k"]),
        ({"a": {"vector": [1], "k": True}}, ["a.k"]),
        ({"a": {"vector": [1], "recall": 1.5}}, ["a.recall"]),
        ({"a": {"vector": [1], "min_score": "x"}}, ["a.min_score"]),
        ({"a": {"vector": [1], "exact": "no"}}, ["a.exact"]),
        ({"a": {"vector": [1], "distance": "manhattan"}}, ["a.distance"]),
        ({"a": {"vector": [1], "limit": 3}}, ["a.limit"]),
        ({"a..b": {"vector": [1]}}, ["a..b"]),
    ],
)
def test_all_mistakes_of_a_question_are_told(written: Any, paths: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        parse_near(written)
    assert [problem.path for problem in raised.value.problems] == paths


def test_a_question_is_read() -> None:
    vector = np.array([1, 2], np.int8)
    options = {"vector": vector, "k": 3, "recall": 0.9, "exact": True, "min_score": 0, "distance": "euclidean"}
    assert parse_near({"a.b": options}) == Near(("a", "b"), array("f", (1.0, 2.0)), 3, "euclidean", 0.9, True, 0.0)


def test_a_vector_of_zeros_has_no_cosine() -> None:
    near = Near(("v",), (0.0, 0.0))
    assert near.by("euclidean").distance == "euclidean"
    with pytest.raises(InvalidRequestError, match="no direction"):
        near.by("cosine")
