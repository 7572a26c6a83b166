"""Durations as people write them: 30d."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["duration_seconds"]

_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhdw])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def duration_seconds(text: str) -> int | None:
    """The seconds of `90s`, `5m`, `12h`, `30d` or `2w`; None if it is no duration."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _SECONDS[found[2]] if found else None
