"""How far a query may go: rows that it looks at, and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import LimitExceededError, UnavailableError
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from wormdb.query.request import Request
    from wormdb.system.clock import Clock

__all__ = ["Limits"]


class Limits:
    """What one request allows."""

    def __init__(self, request: Request, clock: Clock) -> None:
        """Nothing was looked at yet."""
        self._rows_max = request.rows_max
        self._deadline = request.deadline
        self._clock = clock
        self._looked_at = 0

    @property
    def are_rows_counted(self) -> bool:
        """Whether it matters how many rows are looked at."""
        return self._rows_max is not None

    def allowed(self, rows: int) -> int:
        """How many of some rows to take at once: those that may be looked at, or one more than that."""
        return rows if self._rows_max is None else max(1, min(rows, self._rows_max - self._looked_at))

    def look(self, rows: int) -> None:
        """Rows are about to be looked at. Raises LimitExceededError, UnavailableError."""
        self._looked_at += rows
        if self._rows_max is not None and self._looked_at > self._rows_max:
            raise LimitExceededError(
                "the query was given up",
                reason=f"it looked at more than max_scanned, {self._rows_max:,}, rows",
                fix="narrow the filter, create an index for it, or raise max_scanned",
            )
        self.check_time()

    def check_time(self) -> None:
        """Another batch of rows is wanted. Raises UnavailableError after the deadline."""
        call = current()
        if call is not None:
            call.step()
        if self._deadline is not None and self._clock.monotonic() >= self._deadline:
            raise UnavailableError(
                "the query was given up",
                reason="timeout_seconds have passed",
                fix="narrow the filter, create an index for it, or raise timeout_seconds",
            )
