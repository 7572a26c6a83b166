"""Times of entries in a simulated run: what was there at a time, whatever clocks said when it was written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tests.simulation.expiring import is_over
from tests.simulation.replay import Violation
from tests.simulation.retaining import is_before_all, is_forgotten
from tests.simulation.scheduler import START_MS
from wormdb.errors import SnapshotTooOldError
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment
from wormdb.settings import MISC_LEAD_MS_MAX

if TYPE_CHECKING:
    from tests.simulation.nodes import Node, World
    from tests.simulation.replay import Replay
    from wormdb.api.document import Document

__all__ = ["check_times"]

LOOKS = 5
NEAR_MS = 10_000
"""How long the looks take."""


def check_times(world: World, node: Node, replay: Replay) -> None:
    """Ask a node with a right clock for states as of times. Raises Violation if one is not that of the last entry then.

    Whichever node had a wrong clock before: the newest entry has about the time at which it was written.
    """
    now_ms = START_MS + int(world.scheduler.now)
    lead_ms = misc_ms(replay.entries[-1].misc) - now_ms
    if lead_ms > MISC_LEAD_MS_MAX:
        raise Violation(f"the newest entry, of a clock that is right, is dated {lead_ms} ms from now")
    for ms in [now_ms, *(int(world.between(START_MS, now_ms)) for _ in range(LOOKS))]:
        number = _number_at(world, replay, ms)
        state = replay.states[number]
        expected = {name: state.document(name) for name in state.bodies()}
        expected = {name: one for name, one in expected.items() if not is_over(one, ms)}
        moment_told = f"as of {ms - START_MS} ms, which is entry {number}"
        try:
            found = {document.id: _stored(document) for document in node.collection.scan(as_of=moment(ms))}
        except SnapshotTooOldError as error:
            weather = world.bucket.weather
            latest = now_ms + NEAR_MS if weather.shows_time and not weather.is_folder else math.inf
            is_gone = is_forgotten(replay, number, replay.last, latest, is_sure=False)
            is_gone = is_gone or is_before_all(replay, ms, latest)
            if expected and not is_gone:  # history begins with the first document, not with the first entry
                raise Violation(f"{moment_told}: {error}") from error
            continue
        if found != expected:
            raise Violation(f"{moment_told}, there was {expected}, and this was told: {found}")


def _stored(document: Document) -> dict[str, Any]:
    return {("_id" if name == "id" else name): value for name, value in document.items()}


def _number_at(world: World, replay: Replay, ms: int) -> int:
    """The last entry that was made by a time: by what it says, or because a root that has it says so."""
    made = [entry.number for entry in replay.entries if misc_ms(entry.misc) <= ms]
    return max([0, *made, *(root.applied for root in world.bucket.roots if misc_ms(root.misc) <= ms)])
