"""A workload about ids that the commit numbers, beside ids of digits that clients choose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.simulation.replay import Violation
from wormdb.engine.commit.operations import InsertNext, Pending
from wormdb.errors import LimitExceededError
from wormdb.settings import SEQUENCE_MAX

if TYPE_CHECKING:
    from tests.simulation.client import Client
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay
    from wormdb.errors import WormError

__all__ = ["Numbers"]

DIGITS = len(str(SEQUENCE_MAX))


class Numbers:
    """Numbered documents: each number is given once, also where others choose numbers, and at the counter's end."""

    def begin(self, client: Client) -> None:
        """In half of the runs the counter is near its end."""
        if client.world.likely(0.5):
            client.insert({"_id": str(SEQUENCE_MAX - int(client.world.chance.fraction() * 12))})

    def step(self, client: Client) -> None:
        """Let documents be numbered, alone or several; choose a number that comes next, or one at an edge; look."""
        world = client.world
        match world.pick("next", "next", "next", "several", "several", "near", "near", "edge", "delete", "scan"):
            case "next":
                _insert_next(client, 1)
            case "several":
                _insert_next(client, 3)
            case "near":
                client.insert({"_id": f"{self._greatest(client) + 1 + int(world.chance.fraction() * 2):010d}"})
            case "edge":
                digits = int(world.pick("1", "9", str(DIGITS + 1), str(DIGITS + 2)))
                client.insert({"_id": "9" * digits})
            case "delete":
                client.delete(f"{self._greatest(client):010d}")
            case _:
                client.scan()

    def _greatest(self, client: Client) -> int:
        """The greatest number that any client was told of."""
        told = [call.facts.get("ids", ()) for call in client.world.history.calls if call.outcome == "ok"]
        return max((int(identity) for ids in told for identity in ids), default=0)

    def end(self, client: Client) -> None:
        """Save a document that no other client has touched."""
        client.save({"_id": "the-end"})

    def check(self, world: World, replay: Replay) -> None:
        """No number was given twice, none that was taken, and what was inserted is there."""
        given: set[str] = set()
        for call in world.history.calls:
            if call.verb != "next" or call.outcome != "ok" or "ids" not in call.facts:
                continue
            assert call.slot is not None
            ids = call.facts["ids"]
            if given.intersection(ids):
                raise Violation(f"{call.label}: a number was given twice")
            given.update(ids)
            for identity in ids:
                if any(change.number < call.slot for change in replay.happened if change.id == identity):
                    raise Violation(f"{call.label}: {identity} had been used before")
                if (replay.states[call.slot].document(identity) or {}).get("v") != call.facts["v"]:
                    raise Violation(f"{call.label}: {identity} is not what was inserted")


def _insert_next(client: Client, count: int) -> None:
    """Insert documents without ids, in one batch."""
    value = client.new_value()
    body = json.dumps({"v": value}, separators=(",", ":")).encode()
    facts: dict[str, Any] = {"v": value}
    with client.world.history.call("next", **facts) as call:
        call.excuse = _is_exhausted
        pending = Pending(client.world.chance.token(16).hex(), (InsertNext(body),) * count)
        committed = client.node.ledger.commit(pending, seconds=client.world.settings.commit_seconds)
        call.facts["ids"] = [json.loads(change.id) for change in committed.changes]
        call.slot = committed.number
        client.node.highest_acked = max(client.node.highest_acked, committed.number)
    if call.outcome == "unknown":
        client.world.unknown.append(call)


def _is_exhausted(error: WormError, replay: Replay, number: int) -> bool:
    """Whether there was no room for the numbers that were wanted."""
    used = (int(name) for name in replay.states[number].documents if name.isdigit() and len(name) <= DIGITS)
    return isinstance(error, LimitExceededError) and max(used, default=0) > SEQUENCE_MAX - 3
