"""The log of one collection on one side, as bytes: where it ends, and whether another goes on from there.

Entries are compared by the hash of their stored bytes, which every entry carries of the one before it: two logs with
the same hash at one number are the same log up to it. Nothing here understands what an entry does, so that logs of a
newer release can be compared and copied too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.log.entries import BEFORE_FIRST
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.errors import NotFoundError
from wormdb.format.entry import entry_hash
from wormdb.format.frame import FrameKind, decode_frame
from wormdb.settings import ENTRY_BYTES_MAX
from wormdb.sync.state import LogEnd
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.log.root import RootState
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["CollectionLog", "EventTag", "ReadLog", "event_tags"]

WIDTH_MAX: Final = 32
"""How many entries are asked for at once."""
_VERSION_MAX: Final = 255


class EventTag(msgspec.Struct):
    """What kind an event is, whether this release knows it or not; `tx` is the transaction that it is about, if any."""

    kind: str = msgspec.field(name="k", default="")
    tx: msgspec.Raw = msgspec.field(name="x", default=msgspec.Raw())


class _EventTags(msgspec.Struct):
    events: tuple[EventTag, ...] = msgspec.field(name="e", default=())


_TAGS: Final = msgspec.msgpack.Decoder(_EventTags)


def event_tags(body: bytes, name: str) -> Sequence[EventTag]:
    """The kinds of the events of an entry, also of those that this release does not know. Raises CorruptionError."""
    frame = decode_frame(body, FrameKind.ENTRY, name=name, version_max=_VERSION_MAX, bytes_max=ENTRY_BYTES_MAX)
    return _TAGS.decode(frame.payload).events


@dataclass(frozen=True, slots=True)
class CollectionLog:
    """The log of a collection in one store."""

    store: Store
    pool: Pool
    collection: str
    """Its folder, ending with /."""

    @property
    def paths(self) -> EnginePaths:
        """Its keys."""
        return EnginePaths.of_collection(self.collection)

    @property
    def register(self) -> Register:
        """Its root."""
        return Register(self.store, self.paths, self.collection)

    def read(self, known: LogEnd | None = None) -> ReadLog:
        """Where it ends now. 2 GETs, and for k entries that the root does not have k to 2k more.

        Where it was `known` to end once, 3, and for k entries since then k to 2k more; that entry is looked at again.
        Raises CorruptionError, and UnsupportedFormatError for a root of a newer release.
        """
        root = self.register.read()
        state = ReadLog(self, root)
        if known is not None and known.number > root.applied:
            tail = self._tail(known.number - 1, 2)
            number, body = next(tail, (0, b""))
            if number == known.number and entry_hash(body) == known.hash:
                return self._through(state, chain([(number, body)], tail))
        return self._through(state, self._tail(root.applied, 1))

    @staticmethod
    def _through(state: ReadLog, tail: Iterable[tuple[int, bytes]]) -> ReadLog:
        for number, body in tail:
            state.bodies[number] = body
            state.end = LogEnd(number, entry_hash(body))
        return state

    def _tail(self, after: int, width: int) -> Iterator[tuple[int, bytes]]:
        while True:
            numbers = range(after + 1, after + 1 + width)
            keys = [self.paths.entry(LogNumber(number)) for number in numbers]
            for number, probe in zip(numbers, list(self.pool.map(self.store.probe, keys)), strict=True):
                if probe.found is None:
                    return
                yield number, probe.found.body
            after, width = after + width, min(width * 2, WIDTH_MAX)

    def entry(self, number: int) -> bytes:
        """The bytes of an entry. 1 GET; raises NotFoundError."""
        return self.store.get(self.paths.entry(LogNumber(number))).body


@dataclass(slots=True)
class ReadLog:
    """A log as it was read: its root, and the entries that the root does not have."""

    log: CollectionLog
    root: RootState
    bodies: dict[int, bytes] = field(default_factory=dict)
    end: LogEnd = field(init=False)

    def __post_init__(self) -> None:
        found = self.root.root
        self.end = LogEnd() if found is None else LogEnd(found.applied, found.hash_applied)

    @property
    def is_empty(self) -> bool:
        """Whether there is no collection."""
        return self.end.number == 0

    @property
    def trimmed(self) -> int:
        """Through which number entries are not there any more."""
        return 0 if self.root.root is None else self.root.root.trimmed

    def hash_at(self, number: int) -> bytes | None:
        """The hash of an entry; None if it was trimmed, or is not there yet. At most 1 GET."""
        root = self.root.root
        if number == 0:
            return BEFORE_FIRST
        if number == self.end.number:
            return self.end.hash
        if root is not None and number == root.applied:
            return root.hash_applied
        if root is not None and number == root.trimmed:
            return root.hash_trimmed
        if number < self.trimmed or number > self.end.number:
            return None
        try:
            return entry_hash(self.body(number))
        except NotFoundError as error:
            if error.key != self.log.paths.entry(LogNumber(number)):
                raise
            return None  # it was trimmed since

    def body(self, number: int) -> bytes:
        """The bytes of an entry. At most 1 GET; raises NotFoundError."""
        return self.bodies.get(number) or self.log.entry(number)

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        """The entries after a number, in order, 1 GET each that is not known. Raises NotFoundError."""
        for start in range(number + 1, self.end.number + 1, WIDTH_MAX):
            numbers = range(start, min(start + WIDTH_MAX, self.end.number + 1))
            yield from zip(numbers, list(self.log.pool.map(self.body, numbers)), strict=True)
