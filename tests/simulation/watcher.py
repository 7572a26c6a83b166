"""Clients that follow the change feed of a simulated run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tests.simulation.replay import Violation
from wormdb.api.feed import changes_of, parse_resume
from wormdb.errors import SnapshotTooOldError, UnavailableError
from wormdb.format.json import decode_document
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from tests.simulation.nodes import Node, World
    from tests.simulation.replay import Replay
    from wormdb.api.feed import Change

__all__ = ["WATCHERS", "Watcher"]

Seen = tuple[int, str, int, dict[str, Any] | None, dict[str, Any] | None]


WATCHERS: tuple[Literal["feed", "watch", "parts"], ...] = ("feed", "watch", "parts")


class Watcher:
    """Follows the change feed, over crashes, and must see every change once and in order."""

    def __init__(self, world: World, node: Node, *, kind: Literal["feed", "watch", "parts"]) -> None:
        """At the beginning of the log.

        A "feed" is held on to, "watch" resumes with each look. "parts" plans which entries are new, and reads what it
        planned when it looks the next time, as tasks of a stream do that come late.
        """
        self.node = node
        self._world = world
        self._kind = kind
        self._planned: int | None = None
        self._process = node.process
        self._feed = node.ledger.feed(LogNumber(0))
        self._resume = "0"
        self._begin = 0
        self._segments: list[tuple[int, int, int, list[Seen]]] = []
        """Behind which entry each began, the last entry that it has whole, how much of the next, and what it saw."""
        self._seen: list[Seen] = []

    def look(self) -> None:
        """Take what is new; begin anew behind the end if the log was trimmed beyond us."""
        try:
            if self._kind == "feed":
                self._poll()
            elif self._kind == "parts":
                self._read_parts()
            else:
                for change in self.node.collection.watch(after=self._resume):
                    self._seen.append(_seen(change))
                    self._resume = change.resume
        except UnavailableError:
            return
        except SnapshotTooOldError:
            place = parse_resume(self._resume).number
            if self._world.bucket.trimmed <= place:
                raise Violation(f"a watcher at {place} was told that the log is trimmed beyond it") from None
            self._restart()

    def _poll(self) -> None:
        if self._process is not self.node.process:
            self._process = self.node.process
            self._feed = self.node.ledger.feed(parse_resume(self._resume).number)
        for record in self._feed.poll():
            try:
                self._seen += [_seen(change) for change in changes_of(record, self._feed.changes(record))]
            except UnavailableError:
                # The feed is behind the entry already, and what that attaches was not read: go back.
                self._feed = self.node.ledger.feed(LogNumber(record.number - 1))
                raise
            self._resume = str(record.number)

    def _read_parts(self) -> None:
        at, planned = int(self._resume), self._planned
        parts = self.node.ledger.feed_parts()
        for record in parts.records(at, at if planned is None else planned):
            found = ((batch, change) for _, batch, change in parts.changes(record))
            self._seen += [_seen(change) for change in changes_of(record, found)]
            self._resume = str(record.number)
        self._planned = self.node.ledger.view().number

    def _restart(self) -> None:
        self._planned = None
        at = parse_resume(self._resume)
        self._segments.append((self._begin, at.number, at.skip, self._seen))
        self._seen = []
        self._begin = self._world.bucket.highest
        self._resume = str(self._begin)
        self._feed = self.node.ledger.feed(LogNumber(self._begin))

    def check(self, replay: Replay) -> None:
        """What was seen is exactly what was written, from each beginning to its end."""
        changes = [
            (change.number, change.id, change.seq, _parsed(change.before), _parsed(change.after))
            for change in replay.happened
        ]
        self._segments.append((self._begin, replay.last, 0, self._seen))
        for begin, end, more, seen in self._segments:
            expected = [change for change in changes if begin < change[0] <= end]
            expected += [change for change in changes if change[0] == end + 1][:more]
            if seen != expected and not (end != replay.last and seen == expected[: len(seen)]):
                raise Violation(f"a watcher saw {seen} from {begin} to {end}, the log has {expected}")


def _seen(change: Change) -> Seen:
    return change.number, str(change.id), change.seq, _stored(change.before), _stored(change.after)


def _stored(document: dict[str, Any] | None) -> dict[str, Any] | None:
    if document is None:
        return None
    return {("_id" if name == "id" else name): value for name, value in document.items()}


def _parsed(body: str | None) -> dict[str, Any] | None:
    return None if body is None else decode_document(body.encode(), name="document")
