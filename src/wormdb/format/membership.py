"""Which keys are certainly not here: about 10 bits a key, wrong once in 256 times, and only one way.

Every key is hashed to a number below 256 times the count of keys. The sorted numbers are stored as
differences, of which 8 bits are noise and the rest is nearly nothing: so the low bytes and the high
bytes are kept apart, and compression packs the high ones. All loops run in C.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from operator import sub
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from wormdb.format.arrays import settle_arrow
from wormdb.format.frame import Count, FrameKind, corrupt, decode_frame, decode_message, encode_frame, encode_message
from wormdb.format.root import ObjectRef
from wormdb.settings import SIDECAR_BYTES_MAX

__all__ = [
    "HASH_BITS",
    "SLOTS_PER_KEY",
    "FilterRun",
    "MembershipFilter",
    "decode_filter_run",
    "encode_filter_run",
    "join_planes",
    "key_hash",
    "key_hashes",
    "split_planes",
]

SLOTS_PER_KEY: Final = 256
"""Hash range for each key: of as many absent keys, one is taken for present."""

HASH_BITS: Final = 64
_HASH: Final = blake2b(digest_size=HASH_BITS // 8)
"""Copied for each key: that is quicker than a new one, whose parameters are read again."""
_RUN_VERSION: Final = 1
_MANY: Final = 1_000
"""From here on Arrow is faster."""
_TOO_MANY: Final = 2**32 // SLOTS_PER_KEY
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


class _MembershipMessage(msgspec.Struct, frozen=True):
    slots: Count = msgspec.field(name="s")
    planes: tuple[bytes, ...] = msgspec.field(name="p")


_DECODER: Final = msgspec.msgpack.Decoder(_MembershipMessage)


class MembershipFilter:
    """An approximate set of keys. No key that was put in is ever denied."""

    __slots__ = ("_marks", "_slots")

    def __init__(self, slots: int, marks: Sequence[int]) -> None:
        """`marks` are the ascending numbers below `slots` that keys hash to; use `build`."""
        self._slots = slots
        self._marks = marks

    @classmethod
    def build(cls, keys: Iterable[bytes]) -> MembershipFilter:
        """A filter over `keys`; duplicates count once. About 1 µs a key; no requests."""
        return cls.of_hashes(key_hashes(keys))

    @classmethod
    def of_hashes(cls, hashes: array[int]) -> MembershipFilter:
        """The same over keys whose hashes are known: `key_hashes`. No requests."""
        if _MANY <= len(hashes) < _TOO_MANY:
            return cls._of_many(hashes)
        distinct = sorted(set(hashes))
        slots = len(distinct) * SLOTS_PER_KEY
        return cls(slots, array("Q", dict.fromkeys([number * slots >> HASH_BITS for number in distinct])))

    @classmethod
    def _of_many(cls, hashes: array[int]) -> MembershipFilter:
        """In Arrow: the product of a hash and a number below 2**32 has its upper 64 bits from two halves."""
        import pyarrow as pa
        import pyarrow.compute as pc

        settle_arrow()
        numbers = pa.Array.from_buffers(pa.uint64(), len(hashes), [None, pa.py_buffer(hashes)])
        numbers = _distinct(numbers.take(pc.sort_indices(numbers)))
        slots = len(numbers) * SLOTS_PER_KEY
        scale, half = pa.scalar(slots, pa.uint64()), pa.scalar(32, pa.uint64())
        high = pc.multiply(pc.shift_right(numbers, half), scale)
        low = pc.multiply(pc.bit_wise_and(numbers, pa.scalar(0xFFFF_FFFF, pa.uint64())), scale)
        marks = _distinct(pc.shift_right(pc.add(high, pc.shift_right(low, half)), half))
        found = array("Q")
        found.frombytes(marks.buffers()[1].to_pybytes()[8 * marks.offset : 8 * (marks.offset + len(marks))])
        return cls(slots, found)

    def might_contain(self, key: bytes) -> bool:
        """False only if `key` was certainly not put in."""
        mark = key_hash(key) * self._slots >> HASH_BITS
        place = bisect_left(self._marks, mark)
        return place < len(self._marks) and self._marks[place] == mark

    def to_bytes(self) -> bytes:
        """The filter as bytes, to be compressed by the frame around it."""
        steps = [*self._marks[:1], *map(sub, self._marks[1:], self._marks)]
        return msgspec.msgpack.encode(_MembershipMessage(self._slots, split_planes(steps)))

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> MembershipFilter:
        """The filter in `data`; CorruptionError naming object `name` if it is none. No requests."""
        message = decode_message(_DECODER, data, name=name)
        steps = join_planes(message.planes, name=name)
        marks = array("Q", accumulate(steps)) if sum(steps) < message.slots or not steps else None
        if marks is None or message.slots > len(marks) * SLOTS_PER_KEY * SLOTS_PER_KEY:
            corrupt(name, "its membership filter reaches over its own range")
        return cls(message.slots, marks)

    def __len__(self) -> int:
        return len(self._marks)


def split_planes(numbers: Sequence[int]) -> tuple[bytes, ...]:
    """Numbers of up to 64 bits as planes: all lowest bytes, then all second bytes, and so on.

    Planes above the largest number are left out, but never the first. Noise and nearly constant bytes come apart, so
    that compression finds the latter; one number can be read without unpacking the others.
    """
    width = max(1, (max(numbers).bit_length() + 7) // 8) if numbers else 0
    size = next(size for size in _CODES if size >= max(width, 1))
    packed = array(_CODES[size], numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    raw = packed.tobytes()
    return tuple(raw[plane::size] for plane in range(width))


def join_planes(planes: Sequence[bytes], *, name: str) -> Sequence[int]:
    """The numbers that `split_planes` took; CorruptionError naming object `name`."""
    if len(planes) > max(_CODES) or len({len(plane) for plane in planes}) > 1:
        corrupt(name, "its planes of numbers do not fit together")
    if not planes:
        return ()
    size = next(size for size in _CODES if size >= len(planes))
    raw = bytearray(size * len(planes[0]))
    for plane, content in enumerate(planes):
        raw[plane::size] = content
    numbers = array(_CODES[size])
    numbers.frombytes(bytes(raw))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _distinct(numbers: Any) -> Any:
    """Numbers of an ascending array, each once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    later = numbers.slice(1)
    is_new = pc.not_equal(later, numbers.slice(0, len(later)))
    if pc.all(is_new).as_py():
        return numbers
    return numbers.filter(pa.concat_arrays([pa.array([True]), is_new]))


