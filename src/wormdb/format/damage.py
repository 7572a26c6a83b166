"""The one way to say that stored bytes are not what was written."""

from __future__ import annotations

from typing import NoReturn

from wormdb.errors import CorruptionError

__all__ = ["corrupt"]


def corrupt(name: str, reason: str) -> NoReturn:
    """Raise CorruptionError about object `name`. No requests."""
    raise CorruptionError(f"{name} is damaged", reason=reason, key=name)
