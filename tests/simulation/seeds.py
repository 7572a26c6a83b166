"""Which seeds a run of the suite takes: some always, more with the long tests, others if the environment names them."""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["chunks", "more"]

IS_WHOLE = os.environ.get("WORMDB_STRIDE") == "1"


def more(usual: int, whole: int) -> range:
    """The first seeds: some in the usual suite, more in the whole one."""
    return range(whole if IS_WHOLE else usual)


def chunks(first: int, usual: int, end: int, size: int) -> list[Any]:
    """Parameters, each a range of `size` seeds: from `first` to `end`, of which those from `usual` on are long.

    `WORMDB_SEEDS=first:count` names others, all of which are run.
    """
    if named := os.environ.get("WORMDB_SEEDS"):
        first, count = (int(part) for part in named.split(":"))
        usual = end = first + count
    starts = range(first, end, size)
    seeds = [range(start, min(start + size, end)) for start in starts]
    marks = [() if start < usual else (pytest.mark.long,) for start in starts]
    return [pytest.param(some, marks=mark, id=str(some.start)) for some, mark in zip(seeds, marks, strict=True)]
