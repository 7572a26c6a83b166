"""What was once found out about the values of fields, small enough for the root.

It is not kept up to date: each field says which state it is of, and how many changes there had been. It only tells a
planner what is likely, so bytes that cannot be read are ignored.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from wormdb.format.frame import Count
from wormdb.settings import FIELD_STATISTICS_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "BOUND_BYTES_MAX",
    "BUCKETS",
    "DIGEST_BYTES",
    "TEXT_CHARS_MAX",
    "TOP_MAX",
    "FieldStatistics",
    "FrequentValue",
    "decode_field_statistics",
    "digest_of",
    "encode_field_statistics",
    "merged",
]

BUCKETS: Final = 32
TOP_MAX: Final = 16
BOUND_BYTES_MAX: Final = 64
"""Keys of values are cut to this length."""
TEXT_CHARS_MAX: Final = 64
"""And so are texts of frequent values."""
DIGEST_BYTES: Final = 8

_OVERHEAD_BYTES: Final = 64
"""Of a message around its fields, at most."""
_Unsigned = Annotated[int, msgspec.Meta(ge=0)]


class FrequentValue(msgspec.Struct, frozen=True, array_like=True):
    """A value by the digest of its key, as JSON that may be cut, and how often it was there."""

    digest: _Unsigned
    text: str
    count: Count


class FieldStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of one field in one state. Elements of arrays count each; null and missing do not count as values.

    `ranks[i]` values have keys below `bounds[i]`, about.
    """

    path: str = msgspec.field(name="p")
    number: Count = msgspec.field(name="n")
    """The log number of that state."""
    misc: Count = msgspec.field(name="t", default=0)
    """When it was looked at."""
    rows: Count = msgspec.field(name="r")
    """Documents that there were."""
    changes: Count = msgspec.field(name="g", default=0)
    """What `Root.changes` was, with the tail."""
    missing: Count = msgspec.field(name="m", default=0)
    nulls: Count = msgspec.field(name="z", default=0)
    values: Count = msgspec.field(name="v", default=0)
    distinct: Count = msgspec.field(name="d", default=0)
    low: bytes = msgspec.field(name="l", default=b"")
    """The key of the least value, perhaps cut; empty of none."""
    high: bytes = msgspec.field(name="h", default=b"")
    top: tuple[FrequentValue, ...] = msgspec.field(name="f", default=())
    """The most frequent ones; none if there were too many values to count each."""
    bounds: tuple[bytes, ...] = msgspec.field(name="b", default=())
    ranks: tuple[Count, ...] = msgspec.field(name="k", default=())


class _StatisticsMessage(msgspec.Struct, frozen=True):
    fields: tuple[FieldStatistics, ...] = msgspec.field(name="f")


_DECODER: Final = msgspec.msgpack.Decoder(_StatisticsMessage)
_ENCODER: Final = msgspec.msgpack.Encoder()


def digest_of(key: bytes) -> int:
    """A number of 64 bits that looks like chance, and is always the same for a key. No requests."""
    return int.from_bytes(blake2b(key, digest_size=DIGEST_BYTES).digest(), "big")


def encode_field_statistics(fields: Iterable[FieldStatistics]) -> bytes:
    """As bytes for the root; fields that would make them too long are left out, the last ones first. No requests."""
    left = FIELD_STATISTICS_BYTES_MAX - _OVERHEAD_BYTES
    kept = []
    for field in fields:
        size = len(_ENCODER.encode(field))
        if size <= left:
            kept.append(field)
            left -= size
    return _ENCODER.encode(_StatisticsMessage(tuple(kept)))


def decode_field_statistics(data: bytes | None) -> tuple[FieldStatistics, ...]:
    """The fields in a root's statistics, the newest first; none if it has none, or another format's. No requests."""
    if data is None:
        return ()
    try:
        return _DECODER.decode(data).fields
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()


def merged(
    known: Sequence[FieldStatistics], fresh: Sequence[FieldStatistics], *, is_whole: bool
) -> tuple[FieldStatistics, ...]:
    """What is known of fields when they were looked at again: of each what is of the newest state. No requests.

    `is_whole` says that all fields were looked at: what is older and of none of them goes.
    """
    newest = max((field.number for field in fresh), default=0)
    kept = [field for field in known if not is_whole or field.number > newest]
    best: dict[str, FieldStatistics] = {}
    for field in (*fresh, *kept):
        there = best.get(field.path)
        if there is None or field.number > there.number:
            best[field.path] = field
    return tuple(sorted(best.values(), key=lambda field: -field.number))
