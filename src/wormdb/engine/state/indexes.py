"""The life of a collection's indexes, as the log tells it.

    waiting ─▶ building ─▶ ready          an index of an empty collection is ready at once
        └─────────┴──────▶ failed         with the reason; creating it again lets it wait again
    any ─────────────────▶ dropped

The primary index is not among them: the blocks are sorted by id, so it is always ready and cannot be dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from wormdb.engine.tree.definition import OWNERS, Index, decode_index, encode_index
from wormdb.errors import ConflictError, CorruptionError, InvalidRequestError
from wormdb.format.event import IndexBuilding, IndexCreated, IndexDropped, IndexFailed, IndexReady, ListsCreated
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wormdb.engine.log.paths import EnginePaths
    from wormdb.format.root import IndexRoot, IndexState, Root
    from wormdb.schema.model import Model

__all__ = [
    "CURSOR_END",
    "INDEX_NAME_CHARS_MAX",
    "PRIMARY",
    "IndexEvent",
    "IndexStates",
    "IndexStatus",
    "check_index_name",
    "folder_of",
    "goes_on",
    "is_whole",
    "scope_of",
]

PRIMARY: Final = "_id"
"""The name of the primary index."""
INDEX_NAME_CHARS_MAX: Final = 100
CURSOR_END: Final = b"\xff"
"""Above the key of every id: a build that came here has all documents, and later ones as well."""
_NEVER: Final = LogNumber(0)
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")

IndexEvent = IndexCreated | ListsCreated | IndexBuilding | IndexReady | IndexFailed | IndexDropped
"""The events that change the state of one index."""


def check_index_name(name: object) -> None:
    """Raise InvalidRequestError unless an index may have this name."""
    if not isinstance(name, str):
        raise InvalidRequestError(
            f"{name!r:.100} is no name of an index",
            reason="it must be a string",
            fix="use a short name such as byEmail",
        )
    if name in {PRIMARY, OWNERS.name}:
        kept = "the primary index is always there" if name == PRIMARY else "it is kept for blobs"
        raise InvalidRequestError(f"index {name}", reason=kept, fix="choose another name")
    if not _NAME.fullmatch(name) or len(name) > INDEX_NAME_CHARS_MAX:
        raise InvalidRequestError(
            f"{name[:INDEX_NAME_CHARS_MAX]!r} is no name of an index",
            reason=f"a name has up to {INDEX_NAME_CHARS_MAX} letters, digits, - _ and ., and no . at its start",
            fix="use a short name such as byEmail",
        )


def folder_of(paths: EnginePaths, name: str) -> str:
    """Where the objects of an index are. A name that a folder cannot have is replaced by its hash."""
    try:
        if name != OWNERS.name:
            check_index_name(name)
    except InvalidRequestError:
        return paths.index(f"x-{sha256(name.encode()).hexdigest()[:32]}")
    return paths.index(name)


def scope_of(root: Root, name: str) -> str:
    """What the identities of an index's objects begin with: short, and of this incarnation and index alone."""
    return f"{sha256(f'{root.collection}/{name}'.encode()).hexdigest()[:32]}/"


def is_whole(index: IndexRoot) -> bool:
    """Whether an index has all documents of its root."""
    return index.state == "ready" or (index.state == "building" and index.cursor == CURSOR_END and index.reason is None)


def goes_on(old: IndexRoot, status: IndexStatus) -> bool:
    """Whether the root has the beginning of this very build."""
    return old.state == "building" and old.applied == status.number


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """One index: what it is, and how far it is."""

    index: Index
    definition: bytes
    """As `encode_index` writes it."""
    state: IndexState
    number: LogNumber
    """The entry that brought it here; of a ready one that was read from a root, the root's."""
    reason: str | None = None
    declared: bool = False
    """Whether the model in force has it; otherwise it was created by itself."""
    bare: LogNumber = _NEVER
    """The last entry that found it ready and no document there: what an older root has of it does not count."""

    @classmethod
    def of(cls, index: Index, number: LogNumber, *, is_empty: bool, declared: bool = False) -> IndexStatus:
        """A new one: it waits to be built, unless there is nothing to build it from."""
        state: IndexState = "ready" if is_empty else "waiting"
        bare = number if is_empty else _NEVER
        return cls(index, encode_index(index), state, number, declared=declared, bare=bare)


