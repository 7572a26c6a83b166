from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format.filter_run import FilterRun, decode_filter_run, encode_filter_run, key_hash
from wormdb.format.frame import FrameKind, encode_frame
from wormdb.format.root import ObjectRef

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
