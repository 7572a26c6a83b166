"""The entries of an index tree: value key and id key together are the key, the id as JSON is the value.

So entries are unique, those of one value lie together in the order of their ids, and no key of a value is a
prefix of another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.tree.definition import Index, keys_of
from wormdb.format import json
from wormdb.format.key import encode_key, prefix_end

if TYPE_CHECKING:
    from wormdb.format.kinds import Document

__all__ = [
    "ALL_ENTRIES",
    "Change",
    "Entry",
    "Range",
    "changes_of",
    "value_key_of",
]

Entry = tuple[bytes, bytes]
"""A key and the id as JSON."""

Change = tuple[bytes, "bytes | None"]
"""A key and the id as JSON; None removes the entry."""


class Range(msgspec.Struct, frozen=True):
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

    def __contains__(self, key: bytes) -> bool:
        return self.low <= key and (self.high is None or key < self.high)

    @property
    def empty(self) -> bool:
        """Whether no key can be in it."""
        return self.high is not None and self.high <= self.low


ALL_ENTRIES: Final = Range()


def changes_of(index: Index, identity: bytes, before: Document | None, after: Document | None) -> list[Change]:
    """What a change of one document changes in an index's tree, in order of key. No requests.

    `identity` is the id as JSON. Raises what `keys_of` does.
    """
    id_key = encode_key(json.decode(identity, name="document id"))
    was, now = keys_of(index, before), keys_of(index, after)
    changed: dict[bytes, bytes | None] = dict.fromkeys(set(was) - set(now))
    changed.update(dict.fromkeys(set(now) - set(was), identity))
    return [(key + id_key, value) for key, value in sorted(changed.items())]


def value_key_of(entry: Entry) -> bytes:
    """The key of an entry without the id's part."""
    key, identity = entry
    return key[: len(key) - len(encode_key(json.decode(identity, name="document id")))]