@dataclass(frozen=True, slots=True)
class IndexStates:
    """Every index but the primary, by name. A value: events make new ones."""

    known: Mapping[str, IndexStatus] = field(default_factory=dict)
    _ready: tuple[Index, ...] | None = field(default=None, init=False, compare=False, repr=False)
    _lists: tuple[Index, ...] | None = field(default=None, init=False, compare=False, repr=False)

    def __iter__(self) -> Iterator[IndexStatus]:
        """In order of their names."""
        return iter([self.known[name] for name in sorted(self.known)])

    def get(self, name: str) -> IndexStatus | None:
        """The index of that name, dropped or not; None if there was none."""
        return self.known.get(name)

    @property
    def ready(self) -> tuple[Index, ...]:
        """The trees that answer queries, in order of their names."""
        if self._ready is None:  # made once: every commit asks for them several times
            ready = (status.index for status in self if status.state == "ready")
            made = tuple(index for index in ready if not index.is_owners and not index.kind)
            object.__setattr__(self, "_ready", made)
            return made
        return self._ready

    @property
    def lists(self) -> tuple[Index, ...]:
        """The indexes that are lists and answer queries, in order of their names."""
        if self._lists is None:
            made = tuple(status.index for status in self if status.state == "ready" and status.index.kind)
            object.__setattr__(self, "_lists", made)
            return made
        return self._lists

    @property
    def has_lists(self) -> bool:
        """Whether any index is lists, ready or not."""
        return any(status.index.kind for status in self.known.values())

    def are_in(self, root: Root | None) -> bool:
        """Whether a root has all of every index that is ready, but those whose documents all came later. No requests.

        That of blobs is not counted. None is the root of a collection that has none yet.
        """
        applied = 0 if root is None else root.applied
        for status in self.known.values():
            if status.state != "ready" or status.index.is_owners or status.bare > applied:
                continue
            found = None if root is None else root.index(status.index.name)
            if found is None or found.definition != status.definition or not is_whole(found):
                return False
        return True

    @property
    def owners(self) -> IndexStatus | None:
        """The index of the blobs that documents refer to; None if the collection never had a blob."""
        found = self.known.get(OWNERS.name)
        return found if found is not None and found.index.is_owners and found.state != "dropped" else None

    @property
    def unique(self) -> tuple[Index, ...]:
        """Those that refuse duplicates: ready and unique."""
        return tuple(index for index in self.ready if index.unique)

    @property
    def unbuilt(self) -> tuple[IndexStatus, ...]:
        """Those that a build has to go on with: waiting or building."""
        return tuple(status for status in self if status.state in {"waiting", "building"})

    def after(self, event: IndexEvent, number: LogNumber, *, is_empty: bool) -> IndexStates:
        """What entry `number` makes of them. `is_empty`: whether there was no document before that entry.

        Raises CorruptionError for an event that cannot come in this state. No requests.
        """
        fault = self._fault(event, number)
        if fault is not None:
            raise CorruptionError(f"log entry {number}", reason=fault)
        return self._with(self._next(event, number, is_empty))

    def check(self, event: IndexEvent) -> None:
        """Raise ConflictError if the event cannot come in this state: before it is written. No requests."""
        fault = self._fault(event, LogNumber(0))
        if fault is not None:
            raise ConflictError(f"index {event.name}", reason=fault)

    def after_model(self, model: Model | None, number: LogNumber, *, is_empty: bool) -> IndexStates:
        """What a change of the model by entry `number` makes of them. No requests.

        New and changed indexes wait, or are ready at once if there is no document; unchanged ones stay as they
        are; those the model no longer has are dropped. Indexes that were created by themselves stay, unless the
        model has one of the same name. Raises InvalidRequestError for a path that cannot be.
        """
        wanted = {} if model is None else {name: Index.of(name, index) for name, index in model.indexes.items()}
        wanted.pop(PRIMARY, None)
        known = dict(self.known)
        for name, status in self.known.items():
            if status.declared and name not in wanted and status.state != "dropped":
                known[name] = replace(status, state="dropped", number=number, reason=None, declared=False)
        for name, index in wanted.items():
            held = known.get(name)
            if held is None or held.state == "dropped" or held.definition != encode_index(index):
                known[name] = IndexStatus.of(index, number, is_empty=is_empty, declared=True)
            elif not held.declared:
                known[name] = replace(held, declared=True)
        return IndexStates(known)

    def after_mapping(self, touches: Callable[[str], bool], number: LogNumber, is_empty: bool) -> IndexStates:
        """What a mapping of documents by entry `number` makes of them: those of fields that it touches wait again."""
        known = dict(self.known)
        for name, status in self.known.items():
            is_built = status.state in {"ready", "building"} and status.number != number
            is_touched = status.index.is_owners or any(map(touches, status.index.fields))
            if is_built and is_touched and not is_empty:
                known[name] = replace(status, state="waiting", number=number, reason=None, bare=_NEVER)
            elif is_touched and status.state == "ready":
                known[name] = replace(status, bare=number)
        return IndexStates(known)

    @classmethod
    def from_roots(cls, roots: Iterable[IndexRoot], model: Model | None, *, source: str) -> IndexStates:
        """As the root stored as object `source` has them, together with its model. Raises CorruptionError."""
        declared = set() if model is None else set(model.indexes)
        return cls(
            {
                root.name: IndexStatus(
                    decode_index(root.name, root.definition, source=source),
                    root.definition,
                    root.state,
                    LogNumber(root.applied),
                    # While it is built, a reason is for the builder: the log has not failed it yet.
                    root.reason if root.state == "failed" else None,
                    root.name in declared,
                )
                for root in roots
            }
        )

    def _with(self, status: IndexStatus) -> IndexStates:
        return IndexStates({**self.known, status.index.name: status})

    def _next(self, event: IndexEvent, number: LogNumber, is_empty: bool) -> IndexStatus:
        if isinstance(event, IndexCreated | ListsCreated):
            held = self.known.get(event.name)
            index = decode_index(event.name, event.definition, source=f"log entry {number}")
            return IndexStatus.of(index, number, is_empty=is_empty, declared=held is not None and held.declared)
        status = replace(self.known[event.name], number=number, reason=None)
        match event:
            case IndexBuilding():
                return replace(status, state="building")
            case IndexReady():
                return replace(status, state="ready")
            case IndexFailed(reason=reason):
                return replace(status, state="failed", reason=reason)
            case IndexDropped():
                return replace(status, state="dropped", declared=False)

    def _fault(self, event: IndexEvent, number: LogNumber) -> str | None:
        """Why an event cannot come now."""
        held = self.known.get(event.name)
        state = "unknown" if held is None else held.state
        if state not in _BEFORE[type(event)]:
            return f"index {event.name} is {state} and cannot become {_AFTER[type(event)]}"
        if isinstance(event, IndexCreated | ListsCreated):
            index = decode_index(event.name, event.definition, source=f"log entry {number}")
            if bool(index.kind) != isinstance(event, ListsCreated):
                return f"index {event.name} is {'lists' if index.kind else 'a tree'}, and is created as if it were not"
            if held is not None and held.declared and held.definition != encode_index(index):
                return f"index {event.name} is in the model with another definition"
        return None


_BEFORE: Final[dict[type[IndexEvent], frozenset[str]]] = {
    IndexCreated: frozenset({"unknown", "failed", "dropped"}),
    ListsCreated: frozenset({"unknown", "failed", "dropped"}),
    IndexBuilding: frozenset({"waiting"}),
    IndexReady: frozenset({"building"}),
    IndexFailed: frozenset({"waiting", "building"}),
    IndexDropped: frozenset({"waiting", "building", "ready", "failed"}),
}
_AFTER: Final[dict[type[IndexEvent], str]] = {
    IndexCreated: "waiting",
    ListsCreated: "waiting",
    IndexBuilding: "building",
    IndexReady: "ready",
    IndexFailed: "failed",
    IndexDropped: "dropped",
}
