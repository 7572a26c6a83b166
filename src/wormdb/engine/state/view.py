"""What a collection holds at a log number: a base that does not move, and what came after it.

`Overlay` keeps every version since the base, by log number, and only ever grows; so a `View` is two
references and a number, costs nothing to make, and never changes under its reader.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from wormdb.engine.state.jobs import NO_JOBS
from wormdb.format import json
from wormdb.format.entry import Entry, LoggedBatch
from wormdb.format.event import DocumentErased
from wormdb.format.key import encode_key
from wormdb.settings import SEQUENCE_MAX
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.log.root import Place
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.jobs import Jobs
    from wormdb.engine.state.prepared import Prepared
    from wormdb.engine.tree.definition import Index
    from wormdb.format.entry import LoggedChange

__all__ = [
    "AttachedBlocks",
    "Base",
    "DocumentChange",
    "EmptyBase",
    "FirstLook",
    "Overlay",
    "StoredVersion",
    "TopOverlay",
    "View",
    "changed_after",
    "greatest_sequence",
    "id_key",
    "id_keys",
    "merge_newest",
    "sequence_of",
]

FirstLook: TypeAlias = "Callable[[View], object] | None"
"""What is done with the state of a root by a call that had to read it, while the log is asked what came after."""

_TEXT_TAG, _TEXT_END = encode_key("")[:1], encode_key("")[1:]
SEQUENCE_DIGITS_MAX = len(str(SEQUENCE_MAX))
_serials = itertools.count(1)
_NO_WRITE = WriteId(bytes(16).hex())
"""Of changes that no entry has yet."""


def id_key(identity: bytes) -> bytes:
    """The order-preserving key of an id given as extended JSON: equal ids have equal keys."""
    if identity[:1] == b'"' and identity.isascii() and b"\\" not in identity and identity.count(b'"') == 2:
        return _TEXT_TAG + identity[1:-1] + _TEXT_END  # plain text, as most ids are
    return encode_key(json.decode(identity, name="document id"))


def id_keys(identities: Sequence[bytes]) -> list[bytes]:
    """The keys of some ids, each as `id_key` has it."""
    joined = b"".join(identities)
    if joined.isascii() and b"\\" not in joined:
        keys = [_TEXT_TAG + one[1:-1] + _TEXT_END for one in identities if one[:1] == b'"']
        if len(keys) == len(identities):  # plain texts, as most are
            return keys
    return list(map(id_key, identities))


def sequence_of(identity: bytes) -> int:
    """The number in an id of digits, given as extended JSON; 0 for any other id, and for one beyond the counter."""
    digits = identity[1:-1]
    return int(digits) if identity[:1] == b'"' and digits.isdigit() and len(digits) <= SEQUENCE_DIGITS_MAX else 0


def greatest_sequence(identities: Iterable[bytes]) -> int:
    """The greatest `sequence_of` some ids; 0 if there is none."""
    texts = [one[1:-1] for one in identities if one[:1] == b'"' and len(one) <= SEQUENCE_DIGITS_MAX + 2]
    return max(map(int, filter(bytes.isdigit, texts)), default=0)


class StoredVersion(msgspec.Struct, frozen=True):
    """What is under one id: the document's JSON, or None after a delete; `seq` lives on.

    `trash` is the tombstone with the document, as JSON, while it can be restored.
    """

    id: bytes
    rev: int
    seq: int
    document: bytes | None
    trash: bytes | None = None

    @property
    def version(self) -> tuple[int, int]:
        """What no other version under this id has: a batch may change a document twice, under one revision."""
        return self.rev, self.seq


class Base(Protocol):
    """The state through one log number, from the root's objects."""

    def get(self, key: bytes) -> StoredVersion | None:
        """What is under an id's key; None if nothing ever was."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """What is under each of some keys, side by side; without those under which nothing ever was."""
        ...

    def prepare(self, keys: Sequence[bytes]) -> None:
        """Read what look-ups of these keys need before their pages."""
        ...

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        """Everything with a key from `low` up to but not including `high`, deleted ids too, in order of key."""
        ...

    def trashed(self) -> Iterator[bytes]:
        """The keys of ids that may be in the trash: every one that is, and perhaps more."""
        ...

    @property
    def place(self) -> Place | None:
        """The root and where its objects are; None if there is no root."""
        ...


class EmptyBase:
    """The base of a collection without a root."""

    def get(self, key: bytes) -> StoredVersion | None:  # noqa: ARG002 - nothing is there
        """Nothing."""
        return None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:  # noqa: ARG002 - nothing is there
        """Nothing."""
        return {}

    def prepare(self, keys: Sequence[bytes]) -> None:
        """Nothing to read."""

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:  # noqa: ARG002 - nothing is there
        """Nothing."""
        return iter(())

    def trashed(self) -> Iterator[bytes]:
        """Nothing."""
        return iter(())

    @property
    def place(self) -> None:
        """There is no root."""
        return


class DocumentChange(msgspec.Struct, frozen=True, gc=False):
    """One change of a document: its images before and after as JSON, None where there is none."""

    key: bytes
    seq: int
    before: bytes | None
    after: bytes | None
    number: int
    """Of the entry that makes it."""
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class AttachedBlocks:
    """Blocks that a job attached by entry `number`, which no root has yet."""

    number: LogNumber
    base: Base


class Overlay:
    """Every version since the base. Entries are applied whole, in order, by one thread at a time."""

    def __init__(self) -> None:
        """Empty: nothing came after the base."""
        self._versions: dict[bytes, list[StoredVersion]] = {}
        self._entries: list[Entry] = []
        self._attached: list[AttachedBlocks] = []
        self.has_attached = False
        """Whether blocks were attached at any number."""
        self._held: list[tuple[Sequence[LoggedChange], str | None]] = []
        """What batches change that no entry has yet, and by which actor."""
        self._scanned: tuple[int, list[tuple[bytes, StoredVersion]]] | None = None
        self.serial = next(_serials)
        """No other overlay of this process has it, nor this one what it held with another."""

    def hold(
        self, changed: Mapping[bytes, StoredVersion], changes: Sequence[LoggedChange] = (), actor: str | None = None
    ) -> None:
        """Have one version of each of these keys, whatever was there: those that the changes of a batch leave."""
        self._versions.update((key, [held]) for key, held in changed.items())
        self._held.append((changes, actor))
        self._scanned, self.serial = None, next(_serials)

    def changes(self, after: int, number: LogNumber) -> list[DocumentChange]:
        """Every change by entries after one number up to another, and by batches that are held, oldest first."""
        made: list[tuple[Sequence[LoggedChange], int, str | None]] = [
            (batch.changes, entry.number, batch.actor)
            for entry in self._entries
            if after < entry.number <= number
            for batch in entry.batches
        ]
        made += [(changes, number, actor) for changes, actor in self._held]
        return [
            DocumentChange(id_key(change.id), change.seq, change.before, change.after, made_by, actor)
            for changes, made_by, actor in made
            for change in changes
        ]

    def apply(self, entry: Entry, attached: Base | None = None) -> None:
        """Add one entry; `attached` are the documents of the blocks that it attaches."""
        for batch in entry.batches:
            for change in batch.changes:
                held = StoredVersion(change.id, entry.number, change.seq, change.after, change.trash)
                self._versions.setdefault(id_key(change.id), []).append(held)
        for event in entry.events:
            if isinstance(event, DocumentErased):
                # As if nothing had ever been there: the next version is the first.
                gone = StoredVersion(event.id, entry.number, 0, None)
                self._versions.setdefault(id_key(event.id), []).append(gone)
        if attached is not None:
            self._attached.append(AttachedBlocks(LogNumber(entry.number), attached))
            self.has_attached = True
        self._entries.append(entry)
        self._scanned = None

    def since(self, number: LogNumber) -> Overlay:
        """A new overlay with only what came after `number`."""
        newer = Overlay()
        for key, versions in self._versions.items():
            kept = [held for held in versions if held.rev > number]
            if kept:
                newer._versions[key] = kept
        newer._entries = [entry for entry in self._entries if entry.number > number]
        newer._attached = [attached for attached in self._attached if attached.number > number]
        newer.has_attached = bool(newer._attached)
        return newer

    @property
    def size(self) -> int:
        """How many ids entries changed since the base."""
        return len(self._versions)

    def entries(self, number: LogNumber) -> list[Entry]:
        """The entries since the base up to `number`, in order."""
        return [entry for entry in self._entries if entry.number <= number]

    def attached(self, number: LogNumber) -> list[AttachedBlocks]:
        """What was attached up to `number`, newest first."""
        if not self._attached:
            return []
        return [attached for attached in reversed(self._attached) if attached.number <= number]

    def get(self, key: bytes, number: LogNumber) -> StoredVersion | None:
        """The newest version at or before `number` that an entry holds itself; None if there is none."""
        for held in reversed(self._versions.get(key, ())):
            if held.rev <= number:
                return held
        return None

    def scan(self, number: LogNumber, low: bytes = b"", high: bytes | None = None) -> list[tuple[bytes, StoredVersion]]:
        """The newest version of every key in a range that entries up to `number` hold, in order of key."""
        rows = self._newest(number)
        start = bisect_left(rows, low, key=_key_of) if low else 0
        return rows[start : None if high is None else bisect_left(rows, high, key=_key_of)]

    def _newest(self, number: LogNumber) -> list[tuple[bytes, StoredVersion]]:
        """All of them, sorted once for each state; not to be changed."""
        scanned = self._scanned
        if scanned is None or scanned[0] != number:
            found = ((key, self.get(key, number)) for key in list(self._versions))
            scanned = number, sorted((key, held) for key, held in found if held is not None)
            self._scanned = scanned
        return scanned[1]


def _key_of(row: tuple[bytes, StoredVersion]) -> bytes:
    return row[0]


class _TopChanges:
    """Changes on top of a state, in order; they only ever grow, so that each further one costs no copy."""

    def __init__(self) -> None:
        self.changes: list[LoggedChange] = []
        self.versions: dict[bytes, list[tuple[int, StoredVersion]]] = {}
        """By key the places among the changes, each with what it left."""

    def add(self, changes: Sequence[LoggedChange], rev: int) -> None:
        for change in changes:
            held = StoredVersion(change.id, rev, change.seq, change.after, change.trash)
            self.versions.setdefault(id_key(change.id), []).append((len(self.changes), held))
            self.changes.append(change)


class TopOverlay(Overlay):
    """What an overlay holds up to one number, with changes on top that no entry has yet.

    The changes count at that number too, as if an entry behind it had made them: what they leave has the next revision.
    At earlier numbers it says what the overlay below says. It does not move, whatever is put on top of it.
    """

    def __init__(self, below: Overlay, number: LogNumber, changes: Sequence[LoggedChange], actor: str | None) -> None:
        """`changes` in the order in which they were made; their `before` and `seq` follow what is below."""
        super().__init__()
        self._below, self._at, self._actor = below, number, actor
        self._top = _TopChanges()
        self._top.add(changes, number + 1)
        self._limit = len(changes)
        self._may_grow = False
        self.has_attached = below.has_attached

    def with_more(self, changes: Sequence[LoggedChange], number: LogNumber) -> TopOverlay | None:
        """The same with more changes on top; None if it is of another number, or not the last of its owner's."""
        if not self._may_grow or len(self._top.changes) != self._limit or number != self._at:
            return None
        more = TopOverlay(self._below, self._at, (), self._actor)
        self._top.add(changes, self._at + 1)
        more._top, more._limit = self._top, len(self._top.changes)
        return more.owned()

    def owned(self) -> TopOverlay:
        """This one, of one thread that may put more on top without a copy."""
        self._may_grow = True
        return self

    @property
    def size(self) -> int:
        """How many ids entries below and the changes on top changed, about: those that both did count twice."""
        return self._below.size + len(self._top.versions)

    def entries(self, number: LogNumber) -> list[Entry]:
        """The entries since the base up to `number`, in order; last one that stands for the changes on top."""
        found = self._below.entries(min(number, self._at))
        if number < self._at:
            return found
        if not self._entries:
            batch = LoggedBatch(id=_NO_WRITE, actor=self._actor, changes=tuple(self._top.changes[: self._limit]))
            self._entries = [
                Entry(number=self._at + 1, write_id=_NO_WRITE, misc=0, node=0, previous=bytes(32), batches=(batch,))
            ]
        return [*found, *self._entries]

    def changes(self, after: int, number: LogNumber) -> list[DocumentChange]:
        """Every change by entries after one number up to another, then those on top."""
        found = self._below.changes(after, min(number, self._at))
        if number < self._at:
            return found
        own = self._top.changes[: self._limit]
        rev, actor = self._at + 1, self._actor
        return [*found, *(DocumentChange(id_key(one.id), one.seq, one.before, one.after, rev, actor) for one in own)]

    def on_top(self) -> list[LoggedChange]:
        """The changes that no entry has yet, in order; those further below first."""
        below = self._below.on_top() if isinstance(self._below, TopOverlay) else []
        return below + self._top.changes[: self._limit]

    def attached(self, number: LogNumber) -> list[AttachedBlocks]:
        """What was attached below up to `number`, newest first."""
        return self._below.attached(min(number, self._at))

    def get(self, key: bytes, number: LogNumber) -> StoredVersion | None:
        """The newest version at or before `number`, what is on top included; None if there is none."""
        if number >= self._at:
            for place, held in reversed(self._top.versions.get(key, ())):
                if place < self._limit:
                    return held
        return self._below.get(key, min(number, self._at))

    def uncovered(self, view: View) -> View:
        """A view of this overlay without its changes."""
        changes = self._top.changes[: self._limit] if view.number >= self._at else []
        added = sum((change.after is not None) - (change.before is not None) for change in changes)
        return replace(view, overlay=self._below, count=view.count - added)

    def since(self, number: LogNumber) -> Overlay:
        """Not of this one: a head stands on entries alone."""
        raise NotImplementedError(f"an overlay with changes on top has no tail after {number} of its own")

    def _newest(self, number: LogNumber) -> list[tuple[bytes, StoredVersion]]:
        """All of them, sorted once for each state; not to be changed."""
        below = self._below.scan(min(number, self._at))
        if number < self._at:
            return below
        if self._scanned is None:
            newest = dict(below)
            for key in list(self._top.versions):
                held = self.get(key, number)
                if held is not None:
                    newest[key] = held
            self._scanned = number, sorted(newest.items())
        return self._scanned[1]


