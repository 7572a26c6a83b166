"""Time and chance come in by argument; here are the real ones and the ones for tests.

The linter refuses wall clocks, `random` and `uuid4` everywhere else, so that a
seeded simulation can run the real code and give the same trace twice.
"""

from __future__ import annotations

import os
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from wormdb.system.types import WriteId

__all__ = ["Chance", "Clock", "ManualClock", "SeededChance", "SystemChance", "SystemClock", "Uptime", "new_write_id"]


class Uptime(NamedTuple):
    """How long a machine has been running, suspension included: all its processes see the same; it cannot be set."""

    boot: str
    """Names one start of the machine; empty where that has no name."""
    ms: int


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970; may jump either way."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    def uptime(self) -> Uptime:
        """How long the machine has been running."""
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


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux's clock of the uptime, the one that /proc/uptime shows."""


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)
    """The machine's monotonic clock; as it is, because a request looks at it a dozen times."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def uptime(self) -> Uptime:
        """As the kernel tells it; where it does not, the monotonic clock."""
        if _BOOTTIME is None:
            return Uptime("", int(time.monotonic() * 1000))
        # As a tuple is made: a folder tells the time with every answer.
        return tuple.__new__(Uptime, (_boot_name(), time.clock_gettime_ns(_BOOTTIME) // 1_000_000))

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


@lru_cache(1)
def _boot_name() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:36]
    except OSError:
        return ""


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

    def uptime(self) -> Uptime:
        """A machine that has been running for a day when the clock begins."""
        return Uptime("manual", 86_400_000 + int(self._monotonic * 1000))

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
        from random import random  # processes that wait for none do not import it

        return random()  # noqa: S311 - jitter, not a secret

    def token(self, count: int) -> bytes:
        """`count` random bytes."""
        return os.urandom(count)


class SeededChance:
    """The same seed gives the same numbers."""

    def __init__(self, seed: int) -> None:
        """Begin the sequence of `seed`."""
        from random import Random

        self._random = Random(seed)  # noqa: S311 - repeatable on purpose

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def token(self, count: int) -> bytes:
        """`count` repeatable bytes."""
        return self._random.randbytes(count)


def new_write_id(chance: Chance, mark: str = "") -> WriteId:
    """A name for one attempt to write that never repeats: 128 random bits, of which `mark` has the first few."""
    return WriteId(mark + chance.token(16 - len(mark) // 2).hex())
