"""Throw every projection away and open the collection again: all that was said is said again, from the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.projections import check_root
from tests.simulation.replay import Replay, Violation
from tests.simulation.retaining import is_forgotten, least_gone, most_gone
from wormdb.api.database import Database
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.format.entry import decode_entry
from wormdb.format.event import JobAttached
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from tests.simulation.replay import State
    from wormdb.settings import Settings
    from wormdb.storage.store import Store

__all__ = ["check_rebuilt", "entries_in", "without_projections"]


def entries_in(store: Store, paths: EnginePaths) -> dict[int, bytes]:
    """The log entries that are there, by number."""
    keys = [info.key for page in store.list(paths.entries) for info in page.objects]
    return {int(key.removeprefix(paths.entries)): store.get(key).body for key in keys}


def without_projections(store: Store, collection: str) -> dict[str, bytes]:
    """The objects of a collection that are not a projection of its log: the log, and the blocks that it attaches."""
    paths = EnginePaths.of_collection(collection)
    kept: dict[str, bytes] = {}
    for number, body in entries_in(store, paths).items():
        kept[f"{paths.entries}{number:020d}"] = body
        entry = decode_entry(body, name=f"entry {number}", number=number, collection=collection)
        for event in entry.events:
            for block in event.blocks if isinstance(event, JobAttached) else ():
                for key in (paths.block(block.name), paths.sidecar(block.sidecar.name)):
                    kept[key] = store.get(key).body
    return kept


def check_rebuilt(store: Store, collection: str, replay: Replay, settings: Settings) -> None:
    """Raise Violation unless a process that has only the log says what the log says, before and after it forwards."""
    bare = MemoryStore(clock=ManualClock())
    for key, body in without_projections(store, collection).items():
        bare.put(key, body)
    _check_answers(bare, collection, replay, settings)
    database = _database(bare, settings)
    database.forward([collection])
    paths = EnginePaths.of_collection(collection)
    root = Register(bare, paths, collection).read().root
    if root is None and replay.last:
        raise Violation("what was forwarded anew has no root")
    after = Replay(entries_in(bare, paths), collection, lambda name: bare.get(paths.block(name)).body)
    if root is not None:
        check_root(bare, paths, root, after)
    _check_answers(bare, collection, after, settings)


def _database(store: Store, settings: Settings) -> Database:
    clock = ManualClock()
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=settings,
        schema=None,
        actor=None,
        clock=clock,
        chance=SeededChance(1),
    )


def _check_answers(store: Store, collection: str, replay: Replay, settings: Settings) -> None:
    things = _database(store, settings)[collection.removesuffix("/")]
    now_ms = ManualClock().now_ms()
    state = replay.states[-1]
    _compare("documents", {each.id: _stored(each) for each in things}, _parsed(state))
    for identity in state.documents:
        found = [(each.seq, each.rev, each.op) for each in things.get_history(identity)]
        past = replay.past_of(identity)
        told = [(change.seq, change.number, change.op) for change in past]
        least, most = (gone(replay, past, replay.last, now_ms) for gone in (least_gone, most_gone))
        if found not in [told[place:] for place in range(least, most + 1)]:
            raise Violation(f"history of {identity}, from the log alone: {found}, not {told}")
    middle = replay.last // 2
    if not is_forgotten(replay, middle, replay.last, now_ms, is_sure=False):
        then = {each.id: _stored(each) for each in things.scan(as_of=middle)}
        _compare(f"as of {middle}", then, _parsed(replay.states[middle]))


def _compare(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Violation(f"{what}, from the log alone: {found}, not {wanted}")


def _parsed(state: State) -> dict[str, object]:
    return {identity: state.document(identity) for identity in state.bodies()}


def _stored(document: dict[str, object]) -> dict[str, object]:
    return {("_id" if name == "id" else name): value for name, value in document.items()}
