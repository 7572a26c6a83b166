"""Names for plain values that must not be mixed up."""

from __future__ import annotations

from typing import NewType

__all__ = ["StoreTime", "Version", "WriteId"]

StoreTime = NewType("StoreTime", int)
"""A store's own clock, in milliseconds since 1970: from its answer, never from ours."""

Version = NewType("Version", str)
"""One state of one object, opaque: only equality means anything, and only in one store."""

WriteId = NewType("WriteId", str)
"""32 hex digits that name one attempt to write, and never repeat."""
