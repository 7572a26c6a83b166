from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import samples
from wormdb.errors import CorruptionError, LimitExceededError
from wormdb.format.frame import FrameKind, encode_frame
from wormdb.format.node import (
    Child,
    Inner,
    Leaf,
    Node,
    decode_node,
    encode_node,
    front_code,
    front_decode,
    shared_prefix,
)
from wormdb.settings import NODE_BYTES_MAX

# Few letters, so that keys share prefixes.
keys = st.lists(st.text("ab\0", max_size=8).map(str.encode), unique=True, max_size=30).map(sorted).map(tuple)
children = st.builds(Child, st.text("abc", min_size=1), st.binary(min_size=32, max_size=32), st.integers(0, 2**63 - 1))


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    chosen = draw(keys)
    if draw(st.booleans()):
        count = len(chosen)
        return Leaf(chosen, tuple(draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count))))
    count = len(chosen) + 1
    return Inner(chosen, tuple(draw(st.lists(children, min_size=count, max_size=count))))


def naive_shared(one: bytes, other: bytes) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


@given(nodes())
def test_nodes_come_back(node: Node) -> None:
    data = encode_node(node, identity="i")
    assert decode_node(data, name="n", identity="i") == node
    assert encode_node(decode_node(data, name="n", identity="i"), identity="i") == data


@given(st.text("ab", max_size=12).map(str.encode), st.text("ab", max_size=12).map(str.encode))
def test_shared_prefixes_are_as_counted_by_hand(one: bytes, other: bytes) -> None:
    assert shared_prefix(one, other) == naive_shared(one, other)


def test_long_prefixes_are_capped_and_still_come_back() -> None:
    long = tuple(b"p" * 1000 + bytes([number]) for number in range(5))
    shared, suffixes = front_code(long)
    assert shared == bytes([0, 255, 255, 255, 255])
    assert front_decode(shared, suffixes, name="n") == long


def test_a_full_leaf_is_small() -> None:
    chosen = tuple(b"\x28customer-%06d@example.org\0" % number for number in range(1024))
    data = encode_node(Leaf(chosen, (b"value",) * 1024), identity="i")
    assert len(data) < 8_000
    assert decode_node(data, name="n", identity="i") == Leaf(chosen, (b"value",) * 1024)


def test_a_node_of_another_name_is_noticed() -> None:
    data = encode_node(samples.leaf(), identity="indexes/a/1")
    with pytest.raises(CorruptionError, match="indexes/a/2") as caught:
        decode_node(data, name="some/key", identity="indexes/a/2")
    assert caught.value.key == "some/key"


@pytest.mark.parametrize(
    "message",
    [
        {"k": "leaf", "s": b"\0\0", "x": [b"b", b"a"], "v": [b"", b""]},
        {"k": "leaf", "s": b"\0\0", "x": [b"a", b"a"], "v": [b"", b""]},
        {"k": "leaf", "s": b"\0\5", "x": [b"a", b"b"], "v": [b"", b""]},
        {"k": "leaf", "s": b"\0", "x": [b"a", b"b"], "v": [b"", b""]},
        {"k": "leaf", "s": b"\0\0", "x": [b"a", b"b"], "v": [b""]},
        {"k": "stem", "s": b"", "x": [], "v": []},
        {"k": "inner", "s": b"", "x": [], "n": [], "h": b"", "c": []},
        {"k": "inner", "s": b"", "x": [], "n": ["a"], "h": bytes(31), "c": [1]},
        {"k": "inner", "s": b"", "x": [], "n": ["a"], "h": bytes(64), "c": [1]},
        {"k": "inner", "s": b"", "x": [], "n": ["a"], "h": bytes(32), "c": [-1]},
        {"k": "inner", "s": b"\0", "x": [b"a"], "n": ["a"], "h": bytes(32), "c": [1]},
        [1, 2],
    ],
)
def test_nodes_that_cannot_be_are_corruption(message: Any) -> None:
    data = encode_frame(FrameKind.NODE, version=1, identity="i", payload=msgspec.msgpack.encode(message))
    with pytest.raises(CorruptionError) as caught:
        decode_node(data, name="some/key", identity="i")
    assert caught.value.key == "some/key"


@pytest.mark.parametrize(
    "node",
    [
        Leaf((b"b", b"a"), (b"", b"")),
        Leaf((b"a", b"a"), (b"", b"")),
        Leaf((b"a",), ()),
        Inner((b"a",), (Child("a", bytes(32), 1),)),
        Inner((), (Child("a", b"short", 1),)),
    ],
)
def test_our_own_mistakes_are_caught_before_writing(node: Node) -> None:
    with pytest.raises(AssertionError):
        encode_node(node, identity="i")


def test_too_large_a_node_is_refused() -> None:
    with pytest.raises(LimitExceededError, match="index node"):
        encode_node(Leaf((b"a",), (bytes(NODE_BYTES_MAX),)), identity="i")
