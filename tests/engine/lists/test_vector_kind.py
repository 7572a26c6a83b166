"""Codes of vectors and their lists: the same in every process, in whatever parts they are made."""

from __future__ import annotations

from array import array
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.bql.nearest import DISTANCES
from wormdb.engine.lists import codes
from wormdb.engine.lists.centroids import count_lists, decode_centroids, learn
from wormdb.engine.lists.codes import encode_vector, encode_vectors, find_kernel, multiply, multiply_parts, squares
from wormdb.engine.lists.vector_kind import ONLY_LIST, VectorKind, list_key, make_vector_kind
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.format.vector import pack_vector


def clustered(rows: int, dimensions: int, seed: int = 3) -> Any:
    chance = np.random.default_rng(seed)
    middles = chance.normal(size=(12, dimensions))
    return (middles[chance.integers(0, 12, rows)] + 0.4 * chance.normal(size=(rows, dimensions))).astype(np.float32)


def documents_of(vectors: Any) -> list[dict[str, Any]]:
    return [{"_id": number, "v": row.tolist()} for number, row in enumerate(vectors)]


@pytest.mark.parametrize("dimensions", [1, 3, 384, 1_040, 1_041, 4_096])
def test_products_are_exact_with_a_kernel_and_without(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_kernel() is not None, "the tests' environment has numkong"
    chance = np.random.default_rng(dimensions)
    rows = chance.integers(-127, 128, (40, dimensions), dtype=np.int8)
    rows[0], rows[1] = 127, -127
    expected = rows.astype(np.int64) @ rows.astype(np.int64).T
    assert (multiply(rows, rows) == expected).all()
    assert (multiply(rows, rows[:1]) == expected[:, :1]).all()
    assert (squares(rows) == expected.diagonal()).all()
    monkeypatch.setattr(codes, "find_kernel", lambda: None)
    assert (multiply(rows, rows) == expected).all()


@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1)
)
def test_a_code_is_the_vector_to_half_a_step(rows: list[list[float]]) -> None:
    vectors = np.array(rows, np.float32)
    made, scales = encode_vectors(vectors)
    wide = scales.astype(np.float64)[:, None]
    error = np.abs(made * wide - vectors.astype(np.float64))
    assert (error <= 0.5001 * wide + 1e-42).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_list_of_a_vector_does_not_depend_on_others(distance: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = documents_of(clustered(1_500, 16))
    kind = VectorKind("v", 16, distance)
    trained = kind.train(documents, len(documents))
    assert trained is not None
    put = kind.lister(trained)
    whole = list(put(documents))
    assert [one for start in range(0, 1_500, 7) for one in put(documents[start : start + 7])] == whole
    monkeypatch.setattr(codes, "find_kernel", lambda: None)
    assert kind.train(documents, len(documents)) == trained
    assert list(kind.lister(trained)(documents)) == whole
    numbers = {int.from_bytes(key, "big") for one in whole for key in one}
    assert numbers <= set(range(decode_centroids(trained, dimensions=16, name="x").count))
    assert len(numbers) > 6


@pytest.mark.parametrize(
    ("distance", "digest"),
    [("cosine", "90f4ab1662f8c7f8"), ("euclidean", "9e167bdc1e5370e2"), ("dot_product", "90f4ab1662f8c7f8")],
)
def test_learning_gives_the_same_bytes_everywhere(distance: Any, digest: str) -> None:
    numbers = np.frombuffer(b"".join(sha256(bytes([n, m])).digest() for n in range(64) for m in range(8)), np.int8)
    vectors = numbers.reshape(-1, 8)[:2_000].astype(np.float32)
    trained = VectorKind("v", 8, distance).train(documents_of(vectors), 2_000)
    assert trained is not None
    assert sha256(trained).hexdigest()[:16] == digest


@pytest.mark.parametrize("distance", DISTANCES)
def test_payloads_have_the_widths_of_the_columns(distance: Any) -> None:
    kind = VectorKind("v", 5, distance)
    found = kind.lister(None)([{"_id": 1, "v": [1, 2, 3, 4, 5]}, {"_id": 2}, {"_id": 3, "v": None}])
    assert [list(one) for one in found] == [[ONLY_LIST], [], []]
    assert len(found[0][ONLY_LIST]) == sum(kind.columns)
    assert [kind.tally(each) for each in ({"_id": 1, "v": [1.0] * 5}, {"_id": 2})] == [(1,), (0,)]


def test_both_forms_of_a_vector_have_one_payload() -> None:
    put = VectorKind("a.v", 3).lister(None)
    packed = pack_vector(array("f", [0.1, 0.2, 0.3]))
    assert put([{"_id": 1, "a": {"v": [0.1, 0.2, 0.3]}}]) == put([{"_id": 1, "a": {"v": packed}}])


@settings(max_examples=20)
@given(rows=st.integers(0, 40), lists=st.integers(1, 30), same=st.booleans())
def test_few_and_equal_vectors_are_learned_from_too(rows: int, lists: int, same: bool) -> None:
    vectors = np.ones((rows, 4), np.float32) if same else clustered(rows, 4)
    found = learn("cosine", vectors, lists)
    assert found is None or 1 <= found.count <= lists + 2


def test_how_many_lists_there_are_follows_from_the_vectors() -> None:
    assert [count_lists(vectors) for vectors in (0, 511, 512, 100_000, 10**9)] == [1, 1, 4, 782, 65_536]
    kind = VectorKind("v", 3)
    assert [kind.sample_size(documents) for documents in (0, 511, 512, 100_000)] == [0, 0, 256, 50_048]


@pytest.mark.parametrize("cut", [0, 3, 11, 40, -1])
def test_damaged_middles_are_noticed(cut: int) -> None:
    trained = VectorKind("v", 4).train(documents_of(clustered(600, 4)), 600)
    assert trained is not None
    with pytest.raises(CorruptionError):
        VectorKind("v", 4).lister(trained[:cut])
    with pytest.raises(CorruptionError):
        VectorKind("v", 5).lister(trained)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1.0], "it must have 3 numbers, not 1"),
        ([1.0, "x", 0.0], "number 1 must be a number, not str"),
        ([1.0, float("nan"), 0.0], "number 1 must be finite, not nan"),
        ([1.0, 1e39, 0.0], "number 1 is beyond float32: 1e+39"),
        ([0.0, 0, -0.0], "a vector of zeros has no direction"),
        ("text", "it must be an array of numbers, not str"),
    ],
)
def test_a_document_that_cannot_be_indexed_is_named(value: Any, reason: str) -> None:
    kind = VectorKind("v", 3)
    for fine in ({"_id": 1}, {"_id": 1, "v": None}, {"_id": 1, "v": [1, 2, 3]}):
        kind.check(fine)
    with pytest.raises(InvalidRequestError) as raised:
        kind.check({"_id": "a1", "v": value})
    assert raised.value.what == "document 'a1': v is no vector of the index"
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"field": "v"},
        {"field": "v", "dimensions": 0},
        {"field": "v", "dimensions": 4_097},
        {"field": "v", "dimensions": True},
        {"field": "a..b", "dimensions": 3},
        {"field": "v", "dimensions": 3, "distance": "manhattan"},
        {"field": "v", "dimensions": 3, "lists": 3},
    ],
)
def test_options_that_cannot_be_are_refused(options: Any) -> None:
    with pytest.raises(InvalidRequestError):
        make_vector_kind(options)


