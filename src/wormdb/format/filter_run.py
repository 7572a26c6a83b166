"""A run of the membership filter of an index: sorted hashes of keys, all cut to the same number of bits.

Runs of one filter have the same `bits`, so they join without the keys they were made of. The newest run names the
older ones: whoever knows it knows the filter.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from wormdb.format.frame import FrameKind, corrupt, decode_frame, decode_message, encode_frame, encode_message
from wormdb.format.membership import join_planes, split_planes
from wormdb.format.root import ObjectRef
from wormdb.settings import SIDECAR_BYTES_MAX

__all__ = ["HASH_BITS", "FilterRun", "decode_filter_run", "encode_filter_run", "key_hash", "key_hashes"]

HASH_BITS: Final = 64
_VERSION: Final = 1
_HASH: Final = blake2b(digest_size=HASH_BITS // 8)
"""Copied for each key: that is quicker than a new one, whose parameters are read again."""


class FilterRun(msgspec.Struct, frozen=True):
    """`marks` are the first `bits` bits of the hashes of keys, ascending; `older` are the other runs."""

    bits: int
    marks: Sequence[int]
    older: tuple[ObjectRef, ...] = ()


class _FilterRunMessage(msgspec.Struct, frozen=True):
    bits: Annotated[int, Meta(ge=1, le=HASH_BITS)] = msgspec.field(name="b")
    planes: tuple[bytes, ...] = msgspec.field(name="p")
    older: tuple[ObjectRef, ...] = msgspec.field(name="o")


_DECODER: Final = msgspec.msgpack.Decoder(_FilterRunMessage)


def key_hash(key: bytes) -> int:
    """The 64 bits that stand for a key."""
    return int.from_bytes(blake2b(key, digest_size=HASH_BITS // 8).digest(), "little")


def key_hashes(keys: Iterable[bytes]) -> array[int]:
    """`key_hash` of many keys."""
    digests: list[bytes] = []
    for key in keys:
        made = _HASH.copy()
        made.update(key)
        digests.append(made.digest())
    numbers = array("Q", b"".join(digests))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def encode_filter_run(run: FilterRun, *, identity: str) -> bytes:
    """The bytes of a run; `identity` names the object. No requests; raises LimitExceededError."""
    marks = run.marks
    steps = [marks[0], *(after - before for before, after in pairwise(marks))] if marks else []
    assert all(step > 0 for step in steps[1:]), "marks out of order"
    message = _FilterRunMessage(run.bits, split_planes(steps), run.older)
    payload = encode_message(message, what="a run of a filter", bytes_max=SIDECAR_BYTES_MAX, fix="use smaller runs")
    return encode_frame(FrameKind.FILTER_RUN, version=_VERSION, identity=identity, payload=payload)


def decode_filter_run(data: bytes, *, name: str, identity: str) -> FilterRun:
    """The run stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.FILTER_RUN, name=name, identity=identity, version_max=_VERSION, bytes_max=SIDECAR_BYTES_MAX
    )
    message = decode_message(_DECODER, frame.payload, name=name)
    steps = join_planes(message.planes, name=name)
    if sum(steps) >= 1 << message.bits or not all(steps[1:]):
        corrupt(name, "its marks are out of order or out of range")
    return FilterRun(message.bits, array("Q", accumulate(steps)), message.older)
