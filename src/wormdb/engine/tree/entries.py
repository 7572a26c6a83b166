"""The entries of an index tree: value key and id key together are the key, the id is the value.

So entries are unique, those of one value lie together in the order of their ids, and no key of a value is a
prefix of another's. The value of an entry is the id as JSON, and after it one line for each covered
field: its value as JSON, nothing if it is missing, `?` if the document must be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.tree.definition import keys_of
from wormdb.format import json
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED, get_direct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.tree.definition import Index
    from wormdb.format.kinds import Document

__all__ = [
    "COVERED_BYTES_MAX",
    "Change",
    "Entry",
    "Range",
    "changes_of",
    "covered_values",
    "id_of",
    "packed",
    "value_key_of",
]

Entry = tuple[bytes, bytes]
"""A key and its value."""

Change = tuple[bytes, "bytes | None"]
"""A key and its new value; None removes it."""

COVERED_BYTES_MAX: Final = 256
"""JSON of a covered value; longer ones are left to the document, so that nodes stay small."""

_LINE: Final = b"\n"  # JSON as we write it has none
_ASK: Final = b"?"


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from `low` up to but not including `high`; None is no end."""

    low: bytes = b""
    high: bytes | None = None

    @classmethod
    def between(
        cls,
        lower: bytes | None = None,
        upper: bytes | None = None,
        *,
        lower_inclusive: bool = True,
        upper_inclusive: bool = True,
    ) -> Range:
        """Whole keys between two keys; None is no bound."""
        low = b"" if lower is None else lower if lower_inclusive else lower + b"\0"
        high = None if upper is None else upper + b"\0" if upper_inclusive else upper
        return cls(low, high)

    @classmethod
    def prefix(cls, prefix: bytes) -> Range:
        """Keys that start with `prefix`: with a value's key, the entries of that value."""
        return cls(prefix, prefix_end(prefix))

    @classmethod
    def of_values(
        cls,
        lower: bytes | None = None,
        upper: bytes | None = None,
        *,
        lower_inclusive: bool = True,
        upper_inclusive: bool = True,
    ) -> Range:
        """Entries whose value's key (or the first values' joined keys) lies between two; None is no bound."""
        low: bytes | None = b""
        if lower is not None:
            low = lower if lower_inclusive else prefix_end(lower)
        high = upper if upper is None or not upper_inclusive else prefix_end(upper)
        return cls(b"", b"") if low is None else cls(low, high)

    def __contains__(self, key: bytes) -> bool:
        return self.low <= key and (self.high is None or key < self.high)

    @property
    def empty(self) -> bool:
        """Whether no key can be in it."""
        return self.high is not None and self.high <= self.low


def changes_of(index: Index, identity: bytes, before: Document | None, after: Document | None) -> list[Change]:
    """What a change of one document changes in an index's tree, in order of key. No requests.

    `identity` is the id as JSON. Raises what `keys_of` does.
    """
    id_key = encode_key(json.decode(identity, name="document id"))
    old, new = _packed(index, identity, before), _packed(index, identity, after)
    was, now = keys_of(index, before), keys_of(index, after)
    changed: dict[bytes, bytes | None] = dict.fromkeys(was)
    changed.update(dict.fromkeys(now, new))
    kept = set(was).intersection(now) if old == new else ()
    return [(key + id_key, value) for key, value in sorted(changed.items()) if key not in kept]


def id_of(value: bytes) -> bytes:
    """The id, as JSON, in the value of an entry."""
    return value.partition(_LINE)[0]


def covered_values(value: bytes) -> list[Any] | None:
    """The values of the covered fields in an entry, MISSING among them; None if the document must be asked."""
    _, *pieces = value.split(_LINE)
    if _ASK in pieces:
        return None
    return [json.decode(piece, name="covered value") if piece else MISSING for piece in pieces]


def value_key_of(entry: Entry) -> bytes:
    """The key of an entry without the id's part."""
    key, value = entry
    return key[: len(key) - len(encode_key(json.decode(id_of(value), name="document id")))]


def _packed(index: Index, identity: bytes, document: Document | None) -> bytes:
    if document is None or not index.covered:
        return identity
    return packed(identity, [get_direct(document, path) for path in index.covered_paths])


def packed(identity: bytes, covered: Sequence[Any]) -> bytes:
    """The value of an entry: the id as JSON, and what `get_direct` says of the covered fields. No requests."""
    pieces = [identity]
    for value in covered:
        if value is MISSING:
            pieces.append(b"")
            continue
        text = _ASK if value is TRAVERSED else json.encode(value)
        pieces.append(text if len(text) <= COVERED_BYTES_MAX else _ASK)
    return _LINE.join(pieces)
