"""How much of history is kept, in a simulated run: rules are said, versions made, looked at and dropped meanwhile."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.engine.forward.compact_rig import compact_list
from tests.simulation.moments import read_between
from tests.simulation.replay import Violation
from wormdb.engine.forward.compact import Aim
from wormdb.errors import ConflictError, OutcomeUnknownError, SnapshotTooOldError, UnavailableError
from wormdb.format.event import HistoryRetained
from wormdb.format.past import misc_ms
from wormdb.schema.model import duration_seconds
from wormdb.settings import LOG_RETENTION_MS_MIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.client import Client
    from tests.simulation.history import Call
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay, ReplayedChange
    from wormdb.format.root import Root

__all__ = ["Retaining", "is_before_all", "is_forgotten", "least_gone", "may_be_dropped", "most_gone"]

RULES: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"versions": 4}, {"versions": 3}, {"versions": 2}),
    ({"keep": "4h"}, {"keep": "90m"}, {"keep": "20s"}),
    ({"keep": "3h", "versions": 4}, {"keep": "20s", "versions": 3}, {"keep": "10s", "versions": 2}),
)
"""Of a run those of one line; each keeps less than the one before it. The log forgets after an hour."""
LEAD_MS = 700_000.0
"""How far the clock of a process that wrote a root may be behind the store's time."""


@dataclass(frozen=True, slots=True)
class KeptRule:
    """How much is kept, from an entry on."""

    keep_ms: float = math.inf
    versions: float = math.inf

    def gone(self, past: Sequence[ReplayedChange], replay: Replay, ms: float) -> int:
        """How many of the oldest versions of a document readers are no longer shown at a time."""
        times = [misc_ms(replay.entries[change.number - 1].misc) for change in past]
        aged = [place for place, time in enumerate(times) if time <= ms - self.keep_ms]
        return int(max(0, max(aged, default=0), len(past) - self.versions))


def _rules(replay: Replay, number: int) -> list[KeptRule]:
    """The rules that were said up to an entry; the last one is in force."""
    said = [event for entry in replay.entries[:number] for event in entry.events if isinstance(event, HistoryRetained)]
    return [
        KeptRule(),
        *(KeptRule(1000 * (duration_seconds(one.keep or "") or math.inf), one.versions or math.inf) for one in said),
    ]


def least_gone(replay: Replay, past: Sequence[ReplayedChange], number: int, ms: float) -> int:
    """How many versions readers of the state at a number are sure not to be shown, at a time or later."""
    return _rules(replay, number)[-1].gone(past, replay, ms)


def most_gone(replay: Replay, past: Sequence[ReplayedChange], number: int, ms: float) -> int:
    """How many may be gone by a time: by the rule in force, or by one before it, under which a merge dropped them."""
    return max(rule.gone(past, replay, ms) for rule in _rules(replay, number))


def is_forgotten(replay: Replay, moment: int, number: int, ms: float, *, is_sure: bool) -> bool:
    """Whether the state at a moment is unknown to readers of a later one: whatever came first of a document is gone."""
    gone = least_gone if is_sure else most_gone
    for name in replay.states[number].documents:
        past = replay.past_of(name, number)
        first = gone(replay, past, number, ms)
        if first and past[first].number > moment:
            return True
    return False


def is_before_all(replay: Replay, at_ms: float, ms: float) -> bool:
    """Whether a time is longer ago than anything is kept."""
    return at_ms < ms - _rules(replay, replay.last)[-1].keep_ms


def may_be_dropped(replay: Replay, change: ReplayedChange, root: Root) -> bool:
    """Whether a root may lack a version: readers are not shown it, and the log has forgotten the one after it."""
    past = replay.past_of(change.id, root.applied)
    place = past.index(change)
    if place + 1 == len(past) or past[place + 1].number > root.dropped_through:
        return False
    return place < most_gone(replay, past, root.applied, misc_ms(root.misc) + LEAD_MS)


class Retaining:
    """Readers are shown no more of history than is kept, by the store's time, and no less."""

    names = ("a", "b")

    def begin(self, client: Client) -> None:
        """A rule that keeps much, or none yet."""
        if client.world.likely(0.7):
            self._keep_less(client)

    @staticmethod
    def _keep_less(client: Client) -> None:
        """Say the rule after the one in force; another may do so at the same time."""
        with suppress(UnavailableError, OutcomeUnknownError, ConflictError):
            said = client.node.collection.get_retention()
            rules = RULES[client.world.seed % len(RULES)]
            place = rules.index(said) + 1 if said else 0
            if place < len(rules):
                client.node.collection.retain(**rules[place])

    def step(self, client: Client) -> None:
        """Change, delete, keep less; look at the past."""
        world, name = client.world, client.world.pick(*self.names)
        match world.pick("save", "save", "save", "modify", "delete", "less", "history", "history", "history", "travel"):
            case "save":
                client.save({"_id": name, "v": client.new_value()})
            case "modify":
                client.modify(name, {"v": client.new_value()})
            case "delete":
                client.delete(name)
            case "less":
                self._keep_less(client)
            case "history":
                self._look_back(client, name)
            case _:
                self._travel(client)

    @staticmethod
    def _look_back(client: Client, name: str) -> None:
        with client.world.history.call("kept", id=name) as call:
            call.result = [(each.seq, each.rev, each.op) for each in client.node.collection.get_history(name)]

    @staticmethod
    def _travel(client: Client) -> None:
        moment = int(client.world.chance.fraction() * (client.world.bucket.highest + 1))
        with client.world.history.call("kept as of", moment=moment) as call:
            try:
                found = {one.id: one["v"] for one in client.node.collection.scan(as_of=moment)}
            except SnapshotTooOldError:
                found = None
            call.result = found

    def end(self, client: Client) -> None:
        """Let the log forget, and a merge drop what it may; look at the past once more, then write."""
        ledger = client.node.ledger
        for _ in range(2):
            ledger.forward()
            ledger.trim(LOG_RETENTION_MS_MIN)
            client.world.scheduler.sleep(1.1 * LOG_RETENTION_MS_MIN)
        with suppress(ConflictError):
            compact_list(ledger, "history", Aim(100_000, everything=True))
        for name in self.names:
            self._look_back(client, name)
        self._travel(client)
        client.save({"_id": "the-end", "v": client.new_value()})

    def check(self, world: World, replay: Replay) -> None:
        """Each answer is right of a state from its call to its return, at a time between these."""
        for call in world.history.calls:
            if call.outcome != "ok" or not call.verb.startswith("kept"):
                continue
            is_right = _is_history if call.verb == "kept" else _is_state
            if not any(is_right(call, replay, number) for number in range(call.floor, call.ceiling + 1)):
                raise Violation(f"{call.label}: was told {call.result}")


def _is_history(call: Call, replay: Replay, number: int) -> bool:
    low, high = read_between(call)
    past = replay.past_of(call.facts["id"], number)
    told = [(change.seq, change.number, change.op) for change in past]
    gone = range(least_gone(replay, past, number, low), most_gone(replay, past, number, high) + 1)
    return any(call.result == told[place:] for place in gone)


def _is_state(call: Call, replay: Replay, number: int) -> bool:
    low, high = read_between(call)
    moment = call.facts["moment"]
    if call.result is None:
        return is_forgotten(replay, moment, number, high, is_sure=False)
    state = replay.states[moment]
    expected = {name: (state.document(name) or {})["v"] for name in state.bodies()}
    return bool(call.result == expected) and not is_forgotten(replay, moment, number, low, is_sure=True)
