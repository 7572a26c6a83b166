"""Workloads about what forwarding makes of the log: history and the trash, indexes that come and go, staged batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.simulation.replay import Violation
from wormdb.engine.tree.definition import Index
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.client import Client
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay
    from wormdb.schema.model import Model

__all__ = ["Indexing", "Loads", "Past"]


class Past:
    """Documents with a trash and snapshots: every change stays to be seen, and every state of then."""

    names = ("a", "b")

    def begin(self, client: Client) -> None:
        """Deleted documents go to the trash; every third version is a snapshot."""
        client.define(_model(softDelete={"enabled": True, "ttl": 1}, snapshots={"enabled": True, "every": 3}))

    def step(self, client: Client) -> None:
        """Change, delete, go back; look at the past."""
        world = client.world
        name = world.pick(*self.names)
        match world.pick(
            *("save", "modify", "delete", "delete", "restore", "restore", "purge", "rollback", "rollback"),
            *("snapshot", "history", "travel", "trash"),
        ):
            case "save":
                client.save({"_id": name, "v": client.new_value()})
            case "modify":
                client.modify(name, {"v": client.new_value()})
            case "delete":
                client.delete(name)
            case "restore":
                client.restore(name)
            case "purge":
                client.purge(name)
            case "rollback":
                client.rollback(name, 1 + int(world.chance.fraction() * 4))
            case "snapshot":
                client.snapshot(name)
            case "history":
                client.look_back(name)
            case "travel":
                client.travel()
            case _:
                client.list_trashed()

    def end(self, client: Client) -> None:
        """Look at the past once more, then write."""
        client.travel()
        for name in self.names:
            client.look_back(name)
        client.save({"_id": "the-end", "v": client.new_value()})

    def check(self, world: World, replay: Replay) -> None:
        """What a rollback or a restore was told to bring back is what it brought back."""
        for call in world.history.calls:
            if call.outcome != "ok" or call.slot is None or call.verb not in ("rollback", "restore"):
                continue
            identity, before = call.facts["id"], replay.past_of(call.facts["id"], call.slot - 1)
            wanted = {
                _value(change.after) for change in before if call.verb == "restore" or change.seq == call.facts["seq"]
            }
            found = [_value(change.after) for change in replay.past_of(identity, call.slot)[len(before) :]]
            if not wanted.intersection(found):
                raise Violation(f"{call.label}: it brought back {found}, not one of {wanted}")


class Indexing:
    """Indexes are made and dropped while others write: what is ready has every document, and unique means unique."""

    indexes = (
        Index("byEmail", ("email",), unique=True),
        Index("byTag", ("tags",)),
        Index("onlyTag", ("tags",), unique=True),
        Index("byBoth", ("email", "v")),
    )
    addresses = tuple(f"{name}@example.com" for name in ("ada", "bob", "cleo", "dan", "eve", "fay"))
    tags = ("p", "q", "r", "s")

    def begin(self, client: Client) -> None:
        """Some documents, and one index."""
        client.flush("many", [], [{"_id": f"p{number}", "email": self.addresses[number]} for number in range(3)])
        client.create_index(self.indexes[0])

    def step(self, client: Client) -> None:
        """Write, make an index, drop one, ask for the owners of values."""
        world = client.world
        match world.pick("save", "save", "save", "insert", "delete", "many", "create", "create", "drop", "ask", "scan"):
            case "save":
                client.save({"_id": self._name(world), **self._values(client)})
            case "insert":
                client.insert({"_id": self._name(world), **self._values(client)})
            case "delete":
                client.delete(self._name(world))
            case "many":
                names = dict.fromkeys(self._name(world) for _ in range(3))
                plain = [{"_id": name, "v": client.new_value()} for name in names]
                client.flush("many", [], [*plain[1:], {**plain[0], **self._values(client)}])
            case "create":
                client.create_index(self._index(world))
            case "drop":
                client.drop_index(self._index(world).name)
            case "ask":
                client.ask_owners((*self.addresses, *self.tags))
            case _:
                client.scan()

    def _name(self, world: World) -> str:
        return f"p{int(world.chance.fraction() * 9)}"

    def _index(self, world: World) -> Index:
        return self.indexes[int(world.chance.fraction() * len(self.indexes))]

    def _values(self, client: Client) -> dict[str, Any]:
        """While an index is built, values that others have too: so its end is a race."""
        world = client.world
        shared = 0.9 if client.node.is_building else 0.4
        values: dict[str, Any] = {"v": client.new_value()}
        if world.likely(0.8):
            is_shared = world.likely(shared)
            values["email"] = world.pick(*self.addresses) if is_shared else f"{client.new_value()}@example.com"
        if world.likely(0.5):
            values["tags"] = [
                world.pick(*self.tags) if world.likely(shared) else client.new_value(),
                client.new_value(),
            ]
        return values

    def end(self, client: Client) -> None:
        """Ask, then write."""
        client.ask_owners((*self.addresses, *self.tags))
        client.save({"_id": "the-end", "v": client.new_value()})

    def check(self, world: World, replay: Replay) -> None:
        """In the end nothing waits any more."""
        waiting = [name for name, living in replay.states[-1].indexes.items() if living.life in ("waiting", "building")]
        if waiting:
            raise Violation(f"indexes {waiting} were not built, though the log was brought forward")


class Loads:
    """Large batches beside small writes: all of a batch or nothing, in order, with unique values."""

    addresses = tuple(f"{name}@example.com" for name in ("ada", "bob", "cleo", "dan"))

    def begin(self, client: Client) -> None:
        """The index is there from the start."""
        client.define(_model(indexes={"email": {"field": "email", "unique": True}}))

    def step(self, client: Client) -> None:
        """Load many, change what was loaded, look at it."""
        world = client.world
        name = f"d{int(world.chance.fraction() * 8)}"
        match world.pick(
            "many", "many", "flush", "flush", "save", "delete", "read", "scan", "history", "travel", "ask"
        ):
            case "many":
                shared = [f"d{int(world.chance.fraction() * 30)}" for _ in range(2)]
                names = [*dict.fromkeys(shared), client.new_value(), client.new_value()]
                client.insert_many(self._documents(client, names))
            case "flush":
                names = [f"d{int(world.chance.fraction() * 8)}" for _ in range(3)]
                client.flush("flush", [], self._documents(client, names))
            case "save":
                client.save(*self._documents(client, [name]))
            case "delete":
                client.delete(name)
            case "read":
                client.read(name)
            case "history":
                client.look_back(name)
            case "travel":
                client.travel()
            case "ask":
                client.ask_owners(self.addresses)
            case _:
                client.scan(stale=world.likely(0.3))

    def _documents(self, client: Client, names: Sequence[str]) -> list[dict[str, Any]]:
        """One with an address that others want too, at most: a batch at odds with itself shows nothing."""
        documents: list[dict[str, Any]] = [{"_id": name, "v": client.new_value()} for name in names]
        if client.world.likely(0.6):
            documents[-1]["email"] = client.world.pick(*self.addresses)
        return documents

    def end(self, client: Client) -> None:
        """Load once more."""
        client.look_back("d1")
        names = [client.new_value() for _ in range(3)]
        client.flush("flush", [], [{"_id": each, "v": each} for each in names])

    def check(self, world: World, replay: Replay) -> None:
        """Every batch that was acknowledged is there whole, at one number."""
        for call in world.history.calls:
            if call.verb == "many" and call.outcome == "ok" and call.tokens:
                (slot,) = replay.landed[call.tokens[-1]]
                # A later batch of the same entry may have deleted one of them again.
                written = {change.id for change in replay.happened if change.number == slot}
                missing = [name for name in call.facts["ids"] if name not in written]
                if missing:
                    raise Violation(f"{call.label}: {missing} are not in entry {slot}")


def _value(body: str | None) -> object:
    return None if body is None else json.loads(body)["v"]


def _model(**more: Any) -> Model:
    fields = {"email": {"type": "string"}, "v": {"type": "string"}}
    return load_model("Thing", {"path": "@sim/(id:slug)", "fields": fields, **more})
