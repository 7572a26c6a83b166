"""What the sweep runs: operations, each with a model of what it does, written without the code under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tests.engine.rig import contents
from wormdb.api.database import Database
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import AlreadyExistsError
from wormdb.schema.load import load_schema
from wormdb.settings import OBJECT_BYTES_MAX, Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import Precondition, PutResult, Store

__all__ = [
    "MADE",
    "SCENARIOS",
    "Scenario",
    "State",
    "World",
    "block_and_tail",
    "collection_of",
    "database_on",
    "digest_of",
    "insert_model",
    "note_model",
    "one_person",
    "put_model",
    "soft",
    "state_of",
    "two_in_a_block",
    "unchanged",
    "world_of",
]

State = dict[str, tuple[int, dict[str, Any] | None]]
"""Every id ever used, with its count of changes and its values; None once it is deleted."""

_STAMPS = {"createdAt", "updatedAt"}

MADE = "made"
"""Stands for an id that was made: the model cannot know it."""

SCHEMA = load_schema(
    {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "Person": {
                "path": "@people/(id:string)",
                "indexes": {"byEmail": {"field": "email", "unique": True}},
            },
            "Note": {"path": "@notes/(id:seq)"},
            "Soft": {
                "path": "@soft/(id:string)",
                "softDelete": {"enabled": True, "ttl": 1},
                "snapshots": {"enabled": True, "every": 2},
            },
        },
    }
)


class World(MemoryStore):
    """A bucket with its own time."""

    def __init__(self) -> None:
        self.manual = ManualClock()
        self.witnessed: dict[str, bytes] = {}
        """The first object that was ever written under each key of a log."""
        self.bytes_max = OBJECT_BYTES_MAX
        super().__init__(clock=self.manual, bound=lambda key: self.bytes_max)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        result = super().put(key, body, precondition, content_type=content_type)
        if "/committed/" in key:
            self.witnessed.setdefault(key, body)
        return result

    def copy(self) -> World:
        """The same objects at the same time, in a bucket of their own."""
        copied = World()
        copied.manual.advance((self.manual.now_ms() - copied.manual.now_ms()) / 1000)
        copied._shelf.entries = dict(self._shelf.entries)
        copied._shelf.keys = list(self._shelf.keys)
        copied.witnessed = dict(self.witnessed)
        copied.bytes_max = self.bytes_max
        return copied


def world_of(store: Store) -> World:
    """The bucket below all wrappers."""
    while isinstance(store, WrappedStore):
        store = store.inner
    assert isinstance(store, World)
    return store


def digest_of(world: World, *prefixes: str) -> bytes:
    """Of what is in a bucket, or only of what lies under some prefixes."""
    entries = world._shelf.entries
    kept = [(key, entries[key].body) for key in world._shelf.keys if key.startswith(prefixes or "")]
    return sha256(repr(kept).encode()).digest()


def database_on(store: Store, *, seed: int = 1, commit_seconds: float = 30.0, **settings: Any) -> Database:
    """A process that opens the bucket: the whole stack, with virtual time and one thread."""
    clock = world_of(store).manual
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=Settings(commit_seconds=commit_seconds, **settings),
        schema=SCHEMA,
        actor=None,
        clock=clock,
        chance=SeededChance(seed),
    )


def collection_of(database: Database, name: str) -> Collection[Document]:
    """The collection of a scenario: a model, or one without a schema."""
    return database.model(name) if name[0].isupper() else database[name]


def state_of(store: Store, name: str) -> State:
    """What a new process finds."""
    collection = collection_of(database_on(store, seed=99), name)
    view = collection._ledger.view()
    every = contents(view)
    found: State = {}
    for identity, (_, seq, values) in every.items():
        shown = (
            None if values is None else {key: values[key] for key in values if key not in {"createdAt", "updatedAt"}}
        )
        found[MADE if len(str(identity)) > 20 else str(identity)] = (seq, shown)
    assert len(found) == len(every), "ids of several made documents fold into one"
    alive = sum(values is not None for _, values in found.values())
    assert view.count == alive
    assert len(list(collection)) == alive
    return found


@dataclass(frozen=True)
class Scenario:
    """One operation on a collection that `prepare` made; `model` says what it does, or None if it is refused."""

    name: str
    collection: str
    prepare: Callable[[Database], None]
    act: Callable[[Collection[Document]], object]
    model: Callable[[State], State | None]
    result: object = None
    """What `act` returns when it succeeds, if that is looked at."""
    may_conflict: bool = False
    """Whether somebody else's change in between may make it a conflict."""
    is_trimmed: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of every process that has to do with it."""
    check: Callable[[Collection[Document]], None] = lambda _: None
    """What must be true in the end, when nothing is wrong any more."""

    def __str__(self) -> str:
        return self.name


# --- the model: what operations do to a state ---


def _alive(state: State, identity: str) -> bool:
    return identity in state and state[identity][1] is not None


def _put(state: State, identity: str, values: dict[str, Any] | None) -> State:
    seq = state[identity][0] + 1 if identity in state else 1
    return {**state, identity: (seq, values)}


def insert_model(*documents: tuple[str, dict[str, Any]]) -> Callable[[State], State | None]:
    """All of them, unless one is there."""

    def model(state: State) -> State | None:
        for identity, values in documents:
            if _alive(state, identity):
                return None
            state = _put(state, identity, values)
        return state

    return model


def put_model(
    identity: str, values: dict[str, Any] | None, *, only_alive: bool = False
) -> Callable[[State], State | None]:
    """A save or, without values, a delete of what may be gone already."""

    def model(state: State) -> State | None:
        if not _alive(state, identity) and (only_alive or values is None):
            return None if only_alive else state
        return _put(state, identity, values)

    return model


def note_model(n: int) -> Callable[[State], State | None]:
    """A document under the next number, where none was ever deleted."""
    return lambda state: {**state, f"{len(state) + 1:010d}": (1, {"n": n})}


def unchanged(state: State) -> State:
    """Nothing that a reader sees."""
    return state


def _restore_model(state: State) -> State | None:
    return None if _alive(state, "gone") else _put(state, "gone", {"n": 1})


def _expire_model(state: State) -> State:
    return state if _alive(state, "gone") else _put(state, "gone", None)


def _purge_model(state: State) -> State | None:
    """The document in the trash goes for good, if it still lies there."""
    return None if _alive(state, "gone") else _put(state, "gone", None)


# --- preparation ---


def _two(database: Database) -> None:
    things = database["things"]
    things.insert({"id": "a", "n": 1})
    things.insert({"id": "b", "n": 1})


def two_in_a_block(database: Database) -> None:
    """All in a block, nothing in the tail."""
    _two(database)
    database["things"].forward()


def block_and_tail(database: Database) -> None:
    """One in a block, one changed since."""
    two_in_a_block(database)
    database["things"].save({"id": "b", "n": 1})


def one_person(database: Database) -> None:
    """Somebody with a unique value."""
    database.model("Person").insert({"id": "p", "email": "p@x"})


def _ready_to_trim(database: Database) -> None:
    two_in_a_block(database)
    ledger = database["things"]._ledger
    ledger.trim(0)
    world_of(database.store).manual.advance(7_200)


def _nothing(database: Database) -> None:
    pass


# --- operations ---


def _insert_again(things: Collection[Document]) -> str:
    try:
        things.insert({"id": "a", "n": 7})
    except AlreadyExistsError:
        return "refused"
    return "inserted"


def _save_loaded(things: Collection[Document]) -> None:
    document = things.find_by_id("a")
    if document is None:
        raise AssertionError("a is never deleted")
    document["n"] = 2
    things.save(document)


def _delete_loaded(things: Collection[Document]) -> bool:
    document = things.find_by_id("b")
    return document is not None and things.delete(document)


def _batch(things: Collection[Document]) -> None:
    with things.batch() as batch:
        batch.insert({"id": "x", "n": 1})
        batch.update({"id": "a", "n": 2})
        batch.delete("b")


def _batch_model(state: State) -> State | None:
    if _alive(state, "x") or not _alive(state, "a"):
        return None
    state = _put(_put(state, "x", {"n": 1}), "a", {"n": 2})
    return _put(state, "b", None) if _alive(state, "b") else state


def _modify(things: Collection[Document]) -> object:
    return things.modify("a", lambda document: document | {"m": document["n"] + 1})["m"]


def _modify_model(state: State) -> State | None:
    values = state["a"][1]
    return None if values is None else _put(state, "a", {**values, "m": values["n"] + 1})


def _person_model(state: State) -> State | None:
    taken = {values["email"] for _, values in state.values() if values is not None}
    return None if "q@x" in taken or _alive(state, "q") else _put(state, "q", {"email": "q@x"})


def soft(database: Database) -> None:
    """Two documents, and one in the trash."""
    kept = database.model("Soft")
    kept.insert({"id": "a", "n": 1})
    kept.save({"id": "a", "n": 2})
    kept.insert({"id": "b", "n": 1})
    kept.insert({"id": "gone", "n": 1})
    kept.delete("gone")


def _soft_in_a_block(database: Database) -> None:
    soft(database)
    database.model("Soft").forward()


def _soft_expired(database: Database) -> None:
    _soft_in_a_block(database)
    world_of(database.store).manual.advance(2 * 86_400)


def _settle(things: Collection[Document]) -> object:
    return things.resolve(f"3-{'a' * 32}-{'b' * 32}", settle=True)


SCENARIOS = (
    Scenario("insert", "things", _two, lambda c: c.insert({"id": "x", "n": 1}), insert_model(("x", {"n": 1}))),
    Scenario("insert a made id", "things", _two, lambda c: c.insert({"n": 1}), insert_model((MADE, {"n": 1}))),
    Scenario(
        "insert into a block",
        "things",
        two_in_a_block,
        lambda c: c.insert({"id": "x", "n": 1}),
        insert_model(("x", {"n": 1})),
    ),
    Scenario("insert what is there", "things", _two, _insert_again, unchanged, result="refused"),
    Scenario("save loaded", "things", _two, _save_loaded, put_model("a", {"n": 2}), may_conflict=True),
    Scenario(
        "save loaded, in a block", "things", two_in_a_block, _save_loaded, put_model("a", {"n": 2}), may_conflict=True
    ),
    Scenario("save blindly", "things", block_and_tail, lambda c: c.save({"id": "a", "n": 2}), put_model("a", {"n": 2})),
    Scenario("save what is new", "things", _two, lambda c: c.save({"id": "x", "n": 1}), put_model("x", {"n": 1})),
    Scenario("delete", "things", block_and_tail, lambda c: c.delete("b"), put_model("b", None), result=True),
    Scenario("delete loaded", "things", _two, _delete_loaded, put_model("b", None), result=True, may_conflict=True),
    Scenario("batch", "things", two_in_a_block, _batch, _batch_model),
    Scenario(
        "insert many",
        "things",
        _two,
        lambda c: c.insert_many([{"id": name, "n": 1} for name in "xyz"]),
        insert_model(*((name, {"n": 1}) for name in "xyz")),
        result=["x", "y", "z"],
    ),
    Scenario("modify", "things", _two, _modify, _modify_model, result=2),
    Scenario(
        "first write of a model", "Person", _nothing, lambda c: c.insert({"id": "q", "email": "q@x"}), _person_model
    ),
    Scenario("unique", "Person", one_person, lambda c: c.insert({"id": "q", "email": "q@x"}), _person_model),
    Scenario("numbered", "Note", _nothing, lambda c: c.insert({"n": 1})["id"], note_model(1), "0000000001"),
    Scenario("soft delete", "Soft", soft, lambda c: c.delete("b"), put_model("b", None), result=True),
    Scenario("restore", "Soft", _soft_in_a_block, lambda c: c.restore("gone")["n"], _restore_model, result=1),
    Scenario("purge", "Soft", _soft_in_a_block, lambda c: c.purge("gone"), _purge_model),
    Scenario("purge what expired", "Soft", _soft_expired, lambda c: c.purge_expired(), _expire_model),
    Scenario(
        "rollback",
        "Soft",
        _soft_in_a_block,
        lambda c: c.rollback("a", to_seq=1)["n"],
        put_model("a", {"n": 1}),
        result=1,
    ),
    Scenario("snapshot", "Soft", soft, lambda c: c.snapshot("b").seq, unchanged, result=1),
    Scenario("forward", "things", block_and_tail, lambda c: c.forward(), unchanged, result=3),
    Scenario("trim", "things", _ready_to_trim, lambda c: c._ledger.trim(0), unchanged, is_trimmed=True),
    Scenario("settle", "things", _two, _settle, unchanged, result=Fate.NOT_COMMITTED),
)
