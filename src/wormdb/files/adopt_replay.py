"""An oplog, replayed: what each of its entries left of the document. No I/O.

Where it cannot be followed (an entry is missing, or says that something else was there before), what came before that
place is given up, and the next whole document begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.files.contents.values import STAMPS
from wormdb.format.values import equal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.files.oplog_file import OplogEntry
    from wormdb.format.kinds import Document
    from wormdb.format.past import Operation

__all__ = ["CREATED", "UPDATED", "Fault", "Replay", "Step", "differing", "us_of"]

CREATED, UPDATED = STAMPS
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PURGE: Final = "purge"
_NUMBERS: Final = frozenset({int, float})


@dataclass(frozen=True, slots=True)
class Fault:
    """Files that do not agree. `seq` names the file of the oplog, `ts` that of a snapshot; else it is the document's.

    A note costs nothing: it says what was understood in another way than the file has it.
    """

    what: str
    kind: Literal["entity", "oplog", "snapshot", "trash"] = "entity"
    seq: int = 0
    ts: datetime | None = None
    is_note: bool = False


@dataclass(slots=True)
class Step:
    """A version in the making. `touched` are the fields that its file says were changed, if it `is_filed`."""

    seq: int
    op: Operation
    us: int
    document: Document | None
    actor: str | None = None
    metadata: dict[str, Any] | None = None
    touched: frozenset[str] = frozenset()
    is_filed: bool = False


class Replay:
    """One document's oplog on its way. `stamps` has the times of writing that the document has, if it has some."""

    def __init__(self, identity: Any, stamps: Document) -> None:
        """Nothing has happened yet."""
        self._id = identity
        self._stamps = stamps
        self.steps: list[Step] = []
        """What could be followed."""
        self.faults: list[Fault] = []

    def run(self, oplog: Sequence[OplogEntry]) -> None:
        """Follow the entries, in order of seq."""
        expected, known = 1, True
        for entry in oplog:
            if entry.seq != expected:
                missing = f"{expected}" if entry.seq == expected + 1 else f"{expected} to {entry.seq - 1}"
                known = self._give_up(entry, f"the entries before it are missing: {missing}")
            expected = entry.seq + 1
            state = self.steps[-1].document if self.steps else None
            reason = self._misfit(entry, state) if known or entry.op != "update" else None
            if reason is not None:
                known = self._give_up(entry, reason)
            if entry.op == "delete":
                self._add(entry, None)
                known = True
            elif entry.snapshot is not None:
                self._add(entry, self._stamped(entry.snapshot, entry.ts))
                known = True
            elif known and entry.diff is not None and state is not None:
                document = _changed({**state, UPDATED: entry.ts} if UPDATED in state else state, entry.diff)
                self._add(entry, self._stamped(document, entry.ts), frozenset(entry.diff))

    def _misfit(self, entry: OplogEntry, state: Document | None) -> str | None:
        """Why an entry cannot follow a state."""
        if entry.op == "delete":
            is_other = entry.snapshot is not None and state is not None and differing(state, entry.snapshot)
            return "what it deletes is not what the entries before it made" if is_other else None
        if entry.snapshot is not None:
            return None
        if entry.diff is None or entry.op != "update":
            return "it has no snapshot" if entry.op != "update" else "it has neither a diff nor a snapshot"
        if state is None:
            return "it changes a document that is not there"
        wrong = [name for name, (before, _) in entry.diff.items() if not _same(state.get(name), before)]
        return f"before it, {', '.join(wrong)} had another value than it says" if wrong else None

    def _give_up(self, entry: OplogEntry, reason: str) -> bool:
        """Forget what came before an entry; nothing is known then."""
        self.faults.append(Fault(reason, "oplog", seq=entry.seq))
        self.steps.clear()
        return False

    def _add(self, entry: OplogEntry, document: Document | None, touched: frozenset[str] = frozenset()) -> None:
        metadata = entry.metadata
        op: Operation = entry.op
        if entry.op == "delete" and metadata is not None and metadata.get(_PURGE) is True and entry.snapshot is None:
            op, metadata = "purge", {name: value for name, value in metadata.items() if name != _PURGE}
        self.steps.append(Step(entry.seq, op, us_of(entry.ts), document, entry.actor, metadata, touched, is_filed=True))

    def _stamped(self, document: Document, ts: datetime) -> Document:
        """A version with the times of writing, if the document has some and the file leaves them out."""
        made = {"_id": self._id, **{name: value for name, value in document.items() if name != "_id"}}
        if CREATED in self._stamps:
            made.setdefault(CREATED, self._stamps[CREATED])
        if UPDATED in self._stamps:
            made.setdefault(UPDATED, ts)
        return made


def us_of(ts: datetime) -> int:
    """Microseconds since 1970."""
    since = ts - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _changed(document: Document, diff: Mapping[str, Sequence[Any]]) -> Document:
    changed = dict(document)
    for name, (_, after) in diff.items():
        if after is None:
            changed.pop(name, None)
        else:
            changed[name] = after
    return changed


def differing(one: Document, two: Document) -> list[str]:
    """The fields in which two documents differ; null is as good as absent, and times of writing are left out."""
    names: Iterable[str] = dict.fromkeys([*one, *two])
    return [name for name in names if name not in {"_id", *STAMPS} and not _same(one.get(name), two.get(name))]


def _same(one: Any, two: Any) -> bool:
    """Whether two values mean the same: other tools write 1 for 1.0, and members in another order."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(value, two[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    if type(one) in _NUMBERS and type(two) in _NUMBERS:
        return bool(one == two or equal(one, two))
    return equal(one, two)
