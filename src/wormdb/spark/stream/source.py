"""`spark.readStream.format("worm")`: the change feed of a collection.

The driver's reader finds out how far the log is and shares it among tasks; workers read entries by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from wormdb.api.history import parse_as_of
from wormdb.engine.feed import places_of
from wormdb.errors import InvalidRequestError, NotFoundError, SnapshotTooOldError
from wormdb.format.frame import ZERO_HASH
from wormdb.spark.stream.plan import LogPosition, Offset, Stretch, stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.moments import AsOf
    from wormdb.engine.state.view import View
    from wormdb.jobs.place import Where
    from wormdb.spark.stream.changes import ChangeTable

__all__ = ["ChangeReader", "Limits"]

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_REMEDY: Final = (
    'read the present state with spark.read, then start with a new checkpointLocation and option("startingOffset", '
    '"latest"); Settings(log_retention_ms=…) keeps the log longer'
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the log one micro-batch reads at most; None is all there is."""

    entries: int | None = None
    rows: int | None = None
    """An entry that has more changes is read in several micro-batches; others are read whole."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Limits:
        """What options say; raises InvalidRequestError."""
        return cls(_count(options, "maxEntriesPerTrigger"), _count(options, "maxRowsPerTrigger"))


NO_LIMITS: Final = Limits()


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one collection. Spark calls it in the driver, and pickles it into workers for `read`."""

    def __init__(
        self,
        where: Where,
        table: ChangeTable,
        starting: str = EARLIEST,
        limits: Limits = NO_LIMITS,
        tasks: int | None = None,
    ) -> None:
        """`starting` is earliest, latest, a log number or a time. No requests; raises InvalidRequestError."""
        self.where = where
        self.table = table
        self.starting = starting.strip()
        self.limits = limits
        self.tasks = tasks
        self._target: int | None = None
        """Where a stream of what is available now ends."""
        self._newest: int | None = None
        if self.starting.lower() not in (EARLIEST, LATEST):
            _moment(self.starting, 0)

    # --- offsets ---

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the stream begins. 1 or 2 GETs; for a time as many as halving the log takes.

        Raises SnapshotTooOldError for entries that were trimmed, InvalidRequestError for what is yet to come.
        """
        ledger = self._ledger()
        mark = self._starting(ledger, ledger.view())
        return Offset(mark, mark).shown()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next micro-batch ends; `start` itself if there is nothing new. 1 GET, and 1 if there is.

        With a limit of rows 1 for each entry. Raises SnapshotTooOldError if the log was trimmed beyond `start`,
        NotFoundError and InvalidRequestError if it is gone or another one.
        """
        offset = Offset.parse(start)
        ledger = self._ledger()
        view = ledger.view()
        self._check(view, offset.at)
        self._newest = view.number
        through = view.number if self._target is None else min(self._target, view.number)
        limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self.limits
        if limits.entries is not None:
            through = min(through, offset.at.log + limits.entries)
        if through <= offset.at.log:
            return start
        if limits.rows is None:
            return replace(offset, at=_mark(ledger, view, through)).shown()
        return replace(offset, at=_within(ledger, offset.at, through, limits.rows)).shown()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options say; Spark knows no limit of entries, and calls them files. No requests."""
        if self.limits.rows is not None:
            return ReadMaxRows(self.limits.rows)
        return ReadAllAvailable() if self.limits.entries is None else ReadMaxFiles(self.limits.entries)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far the log is, as it was last seen: for the progress of a query. No requests."""
        return None if self._newest is None else {"log": self._newest}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read no further than the log is now. 1 GET."""
        self._target = int(self._ledger().view().number)

    # --- rows ---

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The shares of tasks. 1 GET, and 1 for each entry by which a job attached documents."""
        begin, stop = Offset.parse(start), Offset.parse(end)
        if begin.first != stop.first:
            # Spark repeats the first micro-batch after a crash, and has asked again where to begin it.
            begin = Offset(stop.first, stop.first)
        if begin.at == stop.at:
            return []
        ledger = self._ledger()
        view = ledger.view()
        self._check(view, begin.at)
        return [
            InputPartition(stretch)
            for stretch in stretches(view, ledger.feed_parts(), begin.at, stop.at, tasks=self.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one share. Costs as `Stretch.read`."""
        stretch: Stretch = partition.value
        parts = self._ledger().feed_parts()
        try:
            yield from self.table.batches(stretch.read(parts, with_before=self.table.with_before))
        except SnapshotTooOldError as error:
            raise SnapshotTooOldError(error.what, reason=error.reason, fix=_REMEDY) from error

    # --- the log ---

    def _ledger(self) -> Ledger:
        return self.where.access(renews=False).log

    def _starting(self, ledger: Ledger, view: View) -> LogPosition:
        trimmed = _trimmed(view)
        match self.starting.lower():
            case "earliest":
                return trimmed
            case "latest":
                return _mark(ledger, view, view.number)
        moment = _moment(self.starting, self.where.access().clock.now_ms())
        if not moment.is_time:
            if moment.bound > view.number:
                raise InvalidRequestError(
                    f"option startingOffset={self.starting}",
                    reason=f"the newest entry of {self.where.name} is {view.number}",
                    fix='give a number up to it, or "latest"',
                )
            self._check(view, LogPosition(moment.bound))
            return _mark(ledger, view, moment.bound)
        if moment.bound > moment.now_ms:
            raise InvalidRequestError(
                f"option startingOffset={self.starting}", reason="it is in the future", fix='give "latest"'
            )
        moment = moment.over(view)
        low, high = trimmed.log, int(view.number)
        while low < high:
            middle = (low + high + 1) // 2
            entry = ledger.feed_parts().record(middle).entry
            low, high = (middle, high) if moment.has(entry.number, entry.misc) else (low, middle - 1)
        return _mark(ledger, view, low)

    def _check(self, view: View, at: LogPosition) -> None:
        """Raise if the log does not have what comes after a place, or cannot be the same one."""
        trimmed = _trimmed(view).log
        what = f"the stream of {self.where.name} after entry {at.log}"
        if at.log < trimmed:
            raise SnapshotTooOldError(what, reason=f"entries up to {trimmed} have been trimmed", fix=_REMEDY)
        if view.number == 0 and at.log:
            raise NotFoundError(what, reason="the collection is gone", fix="start with a new checkpointLocation")
        if at.log > view.number:
            raise InvalidRequestError(
                what,
                reason=f"its log ends with entry {view.number}: the collection was removed and made again",
                fix="start with a new checkpointLocation",
            )


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isdecimal() and int(text)):
        raise InvalidRequestError(f"option {name}={text}", reason="it must be a number", fix="give 1 or more")
    return int(text)


def _moment(text: str, now_ms: int) -> AsOf:
    try:
        return parse_as_of(int(text) if text.isdecimal() else text, now_ms)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"option startingOffset={text}",
            reason=error.reason,
            fix='give "earliest", "latest", a log number, or a time such as "2026-02-24T12:00:00Z"',
        ) from error


def _trimmed(view: View) -> LogPosition:
    """Where the log begins."""
    root = None if view.place is None else view.place.root
    return LogPosition.of(0, ZERO_HASH) if root is None else LogPosition.of(root.trimmed, root.hash_trimmed)


def _mark(ledger: Ledger, view: View, number: int) -> LogPosition:
    """The place after an entry. 1 GET, or none where the log begins."""
    trimmed = _trimmed(view)
    return trimmed if number == trimmed.log else LogPosition.of(number, ledger.feed_parts().record(number).hash)


def _within(ledger: Ledger, at: LogPosition, through: int, rows_max: int) -> LogPosition:
    """The place after at most `rows_max` rows: after whole entries, unless the first one has more. 1 GET an entry."""
    end, rows = at, 0
    for record in ledger.feed_parts().records(at.log, through):
        done = at.place if record.number == at.log + 1 else 0
        more = places_of(record) - done
        if rows + more > rows_max:
            return end if rows else LogPosition.of(record.number - 1, record.entry.previous, done + rows_max)
        end, rows = LogPosition.of(record.number, record.hash), rows + more
    return end
