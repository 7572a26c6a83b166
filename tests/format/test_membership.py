from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format.frame import FrameKind, encode_frame
from wormdb.format.membership import (
    SLOTS_PER_KEY,
    FilterRun,
    MembershipFilter,
    decode_filter_run,
    encode_filter_run,
    join_planes,
    key_hash,
    split_planes,
)
from wormdb.format.root import ObjectRef


def stored(keys: list[bytes]) -> MembershipFilter:
    return MembershipFilter.from_bytes(MembershipFilter.build(keys).to_bytes(), name="x")


@given(st.lists(st.binary(max_size=12), max_size=300))
def test_no_key_is_ever_denied(keys: list[bytes]) -> None:
    for filter_ in (MembershipFilter.build(keys), stored(keys)):
        assert all(map(filter_.might_contain, keys))


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 5000])
def test_every_size_works(count: int) -> None:
    keys = [b"key-%d" % number for number in range(count)]
    filter_ = stored(keys)
    assert all(map(filter_.might_contain, keys))
    assert filter_.to_bytes() == MembershipFilter.build(reversed(keys)).to_bytes()


def test_single_keys_are_kept_whatever_they_hash_to() -> None:
    """One key in 256 hashes to 0, which must not be taken for nothing."""
    keys = [b"%d" % number for number in range(3000)]
    assert all(stored([key]).might_contain(key) for key in keys)


def test_an_empty_filter_denies_everything() -> None:
    assert not any(stored([]).might_contain(b"%d" % number) for number in range(1000))


def test_duplicates_count_once() -> None:
    once, thrice = MembershipFilter.build([b"a", b"b"]), MembershipFilter.build([b"a", b"b"] * 3)
    assert once.to_bytes() == thrice.to_bytes()
    assert len(thrice) == 2


def test_absent_keys_are_taken_for_present_once_in_256() -> None:
    filter_ = stored([b"in-%d" % number for number in range(20_000)])
    wrong = sum(filter_.might_contain(b"out-%d" % number) for number in range(50_000))
    # 195 are expected, 14 is one standard deviation.
    assert 140 < wrong < 250


def test_about_ten_bits_a_key() -> None:
    count = 20_000
    packed = zstandard.ZstdCompressor().compress(
        MembershipFilter.build(b"%d" % number for number in range(count)).to_bytes()
    )
    assert len(packed) * 8 / count < 11


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40))
def test_planes_give_the_numbers_back(numbers: list[int]) -> None:
    planes = split_planes(numbers)
    assert list(join_planes(planes, name="x")) == numbers
    picked = [sum(plane[place] << (8 * shift) for shift, plane in enumerate(planes)) for place in range(len(numbers))]
    assert picked == numbers


@pytest.mark.parametrize(
    "message",
    [
        {"s": 256},
        {"s": -1, "p": []},
        {"s": 256, "p": [b"\x01", b"\x01\x02"]},
        {"s": 256, "p": [b"\x01"] * 9},
        {"s": 256, "p": [b"\xff\xff"]},
        {"s": 2**60, "p": [b"\x01"]},
        {"s": 0, "p": [b"\x00"]},
        7,
    ],
)
def test_filters_that_cannot_be_are_corruption(message: Any) -> None:
    with pytest.raises(CorruptionError) as caught:
        MembershipFilter.from_bytes(msgspec.msgpack.encode(message), name="some/key")
    assert caught.value.key == "some/key"


def test_the_range_is_as_documented() -> None:
    message = msgspec.msgpack.decode(MembershipFilter.build([b"a", b"b", b"c"]).to_bytes())
    assert message["s"] == 3 * SLOTS_PER_KEY


@pytest.mark.parametrize("count", [999, 1_000, 5_000])
def test_many_keys_make_the_same_filter_as_few(count: int) -> None:
    """From a thousand keys on they are counted in another way."""
    keys = [b"key %d" % (number % (count - 7)) for number in range(count)]
    hashes = sorted({int.from_bytes(blake2b(key, digest_size=8).digest(), "little") for key in keys})
    slots = len(hashes) * SLOTS_PER_KEY
    marks = array("Q", dict.fromkeys(number * slots >> 64 for number in hashes))
    assert MembershipFilter.build(keys).to_bytes() == MembershipFilter(slots, marks).to_bytes()


refs = st.builds(
    ObjectRef, name=st.text("ab", min_size=1), sha256=st.binary(min_size=32, max_size=32), length=st.integers(0, 9)
)


@given(st.integers(1, 64), st.data(), st.lists(refs, max_size=3).map(tuple))
def test_runs_come_back(bits: int, data: st.DataObject, older: tuple[ObjectRef, ...]) -> None:
    marks = sorted(data.draw(st.sets(st.integers(0, 2**bits - 1), max_size=30)))
    stored = encode_filter_run(FilterRun(bits, marks, older), identity="i")
    run = decode_filter_run(stored, name="n", identity="i")
    assert (run.bits, list(run.marks), run.older) == (bits, marks, older)


def test_marks_out_of_order_are_our_own_mistake() -> None:
    for marks in ([2, 1], [1, 1]):
        with pytest.raises(AssertionError):
            encode_filter_run(FilterRun(8, marks), identity="i")


@pytest.mark.parametrize(
    "message",
    [
        {"b": 8, "p": []},
        {"b": 0, "p": [], "o": []},
        {"b": 65, "p": [], "o": []},
        {"b": 8, "p": [b"\x01\x00"], "o": []},
        {"b": 8, "p": [b"\xff\x01"], "o": []},
        {"b": 8, "p": [b"\x00", b"\x01"], "o": []},
        {"b": 8, "p": [b"\x01", b"\x01\x02"], "o": []},
        {"b": 8, "p": [], "o": [{"n": "x"}]},
        7,
    ],
)
def test_runs_that_cannot_be_are_corruption(message: Any) -> None:
    data = encode_frame(FrameKind.FILTER_RUN, version=1, identity="i", payload=msgspec.msgpack.encode(message))
    with pytest.raises(CorruptionError) as caught:
        decode_filter_run(data, name="some/key", identity="i")
    assert caught.value.key == "some/key"


def test_hashes_are_as_documented() -> None:
    assert key_hash(b"key") == 0xF54CA9C3ADCC7CCE
