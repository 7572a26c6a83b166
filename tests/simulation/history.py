"""What clients were told in a run, and whether the log that was really written bears it out.

`audit` compares every answer with `tests.simulation.replay`, an independent model of the entries that the bucket
witnessed. Nothing here uses the engine's state, views or validation.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tests.simulation.expiring import check_living, is_over
from tests.simulation.linearizability import RegisterOp, is_linearizable
from tests.simulation.replay import Violation
from tests.simulation.scheduler import ProcessCrash
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    SnapshotTooOldError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.settings import RETIRED_MS, ROOT_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.replay import Replay, State
    from tests.simulation.store import Bucket

__all__ = ["Call", "History", "Outcome", "Violation", "audit", "audit_register"]

Outcome = Literal["open", "ok", "refused", "nothing", "unknown"]


@dataclass(slots=True)
class Call:
    """One call of a client: when, what it was told, and how far the log went before and after it."""

    number: int
    who: str
    verb: str
    facts: dict[str, Any]
    called: int
    floor: int
    own_floor: int
    returned: float = math.inf
    began: float = 0.0
    ended: float = 0.0
    """Both in ms of virtual time."""
    is_dated: bool = True
    """Whether answers of the store have its time, and it is the same for all processes."""
    ceiling: int = 0
    outcome: Outcome = "open"
    error: WormError | None = None
    commit_id: str | None = None
    tokens: list[str] = field(default_factory=list)
    """The ids of the batches it sent; all but the last were refused and tried again."""
    slot: int | None = None
    result: Any = None
    excuse: Callable[[WormError, Replay, int], bool] | None = None
    """Whether a refusal was true at a log number, where the verb alone does not tell."""
    answer: Callable[[Replay, int], Any] | None = None
    """What it should have been told at a log number, if it only asked."""

    @property
    def seconds(self) -> float:
        """How long it took, in virtual time."""
        return (self.ended - self.began) / 1000

    @property
    def label(self) -> str:
        """For messages."""
        told = self.outcome if self.error is None else f"{self.outcome}: {self.error}"
        return (
            f"call {self.number} by {self.who}: {self.verb} {self.facts} at log {self.floor}..{self.ceiling} → {told}"
        )


class History:
    """All calls of a run, in the order in which they began."""

    def __init__(self, bucket: Bucket) -> None:
        """Empty."""
        self.calls: list[Call] = []
        self._bucket = bucket
        self._moment = 0
        self._open: dict[str, Call] = {}

    def tick(self) -> int:
        """The next moment: every call and return has its own."""
        self._moment += 1
        return self._moment

    def sent(self, token: str) -> None:
        """Note the id of a batch with the call that the current task is in."""
        call = self._open.get(self._bucket.scheduler.current.name)
        if call is not None:
            call.tokens.append(token)

    @contextmanager
    def call(self, verb: str, *, own_floor: int = 0, **facts: Any) -> Iterator[Call]:
        """Run a call inside; what it raises becomes its outcome. Errors that no client expects go on."""
        who, began = self._bucket.scheduler.current.name, self._bucket.scheduler.now
        call = Call(len(self.calls), who, verb, facts, self.tick(), self._bucket.highest, own_floor)
        call.began, weather = began, self._bucket.weather
        call.is_dated = weather.shows_time and not weather.is_folder
        self.calls.append(call)
        self._open[who] = call
        self._bucket.note(f"{verb} {facts}")
        try:
            yield call
            call.outcome = "ok"
        except OutcomeUnknownError as error:
            if error.commit_id is None:
                raise Violation(f"{call.label}: unknown without a commit id: {error}") from error
            call.outcome, call.error, call.commit_id = "unknown", error, error.commit_id
        except UnavailableError as error:
            call.outcome, call.error = "nothing", error
        except SnapshotTooOldError as error:
            if self._bucket.scheduler.now - began < RETIRED_MS - ROOT_MS_MAX:
                raise Violation(f"{call.label}: a state that is not an hour old was gone: {error}") from error
            call.outcome, call.error = "nothing", error
        except (AlreadyExistsError, ConflictError, NotFoundError, PermissionDeniedError) as error:
            call.outcome, call.error = "refused", error
        except InvalidRequestError as error:
            if call.excuse is None:
                raise
            call.outcome, call.error = "refused", error
        except ProcessCrash:
            call.outcome = "unknown"
            raise
        finally:
            del self._open[who]
            call.returned = math.inf if call.outcome == "unknown" else self.tick()
            call.ceiling = self._bucket.highest
            call.ended = self._bucket.scheduler.now
            self._bucket.note(f"{verb} → {call.outcome} {type(call.error).__name__ if call.error else ''}")

    def resolved(self, call: Call, *, committed: bool) -> None:
        """An unknown outcome was told since."""
        call.returned = self.tick()
        call.ceiling = self._bucket.highest
        call.outcome = "ok" if committed else "nothing"


def audit(history: History, replay: Replay) -> None:
    """Raise Violation if any answer is not borne out by the log."""
    for call in history.calls:
        _audit_writes(call, replay)
        if call.outcome == "refused":
            _audit_refusal(call, replay)
        elif call.outcome == "ok":
            _audit_answer(call, replay)


def _audit_writes(call: Call, replay: Replay) -> None:
    """Acknowledged means written once, refused and unavailable mean never, unknown means at most once."""
    for token in call.tokens:
        slots = replay.landed.get(token, [])
        is_last = token == call.tokens[-1]
        if len(slots) > 1:
            raise Violation(f"{call.label}: written twice, at {slots}")
        if slots and (not is_last or call.outcome in ("refused", "nothing")):
            raise Violation(f"{call.label}: told that nothing was written, and it is at {slots}")
        if is_last and call.outcome == "ok" and call.slot is not None and slots != [call.slot]:
            raise Violation(f"{call.label}: acknowledged at {call.slot}, and it is at {slots}")


def _audit_refusal(call: Call, replay: Replay) -> None:
    """A refusal must be true of some state between the call and its return."""
    states = replay.states[call.floor : call.ceiling + 1]
    identity = str(call.facts.get("id"))
    numbers = range(call.floor, call.ceiling + 1)
    match call.error:
        case UniqueViolationError(owner=owner, value=value, field=field):
            held = [(state.document(str(owner)) or {}).get(field) for state in states]
            is_true = any(value in (one if isinstance(one, list) else [one]) for one in held)
        case WormError() as error if call.excuse is not None:
            excuse = call.excuse
            is_true = any(excuse(error, replay, number) for number in numbers)
        case AlreadyExistsError():
            is_true = any(state.rev(identity) for state in states)
        case ConflictError() if call.verb == "define":
            is_true = any(state.definition != call.facts["seen"] for state in states)
        case ConflictError():
            loaded: dict[str, int] = call.facts.get("loaded", {})
            is_true = any(state.rev(name) != rev for state in states for name, rev in loaded.items())
        case NotFoundError():
            is_true = any(not state.rev(identity) for state in states)
        case _:
            allowed = ("readwrite", "append") if call.verb in ("insert", "many") else ("readwrite",)
            is_true = any(state.mode not in allowed for state in states)
    if not is_true:
        raise Violation(f"{call.label}: this was true of no state from {call.floor} to {call.ceiling}")


def _audit_answer(call: Call, replay: Replay) -> None:
    match call.verb:
        case "scan":
            _audit_scan(call, replay)
        case "read":
            check_living(call, replay, partial(_is_read, call))
        case _ if call.answer is not None:
            answer = call.answer
            if not any(answer(replay, number) == call.result for number in range(call.floor, call.ceiling + 1)):
                raise Violation(
                    f"{call.label}: was told {call.result}, true of no state from {call.floor} to {call.ceiling}"
                )
        case _ if call.slot is not None:
            before = replay.states[call.slot - 1]
            for identity, rev in call.facts.get("loaded", {}).items():
                if before.rev(identity) != rev:
                    raise Violation(f"{call.label}: written over revision {before.rev(identity)} of {identity}")


def _is_read(call: Call, state: State, low: float, high: float) -> bool:
    """Whether a look-up is right: what is over is gone for a reader before an entry removes it."""
    known = state.document(call.facts["id"])
    if call.result is None:
        return known is None or is_over(known, high)
    return bool(call.result == known) and not is_over(known, low)


def _audit_scan(call: Call, replay: Replay) -> None:
    number, count, found = call.result
    floor = call.own_floor if call.facts.get("stale") else call.floor
    if not floor <= number <= call.ceiling:
        raise Violation(f"{call.label}: saw state {number}, which is not in {floor}..{call.ceiling}")
    bodies = replay.states[number].bodies()
    if found != bodies or count != len(bodies):
        raise Violation(f"{call.label}: state {number} is {bodies}, it saw {found} and counted {count}")


def audit_register(history: History, identity: str) -> None:
    """Raise Violation if what clients saw of one document is not linearizable, by their answers alone."""
    ops = [op for call in history.calls if call.facts.get("id") == identity and (op := _register_op(call)) is not None]
    if not is_linearizable(ops):
        raise Violation(f"the history of {identity} is not linearizable")


def _register_op(call: Call) -> RegisterOp | None:
    op = partial(RegisterOp, called=float(call.called), returned=call.returned)
    unknown = call.outcome in ("unknown", "open")
    if call.outcome == "nothing" or (call.verb == "read" and unknown):
        return None
    match call.verb:
        case "read":
            return op("read", (call.result or {}).get("v"))
        case "modify" if call.outcome == "refused":
            return op("read", None)
        case "save" | "modify":
            return op("write", call.facts["v"], is_unknown=unknown)
        case "swap" if call.outcome == "refused":
            return op("swap refused", expected=call.facts["expected"])
        case "swap":
            return op("swap", call.facts["v"], call.facts["expected"], is_unknown=unknown)
        case "delete":
            return op("write", None, is_unknown=unknown)
        case _:
            return None
