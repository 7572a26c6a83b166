"""Which keys are certainly not here: about 10 bits a key, wrong once in 256 times, and only one way.

Every key is hashed to a number below 256 times the count of keys. The sorted numbers are stored as
differences, of which 8 bits are noise and the rest is nearly nothing: so the low bytes and the high
bytes are kept apart, and compression packs the high ones. All loops run in C.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from hashlib import blake2b
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.format.frame import Count, corrupt, decode_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SLOTS_PER_KEY", "MembershipFilter", "join_planes", "split_planes"]

SLOTS_PER_KEY: Final = 256
"""Hash range for each key: one in so many absent keys is taken for present."""

_HASH_BITS: Final = 64
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
        return cls.of_hashes(_words(b"".join([blake2b(key, digest_size=8).digest() for key in keys])))

    @classmethod
    def of_hashes(cls, hashes: array[int]) -> MembershipFilter:
        """The same over keys whose hashes are known: `wormdb.format.filter_run.key_hashes`. No requests."""
        if _MANY <= len(hashes) < _TOO_MANY:
            return cls._of_many(hashes)
        distinct = sorted(set(hashes))
        slots = len(distinct) * SLOTS_PER_KEY
        return cls(slots, array("Q", dict.fromkeys([number * slots >> _HASH_BITS for number in distinct])))

    @classmethod
    def _of_many(cls, hashes: array[int]) -> MembershipFilter:
        """In Arrow: the product of a hash and a number below 2**32 has its upper 64 bits from two halves."""
        import pyarrow as pa
        import pyarrow.compute as pc

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
        (number,) = _words(blake2b(key, digest_size=8).digest())
        mark = number * self._slots >> _HASH_BITS
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


def _words(digests: bytes) -> array[int]:
    numbers = array("Q")
    numbers.frombytes(digests)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
