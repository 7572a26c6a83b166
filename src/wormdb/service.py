"""The old place of `wormdb.jobs.node`: its names can be reached here for one release more."""

from __future__ import annotations

import warnings
from typing import Any

from wormdb.jobs import node

_MOVED = ("Node", "Pace")


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module 'wormdb.service' has no attribute {name!r}")
    warnings.warn(
        f"wormdb.service.{name} is now wormdb.jobs.node.{name}; the old name goes in the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(node, name)
