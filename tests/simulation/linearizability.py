"""Decide whether a concurrent history could have come from one register that does one thing at a time.

Every operation must take effect at one moment between its call and its return. An operation whose outcome
is unknown may take effect at any moment after its call, or never. The search is that of Wing and Gong with
Lowe's memory of what was tried: pick any operation that began before the first return of those left, apply it,
go on; step back if stuck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RegisterOp", "is_linearizable"]

Value = str | None


@dataclass(frozen=True, slots=True)
class RegisterOp:
    """One operation on a register that holds a string, or None while there is none.

    read           saw `value`
    write          stored `value` (None: removed it), whatever was there
    swap           stored `value` where `expected` was
    swap refused   found something else than `expected`
    """

    kind: Literal["read", "write", "swap", "swap refused"]
    value: Value = None
    expected: Value = None
    called: float = 0.0
    returned: float = math.inf
    is_unknown: bool = False
    """It may have happened, may happen later, or never."""

    def after(self, state: Value) -> tuple[bool, Value]:
        """Whether it can happen in `state`, and what it leaves."""
        match self.kind:
            case "read":
                return state == self.value, state
            case "write":
                return True, self.value
            case "swap":
                return state == self.expected, self.value
            case "swap refused":
                return state != self.expected, state


def is_linearizable(history: Sequence[RegisterOp], initial: Value = None) -> bool:
    """Whether some order of the operations explains all that was seen."""
    ops = sorted(history, key=lambda op: op.called)
    returns = [math.inf if op.is_unknown else op.returned for op in ops]
    required = sum(1 << place for place, op in enumerate(ops) if not op.is_unknown)
    stack: list[tuple[int, Value]] = [(0, initial)]
    tried: set[tuple[int, Value]] = set(stack)
    while stack:
        done, state = stack.pop()
        if done & required == required:
            return True
        # Nothing that began after the first return among those left may come before it.
        limit = min((returns[place] for place in range(len(ops)) if not done >> place & 1), default=math.inf)
        steps = []
        for place, op in enumerate(ops):
            if op.called > limit:
                break
            if done >> place & 1:
                continue
            possible, following = op.after(state)
            step = (done | 1 << place, following)
            if possible and step not in tried:
                tried.add(step)
                steps.append(step)
        # The earliest call is tried first: it is the likeliest.
        stack.extend(reversed(steps))
    return False
