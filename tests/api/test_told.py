"""What a caller is told agrees with the log, when an answer is lost and the store stays away until the deadline.

Every verb that ends in an entry of the log is cut off at each of its requests. Whatever it raises then is held against
what a new process finds: a verb that says that nothing was written must have written nothing, now and later, and one
that does not know must name a commit that `resolve` tells the truth about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.engine.sweeps.commits import World
from wormdb.api.database import Database
from wormdb.api.schema import read_schema
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.commit.resolve import Fate
from wormdb.engine.load import BulkOutcome, JobSpec, attach, open_job
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import ByteRange, ListPage, ObjectInfo, Precondition, Probe, PutResult, StoredObject

T = TypeVar("T")
SECONDS = 5.0
"""The deadline of a commit."""
REQUESTS_MAX = 300


class Outage(WrappedStore):
    """From request `at` on no answer comes, and time passes, until `heal`. What that request did, `mode` says.

    "landed": it was executed; "late": it is executed by `heal`, if it writes; "lost": it is not.
    """

    def __init__(self, inner: World, at: int, mode: str) -> None:
        super().__init__(inner)
        self._world = inner
        self._at = at
        self._mode = mode
        self._late: list[Callable[[], object]] = []
        self.requests = 0

    def heal(self) -> None:
        """What was to land late lands."""
        for call in self._late:
            _quietly(call)

    def _request(self, key: str, call: Callable[[], T], *, writes: bool = False) -> T:
        self.requests += 1
        if self.requests < self._at:
            return call()
        self._world.manual.advance(1)
        if self.requests == self._at and self._mode == "landed":
            _quietly(call)
        if self.requests == self._at and self._mode == "late" and writes:
            self._late.append(call)
        # After the first one nothing is even sent.
        kind = OutcomeUnknownError if writes and self.requests == self._at else UnavailableError
        raise kind(key, reason="the network is down")

    def get(self, key: str) -> StoredObject:
        return self._request(key, lambda: self._inner.get(key))

    def get_range(self, key: str, span: ByteRange) -> bytes:
        return self._request(key, lambda: self._inner.get_range(key, span))

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        return self._request(key, lambda: self._inner.get_ranges(key, spans))

    def probe(self, key: str) -> Probe:
        return self._request(key, lambda: self._inner.probe(key))

    def head(self, key: str) -> ObjectInfo:
        return self._request(key, lambda: self._inner.head(key))

    def list(self, prefix: str = "", **options: Any) -> Iterator[ListPage]:
        return iter(self._request(prefix, lambda: list(self._inner.list(prefix, **options))))

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        return self._request(
            key, lambda: self._inner.put(key, body, precondition, content_type=content_type), writes=True
        )

    def delete_many(self, keys: Sequence[str]) -> None:
        self._request("".join(keys[:1]), lambda: self._inner.delete_many(keys))


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except WormError:
        return


def schema(version: int = 1, **more: Any) -> dict[str, Any]:
    fields = {name: {"type": "string"} for name in ("name", "mail", "full")[: version + 1]}
    model = {"path": "@people/(id:string)", "version": version, "fields": fields, **more}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Person": model}}


def database(store: Any, world: World, of: Mapping[str, Any], seed: int = 1) -> Database:
    settings = Settings(commit_seconds=SECONDS, stage_bytes=3_000, log_retention_ms=3_600_000, forward="manual")
    return Database(
        MeteredStore(store, clock=world.manual),
        SerialPool(),
        settings=settings,
        schema=read_schema(of),
        actor=None,
        clock=world.manual,
        chance=SeededChance(seed),
    )


def people(db: Database) -> Collection[Document]:
    return db.model("Person")


@dataclass(frozen=True)
class Verb:
    """A call, and how to see that it was done."""

    name: str
    act: Callable[[Database], object]
    is_done: Callable[[Database], bool]
    schema: Mapping[str, Any] = field(default_factory=schema)
    prepare: Callable[[Database], object] = lambda _: None
    is_foreign: bool = False
    """Whether there are only readable files, as another program may have written them."""

    def __str__(self) -> str:
        return self.name


def has(identity: str, name: str | None) -> Callable[[Database], bool]:
    def look(db: Database) -> bool:
        found = people(db).find_by_id(identity)
        return (None if found is None else found.get("name")) == name

    return look


def many(db: Database) -> object:
    return people(db).insert_many([{"id": f"n{place}", "name": "n" * 900} for place in range(8)])


def bulk(db: Database) -> object:
    """A job whose driver and task are one process."""
    access = people(db)._access
    spec = JobSpec("job", "test")
    target = open_job(access.ledger, spec)
    if isinstance(target, BulkOutcome):
        return target
    task = BulkTask(access.ledger, target, access.writer, 0)
    task.add(access.writer.inserts([{"id": "n0", "name": "n"}, {"id": "n1", "name": "n"}]).operations)
    return attach(access.ledger, target, [task.report()], access.writer, spec)


def version_of(db: Database) -> int:
    return people(db)._ledger.view().definition.version


def state_of(name: str) -> Callable[[Database], str | None]:
    return lambda db: next((one.state for one in people(db).indexes() if one.name == name), None)


def trash(db: Database) -> object:
    return people(db).delete("a")


MAPPED = {"Person": {"$set": {"full": "?"}}}
SOFT = schema(softDelete={"enabled": True})
KEPT = schema(snapshots={"enabled": True})

VERBS = [
    Verb("insert", lambda db: people(db).insert({"id": "n", "name": "n"}), has("n", "n")),
    Verb("save", lambda db: people(db).save({"id": "a", "name": "n"}), has("a", "n")),
    Verb("modify", lambda db: people(db).modify("a", lambda one: one.update(name="n")), has("a", "n")),
    Verb("update by filter", lambda db: people(db).update_many({}, {"$set": {"name": "n"}}), has("a", "n")),
    Verb("delete", lambda db: people(db).delete("a"), has("a", None)),
    Verb("restore", lambda db: people(db).restore("a"), has("a", "A"), SOFT, trash),
    Verb("purge", lambda db: people(db).purge("a"), lambda db: not people(db).list_trashed(), SOFT, trash),
    Verb("rollback", lambda db: people(db).rollback("a", to_seq=1), lambda db: len(people(db).get_history("a")) == 2),
    Verb("snapshot", lambda db: people(db).snapshot("a"), lambda db: bool(people(db).list_snapshots("a")), KEPT),
    Verb("staged batch", many, has("n7", "n" * 900)),
    Verb("bulk job", bulk, has("n1", "n")),
    Verb("new version", lambda db: db.apply_schema(), lambda db: version_of(db) == 2, schema(2)),
    Verb("mapping", lambda db: db.apply_schema(mappings=MAPPED), lambda db: version_of(db) == 2, schema(2)),
    Verb(
        "migration",
        lambda db: db.apply_schema(migrate={"Person": lambda one: {**one, "full": "?"}}),
        lambda db: version_of(db) == 2,
        schema(2),
    ),
    Verb("index", lambda db: people(db).create_index("name", name="i"), lambda db: state_of("i")(db) is not None),
    Verb(
        "drop of an index",
        lambda db: people(db).drop_index("i"),
        lambda db: state_of("i")(db) in (None, "dropped"),
        prepare=lambda db: people(db).create_index("name", name="i"),
    ),
    Verb("files on", lambda db: db.files.on("Person"), lambda db: people(db)._ledger.view().definition.keeps_files),
    Verb(
        "files off",
        lambda db: db.files.off("Person"),
        lambda db: not people(db)._ledger.view().definition.keeps_files,
        prepare=lambda db: db.files.on("Person"),
    ),
    Verb(
        "adoption",
        lambda db: db.adopt("Person", job="adopt"),
        lambda db: people(db)._ledger.view().count == 3,
        prepare=lambda db: db.files.on("Person"),
        is_foreign=True,
    ),
]


def prepared(verb: Verb) -> World:
    world = World()
    before = {**verb.schema, "models": {"Person": {**verb.schema["models"]["Person"], "version": 1}}}
    if verb.schema["models"]["Person"]["version"] > 1:
        before = schema(1)
    db = database(world, world, before)
    db.apply_schema()
    people(db).insert_many([{"id": identity, "name": identity.upper()} for identity in "abc"])
    db.forward()
    verb.prepare(db)
    if verb.is_foreign:
        world.delete_many([key for key in list(world._shelf.keys) if ".worm" in key])
    world.manual.advance(120)
    assert not verb.is_done(database(world, world, before, seed=5))
    return world


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_what_a_caller_is_told_agrees_with_the_log(verb: Verb) -> None:
    origin = prepared(verb)
    wrong: list[str] = []
    for mode in ("landed", "late", "lost"):
        for at in count(1):
            assert at < REQUESTS_MAX, "it does not end"
            world = origin.copy()
            store = Outage(world, at, mode)
            db = database(store, world, verb.schema, seed=2)
            error = None
            try:
                verb.act(db)
            except WormError as raised:
                error = raised
            told = None if error is None else f"{mode} at {at}: {type(error).__name__}: {error}"
            store.heal()
            wrong += [f"{told}: {fault}" for fault in faults(verb, world, error)]
            if store.requests < at:
                break
    assert not wrong, "\n".join(wrong)


def faults(verb: Verb, world: World, error: WormError | None) -> Iterator[str]:
    """What is wrong with what a caller was told."""
    db = database(world, world, verb.schema, seed=3)
    if error is None:
        if not verb.is_done(db):
            yield "it is not done"
        return
    if isinstance(error, OutcomeUnknownError):
        if error.commit_id is None:
            yield "no commit to ask about"
            return
        fate = people(db).resolve(error, settle=True)
        if fate is Fate.UNKNOWN or (fate is Fate.COMMITTED) != verb.is_done(database(world, world, verb.schema, 4)):
            yield f"it is told to be {fate}, and is not"
    elif verb.is_done(db):
        yield "it is done"
