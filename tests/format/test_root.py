from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import samples
from wormdb.errors import CorruptionError, LimitExceededError, UnsupportedFormatError
from wormdb.format.blocklist import BlockPage, decode_block_page, encode_block_page
from wormdb.format.frame import FrameKind, encode_frame
from wormdb.format.root import Root, decode_root, encode_root
from wormdb.settings import INT_MAX, ROOT_BYTES_MAX

counts = st.integers(0, INT_MAX)


def plain(root: Root) -> dict[str, Any]:
    value = msgspec.msgpack.decode(msgspec.msgpack.encode(root))
    assert isinstance(value, dict)
    return value


def crafted(message: object, version: int = 1) -> bytes:
    payload = msgspec.msgpack.encode(message)
    return encode_frame(FrameKind.ROOT, version=version, identity=samples.PATH, payload=payload)


def test_a_full_root_comes_back() -> None:
    root = samples.root()
    data = encode_root(root)
    assert decode_root(data, name="block0", path=samples.PATH, collection=samples.COLLECTION) == root
    assert encode_root(samples.root()) == data


def test_a_new_root_is_short() -> None:
    root = Root(
        path="a",
        collection=samples.write_id(1),
        revision=0,
        write_id=samples.write_id(2),
        misc=0,
        hash_applied=bytes(32),
        hash_trimmed=bytes(32),
        definition=b"{}",
    )
    data = encode_root(root)
    assert decode_root(data, name="block0", path="a") == root
    assert len(data) < 300


@given(
    applied=counts,
    rows=counts,
    revision=counts,
    hashes=st.binary(min_size=32, max_size=32),
    blocks=st.lists(st.integers(0, 255).map(samples.block_entry), max_size=4).map(tuple),
    sample=st.none() | st.binary(max_size=50),
)
def test_changed_roots_come_back(**changes: Any) -> None:
    changes["hash_applied"] = changes.pop("hashes")
    root = msgspec.structs.replace(samples.root(), trimmed=0, **changes)
    assert decode_root(encode_root(root), name="block0", path=samples.PATH) == root


def test_a_root_of_another_collection_is_noticed() -> None:
    data = encode_root(samples.root())
    with pytest.raises(CorruptionError, match="org/orders") as caught:
        decode_root(data, name="org/orders/.worm.db/block0", path="org/orders")
    assert caught.value.key == "org/orders/.worm.db/block0"
    with pytest.raises(CorruptionError, match="incarnation"):
        decode_root(data, name="block0", path=samples.PATH, collection="f" * 32)


@pytest.mark.parametrize(
    "damage",
    [
        {"z": 8},
        {"a": -1},
        {"p": "org/orders"},
        {"p": ""},
        {"ah": b""},
        {"b": [{}]},
        {"i": [{"n": "b", "d": b"", "s": "ready"}, {"n": "a", "d": b"", "s": "ready"}]},
        {"i": [{"n": "b", "d": b"", "s": "lost"}]},
        {"y": {"k": "mode", "m": "x"}},
        {"j": [{"j": "0", "s": "open", "n": 1}]},
    ],
)
def test_values_out_of_range_are_corruption(damage: dict[str, Any]) -> None:
    with pytest.raises(CorruptionError) as caught:
        decode_root(crafted({**plain(samples.root()), **damage}), name="block0", path=samples.PATH)
    assert caught.value.key == "block0"


def test_a_block_that_ends_before_it_begins_is_corruption() -> None:
    message = plain(samples.root())
    message["b"][0]["f"], message["b"][0]["t"] = message["b"][0]["t"], message["b"][0]["f"]
    with pytest.raises(CorruptionError, match="ends before it begins"):
        decode_root(crafted(message), name="block0", path=samples.PATH)


def test_fields_of_a_newer_minor_are_ignored_and_versions_are_not() -> None:
    message = plain(samples.root())
    message["new"] = [1]
    assert decode_root(crafted(message), name="block0", path=samples.PATH) == samples.root()
    with pytest.raises(UnsupportedFormatError):
        decode_root(crafted(message, version=6), name="block0", path=samples.PATH)


def test_states_only_change_by_new_values() -> None:
    root = samples.root()
    with pytest.raises(AttributeError):
        root.applied = 8  # type: ignore[misc] # frozen: that is the point
    newer = msgspec.structs.replace(root, applied=8)
    assert (root.applied, newer.applied) == (7, 8)
    assert newer.index("email") == root.indexes[0]
    assert newer.index("none") is None


def test_our_own_mistakes_are_caught_before_writing() -> None:
    with pytest.raises(AssertionError, match="trimmed"):
        encode_root(msgspec.structs.replace(samples.root(), trimmed=9))
    with pytest.raises(AssertionError, match="order"):
        encode_root(msgspec.structs.replace(samples.root(), indexes=samples.root().indexes[::-1]))


def test_too_large_a_root_is_refused() -> None:
    with pytest.raises(LimitExceededError, match="root of org/customers"):
        encode_root(msgspec.structs.replace(samples.root(), sample=bytes(ROOT_BYTES_MAX)))


def test_a_page_of_the_block_list_comes_back() -> None:
    page = samples.block_page()
    data = encode_block_page(page, identity=samples.PAGE_IDENTITY)
    assert decode_block_page(data, name="x", identity=samples.PAGE_IDENTITY) == page
    with pytest.raises(CorruptionError):
        decode_block_page(data, name="x", identity="another")


def test_a_page_with_a_block_turned_round_is_corruption() -> None:
    entry = samples.block_entry(1)
    turned = msgspec.structs.replace(entry, key_first=entry.key_last, key_last=entry.key_first)
    data = encode_block_page(BlockPage(blocks=(turned,)), identity="i")
    with pytest.raises(CorruptionError, match="ends before it begins"):
        decode_block_page(data, name="x", identity="i")


def test_a_hundred_thousand_blocks_fit_in_pages_under_a_small_root() -> None:
    """100 page references of 1,000 blocks each keep the root far below 1 MiB."""
    refs = samples.root().block_pages * 100
    assert len(encode_root(msgspec.structs.replace(samples.root(), block_pages=refs))) < 50_000