@dataclass(frozen=True, slots=True)
class View:
    """One state of a collection that does not move."""

    number: LogNumber
    definition: Definition
    base: Base
    base_number: LogNumber
    """Through which log number the base goes; the overlay has everything after it."""
    overlay: Overlay
    count: int
    """How many documents there are."""
    jobs: Jobs = NO_JOBS
    """What became of bulk jobs."""
    pending: tuple[Prepared, ...] = ()
    """Transactions that are prepared and not finished, in the order of their entries."""
    committed: frozenset[str] = frozenset()
    """Those of them that have committed all the same: what they write lies on top."""
    now_ms: int | None = None
    """The store's time at which it is shown: the ends of documents that were over then lie on top. None: all are."""

    @property
    def place(self) -> Place | None:
        """The root below and where its objects are; None if there is none yet."""
        return self.base.place

    @property
    def is_ahead(self) -> bool:
        """Whether documents were mapped since the root below: what it holds, and a part of the tail, is as before."""
        return self.definition.upgrades.newest > self.base_number

    def outdates(self, index: Index) -> bool:
        """Whether the tree that the root below has of an index is of documents as they were before a mapping."""
        upgrades = self.definition.upgrades
        is_touched = index.is_owners or any(upgrades.touches(path, self.base_number) for path in index.fields)
        return self.is_ahead and is_touched

    def shown(self, held: StoredVersion) -> StoredVersion:
        """What the base or the tail has of an id, as it is in this state."""
        return self.definition.upgrades.held(held, max(held.rev, self.base_number)) if self.is_ahead else held

    def get(self, key: bytes) -> StoredVersion | None:
        """What is under an id's key, deleted or not; None if nothing ever was."""
        newest = self.overlay.get(key, self.number)
        found: StoredVersion | None = None
        for attached in self.overlay.attached(self.number) if self.overlay.has_attached else ():
            if newest is not None and newest.rev > attached.number:
                break
            found = attached.base.get(key)
            if found is not None:
                break
        found = found or newest or self.base.get(key)
        return found if found is None or not self.definition.upgrades.steps else self.shown(found)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """What is under each of some keys, read side by side; without those under which nothing ever was."""
        if len(keys) == 1:
            one = self.get(keys[0])
            return {} if one is None else {keys[0]: one}
        found = self._get_many(keys)
        return {key: self.shown(held) for key, held in found.items()} if self.is_ahead else found

    def _get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        held_here = keys if self.overlay.size else ()
        newest = {key: held for key in held_here if (held := self.overlay.get(key, self.number)) is not None}
        found: dict[bytes, StoredVersion] = {}
        rest: Sequence[bytes] = keys
        for attached in self.overlay.attached(self.number):
            later = {key for key in rest if key in newest and newest[key].rev > attached.number}
            older = [key for key in rest if key not in later]
            found |= {key: newest[key] for key in later}
            found |= attached.base.get_many(older) if older else {}
            rest = [key for key in older if key not in found]
        found |= {key: newest[key] for key in rest if key in newest}
        rest = [key for key in rest if key not in newest]
        return {**found, **self.base.get_many(rest)} if rest else found

    def trashed(self) -> Iterator[bytes]:
        """The keys of ids that may be in the trash: every one that is, and perhaps more."""
        for key, held in self.overlay.scan(self.number):
            if held.trash is not None:
                yield key
        for attached in self.overlay.attached(self.number):
            yield from attached.base.trashed()
        yield from self.base.trashed()

    def scan_trashed(self) -> Iterator[tuple[bytes, StoredVersion]]:
        """Everything in the trash, in order of key.

        1 GET for each block that has something of it, and what `get_many` of these ids costs.
        """
        found = self.get_many(sorted(set(self.trashed())))
        return ((key, held) for key, held in sorted(found.items()) if held.trash is not None)

    def prepare(self, keys: Sequence[bytes]) -> None:
        """Read what look-ups of these keys need of the base before its pages."""
        self.base.prepare(keys)

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        """Every id ever used whose key is in a range, in order of key: base and overlay merged."""
        found = self._scan(low, high)
        return ((key, self.shown(held)) for key, held in found) if self.is_ahead else found

    def _scan(self, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, StoredVersion]]:
        above = self.overlay.scan(self.number, low, high)
        layers = [attached.base.scan(low, high) for attached in self.overlay.attached(self.number)]
        if not above and not layers:
            return self.base.scan(low, high)
        return merge_newest([iter(above), *layers, self.base.scan(low, high)])

    def tail(self, low: bytes = b"", high: bytes | None = None) -> Sequence[tuple[bytes, StoredVersion]]:
        """The newest version of every key in a range that entries after the root hold, as it is in this state."""
        found = self.overlay.scan(self.number, low, high)
        return [(key, self.shown(held)) for key, held in found] if self.is_ahead else found

    def is_removed_since(self, number: int) -> bool:
        """Whether the collection was removed after an entry: `seq` begins anew, and no change tells so. No requests."""
        removed = 0 if self.place is None else self.place.root.removed
        return number < (removed if self.definition.closed is None else self.number)

    def changes_since(self, number: int) -> list[DocumentChange] | None:
        """Every change after entry `number`, oldest first; None if the tail does not reach back. No requests.

        It does not if the root below goes further, and not over what jobs attached. Batches that come before this
        state in an entry that is not written yet are among them, and so is what lies on top.
        """
        older: list[DocumentChange] | None = []
        if isinstance(self.base, View):  # the state of a batch whose entry others share stands on another
            older = self.base.changes_since(number)
        elif self.base_number > number:
            return None
        if older is None or any(one.number > number for one in self.overlay.attached(self.number)):
            return None
        return [*older, *self.overlay.changes(number, self.number)]

    def on_top(self, changes: Sequence[LoggedChange], actor: str | None = None, *, is_owned: bool = False) -> View:
        """The same state with changes on top, in order, that no entry has yet. No requests.

        Each must follow what is below it: its `before` is the document there, its `seq` the next. Everything that
        reads the tail takes them for a part of it: look-ups, scans, columns, indexes, unique values, counts. The
        number stays, so what is on top has a revision above it: the next one, until its entry is known. With `is_owned`
        only the caller's thread uses the state, and more of it costs no copy.
        """
        if not changes:
            return self
        added = sum((change.after is not None) - (change.before is not None) for change in changes)
        more = self.overlay.with_more(changes, self.number) if isinstance(self.overlay, TopOverlay) else None
        overlay = more or TopOverlay(self.overlay, self.number, changes, actor)
        overlay = overlay.owned() if is_owned else overlay
        return replace(self, overlay=overlay, count=self.count + added)

    @property
    def top(self) -> list[LoggedChange]:
        """The changes that lie on top, in order; none of most states. No requests."""
        return self.overlay.on_top() if isinstance(self.overlay, TopOverlay) else []

    @property
    def bare(self) -> View:
        """The state that the log alone tells: without what lies on top. No requests."""
        view = self
        while isinstance(view.overlay, TopOverlay):
            view = view.overlay.uncovered(view)
        if view.now_ms is not None or view.committed:
            return replace(view, committed=frozenset(), now_ms=None)
        return view


def changed_after(view: View, number: int) -> list[StoredVersion] | None:
    """What a view has of documents that changed after entry `number`; None if its tail does not tell. No requests.

    It does not if the root below goes further, and not of what jobs attached.
    """
    if isinstance(view.base, View):  # the state of a batch whose entry others share stands on another
        older = changed_after(view.base, number)
        return None if older is None else [*(held for _, held in view.overlay.scan(view.number)), *older]
    if view.base_number > number or any(one.number > number for one in view.overlay.attached(view.number)):
        return None
    later = (entry for entry in view.overlay.entries(view.number) if entry.number > number)
    keys = {id_key(change.id) for entry in later for batch in entry.batches for change in batch.changes}
    return [held for key in keys if (held := view.overlay.get(key, view.number)) is not None]


def merge_newest(layers: Sequence[Iterator[tuple[bytes, StoredVersion]]]) -> Iterator[tuple[bytes, StoredVersion]]:
    """Several layers in order of key as one: of equal keys the one of the greatest revision is kept."""
    last: bytes | None = None
    for key, held in heapq.merge(*layers, key=lambda item: (item[0], -item[1].rev)):
        if key != last:
            yield key, held
        last = key
