"""Time and chance come in by argument; here are the real ones and the ones for tests.

The linter refuses wall clocks, `random` and `uuid4` everywhere else, so that a
seeded simulation can run the real code and give the same trace twice.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from typing import Protocol

from wormdb.types import WriteId

__all__ = ["Chance", "Clock", "ManualClock", "SeededChance", "SystemChance", "SystemClock", "new_write_id"]


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970; may jump either way."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class Chance(Protocol):
    """Where randomness comes from."""

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...

    def token(self, count: int) -> bytes:
        """`count` random bytes."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """The machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told: `sleep` and `advance` move it at once."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        """Wall time begins at `start_ms`, monotonic time at 0."""
        self._wall_ms = float(start_ms)
        self._monotonic = 0.0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        return int(self._wall_ms)

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Advance instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        with self._lock:
            self._wall_ms += seconds * 1000
            self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Move wall time only, either way, as an operator or NTP would."""
        with self._lock:
            self._wall_ms += seconds * 1000


class SystemChance:
    """The operating system's randomness: safe for ids that must never repeat."""

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return random.random()  # noqa: S311 - jitter, not a secret

    def token(self, count: int) -> bytes:
        """`count` random bytes."""
        return secrets.token_bytes(count)


class SeededChance:
    """The same seed gives the same numbers."""

    def __init__(self, seed: int) -> None:
        """Begin the sequence of `seed`."""
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def token(self, count: int) -> bytes:
        """`count` repeatable bytes."""
        return self._random.randbytes(count)


def new_write_id(chance: Chance, mark: str = "") -> WriteId:
    """A name for one attempt to write that never repeats: 128 random bits, of which `mark` has the first few."""
    return WriteId(mark + chance.token(16 - len(mark) // 2).hex())
