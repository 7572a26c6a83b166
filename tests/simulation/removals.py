"""A simulated run in which clients also drop the collection: `python -m tests.simulation.removals 0:100`.

Nodes, network, clocks and keepers are those of `tests.simulation.run`. What was acknowledged must be in the entry that
the answer names; every state that was read, and the last one, must be what the entries up to its number say.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation import run as runs
from tests.simulation.nodes import World
from tests.simulation.plan import Plan
from tests.simulation.replay import Violation
from tests.simulation.replay import _rows as read_rows
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import COLLECTION, PATHS, SECOND_MS, Bucket
from tests.simulation.workloads import WORKLOADS
from wormdb.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    UnavailableError,
)
from wormdb.format.entry import decode_entry
from wormdb.format.event import CollectionClosed, JobAttached
from wormdb.settings import KNOWLEDGE_MS_MAX
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.nodes import Node
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root

__all__ = ["Removals", "play_removals"]

NAME = COLLECTION.removesuffix("/")
EXPECTED = (ConflictError, OutcomeUnknownError, NotFoundError, SnapshotTooOldError, UnavailableError)
"""NotFoundError of a job that was open when the collection was removed, RemovedError among them."""
DROPS = 0.15
"""Of the steps of clients."""


class _RemovalBucket(Bucket):
    """A bucket in which a removed collection may be deleted, when no process can need its log."""

    def deleted(self, key: str) -> None:
        root = self.roots[-1] if self.roots else None
        if root is None or not root.removed:
            super().deleted(key)
            return
        if not key.startswith(PATHS.entries):
            if root.closed is None and self._written_at.get(key, -math.inf) >= self._freed_at:
                self._object_deleted(key)
            return
        number = int(key.removeprefix(PATHS.entries))
        age = self.scheduler.now - self._applied_at.get(number, math.inf)
        if number > root.trimmed:
            self.broken.append(f"slot {number} was deleted while trimmed is {root.trimmed}")
        elif number <= root.removed and age < KNOWLEDGE_MS_MAX - 2 * SECOND_MS:
            self.broken.append(f"slot {number} was deleted {age:.0f} ms after it was applied")

    _freed_at = -math.inf
    """When the name was freed last."""

    def _root_written(self, root: Root) -> None:
        if self.roots and root.collection != self.roots[-1].collection:
            self._freed_at = self.scheduler.now
        super()._root_written(root)


class Removals(runs._Run):
    """One seed."""

    def __init__(self, seed: int, focus: str | None = None, bucket: type[Bucket] = _RemovalBucket) -> None:
        chance = SeededChance(seed)
        self._workload = WORKLOADS["register"]
        self._plan = Plan.draw(chance, focus).sized(SeededChance(seed + 3))
        scheduler = Scheduler(SeededChance(seed + 1))
        made = bucket(scheduler, SeededChance(seed + 2), self._plan.calm)
        self.world = World(seed, scheduler, made, chance, self._plan.settings)
        self._watchers = []
        self._collects = True
        self._replay = None
        self.acknowledged: list[tuple[int, str]] = []
        self.seen: list[tuple[int, int, dict[str, Any]]] = []
        self.dropped: list[int] = []
        self._made = 0

    # --- what clients do ---

    def _spawn_client(self, node: Node, name: str) -> None:
        self.world.workers += 1

        def body() -> None:
            for _ in range(self._plan.steps):
                self.world.scheduler.sleep(self._rest_ms())
                self._guarded(node, lambda: self._step(node))
            self.world.workers -= 1

        self.world.scheduler.spawn(name, body)

    def _spawn_reader(self, node: Node, name: str) -> None:
        """Readers are among the clients."""

    def _step(self, node: Node) -> None:
        with suppress(*EXPECTED):
            if self.world.likely(DROPS):
                self._drop(node)
            else:
                self._act(node, self.world.pick("insert", "insert", "save", "save", "read", "many"))

    def _act(self, node: Node, kind: str) -> None:
        self._made += 1
        own = f"{kind}{self._made}"
        if kind == "read":
            self._look(node)
        elif kind == "insert":
            self.acknowledged.append((node.collection.insert({"id": own}).rev, own))
        elif kind == "save":
            shared = self.world.pick("a", "b")
            self.acknowledged.append((node.collection.save({"id": shared, "v": own}).rev, shared))
        else:
            batch = node.collection.batch()
            for part in range(3):
                batch.save({"id": f"{own}-{part}"})
            number = batch.flush().number
            self.acknowledged += [(number, f"{own}-{part}") for part in range(3)]

    def _look(self, node: Node) -> None:
        floor = self.world.bucket.highest
        view = node.ledger.view()
        found = {json.loads(held.id): json.loads(held.document) for _, held in view.scan() if held.document is not None}
        self.seen.append((floor, view.number, found))

    def _drop(self, node: Node) -> None:
        self.world.bucket.note("drop")
        with suppress(NotFoundError):
            done = node._database.drop(NAME)
            if done is not None:
                self.dropped.append(done.number)

    def _keep(self, node: Node, act: Callable[[Node], object]) -> None:
        def attempt() -> None:
            with suppress(*EXPECTED):
                act(node)

        self._guarded(node, attempt)

    # --- afterwards ---

    def _finish(self, nodes: list[Node]) -> None:
        world = self.world
        for node in world.nodes:
            node.set_right()
        fresh = world.node("fresh", is_right=True)
        with world.scheduler.inside(fresh.process):
            fresh.collect()
            if fresh._database.removal(NAME).is_removed():
                fresh._database.drop(NAME)
            self.acknowledged.append((fresh.collection.insert({"id": "the-end"}).rev, "the-end"))
            fresh.ledger.forward()
            self._look(fresh)
            (found,) = fresh._database.verify([NAME])
            if found.findings:
                raise Violation(f"{found.findings}")
        for node in nodes:
            if not node.process.dead:
                with world.scheduler.inside(node.process):
                    self._look(node)
        if world.bucket.broken:
            raise Violation("; ".join(world.bucket.broken))
        self._check()

    def _look_at_projections(self) -> None:
        """`_finish` has verified them."""

    def _check(self) -> None:
        states, names = self._replayed()
        for rev, identity in self.acknowledged:
            if identity not in names[rev]:
                raise Violation(f"{identity} was acknowledged as of entry {rev}, which does not have it")
        for floor, number, found in self.seen:
            if number < floor:
                raise Violation(f"a read began at entry {floor}, and saw {number}")
            if found != states[number]:
                raise Violation(f"entry {number} leaves {states[number]}, and {found} was seen")

    def _replayed(self) -> tuple[list[dict[str, Any]], list[set[str]]]:
        """The documents after each entry that was ever created, and those that it changed."""
        states: list[dict[str, Any]] = [{}]
        names: list[set[str]] = [set()]
        for number, body in sorted(self.world.bucket.entries.items()):
            entry = decode_entry(body, name=f"entry {number}", number=number, collection=COLLECTION)
            is_end = any(isinstance(event, CollectionClosed) for event in entry.events)
            changes = self._changes(entry)
            state = {**({} if is_end else states[-1]), **changes}
            states.append({identity: after for identity, after in state.items() if after is not None})
            names.append(set(changes))
        return states, names

    def _changes(self, entry: Entry) -> dict[str, Any]:
        changes = {
            json.loads(change.id): None if change.after is None else json.loads(change.after)
            for batch in entry.batches
            for change in batch.changes
        }
        attached = [event for event in entry.events if isinstance(event, JobAttached)]
        for name in (PATHS.block(block.name) for event in attached for block in event.blocks):
            documents = [json.loads(row["_doc"]) for row in read_rows(self.world.bucket.blocks[name])]
            changes |= {document["_id"]: document for document in documents}
        return changes


def play_removals(seed: int, focus: str | None = None) -> Removals:
    """Run one seed. Raises Violation, and what the engine raises where nothing is expected."""
    played = Removals(seed, focus)
    with runs.no_collection(), mock.patch.object(runs, "WATCHERS", ()):
        played.play()
    return played


if __name__ == "__main__":
    first, _, count = sys.argv[1].partition(":")
    drops = 0
    for one in range(int(first), int(first) + int(count)):
        try:
            drops += len(play_removals(one).dropped)
        except Exception as error:  # noqa: BLE001 - all seeds are tried
            sys.stdout.write(f"seed {one}: {type(error).__name__}: {str(error)[:600]}\n")
    sys.stdout.write(f"{count} seeds, {drops} drops\n")
