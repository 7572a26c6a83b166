"""Documents that end by themselves, in a simulated run: written, looked at and removed by several nodes at once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.moments import read_between
from tests.simulation.replay import Violation
from tests.simulation.scheduler import START_MS
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.client import Client
    from tests.simulation.history import Call
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay, State

__all__ = ["Expiring", "check_living", "is_over"]

SECONDS = 20.0
"""Documents live this long at most, in virtual time: some end while they are read."""


class Expiring:
    """No read shows what is over by the store's time, and each document ends once, however many remove it."""

    names = ("a", "b", "c")

    def begin(self, client: Client) -> None:
        """Documents end at a date from the start."""
        client.node.collection.expire("at")
        client.node.collection.create_index("at")

    def step(self, client: Client) -> None:
        """Write with a date that comes soon, or came already; look; remove what is over."""
        world, name = client.world, client.world.pick(*self.names)
        match world.pick("save", "save", "insert", "find", "find", "count", "indexed", "get", "get", "remove"):
            case "save":
                client.save({"_id": name, "v": client.new_value(), "at": _date(world)})
            case "insert":
                client.insert({"_id": client.new_value(), "at": _date(world)})
            case "remove":
                with suppress(UnavailableError, OutcomeUnknownError):
                    client.node.ledger.expiry.remove()
            case "get":
                client.read(name)
            case kind:
                self._look(client, kind)

    def _look(self, client: Client, kind: str) -> None:
        """All documents, how many they are, or those that an index of their dates finds."""
        notes = client.node.collection
        with client.world.history.call(kind) as call:
            if kind == "count":
                call.result = notes.count({"at": {"$gt": _FIRST}})
            else:
                found = notes.find({} if kind == "find" else {"at": {"$gt": _FIRST}}).to_list()
                call.result = {one.id: {"_id": one.id, **{k: v for k, v in one.items() if k != "id"}} for one in found}

    def end(self, client: Client) -> None:
        """Save a document that no other client has touched."""
        client.save({"_id": "the-end"})

    def check(self, world: World, replay: Replay) -> None:
        """What ended was over, by the store's time; the replay holds that no document ends twice.

        Each answer is that of a state from its call to its return, without what was over at a time between these.
        """
        for call in world.history.calls:
            if call.outcome == "ok" and call.verb in ("find", "count", "indexed"):
                check_living(call, replay, partial(_is_answer, call))
        for entry in replay.entries:
            for change in (change for batch in entry.batches for change in batch.changes if change.op == "expire"):
                at = json.decode_document(change.before or b"{}", name="document").get("at")
                if not isinstance(at, datetime) or at.timestamp() * 1000 > _now_ms(world):
                    raise Violation(f"entry {entry.number} ends {change.id!r} before its time, {at}")


def check_living(call: Call, replay: Replay, is_right: Callable[[State, float, float], bool]) -> None:
    """Raise Violation if an answer is right of no state, and of no times between which the call may have read."""
    low, high = read_between(call)
    if not any(is_right(state, low, high) for state in replay.states[call.floor : call.ceiling + 1]):
        raise Violation(f"{call.label}: was told {call.result}, by the store between {low:.0f} and {high:.0f}")


def _is_answer(call: Call, state: State, low: float, high: float) -> bool:
    documents = {name: state.document(name) or {} for name in state.bodies()}
    if call.verb != "find":
        documents = {name: one for name, one in documents.items() if "at" in one}
    may = {name: one for name, one in documents.items() if not is_over(one, low)}
    must = [name for name, one in documents.items() if not is_over(one, high)]
    if call.verb == "count":
        return bool(len(must) <= call.result <= len(may))
    return all(name in call.result for name in must) and all(may.get(name) == one for name, one in call.result.items())


def is_over(document: dict[str, Any] | None, ms: float) -> bool:
    """Whether a document that may have a date is over at a time, in ms since 1970."""
    at = None if document is None else document.get("at")
    return isinstance(at, datetime) and at.timestamp() * 1000 <= ms


def _now_ms(world: World) -> float:
    return START_MS + world.scheduler.now


def _date(world: World) -> datetime:
    at = datetime.fromtimestamp(_now_ms(world) // 1000, UTC)
    return at + timedelta(seconds=round(world.between(-2, SECONDS)))


_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
