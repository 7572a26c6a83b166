"""What tests of removals share: a bucket with every kind of object, and a replay of all that was logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.engine.sweeps.commits import World, database_on
from wormdb.engine.log.paths import EnginePaths
from wormdb.format import json
from wormdb.format.entry import decode_entry
from wormdb.format.event import CollectionClosed

if TYPE_CHECKING:
    from wormdb.storage.store import Store

__all__ = ["PATHS", "SETTINGS", "closing_entries", "documents", "filled", "keys", "logged", "replayed"]

PATHS = EnginePaths.of_collection("things/")
SETTINGS: dict[str, Any] = {"forward": "manual", "forward_interval_ms": 0}


def filled() -> World:
    """A bucket whose collection has blocks, an index, history, a blob and a tail, and beside it another one inside."""
    world = World()
    database = database_on(world, seed=5, **SETTINGS)
    things = database["things"]
    things.create_index("n")
    things.insert_many([{"id": f"t{number}", "n": number} for number in range(3)])
    things.forward()
    things.save({"id": "t0", "n": 7})
    things.insert({"id": "blob", "picture": things.put_blob(b"x" * 100)})
    things.forward()
    things.insert({"id": "later", "n": 9})
    database["things/inner"].insert({"id": "spared"})
    return world


def documents(store: Store, name: str = "things") -> dict[str, Any]:
    """What a new process finds, by id."""
    database = database_on(store, seed=99, **SETTINGS)
    return {each.id: each.get("n") for each in database[name].find({})}


def keys(store: Store, prefix: str = "things/.worm.db/") -> list[str]:
    """What is there."""
    return [info.key for page in store.list(prefix) for info in page.objects]


def logged(world: World, collection: str = "things/") -> dict[int, Any]:
    """Every entry that was ever written, by number; the first one of a slot, as a log must have it."""
    found = {}
    for key, body in world.witnessed.items():
        if key.startswith(EnginePaths.of_collection(collection).entries):
            number = int(key.rpartition("/")[2])
            found[number] = decode_entry(body, name=key, number=number, collection=collection)
    return dict(sorted(found.items()))


def closing_entries(world: World) -> list[int]:
    """The numbers of the entries that removed it."""
    return [
        number
        for number, entry in logged(world).items()
        if any(isinstance(event, CollectionClosed) for event in entry.events)
    ]


def replayed(world: World) -> dict[str, Any]:
    """The documents after all entries, by what entries mean, and by nothing that the engine stored beside them."""
    found: dict[str, Any] = {}
    for entry in logged(world).values():
        if any(isinstance(event, CollectionClosed) for event in entry.events):
            found = {}
        for batch in entry.batches:
            for change in batch.changes:
                name = json.decode(change.id, name="id")
                if change.after is None:
                    found.pop(name, None)
                else:
                    found[name] = json.decode_document(change.after, name="document").get("n")
    return found
