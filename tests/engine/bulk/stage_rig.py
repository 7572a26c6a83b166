"""What the tests of staged batches share: processes that stage everything or nothing, and a model of batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.engine.commit.test_validate import EMAIL
from tests.engine.rig import Rig, contents, ident
from wormdb.engine.commit.operations import Insert, Remove, Save
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.ledger import TailLimits
from wormdb.engine.state.view import id_key
from wormdb.errors import (
    AlreadyExistsError,
    UniqueViolationError,
)
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.ledger import Ledger
    from wormdb.format.entry import Entry
    from wormdb.storage.store import Store

__all__ = [
    "MANUAL",
    "PATIENT",
    "REFUSALS",
    "SCHEMA",
    "SMALL",
    "Serial",
    "State",
    "after_batch",
    "check_state",
    "entries",
    "kinds",
    "logger",
    "stager",
]

SMALL = Sizes(block_target=300, run_smallest=1_000)
"""A few documents a block."""
PATIENT = TailLimits(interval_ms=0)
MANUAL = TailLimits(interval_ms=0, mode="manual")
SCHEMA = SchemaChanged(definition=EMAIL)

REFUSALS = {error.__name__: error for error in (AlreadyExistsError, UniqueViolationError)}

State = dict[Any, tuple[int, int, dict[str, Any] | None]]
"""Every id ever used, with its revision, its count of changes and its values; None once it is deleted."""


def stager(rig: Rig, store: Store | None = None, limits: TailLimits = PATIENT) -> Ledger:
    """A process that stages every batch of documents."""
    return rig.ledger(store, limits, SMALL, stage_bytes=1)


def logger(rig: Rig, store: Store | None = None, limits: TailLimits = PATIENT) -> Ledger:
    """A process that stages nothing."""
    return rig.ledger(store, limits, SMALL)


def entries(rig: Rig) -> list[Entry]:
    found = [rig.log.read(LogNumber(number))[0] for number in rig.slots()]
    return [record.entry for record in found if record is not None]


def kinds(rig: Rig) -> list[str]:
    """What each entry is: its events, or changes."""
    return [" ".join(type(event).__name__ for event in entry.events) or "changes" for entry in entries(rig)]


# --- the model: what batches do, written without the code under test ---


def is_taken(state: State, identity: Any) -> bool:
    return identity in state and state[identity][2] is not None


def after_batch(state: State, operations: Sequence[Operation], number: int, *, is_staged: bool) -> State | str:
    """The state after a batch; or the name of the error that refuses it."""
    found = dict(state)
    changed: set[Any] = set()
    for operation in operations:
        assert isinstance(operation, Insert | Save | Remove)
        identity = json.decode(operation.id, name="id")
        if isinstance(operation, Insert) and is_taken(found, identity):
            return "AlreadyExistsError"
        if isinstance(operation, Remove) and not is_taken(found, identity):
            continue
        values = None
        if not isinstance(operation, Remove):
            values = json.decode_document(operation.document, name="document")
            del values["_id"]
        seq = found[identity][1] if identity in found else 0
        # A staged batch is one change of each document that it touches.
        found[identity] = (number, seq + (not (is_staged and identity in changed)), values)
        changed.add(identity)
    emails = [values["email"] for _, _, values in found.values() if values is not None and "email" in values]
    return "UniqueViolationError" if len(emails) > len(set(emails)) else found


@dataclass
class Serial:
    """What was committed, to be replayed in the order of the log."""

    start: State
    done: list[tuple[int, Sequence[Operation], bool]] = field(default_factory=list)

    def note(self, committed: CommitResult, operations: Sequence[Operation], *, is_staged: bool) -> None:
        self.done.append((committed.number, operations, is_staged))

    def check(self, rig: Rig) -> None:
        """Every process sees what comes of the batches, one after the other."""
        state = self.start
        for number, operations, is_staged in sorted(self.done, key=lambda done: done[0]):
            following = after_batch(state, operations, number, is_staged=is_staged)
            assert not isinstance(following, str), (number, following)
            state = following
        check_state(rig, state)


def check_state(rig: Rig, state: State, *processes: Ledger) -> None:
    """What every process sees, however it looks; new ones too."""
    keys = {id_key(ident(identity)): identity for identity in [*state, "never"]}
    for process in (*processes, logger(rig)):
        view = process.view()
        assert contents(view) == state
        assert view.count == sum(values is not None for _, _, values in state.values())
        many = view.get_many(list(keys))
        assert {keys[key]: (held.rev, held.seq) for key, held in many.items()} == {
            identity: (rev, seq) for identity, (rev, seq, _) in state.items()
        }
        for key in keys:
            assert view.get(key) == many.get(key)
        ordered = sorted(set(keys) - {id_key(ident("never"))})
        for low, high in (
            ((b"", None), (ordered[len(ordered) // 2], None), (ordered[0], ordered[-1])) if ordered else ()
        ):
            inside = [key for key in ordered if low <= key and (high is None or key < high)]
            assert [key for key, _ in view.scan(low, high)] == inside
