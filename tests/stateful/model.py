"""What the database should hold, with its past, its trash and its indexes: dicts and lists, none of its code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wormdb.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, UniqueViolationError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EVERY", "Kept", "Model", "Operation", "Refused", "Version", "order"]

EVERY = 3
"""Every third version of a document is a snapshot."""

Operation = tuple[str, Any, dict[str, Any] | None]


class Refused(Exception):  # noqa: N818 - it is the model's answer, not an error
    """The model says no."""

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind


@dataclass(frozen=True)
class Kept:
    """One id: its values, or None if it is deleted; when and how often it changed; what lies in the trash."""

    values: dict[str, Any] | None = None
    rev: int = 0
    seq: int = 0
    trash: dict[str, Any] | None = None


@dataclass(frozen=True)
class Version:
    """One change of one document."""

    rev: int
    op: str
    id: Any
    seq: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    actor: str | None = None
    snapshot: bool = False


@dataclass
class Model:
    """The whole of it."""

    kept: dict[Any, Kept] = field(default_factory=dict)
    number: int = 0
    past: list[Version] = field(default_factory=list)
    trimmed: int = 0
    unique: dict[str, str] = field(default_factory=lambda: {"byMail": "mail", "byTags": "tags"})
    """Fields that no two documents may share a value of, by the index that says so."""
    plain: set[str] = field(default_factory=set)
    """Other indexes."""
    taken: set[tuple[Any, int]] = field(default_factory=set)
    """Snapshots by hand: id and seq."""

    # --- the present ---

    def alive(self, identity: Any) -> bool:
        return self.kept.get(identity, Kept()).values is not None

    def live(self) -> dict[Any, tuple[dict[str, Any], int, int]]:
        return {
            identity: (kept.values, kept.rev, kept.seq)
            for identity, kept in self.kept.items()
            if kept.values is not None
        }

    def trashed(self) -> dict[Any, dict[str, Any]]:
        return {identity: kept.trash for identity, kept in self.kept.items() if kept.trash is not None}

    # --- changes ---

    def try_all(self, operations: Sequence[Operation]) -> list[Version]:
        """What operations would change, all of them or Refused; they get their number when they are done."""
        draft, versions = dict(self.kept), []
        for verb, identity, values in operations:
            before = draft.get(identity, Kept())
            op, after = self._outcome(verb, before, values)
            if op is None:
                continue
            is_snapshot = after is not None and (before.seq + 1) % EVERY == 0
            versions.append(Version(0, op, identity, before.seq + 1, before.values, after, snapshot=is_snapshot))
            trash = before.values if op == "delete" else None
            draft[identity] = Kept(after, 0, before.seq + 1, trash)
        self._check_unique(draft)
        return versions

    def _outcome(
        self, verb: str, before: Kept, values: dict[str, Any] | None
    ) -> tuple[str | None, dict[str, Any] | None]:
        is_there = before.values is not None
        match verb:
            case "insert" | "restore" if is_there:
                raise Refused(AlreadyExistsError)
            case "update" if not is_there:
                raise Refused(NotFoundError)
            case "delete":
                return ("delete", None) if is_there else (None, None)
            case "restore" | "purge":
                if before.trash is None:
                    raise Refused(NotFoundError)
                return verb, before.trash if verb == "restore" else None
            case "bring back":
                return "restore", values
            case _:
                return "update" if is_there else "create", values

    def happened(self, versions: Sequence[Version], number: int, actor: str | None, *, staged: bool = False) -> None:
        """Changes were made by entry `number`. A staged batch is told in order of id, and takes no snapshots."""
        if staged:
            versions = sorted((replace(each, snapshot=False) for each in versions), key=lambda each: order(each.id))
        for each in versions:
            self.past.append(replace(each, rev=number, actor=actor))
            trash = each.before if each.op == "delete" else None
            self.kept[each.id] = Kept(each.after, number, each.seq, trash)

    def _check_unique(self, draft: dict[Any, Kept]) -> None:
        if any(self.shared(name, draft) for name in self.unique.values()):
            raise Refused(UniqueViolationError)

    def shared(self, name: str, draft: dict[Any, Kept] | None = None) -> set[Any]:
        """The values of a field that several documents have."""
        owned: set[Any] = set()
        twice: set[Any] = set()
        for kept in (self.kept if draft is None else draft).values():
            value = None if kept.values is None else kept.values.get(name)
            claims = set(value) if isinstance(value, list) else {value} - {None}
            twice |= owned & claims
            owned |= claims
        return twice

    # --- the past ---

    def of(self, identity: Any) -> list[Version]:
        """Every change of a document."""
        return [each for each in self.past if each.id == identity]

    def at(self, number: int) -> dict[Any, dict[str, Any]]:
        """Every document that there was at a number."""
        then = {each.id: each.after for each in self.past if each.rev <= number}
        return {identity: values for identity, values in then.items() if values is not None}

    def version(self, identity: Any, seq: int) -> Version:
        """One change of a document, or Refused."""
        past = self.of(identity)
        if not 1 <= seq <= len(past):
            raise Refused(NotFoundError)
        return past[seq - 1]

    def before(self, identity: Any, seq: int) -> list[Operation]:
        """What brings a document back to a version, or Refused."""
        version = self.version(identity, seq)
        if version.after is None:
            raise Refused(InvalidRequestError)
        return [("bring back", identity, version.after)]

    def snapshots(self, identity: Any) -> list[int]:
        """The versions of a document that are kept as snapshots: since it was purged, the last of each batch."""
        past = self.of(identity)
        purged = max((each.seq for each in past if each.op == "purge"), default=0)
        last = {each.rev: each.seq for each in past}
        return [
            each.seq
            for each in past
            if each.seq > purged
            and last[each.rev] == each.seq
            and (each.snapshot or (identity, each.seq) in self.taken)
        ]


def order(identity: Any) -> tuple[bool, Any]:
    """Numbers come before text."""
    return isinstance(identity, str), identity
