"""Names of indexes: Kronotop's own have colons, which no stored name may have."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PRIMARY_INDEX", "shown_name", "stored_name"]

PRIMARY_INDEX: Final = "primary-index"
_PRIMARY: Final = "_id"
_STORED: Final = re.compile(r"selector\.(.+)\.bsonType\.([A-Z0-9]+)")
_SHOWN: Final = re.compile(r"selector:(.+)\.bsonType:([A-Z0-9]+)")
_STORED_VECTOR: Final = re.compile(r"vector\.(.+)\.dimensions\.([0-9]+)\.distance\.([A-Z_]+)")
_SHOWN_VECTOR: Final = re.compile(r"vector:(.+)\.dimensions:([0-9]+)\.distance:([A-Z_]+)")
_STORED_COMPOUND: Final = re.compile(r"compound\.(.+)")


def shown_name(name: str) -> str:
    """The name of an index as clients see it."""
    if name == _PRIMARY:
        return PRIMARY_INDEX
    if found := _STORED.fullmatch(name):
        return f"selector:{found[1]}.bsonType:{found[2]}"
    if found := _STORED_VECTOR.fullmatch(name):
        return f"vector:{found[1]}.dimensions:{found[2]}.distance:{found[3]}"
    return f"compound:{found[1]}" if (found := _STORED_COMPOUND.fullmatch(name)) else name


def stored_name(name: str) -> str:
    """The name under which an index is stored, of the one that clients use."""
    if name == PRIMARY_INDEX:
        return _PRIMARY
    if found := _SHOWN.fullmatch(name):
        return f"selector.{found[1]}.bsonType.{found[2]}"
    if found := _SHOWN_VECTOR.fullmatch(name):
        return f"vector.{found[1]}.dimensions.{found[2]}.distance.{found[3]}"
    return f"compound.{name.removeprefix('compound:')}" if name.startswith("compound:") else name
