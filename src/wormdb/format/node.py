"""A node of a copy-on-write B+tree: about 1,024 entries, keys in strictly ascending byte order.

Keys are front-coded: each is stored as the number of leading bytes it shares with the key before it,
and the rest. Then the frame compresses the node as a whole.
"""

from __future__ import annotations

from itertools import pairwise
from operator import lt
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.format.frame import (
    HASH_BYTES,
    Count,
    FrameKind,
    Name,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.settings import NODE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Child",
    "Inner",
    "Leaf",
    "Node",
    "decode_node",
    "encode_node",
    "front_code",
    "front_decode",
    "is_ascending",
    "shared_prefix",
]

_VERSION: Final = 1
_SHARED_MAX: Final = 255


class Child(msgspec.Struct, frozen=True):
    """A node one level down, and how many entries lie beneath it."""

    name: str
    sha256: bytes
    count: int


class Leaf(msgspec.Struct, frozen=True):
    """Keys and their values, one to one."""

    keys: tuple[bytes, ...]
    values: tuple[bytes, ...]


class Inner(msgspec.Struct, frozen=True):
    """Separators and children, one child more: child i holds the keys from keys[i-1] to below keys[i]."""

    keys: tuple[bytes, ...]
    children: tuple[Child, ...]


Node = Leaf | Inner


class _LeafMessage(msgspec.Struct, frozen=True, tag_field="k", tag="leaf"):
    shared: bytes = msgspec.field(name="s")
    suffixes: tuple[bytes, ...] = msgspec.field(name="x")
    values: tuple[bytes, ...] = msgspec.field(name="v")


class _InnerMessage(msgspec.Struct, frozen=True, tag_field="k", tag="inner"):
    shared: bytes = msgspec.field(name="s")
    suffixes: tuple[bytes, ...] = msgspec.field(name="x")
    names: tuple[Name, ...] = msgspec.field(name="n")
    hashes: bytes = msgspec.field(name="h")
    counts: tuple[Count, ...] = msgspec.field(name="c")


_DECODER: Final = msgspec.msgpack.Decoder(_LeafMessage | _InnerMessage)


def encode_node(node: Node, *, identity: str) -> bytes:
    """The bytes of a node; `identity` names the object. No requests; raises LimitExceededError."""
    assert is_ascending(node.keys), "keys out of order"
    shared, suffixes = front_code(node.keys)
    message: _LeafMessage | _InnerMessage
    if isinstance(node, Leaf):
        assert len(node.keys) == len(node.values), "one value a key"
        message = _LeafMessage(shared, suffixes, node.values)
    else:
        assert len(node.keys) + 1 == len(node.children), "one separator between two children"
        assert all(len(child.sha256) == HASH_BYTES for child in node.children), "a hash of another length"
        names, hashes, counts = zip(*[(child.name, child.sha256, child.count) for child in node.children], strict=True)
        message = _InnerMessage(shared, suffixes, names, b"".join(hashes), counts)
    payload = encode_message(message, what="an index node", bytes_max=NODE_BYTES_MAX, fix="split the node")
    return encode_frame(FrameKind.NODE, version=_VERSION, identity=identity, payload=payload)


def decode_node(data: bytes, *, name: str, identity: str) -> Node:
    """The node stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.NODE, name=name, identity=identity, version_max=_VERSION, bytes_max=NODE_BYTES_MAX
    )
    message = decode_message(_DECODER, frame.payload, name=name)
    keys = front_decode(message.shared, message.suffixes, name=name)
    if not is_ascending(keys):
        corrupt(name, "its keys are out of order")
    if isinstance(message, _LeafMessage):
        if len(keys) != len(message.values):
            corrupt(name, f"it has {len(keys)} keys and {len(message.values)} values")
        return Leaf(keys, message.values)
    hashes = [message.hashes[at : at + HASH_BYTES] for at in range(0, len(message.hashes), HASH_BYTES)]
    if not len(keys) + 1 == len(message.names) == len(hashes) == len(message.counts):
        corrupt(name, f"it has {len(keys)} separators and {len(message.names)} children")
    if len(hashes[-1]) != HASH_BYTES:
        corrupt(name, "a hash is cut off")
    return Inner(keys, tuple(map(Child, message.names, hashes, message.counts)))


def is_ascending(keys: Sequence[bytes]) -> bool:
    """Whether each key is greater than the one before it."""
    return all(map(lt, keys, keys[1:]))


def shared_prefix(one: bytes, other: bytes) -> int:
    """How many leading bytes two keys share."""
    length = min(len(one), len(other))
    # One big XOR instead of a loop over bytes: the highest bit that differs tells the place.
    difference = int.from_bytes(one[:length], "big") ^ int.from_bytes(other[:length], "big")
    return length - (difference.bit_length() + 7) // 8


def front_code(keys: Sequence[bytes]) -> tuple[bytes, tuple[bytes, ...]]:
    """For each key, which ascend, how many bytes it shares with the one before (255 at most), and the rest."""
    if not keys:
        return b"", ()
    # As in `shared_prefix`, but each key becomes a number once: this is most of the work of making a node.
    width = min(max(map(len, keys)), _SHARED_MAX)
    numbers = [int.from_bytes(key[:width].ljust(width, b"\0"), "big") for key in keys]
    different = [((one ^ other).bit_length() + 7) // 8 for one, other in pairwise(numbers)]
    # A key may end before the bytes that stand for its end do.
    shared = [0, *map(min, map(len, keys), [width - count for count in different])]
    return bytes(shared), tuple([key[count:] for key, count in zip(keys, shared, strict=True)])


def front_decode(shared: bytes, suffixes: Sequence[bytes], *, name: str) -> tuple[bytes, ...]:
    """Keys from what `front_code` made; CorruptionError naming object `name` if that cannot be."""
    if len(shared) != len(suffixes):
        corrupt(name, f"it has {len(shared)} prefixes and {len(suffixes)} suffixes")
    keys, key = [], b""
    for count, suffix in zip(shared, suffixes, strict=True):
        if count > len(key):
            corrupt(name, "a key shares more bytes than the one before it has")
        key = key[:count] + suffix
        keys.append(key)
    return tuple(keys)
