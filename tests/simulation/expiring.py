"""Documents that end by themselves, in a simulated run: written, looked at and removed by several nodes at once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.simulation.replay import Violation
from tests.simulation.scheduler import START_MS
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.format import json

if TYPE_CHECKING:
    from tests.simulation.client import Client
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay

__all__ = ["Expiring", "is_over"]

SECONDS = 20.0
"""Documents live this long at most, in virtual time: some end while they are read."""
TOLD_MS = 1_000
"""A store tells whole seconds."""


class Expiring:
    """No read shows what is over by the store's time, and each document ends once, however many remove it."""

    names = ("a", "b", "c")

    def begin(self, client: Client) -> None:
        """Documents end at a date from the start."""
        client.node.collection.expire("at")

    def step(self, client: Client) -> None:
        """Write with a date that comes soon, or came already; look; remove what is over."""
        world, name = client.world, client.world.pick(*self.names)
        match world.pick("save", "save", "insert", "look", "look", "look", "get", "remove"):
            case "save":
                client.save({"_id": name, "v": client.new_value(), "at": _date(world)})
            case "insert":
                client.insert({"_id": client.new_value(), "at": _date(world)})
            case "remove":
                with suppress(UnavailableError, OutcomeUnknownError):
                    client.node.ledger.expiry.remove()
            case kind:
                self._look(client, name if kind == "get" else None)

    def _look(self, client: Client, name: str | None) -> None:
        begun = _now_ms(client.world) - TOLD_MS
        try:
            if name is None:
                found = list(client.node.collection.find({}))
            else:
                held = client.node.collection.find_by_id(name)
                found = [] if held is None else [held]
        except UnavailableError:
            return
        weather = client.world.bucket.weather
        for one in found if weather.shows_time and not weather.is_folder else ():
            if is_over(one, begun):
                raise Violation(f"{one.id} is shown at {begun}, and was over at {one['at']}")

    def end(self, client: Client) -> None:
        """Save a document that no other client has touched."""
        client.save({"_id": "the-end"})

    def check(self, world: World, replay: Replay) -> None:
        """What ended was over, by the store's time; the replay holds that no document ends twice."""
        for entry in replay.entries:
            for change in (change for batch in entry.batches for change in batch.changes if change.op == "expire"):
                at = json.decode_document(change.before or b"{}", name="document").get("at")
                if not isinstance(at, datetime) or at.timestamp() * 1000 > _now_ms(world):
                    raise Violation(f"entry {entry.number} ends {change.id!r} before its time, {at}")


def is_over(document: dict[str, Any] | None, ms: float) -> bool:
    """Whether a document that may have a date is over at a time, in ms since 1970."""
    at = None if document is None else document.get("at")
    return isinstance(at, datetime) and at.timestamp() * 1000 <= ms


def _now_ms(world: World) -> float:
    return START_MS + world.scheduler.now


def _date(world: World) -> datetime:
    at = datetime.fromtimestamp(_now_ms(world) // 1000, UTC)
    return at + timedelta(seconds=round(world.between(-2, SECONDS)))