def test_options_make_the_same_kind_again() -> None:
    kind = VectorKind("a.v", 3, "euclidean")
    assert make_vector_kind(kind.options) == kind
    assert make_vector_kind({"field": "v", "dimensions": 3}) == VectorKind("v", 3, "cosine")
    assert list_key(258) == b"\x01\x02"


@pytest.mark.parametrize("dimensions", [1, 384, 1_040, 4_096])
def test_one_vector_is_encoded_and_multiplied_as_many_are(dimensions: int) -> None:
    """Also where numbers are so small that scales lose bits, and where sums are the largest."""
    for greatest in (1e-45, 3e-44, 1e-38, 1e-30, 1.0, 3e38, 0.0):
        vectors = np.linspace(-greatest, greatest, 3 * dimensions).astype(np.float32).reshape(3, dimensions)
        codes, scales = encode_vectors(vectors)
        for row, vector in enumerate(vectors):
            code, scale = encode_vector(vector)
            assert (code == codes[row : row + 1]).all()
            assert (scale == scales[row : row + 1]).all()
    rows = np.full((5, dimensions), 127, np.int8)
    rows[1] = -127
    parts, code = [rows[:2], rows[2:]], rows[:1]
    assert (multiply_parts(parts, code) == multiply(rows, code)[:, 0]).all()
    assert multiply_parts(parts, code)[1] == -127 * 127 * dimensions
