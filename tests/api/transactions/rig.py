"""Databases whose transactions may be open for long: a busy machine is not what is tested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wormdb
from wormdb.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.database import Database

__all__ = ["connect"]


def connect(url: str | Path, **options: Any) -> Database:
    """As `wormdb.connect`."""
    return wormdb.connect(url, **{"settings": Settings(transaction_seconds=600), **options})
