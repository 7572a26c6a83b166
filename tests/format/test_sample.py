"""A sample is a function of the documents that there are, whatever happened before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.key import encode_key
from wormdb.format.membership import key_hash
from wormdb.format.sample import Sample, Sampler, decode_sample, encode_sample
from wormdb.settings import SAMPLE_BYTES_MAX, SAMPLE_ROWS, SAMPLE_TEXT_CHARS

Changes = list[tuple[int, int | None]]


def key_of(number: int) -> bytes:
    return encode_key(number)


def doc(number: int, value: int = 0, **more: object) -> bytes:
    return json.encode_document({"_id": number, "v": value, **more})


def many(numbers: range, value: int = 0) -> list[tuple[bytes, bytes | None]]:
    return [(key_of(number), doc(number, value)) for number in numbers]


def least(numbers: range, count: int) -> set[bytes]:
    """The keys that belong to a sample of `count`, by another way."""
    return set(sorted((key_of(number) for number in numbers), key=key_hash)[:count])


def test_documents_are_chosen_by_the_hash_of_their_ids() -> None:
    sample = Sample().after(many(range(5_000)))
    assert sample.rows.keys() == least(range(5_000), SAMPLE_ROWS)
    assert all(key_hash(key) < sample.limit for key in sample.rows)
    in_parts = Sample()
    for start in range(0, 5_000, 70):
        in_parts = in_parts.after(many(range(start, min(start + 70, 5_000))))
    assert in_parts == sample, "however they come"


def test_few_documents_are_all_in_it() -> None:
    sample = Sample().after(many(range(SAMPLE_ROWS)))
    assert dict(sample.rows) == dict(many(range(SAMPLE_ROWS)))
    assert sample.limit == Sample().limit


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 400), st.none() | st.integers(0, 9)), max_size=80), max_size=8),
    st.integers(0, 400),
)
def test_it_has_every_document_below_its_limit_whatever_changes(rounds: list[Changes], first: int) -> None:
    sample = Sample().after(many(range(first)))
    alive: dict[bytes, bytes] = {key: document for key, document in many(range(first)) if document is not None}
    for changes in rounds:
        newest = {key_of(number): None if value is None else doc(number, value) for number, value in changes}
        sample = sample.after(newest.items())
        alive = {key: document for key, document in {**alive, **newest}.items() if document is not None}
        assert dict(sample.rows) == {key: document for key, document in alive.items() if key_hash(key) < sample.limit}
        assert len(sample.rows) <= SAMPLE_ROWS
        assert decode_sample(encode_sample(sample), name="root") == sample


@given(
    st.lists(st.tuples(st.integers(0, 300), st.none() | st.integers(0, 9)), max_size=400),
    st.lists(st.tuples(st.integers(0, 300), st.none() | st.integers(0, 9)), max_size=400),
)
def test_samples_of_parts_join_to_one_of_all(older: Changes, newer: Changes) -> None:
    before = {key_of(number): None if value is None else doc(number, value) for number, value in older}
    after = {key_of(number): None if value is None else doc(number, value) for number, value in newer}
    first, second = Sample().after(before.items()), Sampler(note_gone=True)
    passing = [(key, Row(key, 0, 1, document)) for key, document in after.items()]
    assert list(second.watch(passing)) == passing
    joined = first.with_newer(second.sample)
    alive = {key: document for key, document in {**before, **after}.items() if document is not None}
    assert dict(joined.rows) == {key: document for key, document in alive.items() if key_hash(key) < joined.limit}
    if len(before) + len(after) <= SAMPLE_ROWS:
        assert dict(joined.rows) == alive


def test_long_texts_are_shortened_and_other_values_stay() -> None:
    long = "x" * 500
    document = json.encode_document({"_id": long, "a": {"b": [long, 7]}, "d": b"y" * 500, "n": 1.5})
    sample = Sample().after([(encode_key(long), document)])
    (kept,) = sample.rows.values()
    found = json.decode_document(kept, name="row")
    assert found["_id"] == long
    assert found["a"] == {"b": [long[:SAMPLE_TEXT_CHARS], 7]}
    assert len(json.encode(found["d"])) > 500
    assert found["n"] == 1.5


def test_a_document_that_is_too_long_is_cut_out_and_may_come_back() -> None:
    huge = doc(1, many=list(range(5_000)))
    sample = Sample().after([(key_of(1), huge), (key_of(2), doc(2))])
    assert set(sample.rows) == {key_of(2)}
    sample = sample.after([(key_of(1), doc(1))])
    assert set(sample.rows) == {key_of(1), key_of(2)}
    assert set(sample.after([(key_of(1), huge)]).rows) == {key_of(2)}


def test_documents_of_some_length_make_it_shorter_but_not_larger() -> None:
    wide = [(key_of(number), doc(number, **{f"f{place}": place for place in range(300)})) for number in range(500)]
    sample = Sample().after(wide)
    assert 10 < len(sample.rows) < SAMPLE_ROWS
    assert sample.rows.keys() == {key for key, _ in wide if key_hash(key) < sample.limit}
    assert len(encode_sample(sample)) < SAMPLE_BYTES_MAX + 1_000
    assert not sample.is_thin(500)


def test_deletes_make_it_thin() -> None:
    sample = Sample().after(many(range(1_000)))
    assert not sample.is_thin(1_000)
    thinned = sample.after([(key, None) for key in list(sample.rows)[:60]])
    assert thinned.is_thin(940)
    assert not thinned.is_thin(40), "there is nothing to fill it with"
    assert not Sample().is_thin(0)


def test_damage_is_noticed() -> None:
    assert decode_sample(None, name="root") == Sample()
    data = encode_sample(Sample().after(many(range(200))))
    with pytest.raises(CorruptionError, match="root"):
        decode_sample(data[:-3], name="root")
    sample = decode_sample(data, name="root")
    with pytest.raises(CorruptionError, match="do not belong"):
        decode_sample(encode_sample(Sample(sample.rows, 1)), name="root")
