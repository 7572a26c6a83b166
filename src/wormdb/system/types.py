"""Names for plain values that must not be mixed up."""

from __future__ import annotations

from typing import NewType

__all__ = ["LogNumber", "Misc", "StoreTime", "Version", "WriteId"]

LogNumber = NewType("LogNumber", int)
"""A place in a collection's log: 1 is the first entry, 0 is before it."""

Misc = NewType("Misc", int)
"""Microseconds since 1970 shifted left by 8, plus a node id: sortable, unique, never going back in one process."""

StoreTime = NewType("StoreTime", int)
"""A store's own clock, in milliseconds since 1970: from its answer, never from ours."""

Version = NewType("Version", str)
"""One state of one object, opaque: only equality means anything, and only in one store."""

WriteId = NewType("WriteId", str)
"""32 hex digits that name one attempt to write, and never repeat."""
