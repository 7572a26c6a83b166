"""The change feed: log entries as the changes they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from wormdb.api.pymongo_names import PymongoNames
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.event import JobAttached
from wormdb.format.past import operation_of
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from wormdb.api.access import Access
    from wormdb.engine.log.entries import LogRecord
    from wormdb.format.entry import LoggedBatch, LoggedChange

__all__ = ["NOW", "Change", "ChangeStream", "Resume", "begin_of", "changes_of", "parse_resume", "poll_changes", "watch"]

DIGEST_BYTES: Final = 8
"""Of the hash of an entry, in a mark: enough to tell one log from another."""
NOW: Final = "now"
_MARK: Final = re.compile(rf"([0-9]{{1,19}})(?:\.([0-9]{{1,19}}))?(?:@([0-9a-f]{{{2 * DIGEST_BYTES}}}))?")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one document, with the document before and after it.

    A purge has neither: the document was in the trash.
    """

    number: LogNumber
    """The log entry it is in; changes of one batch share it."""
    op: Literal["create", "update", "delete", "restore", "purge", "expire"]
    id: Any
    seq: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    actor: str | None
    metadata: Any
    misc: Misc
    resume: str
    """Give this to `watch(after=…)` to go on behind this change, even in the middle of a batch."""


class ChangeStream(PymongoNames):
    """Changes of a collection, to be gone through; as a block it is closed at the end. Not thread-safe."""

    def __init__(self, changes: Generator[Change, None, None], after: int | str) -> None:
        """`after` is where they begin. No requests yet."""
        self._changes = changes
        self._resume = after

    @property
    def resume(self) -> int | str:
        """Where to go on behind the last change that was taken: give it to `watch`."""
        return self._resume

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        change = next(self._changes)
        self._resume = change.resume
        return change

    def close(self) -> None:
        """Give no more changes. May be called twice."""
        self._changes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def watch(access: Access[Any], after: int | str, *, follow: bool, poll_seconds: float) -> ChangeStream:
    """The changes of a collection after a log number or a mark. Costs and raises as `Collection.watch` says."""
    begin = begin_of(access, after)
    if not poll_seconds >= 0:
        raise InvalidRequestError(f"watch(poll_seconds={poll_seconds!r})", reason="it must be 0 or more")
    return ChangeStream(
        _follow(begin, access, poll_seconds if follow else None), after if after != NOW else begin.number
    )


def begin_of(access: Access[Any], after: int | str) -> Resume:
    """Where a stream begins; "now" is behind what is committed, which 1 GET tells."""
    return Resume(access.log.view().number) if after == NOW else parse_resume(after)


def _follow(begin: Resume, access: Access[Any], poll_seconds: float | None) -> Generator[Change, None, None]:
    for change in poll_changes(access, begin):
        if change is not None:
            yield change
        elif poll_seconds is None:
            return
        else:
            access.clock.sleep(poll_seconds)


def poll_changes(access: Access[Any], begin: Resume) -> Iterator[Change | None]:
    """The changes after a place, and None whenever there are no more for now; the next step asks again. For ever."""
    feed, skip = access.log.feed(begin.number, begin.digest), begin.skip
    while True:
        for record in feed.poll():
            yield from changes_of(record, feed.changes(record), skip)
            skip = 0
        yield None


def changes_of(
    record: LogRecord, changes: Iterable[tuple[LoggedBatch, LoggedChange]], skip: int = 0
) -> Iterator[Change]:
    """The changes of an entry as users see them, in order, without the first `skip`."""
    total = sum(len(batch.changes) for batch in record.entry.batches) + sum(
        block.rows for event in record.entry.events if isinstance(event, JobAttached) for block in event.blocks
    )
    name = f"log entry {record.number}"
    for place, (batch, change) in enumerate(changes, 1):
        if place <= skip:
            continue
        yield Change(
            number=record.number,
            op=operation_of(change),
            id=json.decode(change.id, name=name),
            seq=change.seq,
            before=_shown(change.before, record),
            after=_shown(change.after, record),
            actor=batch.actor,
            metadata=None if batch.meta is None else json.decode(batch.meta, name=name),
            misc=Misc(record.entry.misc),
            resume=_mark(record.number, record.hash)
            if place == total
            else _mark(f"{record.number - 1}.{place}", record.entry.previous),
        )


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to go on: after which log number, how many changes to skip then, and how the hash of that entry begins."""

    number: LogNumber
    skip: int = 0
    digest: bytes = b""


def _mark(place: int | str, digest: bytes) -> str:
    return f"{place}@{digest[:DIGEST_BYTES].hex()}"


def parse_resume(text: int | str) -> Resume:
    """Where to go on; raises InvalidRequestError for anything else than a place in the log."""
    found = _MARK.fullmatch(str(text)) if type(text) in {int, str} else None
    if found is None:
        raise InvalidRequestError(
            f"watch(after={text!r})",
            reason="it is neither a log number nor a resume mark",
            fix='use 0, "now", or the resume of a change',
        )
    return Resume(LogNumber(int(found[1])), int(found[2] or 0), bytes.fromhex(found[3] or ""))


def _shown(document: bytes | None, record: LogRecord) -> dict[str, Any] | None:
    if document is None:
        return None
    values = json.decode_document(document, name=f"log entry {record.number}")
    return {("id" if name == "_id" else name): value for name, value in values.items()}