# --- the filter of an index, in runs ---
#
# A run holds the sorted hashes of keys, all cut to the same number of bits. Runs of one filter have the same `bits`, so
# they join without the keys they were made of. The newest run names the older ones, so it leads to the whole filter.


class FilterRun(msgspec.Struct, frozen=True):
    """`marks` are the first `bits` bits of the hashes of keys, ascending; `older` are the other runs."""

    bits: int
    marks: Sequence[int]
    older: tuple[ObjectRef, ...] = ()


class _FilterRunMessage(msgspec.Struct, frozen=True):
    bits: Annotated[int, Meta(ge=1, le=HASH_BITS)] = msgspec.field(name="b")
    planes: tuple[bytes, ...] = msgspec.field(name="p")
    older: tuple[ObjectRef, ...] = msgspec.field(name="o")


_RUN_DECODER: Final = msgspec.msgpack.Decoder(_FilterRunMessage)


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
    return encode_frame(FrameKind.FILTER_RUN, version=_RUN_VERSION, identity=identity, payload=payload)


def decode_filter_run(data: bytes, *, name: str, identity: str) -> FilterRun:
    """The run stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.FILTER_RUN, name=name, identity=identity, version_max=_RUN_VERSION, bytes_max=SIDECAR_BYTES_MAX
    )
    message = decode_message(_RUN_DECODER, frame.payload, name=name)
    steps = join_planes(message.planes, name=name)
    if sum(steps) >= 1 << message.bits or not all(steps[1:]):
        corrupt(name, "its marks are out of order or out of range")
    return FilterRun(message.bits, array("Q", accumulate(steps)), message.older)
