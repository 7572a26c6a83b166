"""What indexes of words are made with: languages, and fields with weights."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["LANGUAGES", "NO_LANGUAGE", "STOPPED_LANGUAGES", "WEIGHT_MAX", "read_weight", "weighted_name"]

NO_LANGUAGE: Final = "none"
LANGUAGES: Final = (
    NO_LANGUAGE,
    *"""arabic armenian basque catalan czech danish dutch english esperanto estonian finnish french german greek hindi
    hungarian indonesian irish italian lithuanian nepali norwegian persian polish portuguese romanian russian serbian
    sesotho spanish swedish tamil turkish yiddish""".split(),  # noqa: SIM905 - a list of words
)
"""Those of Snowball's stemmers, and none: then words are compared as they are."""

STOPPED_LANGUAGES: Final = ("english", "german", "french", "spanish")
"""Those that have stop words of their own."""

WEIGHT_MAX: Final = 1_000.0


def read_weight(written: str) -> tuple[str, float | None]:
    """The name and the weight of "title^3"; 1 without one, None for what cannot be one. No requests."""
    name, mark, text = written.partition("^")
    if not mark:
        return name, 1.0
    try:
        weight = float(text)
    except ValueError:
        return name, None
    return name, weight if math.isfinite(weight) and 0.0 < weight <= WEIGHT_MAX else None


def weighted_name(name: str, weight: float) -> str:
    """As it is written: title^3. No requests."""
    return name if weight == 1.0 else f"{name}^{weight:g}"
