"""A simulated run in which clients also erase documents: `python -m tests.simulation.erasures 0:100`.

As `tests.simulation.removals`: every state that was read, and the last one, must be what the entries up to its number
say. In the end every document has the history that the entries after its last erasure made, and when garbage was
collected nothing is left of what was erased.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation import run as runs
from tests.simulation.removals import EXPECTED, NAME, Removals
from tests.simulation.replay import Violation
from tests.simulation.store import COLLECTION, Bucket
from wormdb.errors import ErasedError
from wormdb.format.entry import decode_entry
from wormdb.format.event import DocumentErased

if TYPE_CHECKING:
    from tests.simulation.nodes import Node

__all__ = ["Erasures", "play_erasures"]

ERASES = 0.2
"""Of the steps of clients."""
KEPT_MS = 90 * 24 * 3_600_000
"""The log is kept for this long, but for what an erasure has trimmed."""


class Erasures(Removals):
    """One seed."""

    def __init__(self, seed: int, focus: str | None = None) -> None:
        super().__init__(seed, focus, bucket=Bucket)
        self.world.settings = replace(self.world.settings, log_retention_ms=KEPT_MS)
        self.erased: list[int] = []

    def _step(self, node: Node) -> None:
        with suppress(*EXPECTED):
            if self.world.likely(ERASES):
                self._erase(node)
            else:
                self._act(node, self.world.pick("insert", "save", "save", "read", "many"))

    def _erase(self, node: Node) -> None:
        names = [identity for _, identity in self.acknowledged] or ["a"]
        chosen = self.world.pick("a", "b", *names[-3:])
        self.world.bucket.note(f"erase {chosen}")
        self.erased.append(node.collection.erase(chosen).number)

    def _finish(self, nodes: list[Node]) -> None:
        world = self.world
        for node in world.nodes:
            node.set_right()
        fresh = world.node("fresh", is_right=True)
        with world.scheduler.inside(fresh.process):
            self.acknowledged.append((fresh.collection.insert({"id": "the-end"}).rev, "the-end"))
            fresh.ledger.forward()
            self._look(fresh)
            self._check_sound(fresh)
            self._check_histories(fresh)
        for node in nodes:
            if not node.process.dead:
                with world.scheduler.inside(node.process):
                    self._look(node)
        with world.scheduler.inside(fresh.process):
            self._check_gone(fresh)
        if world.bucket.broken:
            raise Violation("; ".join(world.bucket.broken))
        self._check()

    def _check_sound(self, fresh: Node) -> None:
        (found,) = fresh._database.verify([NAME])
        if found.findings:
            raise Violation(f"{found.findings}")

    def _lives(self) -> dict[str, int]:
        """How many changes each document had since it was erased last; nothing of those that were erased is -1."""
        lives: dict[str, int] = {}
        for number, body in sorted(self.world.bucket.entries.items()):
            entry = decode_entry(body, name=f"entry {number}", number=number, collection=COLLECTION)
            for identity in self._changes(entry):
                lives[identity] = max(lives.get(identity, 0), 0) + 1
            lives |= {json.loads(event.id): -1 for event in entry.events if isinstance(event, DocumentErased)}
        return lives

    def _check_histories(self, fresh: Node) -> None:
        for identity, count in self._lives().items():
            try:
                found = len(fresh.collection.get_history(identity))
            except ErasedError:
                found = -1
            if found != count:
                raise Violation(f"{identity} has {found} versions, and {count} were made since it was erased")

    def _check_gone(self, fresh: Node) -> None:
        """Garbage is collected until all times are over, but for that of the log; then every object is read."""
        for _ in range(6):
            fresh.collect()
            fresh.ledger.forward()  # a job that was given up holds the log until a root knows
            self.world.scheduler.sleep(60 * 3_600_000)
        for identity, count in self._lives().items():
            if count == -1:
                left = [each for each in fresh._database.find_traces(NAME, identity) if not each.is_mention]
                if left:
                    raise Violation(f"of {identity}, which was erased, is left: {left}")
        self._check_sound(fresh)


def play_erasures(seed: int, focus: str | None = None) -> Erasures:
    """Run one seed. Raises Violation, and what the engine raises where nothing is expected."""
    played = Erasures(seed, focus)
    with runs.no_collection(), mock.patch.object(runs, "WATCHERS", ()):
        played.play()
    return played


if __name__ == "__main__":
    first, _, seeds = sys.argv[1].partition(":")
    erased = 0
    for one in range(int(first), int(first) + int(seeds)):
        try:
            erased += len(play_erasures(one).erased)
        except Exception as error:  # noqa: BLE001 - all seeds are tried
            sys.stdout.write(f"seed {one}: {type(error).__name__}: {str(error)[:900]}\n")
    sys.stdout.write(f"{seeds} seeds, {erased} erasures\n")
